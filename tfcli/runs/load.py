"""Loading a run: model, tokenizer and recipe; text that is foreign to it, by unknown tokens and bits per byte."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from tfcli.errors import BrokenInputError, Remark, UsageError, shortened
from tfcli.layers.lora import FACTORS, Merged
from tfcli.models.build import uninitialized_model
from tfcli.models.device import measure_layers, prepare_for_inference
from tfcli.models.transformer import Decoder, Transformer
from tfcli.recipe.loading import load_recorded
from tfcli.recipe.model import WeightPrecision
from tfcli.recipe.recipe import Recipe
from tfcli.runs.checkpoint import open_checkpoint
from tfcli.runs.config import RunConfig, read_config, read_run_data
from tfcli.runs.directory import RunDirectory, existing_run
from tfcli.runs.metrics import read_evaluations
from tfcli.runs.weights import StoredTensors, checkpoint_tensors, fill_model, require_belonging
from tfcli.threads import thread_chooser
from tfcli.tokenization.tokenizer import Tokenizer, load_tokenizer

_RESTORE = "restore the run's own files"


@dataclass(frozen=True)
class _Run:
    directory: RunDirectory
    recipe: Recipe
    config: RunConfig
    tokenizer: Tokenizer

    def __repr__(self) -> str:
        """The run in one line: a notebook shows it after every cell that ends with one."""
        model = self.config.model
        return (
            f"<{type(self).__name__} {self.directory.path}: {model.architecture}, "
            f"{model.num_layers} × {model.d_model}, {model.num_heads} heads, "
            f"{self.tokenizer.vocab_size:,} tokens, context {model.max_seq_len}>"
        )


@dataclass(frozen=True, repr=False)
class LoadedRun(_Run):
    """A trained model, ready to use: in evaluation mode, on `device`, its weights in `precision`."""

    model: Transformer
    device: torch.device
    precision: WeightPrecision = "float32"

    @property
    def architecture(self) -> str:
        """decoder, encoder or encoder-decoder."""
        return self.config.model.architecture


@dataclass(frozen=True, repr=False)
class StoredRun(_Run):
    """A run whose model is still in its file: `tensors` are read from `weights` one by one."""

    weights: Path
    tensors: Mapping[str, Tensor]

    def fill(self, model: Transformer, *, headless: bool = False) -> None:
        """Copy the weights into a model, but for adapters, and for the head where it is `headless`, as `fill_model`."""

        def skips(name: str) -> bool:
            return name.endswith(FACTORS) or (headless and name.startswith("head."))

        narrow = (torch.bfloat16, torch.float16) if self.recipe.is_imported else ()
        fill_model(model, self.tensors, self.weights, (torch.float32, *narrow), skips)


def load_run(
    path: Path | str,
    checkpoint: str = "best",
    device: torch.device | str = "cpu",
    precision: WeightPrecision | None = None,
) -> LoadedRun:
    """Load a run directory; `checkpoint` is "best" by validation, "last", or a step that is kept. With a `precision`,
    which this machine may refuse, the model predicts faster and can do nothing else; None: as it was trained."""
    run = read_run(path, checkpoint)
    model = uninitialized_model(run.config.model)
    if precision == "bfloat16":
        model.bfloat16()
    model = model.to(device).eval()
    run.fill(model)
    if isinstance(model, Decoder):
        model.reads_prefix = run.recipe.objective == "prefix"
    if precision is not None:
        prepare_for_inference(model, precision)
    chooser = thread_chooser()
    if chooser is not None and torch.device(device).type == "cpu":
        measure_layers(model, chooser)
    own = run.directory, run.recipe, run.config, run.tokenizer
    return LoadedRun(*own, model, device=torch.device(device), precision=precision or "float32")


def read_run(path: Path | str, checkpoint: str = "best") -> StoredRun:
    """Read all of a run directory but the weights, which are opened: a `UsageError` where there is no such run or
    checkpoint, a `BrokenInputError` where files are damaged, or do not belong together."""
    directory = existing_run(Path(path))
    recipe = load_recorded(directory.recipe)
    config = read_config(directory.config)
    tokenizer = load_run_tokenizer(directory, config)
    config = replace(config, roles=tokenizer.roles)
    if recipe.model != config.model:
        raise BrokenInputError(f"{directory.recipe} and {directory.config} describe different models", _RESTORE)
    weights = directory.weights if checkpoint == "best" else _kept_checkpoint(directory, checkpoint)
    if checkpoint == "best":
        tensors: Mapping[str, Tensor] = (stored := StoredTensors(weights))
        require_belonging(stored.metadata, weights, config.run_id)
    else:
        stored_apart = checkpoint_tensors(open_checkpoint(weights), "model", config.run_id)
        tensors = Merged(stored_apart, recipe.train.adapter_factor)
    return StoredRun(directory, recipe, config, tokenizer=tokenizer, weights=weights, tensors=tensors)


def load_run_tokenizer(directory: RunDirectory, config: RunConfig) -> Tokenizer:
    """A run's tokenizer; a `BrokenInputError` where it has more ids than the model."""
    tokenizer = load_tokenizer(directory.tokenizer)
    rows = config.model.vocab_size
    if rows is None or rows < tokenizer.vocab_size:
        problem = f"{directory.config} has model.vocab_size = {rows}, and the tokenizer has {tokenizer.vocab_size} ids"
        raise BrokenInputError(problem, _RESTORE)
    return tokenizer.of_model(rows)


def _kept_checkpoint(directory: RunDirectory, checkpoint: str) -> Path:
    """The folder of the checkpoint that `--checkpoint` names: "last", or a step; a `UsageError` lists those kept."""
    kept = directory.checkpoints()
    if not kept:
        raise UsageError(f"The run {directory.path} keeps no checkpoints", "use --checkpoint best")
    if checkpoint == "last":
        return kept[max(kept)]
    if (named := {str(step): folder for step, folder in kept.items()}.get(checkpoint.lstrip("0") or "0")) is None:
        problem = f"The run {directory.path} keeps no checkpoint {shortened(checkpoint)!r}"
        raise UsageError(problem, f"choose best, last or {', '.join(map(str, kept))}")
    return named


FEWEST_WORDS = 4  # of a shorter text, one name decides how many pieces a word takes
_TIMES, _SPREADS = 2.4, 4.0
_BITS, _BITS_OF_A_TEXT = 2.0, 80.0
_LISTED = 5


@dataclass(frozen=True)
class Usual:
    """What a run's validation part is like; None where it is not recorded."""

    unknown: float = 0.0  # share of tokens
    pieces: float | None = None  # a word
    spread: float = 0.0  # of the pieces of a word
    bits_per_byte: float | None = None  # of a decoder
    dataset: str = ""  # the fingerprint of what it is a part of


def usual(run: LoadedRun) -> Usual:
    """What is recorded of a run's validation part, in `data.json` and in the metrics; no dataset is opened."""
    try:
        data = read_run_data(run.directory.data)
        metrics = read_evaluations(run.directory.metrics) if run.directory.metrics.is_file() else None
    except (UsageError, BrokenInputError):  # an imported run has none; a damaged one is told where it is read
        return Usual()
    if (counts := data.validation) is None or min(counts.tokens, counts.bytes) < 1 or counts.unknown < 0:
        return Usual()
    whole = [one for one in (*metrics.validation, *metrics.whole) if one.part == "whole"] if metrics else []
    nats = [one.loss * one.scored_tokens for one in whole if one.loss is not None and one.scored_tokens]
    return Usual(
        counts.unknown / counts.tokens,
        counts.pieces_per_word(ends_of(run)),
        counts.spread,
        min(nats) / math.log(2) / counts.bytes if nats and run.recipe.objective == "clm" else None,
        data.fingerprint,
    )


def ends_of(run: LoadedRun) -> int:
    """Tokens that end a document of a run, or both sides of a pair."""
    return len(run.config.roles.end) * (2 if run.recipe.reads_pairs else 1)


def remark_if_foreign(run: LoadedRun, text: str, bits_per_byte: float | None = None) -> bool:
    """As `remark_on_first_foreign`, of one text, whose `bits_per_byte` may be known."""
    return remark_on_first_foreign(run, [text], usual(run), bits_per_byte)


def remark_on_first_foreign(run: LoadedRun, texts: Sequence[str], known: Usual, told: float | None = None) -> bool:
    """Say by a `Remark` that a text, the first of several, is clearly foreign to a run; returns whether there is one.
    Pieces a word are too many from the larger of 2.4 times the usual and 4 times their spread, over √words, above the
    usual, and bits per byte from 2 + 80 / bytes above theirs: both limits are wide for short texts, and measured so
    that a run's own are not told (decisions/0018). Texts are read for their bits, unless these are `told`, up to one
    foreign by its tokens."""
    reasons, waiting = "", list[str]()
    for text in texts:
        if reasons := "; ".join(_of_tokens(run, text, known)):
            break
        waiting += [text] if text else []
    if waiting and known.bits_per_byte is not None:
        for text, bits in zip(waiting, _bits_per_byte(run, waiting) if told is None else [told], strict=True):
            if bits > known.bits_per_byte + _BITS + _BITS_OF_A_TEXT / len(text.encode()):
                reasons = f"{bits:.2f} bits a byte, {known.bits_per_byte:.2f} in its validation part"
                break
    if reasons:
        warnings.warn(f"Foreign to {run.directory.path}: {reasons}.", Remark, stacklevel=2)
    return bool(reasons)


@torch.inference_mode()
def _bits_per_byte(run: LoadedRun, texts: Sequence[str]) -> list[float]:
    """Of what a decoder can read at once from the beginning of each text."""
    read, sizes = [], []
    for text, (ids, spans) in zip(texts, run.tokenizer.encode_spans(texts), strict=True):
        framed = run.config.roles.prompt(ids)
        read.append(framed[: run.config.model.max_seq_len])
        sizes.append(len(text[: spans[len(read[-1]) - len(framed) - 1][1]].encode()) if ids else 0)
    # Padding stands at the end, where the causal mask hides it from every real token.
    longest = max(map(len, read))
    tokens = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids in read], device=run.device)
    hidden, found = run.model.hidden(tokens), list[float]()
    for vectors, own, ids, size in zip(hidden, tokens, read, sizes, strict=True):  # the logits of one text at a time
        logits = run.model.head(vectors[: len(ids) - 1]).float()
        found.append(float(F.cross_entropy(logits, own[1 : len(ids)], reduction="sum")) / math.log(2) / max(1, size))
    return found


def _of_tokens(run: LoadedRun, text: str, known: Usual) -> Iterator[str]:
    """What the tokenizer makes of a text that it seldom makes of the run's own."""
    tokenizer, mask = run.tokenizer, run.config.roles.mask
    if mask is not None:
        text = text.replace(tokenizer.labels([mask])[0], " ")
    [(ids, spans)] = tokenizer.encode_spans([text])
    unknown = [text[slice(*span)] for one, span in zip(ids, spans, strict=True) if one == tokenizer.roles.unk]
    expected = known.unknown * len(ids)
    if len(unknown) > expected + 3 * math.sqrt(expected):
        listed = list(dict.fromkeys(shortened(one.strip() or repr(one)) for one in unknown))
        more = ", …" if len(listed) > _LISTED else ""
        are = "is" if len(unknown) == 1 else "are"
        yield f"{len(unknown)} of {len(ids)} tokens {are} unknown ({', '.join(listed[:_LISTED])}{more})"
    words = len(text.split())
    if known.pieces is None or words < FEWEST_WORDS:
        return
    if len(ids) / words > known.pieces + max(_TIMES * known.pieces, _SPREADS * known.spread) / math.sqrt(words):
        yield f"{len(ids) / words:.1f} pieces a word, {known.pieces:.1f} in its validation part"
