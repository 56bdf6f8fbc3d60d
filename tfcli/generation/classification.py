"""Classification, tagging and span extraction: what a task head tells of a text, with its probabilities.
Shape legend: B texts, S tokens of the longest, C labels."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tfcli.corpora import is_blank
from tfcli.corpora.labelled import asked, tagged, words_of
from tfcli.data.labelled import Spans, pieces_of
from tfcli.errors import Remark, UsageError, shortened
from tfcli.generation.decoding import padded
from tfcli.models.objective import best_spans
from tfcli.records.generation import Answered, Classified, LabelProbability, Tagged, TaggedWord, Told
from tfcli.runs.load import LoadedRun

Read = tuple[str, list[int], Spans]
"""A text as it is read, its ids with those around it, and the characters of those that are not around it."""


def read_for_task(run: LoadedRun, text: str, question: str = "") -> Read:
    """A text as training read it. A `UsageError` where it is blank, or too long to be tagged or to be asked, and where
    a question is missing, or none is answered; a longer text that is classified is cut, by a `Remark`."""
    task, roles, context = run.recipe.train.task, run.config.roles, run.config.model.max_seq_len
    if is_blank(text):
        raise UsageError(f"The text {text!r} is blank, and this run tells something of a text", "give it a few words")
    if (task == "span") != bool(question.strip()):
        problem = "This run finds answers, and no question is asked" if task == "span" else "This run answers nothing"
        raise UsageError(problem, "leave --question out" if question else "add --question TEXT")
    whole = asked(question, text)[0] if task == "span" else text
    if task == "tag":
        words = words_of(text)
        whole = tagged(words, [""] * len(words), "").source
    [(ids, spans)] = run.tokenizer.encode_spans([whole])
    read = roles.text(ids)
    if len(read) > context and task == "classify":
        warnings.warn(f"The text has {len(read)} tokens, of which the first {context} are read.", Remark, stacklevel=2)
        read = [*read[: context - 1], read[-1]]
    if len(read) > context:
        problem = f"The text {shortened(repr(text))} has {len(read)} tokens, and the model's context is {context}"
        raise UsageError(problem, "give it in parts")
    return whole, read, spans


@torch.inference_mode()
def told_of(run: LoadedRun, texts: Sequence[str], question: str = "") -> Sequence[Told]:
    """What a run with a task head tells of texts that are read side by side. Raises what `read_for_task` raises."""
    read = [read_for_task(run, text, question) for text in texts]
    hidden = run.model.hidden(*padded([ids for _, ids, _ in read], run.config.roles.pad, run.device))
    logits = run.model.head(hidden).float()
    if run.recipe.train.task == "span":
        return _answers(run, texts, read, logits, question)
    probabilities, labels = logits.softmax(-1).cpu().numpy(), run.config.model.labels or ()
    if run.recipe.train.task == "classify":
        at = [0 if run.architecture == "encoder" else len(ids) - 1 for _, ids, _ in read]
        found = zip(texts, probabilities, at, strict=True)
        return [_classified(text, labels, own[place]) for text, own, place in found]
    return [_tagged(run, text, one, own) for text, one, own in zip(texts, read, probabilities, strict=True)]


def _classified(text: str, labels: Sequence[str], probabilities: Any) -> Classified:
    order = np.argsort(-probabilities, kind="stable").tolist()
    found = tuple(LabelProbability(labels[place], float(probabilities[place])) for place in order)
    return Classified(text, found[0].label, found[0].probability, found)


def _tagged(run: LoadedRun, text: str, read: Read, probabilities: Any) -> Tagged:
    """Each word by its first piece; one of which the tokenizer keeps nothing has no tag."""
    labels, before, found = run.config.model.labels or (), len(run.config.roles.text_prefix), list[TaggedWord]()
    for start, end, word in tagged(words := words_of(text), words, "").spans:
        if places := pieces_of(read[2], start, end):
            own = probabilities[before + places[0]]
            found.append(TaggedWord(word, labels[int(own.argmax())], float(own.max())))
        else:
            found.append(TaggedWord(word, None, None))
    return Tagged(text, tuple(found))


def _answers(run: LoadedRun, texts: Sequence[str], read: list[Read], logits: Tensor, question: str) -> list[Answered]:
    before, begin = len(run.config.roles.text_prefix), asked(question, "")[1]
    outside = torch.ones(logits.shape[:2], dtype=torch.bool, device=logits.device)
    for row, (_, _, spans) in zip(outside, read, strict=True):
        row[before : before + len(spans)] = torch.tensor([stop <= begin for _, stop in spans])
    best, probabilities = best_spans(logits.masked_fill(outside[..., None], -torch.inf).mT.flatten(0, 1))
    found = []
    for text, (whole, _, of), (first, last), p in zip(texts, read, best.tolist(), probabilities.tolist(), strict=True):
        start, end = max(of[first - before][0], begin), of[last - before][1]
        start += len(whole[start:end]) - len(whole[start:end].lstrip())
        found.append(Answered(text, question, whole[start:end], start - begin, p))
    return found
