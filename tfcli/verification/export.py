"""Export check: the run in the hands of `transformers`."""

import contextlib
import importlib.util
import io
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from tfcli.errors import UsageError
from tfcli.interop.exporting import export_run
from tfcli.machine import temporary_folder
from tfcli.verification.check import Finding, Skipped, VerifiedRun, at_most, proof, worst

_LENGTH = 48  # tokens of a text
_LIMIT = 2e-5  # in parts of the largest logit: both compute in float32, in another order


@proof("exported = original")
def exported(subject: VerifiedRun) -> Finding:
    """Under transformers, the exported run has the same logits and its tokenizer the same ids."""
    run = subject.run
    if importlib.util.find_spec("transformers") is None:
        raise Skipped("transformers is not installed")
    with temporary_folder() as folder, _silently():
        out = folder / "exported"
        try:
            record = export_run(run, out)
        except UsageError as error:
            raise Skipped(error.problem) from error
        import transformers

        auto = getattr(transformers, record.auto_class)
        model, loading = auto.from_pretrained(out, output_loading_info=True, dtype=torch.float32)
        tokens = _same_tokens(subject, transformers.AutoTokenizer.from_pretrained(out))
        notes = [f"transformers draws {', '.join(record.lacks)}, which the run does not have"] * bool(record.lacks)
        if not tokens.holds:  # some families have a class of their own, which takes the vocabulary alone from the file
            tokens = _same_tokens(subject, transformers.PreTrainedTokenizerFast.from_pretrained(out))
            cuts = f"AutoTokenizer cuts texts as {record.layout} does"
            notes.append(f"{cuts}, and PreTrainedTokenizerFast as this run does")
        left = [name for names in loading.values() for name in names if name not in record.lacks]
        tensors = at_most(len(left), 0, "tensors", f"{left[0]} is missing or left over" if left else "")
        logits = _same_logits(subject, model.eval().to(run.device))
        return replace(worst((logits, tokens, tensors)), note="; ".join(notes))


@torch.inference_mode()
def _same_logits(subject: VerifiedRun, model: Any) -> Finding:
    run, length = subject.run, min(_LENGTH, subject.longest)
    ids = subject.ids(length)
    if run.architecture == "encoder-decoder":
        sources = subject.sources(length)
        ours, theirs = run.model(sources, ids), model(input_ids=sources, decoder_input_ids=ids).logits
    elif run.config.model.head == "none":
        ours, theirs = run.model.hidden(ids), model(ids).last_hidden_state
    else:
        ours, theirs = run.model(ids), model(ids).logits
    return subject.alike(theirs, ours, "the logits are others", _LIMIT)


def _same_tokens(subject: VerifiedRun, tokenizer: Any) -> Finding:
    texts = subject.texts()
    ours = [subject.run.tokenizer.encode(text) for text in texts]
    theirs = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    apart = [text for text, a, b in zip(texts, ours, theirs, strict=True) if a != b]
    return at_most(len(apart), 0, "texts", f"the ids are others, as of {apart[0][:40]!a}" if apart else "")


@contextmanager
def _silently() -> Iterator[None]:
    """Without the library's progress bars and warnings, its random numbers, and a look at the network."""
    before, offline = logging.root.manager.disable, os.environ.get("HF_HUB_OFFLINE")
    logging.disable(logging.CRITICAL)
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        with contextlib.redirect_stderr(io.StringIO()), torch.random.fork_rng(range(torch.cuda.device_count())):
            yield
    finally:
        logging.disable(before)
        del os.environ["HF_HUB_OFFLINE"]
        os.environ.update({} if offline is None else {"HF_HUB_OFFLINE": offline})
