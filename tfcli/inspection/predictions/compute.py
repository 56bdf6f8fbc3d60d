"""Predictions at every position of a text; the logit lens, which reads them after every layer; each token's loss. The
lens: nostalgebraist 2020, "interpreting GPT: the logit lens". Where the norm comes after each residual there is no last
norm, and the head reads what a layer gives as it is. For losses a text is a document, ``<s> text </s>``, and its end is
predicted as well. What is longer than the context is read in windows side by side, as `tfcli evaluate` reads it. Shape
legend: L layers, T positions, D model, Vocab tokens, K candidates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from tfcli.data.batch import IGNORED, Batch
from tfcli.data.dataset import TokenStreamView
from tfcli.errors import UsageError
from tfcli.evaluation.measure import LoneMasks
from tfcli.evaluation.windows import Placed, SlidingWindows, perplexity
from tfcli.generation.sampling import never_generated, ruled_out
from tfcli.inspection.embeddings.compute import token_of
from tfcli.inspection.passes import Inputs, own_places, read_text, record_model, require_residuals, with_masks
from tfcli.inspection.predictions import Lens, Losses, Prediction, Predictions, ScoredToken
from tfcli.inspection.words import losses_in_words
from tfcli.models.head import require_head
from tfcli.models.objective import targets_of
from tfcli.models.transformer import EncoderDecoder
from tfcli.records.arrays import frozen
from tfcli.records.generation import Candidate
from tfcli.runs.load import LoadedRun, remark_if_foreign

_AT_A_TIME = 2048  # tokens


@dataclass(frozen=True)
class Asked:
    """A text as a run reads it: `read` are the ids of the side that the head predicts on, T of them. `places` are the
    positions that are shown, `names` what is read there, and `answers` the right ids: the token after each, or, of an
    encoder, the one that stands there; None where nobody knows: behind the last token, and under a mask. `position` is
    the number among them of the one to look at."""

    inputs: Inputs
    read: tuple[int, ...]
    places: tuple[int, ...]
    names: tuple[str, ...]
    answers: tuple[int | None, ...]
    position: int
    kind: Literal["next", "masked"]


def ask(run: LoadedRun, text: str, target: str | None, position: int | None, *, words: bool = False) -> Asked:
    """Read a text, and the true target or the model's own. A UsageError where the model has no head or no such
    position, or where `read_text` raises one. A `position` of None is that of the token which comes next, of the first
    mask, or of the last token that the model has translated. With `words` a position is a word, whose first piece is
    predicted, or the first one of the next."""
    require_head(run.config.model)
    inputs, roles, masked = read_text(run, text, target), run.config.roles, run.architecture == "encoder"
    read = inputs.sides[-1]
    if masked:
        answers = tuple(None if token == roles.mask else token for token in read)
        default = read.index(roles.mask) if roles.mask in read else len(read) - 2
    else:
        answers = (*read[1:], None if target is None else roles.eos)
        default = len(read) - (2 if run.architecture == "encoder-decoder" and target is None else 1)
    default, places, names = max(0, default), tuple(range(len(read))), tuple(run.tokenizer.labels(read))
    if words:
        found = run.tokenizer.words(read)
        default = next(number for number, word in enumerate(found) if default in word.places)
        places, names = tuple(word.places[0 if masked else -1] for word in found), tuple(word.text for word in found)
    position, right = default if position is None else position, tuple(answers[place] for place in places)
    if not 0 <= position < len(places):
        problem = f"There is no position {position}: the model reads {len(places)} {'words' if words else 'tokens'}"
        raise UsageError(problem, f"choose one from 0 to {len(places) - 1}")
    return Asked(inputs, read, places, names, answers=right, position=position, kind="masked" if masked else "next")


def named(run: LoadedRun, scores: Tensor) -> Tensor:
    """Scores without those of rows that no token has: published matrices are padded to a round number."""
    return scores[..., : run.tokenizer.vocab_size]


def answer(run: LoadedRun, logits: Tensor, name: str | None = None, *, beside: int | None = None) -> int:
    """The id of an answer: of the token that tables call so ("·" is a space), else what `token_of` finds of a name;
    without one, of the likeliest of `logits`, (Vocab,). A UsageError where it is not one token, or none that the model
    answers with, or the one `beside` it."""
    able = logits + ruled_out(never_generated(run.config.roles, len(logits)), logits)
    labels = run.tokenizer.labels(range(run.tokenizer.vocab_size))
    found = int(able.argmax())
    if name is not None:
        spelled = [labels.index(label) for label in (name, name.replace("·", " ")) if name and label in labels]
        found = spelled[0] if spelled else token_of(run.tokenizer, name)
    if able[found] == -torch.inf:
        raise UsageError(f"{labels[found]!r} is a token that this model never answers with", "name another one")
    if found == beside:
        raise UsageError(f"Both answers are {labels[found]!r}", "name two that differ with --token and --against")
    return found


def _label(run: LoadedRun, token_id: int | None) -> str | None:
    return None if token_id is None else run.tokenizer.labels([token_id])[0]


def _likeliest(run: LoadedRun, probabilities: Tensor, top_k: int) -> tuple[Candidate, ...]:
    best = probabilities.topk(min(top_k, len(probabilities)))
    return tuple(map(Candidate, run.tokenizer.labels(best.indices.tolist()), best.values.tolist()))


@torch.inference_mode()
def predictions(
    run: LoadedRun,
    text: str,
    target: str | None = None,
    *,
    position: int | None = None,
    top_k: int = 5,
    words: bool = False,
) -> Predictions:
    """The `top_k` likeliest tokens at every position, and the rank and the probability of the true one. A decoder says
    what comes next, and so does an encoder-decoder of its target. An encoder sees what it reads, and would copy it:
    every token is masked alone (with `words`, all pieces of a word), and with it what the text has masks for. Special
    and unknown tokens are not masked and have no answer. Probabilities are those of the softmax over the whole
    vocabulary. `position` and `words` are those of `ask`, and so is what is refused."""
    asked = ask(run, text, target, position, words=words)
    answers = asked.answers
    if asked.kind == "masked":
        spans = [word.places for word in run.tokenizer.words(asked.read)] if words else [(n,) for n in asked.places]
        logits = _masked_alone(run, asked, spans)
        answers = tuple(None if answer in run.config.roles.ids() else answer for answer in answers)
    else:
        logits = run.model(*asked.inputs.tensors(run.device))[0, list(asked.places)].cpu()
    logs = logits.double().log_softmax(-1)
    entropies = -(logs.exp() * logs).sum(-1)
    found = []
    for number, (read, answer) in enumerate(zip(asked.names, answers, strict=True)):
        row, rank, probability = named(run, logs[number]), None, None
        if answer is not None:
            rank, probability = 1 + int((row > row[answer]).sum()), float(row[answer].exp())
        entropy, likeliest = float(entropies[number]), _likeliest(run, row.exp(), top_k)
        told = (number, read, _label(run, answer), rank, probability)
        found.append(Prediction(*told, entropy=entropy, candidates=likeliest))
    return Predictions(asked.kind, asked.position, tuple(found))


def _masked_alone(run: LoadedRun, asked: Asked, spans: Sequence[Sequence[int]]) -> Tensor:
    """Logits of an encoder at each of the places that are asked, each read with its span masked, of which special
    tokens are left. Shape: (places, Vocab)."""
    own = set(own_places(run, asked.read))
    hidden_ids = torch.tensor([with_masks(run, asked.read, own.intersection(span)) for span in spans])
    rows = max(1, _AT_A_TIME // len(asked.read))
    parts = zip(hidden_ids.split(rows), torch.tensor(asked.places).split(rows), strict=True)
    hidden = [run.model.hidden(part.to(run.device))[range(len(part)), places] for part, places in parts]
    logits: Tensor = run.model.head(torch.cat(hidden))
    return logits.cpu()


@torch.inference_mode()
def candidates_at(run: LoadedRun, inputs: Inputs, position: int) -> tuple[Candidate, ...]:
    """The five likeliest tokens behind a position, of ids that are there already, by a model that has a head."""
    logits: Tensor = run.model(*inputs.tensors(run.device))[0, position]
    return _likeliest(run, named(run, logits.float().softmax(-1)), 5)


@torch.inference_mode()
def likeliest_behind(run: LoadedRun, hidden: Tensor) -> str:
    """The likeliest token behind the last position of what leaves the last norm. Shape: hidden (T, D)."""
    return run.tokenizer.labels([int(_probabilities(run, hidden[-1:]).argmax())])[0]


@torch.inference_mode()
def lens(
    run: LoadedRun,
    text: str,
    target: str | None = None,
    *,
    position: int | None = None,
    top_k: int = 3,
    words: bool = False,
) -> Lens:
    """What the model would predict at every position if it stopped after each layer, and the `top_k` likeliest tokens
    of each layer at one; `position`, `words` and what is refused are those of `ask`, and a model without residuals."""
    require_residuals(run.config.model)
    asked = ask(run, text, target, position, words=words)
    stack = record_model(run.model, asked.inputs.tensors(run.device), weights=False).last
    norm = run.model.get_submodule(f"{'decoder' if isinstance(run.model, EncoderDecoder) else 'stack'}.final_norm")
    depths = (stack.embedded, *(layer.after for layer in stack.layers))
    streams = [norm(depth)[list(asked.places)] for depth in depths]  # what the head would read at each
    last = _probabilities(run, streams[-1]).argmax(-1)  # (T,)
    tops, candidates = [], []
    for stream in streams:
        likely = _probabilities(run, stream)
        highest, token = likely.max(-1)
        tops.append((token.tolist(), highest.tolist(), likely.gather(-1, last[:, None])[:, 0].tolist()))
        candidates.append(_likeliest(run, likely[asked.position], top_k))
    top, probabilities, final = zip(*tops, strict=True)
    answers, labels = (_label(run, answer) for answer in asked.answers), map(tuple, map(run.tokenizer.labels, top))
    table = (tuple(answers), tuple(labels), frozen(probabilities), frozen(final))
    settled = tuple(map(_settled, zip(*top, strict=True)))
    return Lens(asked.kind, asked.names, *table, settled, asked.position, tuple(candidates))


def _probabilities(run: LoadedRun, stream: Tensor) -> Tensor:
    """(T, D) → (T, tokens)."""
    logits: Tensor = run.model.head(stream)
    return named(run, logits.float().softmax(-1))


def _settled(tops: Sequence[int]) -> int:
    """The first depth from which on the likeliest token is the last one's."""
    return 1 + max((depth for depth, token in enumerate(tops) if token != tops[-1]), default=-1)


@torch.inference_mode()
def losses(run: LoadedRun, text: str, target: str | None = None, *, words: bool = False) -> Losses:
    """Score every token of a text, of any length, or every word; of an encoder-decoder those of the target, which is
    its own translation where none is given. An encoder's are pseudo-losses: each token is masked alone and predicted
    from all the others (Salazar et al. 2020). A UsageError where the model has no head or takes no target, there is
    nothing to score, or a pair is too long."""
    require_head(run.config.model)
    alone = target is None and run.architecture != "encoder-decoder"
    passages = _windows(run, text) if alone else _pair(run, text, target)
    scores = _scores(run, passages)
    nats = scores[0, np.isfinite(scores[0])]
    if not text and not nats.size:
        raise UsageError("The text is empty", "give a few words")
    if not nats.size:
        problem = "The text has no token to score: all are special or unknown to the tokenizer"
        raise UsageError(problem, "give text in the alphabet that the tokenizer was trained on")
    loss, size = float(nats.mean()), len(passages.text.encode())
    masked, tokens = run.architecture == "encoder", _tokens(run, passages, scores)
    if words:
        tokens = losses_in_words(tokens, run.tokenizer.words(passages.ids))
    bits_per_byte = float(nats.sum()) / np.log(2) / size if size and not masked else None
    remark_if_foreign(run, text, bits_per_byte)
    figures = nats.size, loss, perplexity(loss), bits_per_byte, passages.windows, run.recipe.context
    return Losses("masked" if masked else "next", tokens, *figures)


@dataclass(frozen=True, eq=False)
class _Passages:
    """A text, its framed ids, and the batches that score them; `first` is where the text's own tokens begin."""

    text: str
    ids: list[int]
    first: int
    batches: Iterable[Placed]
    windows: int


def _scores(run: LoadedRun, passages: _Passages) -> NDArray[np.float64]:
    """−ln p of every token (NaN: not scored), its rank (0), and the likeliest token with its probability: (4, T)."""
    scores = np.zeros((4, len(passages.ids)))
    scores[0] = np.nan
    for placed in passages.batches:
        scored = placed.batch.labels != IGNORED
        left = np.broadcast_to(placed.places, scored.shape)[scored]
        for target in targets_of(run.model, placed.batch, run.device) if len(left) else ():
            kept = target.labels != IGNORED
            logits, right = target.logits[kept].float(), target.labels[kept]
            known: Tensor = named(run, logits.softmax(-1))
            highest, best = known.max(-1)
            ranks = 1 + (known > known.gather(-1, right[:, None])).sum(-1)
            places, left = left[: len(right)], left[len(right) :]
            rows = (F.cross_entropy(logits, right, reduction="none"), ranks, best, highest)
            scores[:, places] = torch.stack([row.cpu().double() for row in rows]).numpy()
    return scores


def _windows(run: LoadedRun, text: str) -> _Passages:
    roles, context = run.config.roles, run.recipe.context
    ids, first = roles.text(run.tokenizer.encode(text)), len(roles.text_prefix)
    view = TokenStreamView([np.array(ids)], [np.array([0, len(ids)])])
    if run.architecture == "decoder":
        batches = SlidingWindows(view, roles, context, stride=context, documents=False, tokens=_AT_A_TIME)
        return _Passages(text, ids, first, batches, -(-(len(ids) - 1) // context))
    starts = np.arange(0, len(ids), context)
    lengths = np.minimum(context, len(ids) - starts)
    return _Passages(text, ids, first, LoneMasks(view, roles, starts, lengths, _AT_A_TIME), len(starts))


def _pair(run: LoadedRun, text: str, target: str | None) -> _Passages:
    """Labels are the target without its first token and with its end, as `data/pairs.py` has them."""
    roles, inputs = run.config.roles, read_text(run, text, target, remark=False)
    assert inputs.encoder is not None and inputs.decoder is not None
    ids, first = [*inputs.decoder, roles.eos], len(roles.target_prefix)
    batch = Batch(np.array([inputs.encoder]), np.array([ids[1:]]), decoder_input_ids=np.array([ids[:-1]]))
    written = run.tokenizer.decode(ids[first:-1]) if target is None else target
    return _Passages(written, ids, first, [Placed(batch, np.arange(1, len(ids))[None])], 1)


def _tokens(run: LoadedRun, passages: _Passages, scores: NDArray[np.float64]) -> tuple[ScoredToken, ...]:
    names, found = run.tokenizer.labels(passages.ids), []
    best = run.tokenizer.labels(scores[2].astype(np.int64))
    for place, (before, text) in enumerate(_pieces(run, passages, names)):
        nats, rank, _, probability = scores[:, place].tolist()
        loss = nats if np.isfinite(nats) else None
        likeliest = Candidate(best[place], probability) if rank else None
        found.append(ScoredToken(place, names[place], before, text, loss, rank=int(rank) or None, best=likeliest))
    return tuple(found)


def _pieces(run: LoadedRun, passages: _Passages, names: list[str]) -> list[tuple[str, str]]:
    """Of every token the characters before it that no token has, and its own."""
    own, spans = run.tokenizer.encode_spans([passages.text])[0]
    if own != passages.ids[passages.first : -1]:  # a translation whose text is cut otherwise when it is read again
        return [("", name) for name in names]
    pieces = [("", name) for name in names[: passages.first]]
    end = 0
    for name, (start, stop) in zip(names[passages.first : -1], spans, strict=True):
        start = max(start, end)
        pieces.append((passages.text[end:start], passages.text[start:stop] or name))
        end = max(end, stop)
    return [*pieces, (passages.text[end:], names[-1])]
