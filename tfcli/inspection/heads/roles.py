"""Which head does what: the statistics of every head of a run, and the role they name."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tfcli.corpora.builtin import DEFAULT
from tfcli.corpora.pt_en import pairs
from tfcli.corpora.stories import stories
from tfcli.errors import UsageError
from tfcli.inspection.heads import statistics as measure
from tfcli.inspection.heads.copies import Copies, PerHead, copies
from tfcli.inspection.heads.repeated_tokens import repeated_sequences
from tfcli.inspection.kinds import chosen_kinds, key_ids
from tfcli.inspection.passes import ModelPass, record_model
from tfcli.inspection.reading import Inputs, framed, read_text
from tfcli.records.attention import AttentionKind
from tfcli.records.heads import HeadsRecord, HeadStatistics, Role
from tfcli.runs.load import LoadedRun

_DOCUMENTS = 16
_FAVOURITES = 3
_SEED = 1  # of built-in documents; a run's own is 0 unless its recipe says otherwise
_STRONG = 0.3
_SPREAD = 0.8
_ONE = 0.6

Weights = NDArray[np.float64]


def heads(
    run: LoadedRun, text: str | None = None, target: str | None = None, kind: AttentionKind | None = None
) -> HeadsRecord:
    """Statistics of every head, of one kind or of all that the model has.

    Without a text, they are measured on documents of the built-in corpus that the run was trained on, else on random
    tokens read twice. Induction and duplicate scores are always measured on the latter.

    Raises:
        UsageError: the model has no attention of that kind, or takes no target, or a text is longer than the context or
            shorter than two tokens.
    """
    kinds = chosen_kinds(run, kind)
    measured_on, read = _material(run, text, target)
    tokens = sum(max(len(side) for side in (one.encoder, one.decoder) if side is not None) for one in read)
    with torch.inference_mode():
        passes = [record_model(run.model, inputs.tensors(run.device)) for inputs in read]
    copied = copies(run)
    found = heads_on(run, kinds, read, passes, copied)
    return HeadsRecord(measured_on, tokens, copied.period, copied.sequences, found)


def heads_on(
    run: LoadedRun,
    kinds: Sequence[AttentionKind],
    read: Sequence[Inputs],
    passes: Sequence[ModelPass],
    copied: Copies,
) -> tuple[HeadStatistics, ...]:
    """As `heads`, of texts that the model has read already: means over them.

    Args:
        passes: one a text. copied: of the run.
    """
    found = []
    for kind in kinds:
        labels = [run.tokenizer.labels(key_ids(kind, inputs)) for inputs in read]
        found += _of_kind(kind, passes, labels, copied)
    return tuple(found)


def _material(run: LoadedRun, text: str | None, target: str | None) -> tuple[str, list[Inputs]]:
    if text is not None:
        inputs = read_text(run, text, target)
        if run.architecture == "encoder" and not run.tokenizer.encode_masked(text):
            raise UsageError("The text is empty", "give a few words")
        if min(len(side) for side in (inputs.encoder, inputs.decoder) if side is not None) < 2:
            raise UsageError("The text has one token, which can look at nothing else", "give a longer text")
        return "the text", [inputs]
    if target is not None:
        raise UsageError("--target belongs to a TEXT", "give both, or leave both out")
    source = None if run.recipe.origin.source else run.recipe.data.source or DEFAULT[_data_kind(run)]
    if source == DEFAULT[_data_kind(run)]:
        documents = [_cut(run, inputs) for inputs in _documents(run)]
        return f"{len(documents)} documents of {source}", documents
    twice = repeated_sequences(run)
    if not twice:
        raise UsageError("The context is too short for random tokens read twice", "give a TEXT")
    return f"{len(twice)} sequences of random tokens read twice", [one.inputs for one in twice]


def _data_kind(run: LoadedRun) -> Any:
    return "pairs" if run.architecture == "encoder-decoder" else "text"


def _documents(run: LoadedRun) -> list[Inputs]:
    encode = run.tokenizer.encode
    if run.architecture == "encoder-decoder":
        few = islice(pairs(_SEED), _DOCUMENTS)
        return [framed(run, encode(pair.source), encode(pair.target)) for pair in few]
    return [framed(run, encode(text)) for text in islice(stories(_SEED), _DOCUMENTS)]


def _cut(run: LoadedRun, inputs: Inputs) -> Inputs:
    longest = run.config.model.max_seq_len
    encoder, decoder = (None if side is None else side[:longest] for side in (inputs.encoder, inputs.decoder))
    return Inputs(encoder, decoder)


def _of_kind(
    kind: AttentionKind,
    texts: Sequence[ModelPass],
    labels: list[list[str]],
    copied: Copies,
) -> list[HeadStatistics]:
    found = []
    for layer in range(len(texts[0].attentions(kind))):
        passes = [text.attentions(kind)[layer] for text in texts]
        weights = [one.weights.cpu().double().numpy() for one in passes]
        columns = _columns(kind, weights, [one.mask.cpu().numpy() for one in passes])
        columns |= copied.of(kind, layer)
        favourites = _favourites(weights, labels)
        for head in range(len(columns["entropy"])):
            values = {name: float(column[head]) for name, column in columns.items()}
            role, score = name_role(kind, values)
            found.append(_statistics(kind, layer, head, values, favourites[head], role, score))
    return found


def _favourites(texts: list[Weights], labels: list[list[str]]) -> list[tuple[tuple[str, float], ...]]:
    """The tokens that get most of a head's weight, each with its share.

    Shape:
        texts: (H, T, S) each; labels: S names each
    """
    totals: dict[str, PerHead] = {}
    for weights, names in zip(texts, labels, strict=True):
        for name, received in zip(names, weights.sum(axis=1).T, strict=True):
            totals[name] = totals.get(name, 0.0) + received
    rows = sum(weights.shape[1] for weights in texts)
    names, shares = list(totals), np.stack(list(totals.values()), axis=1) / rows
    order = np.argsort(-shares, axis=1, kind="stable")[:, :_FAVOURITES]
    return [tuple((names[i], float(own[i])) for i in best) for own, best in zip(shares, order, strict=True)]


def _columns(kind: AttentionKind, texts: list[Weights], masks: list[NDArray[np.bool_]]) -> dict[str, PerHead]:
    """Each statistic of a layer's heads, mean over the texts.

    Shape:
        texts: (H, T, S) each; masks: (T, S) each
    """
    rows: list[dict[str, PerHead]] = []
    for weights, mask in zip(texts, masks, strict=True):
        largest = measure.largest_entropy(mask)
        entropy = measure.entropy(weights)
        row = {
            "entropy": entropy,
            "sharpness": measure.sharpness(weights),
            "first": measure.share_first(weights, cross=kind == "cross"),
        }
        if largest:  # where every query sees one key, there is nothing to share
            row["entropy_share"] = entropy / largest
        if kind == "cross":
            row["in_order"] = measure.in_order(weights)
        else:
            row["distance"] = measure.distance(weights)
            row["itself"] = measure.share_at(weights, 0)
            row["previous"] = measure.share_at(weights, -1)
        if kind == "encoder_self" and weights.shape[1] > 2:  # the first and the last query are left out
            row["next"] = measure.share_at(weights, 1)
        rows.append(row)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.mean([row[name] for row in rows if name in row], axis=0) for name in names}


def name_role(kind: AttentionKind, values: dict[str, float]) -> tuple[Role, float]:
    """What a head does most, and how much: its largest share of 0.3 or more.

    Without one, weights with 0.8 of the largest entropy are spread out; others follow the content. In cross-attention,
    a head whose largest weights are 0.6 or more looks at one token at a time, in order when that seldom steps back.
    """
    shares: dict[Role, float] = {
        "previous token": values.get("previous", 0.0),
        "next token": values.get("next", 0.0),
        "first token": values["first"],
        "itself": values.get("itself", 0.0),
        "induction": values.get("induction", 0.0),
        "duplicate token": values.get("duplicate", 0.0),
    }
    role = max(shares, key=lambda name: shares[name])
    if shares[role] >= _STRONG:
        return role, shares[role]
    if values.get("entropy_share", 0.0) >= _SPREAD:
        return "spread out", values["entropy_share"]
    if kind == "cross" and values["sharpness"] >= _ONE:
        return ("in order", values["in_order"]) if values["in_order"] >= _SPREAD else ("one token", values["sharpness"])
    return "by content", values["sharpness"]


def _statistics(
    kind: AttentionKind,
    layer: int,
    head: int,
    values: dict[str, float],
    favourites: tuple[tuple[str, float], ...],
    role: Role,
    score: float,
) -> HeadStatistics:
    return HeadStatistics(
        kind,
        layer,
        head,
        values["entropy"],
        values.get("entropy_share"),
        values["sharpness"],
        values.get("distance"),
        values["first"],
        values.get("itself"),
        values.get("previous"),
        values.get("next"),
        values.get("induction"),
        values.get("duplicate"),
        values.get("in_order"),
        favourites,
        role,
        score,
    )
