"""Attention weights and scores of a trained model on a text, a difference of two, and their evolution in training."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tfcli.errors import UsageError, shortened
from tfcli.inspection import attention as asked
from tfcli.inspection import passes
from tfcli.inspection.attention import AttentionFound, AttentionKind, AttentionPair, AttentionPairs, AttentionRecord
from tfcli.inspection.attention.choice import AttentionChoice, focused, row_of
from tfcli.inspection.evolution.compute import at_checkpoints
from tfcli.inspection.heads.statistics import entropy
from tfcli.inspection.passes import Inputs, ModelPass
from tfcli.inspection.predictions.compute import candidates_at, likeliest_behind
from tfcli.inspection.words import attention_in_words
from tfcli.recipe.model import ModelSection
from tfcli.records.arrays import frozen
from tfcli.records.heads import HeadPlace, parse_place, require_head
from tfcli.runs.load import LoadedRun, load_run

_POSITIONS = {"alibi": "ALiBi's bias", "t5": "T5's bias"}


def attention(
    run: LoadedRun, text: str, target: str | None = None, kind: AttentionKind | None = None
) -> list[AttentionRecord]:
    """The weights of every layer and head, of one kind or of all that the model has, in the order of `KINDS`; a
    UsageError where it has no such kind. The text is read as `read_text` says, which refuses what does not fit."""
    passes.chosen_kinds(run, kind)  # refused before anything is translated
    return attention_on(run, passes.read_text(run, text, target), kind)


def attention_on(run: LoadedRun, inputs: Inputs, kind: AttentionKind | None = None) -> list[AttentionRecord]:
    """As `attention`, of ids that are there already."""
    kinds = passes.chosen_kinds(run, kind)
    with torch.inference_mode():
        passed = passes.record_model(run.model, inputs.tensors(run.device))
    return [attention_record(run, one, inputs, passed) for one in kinds]


def attention_record(run: LoadedRun, kind: AttentionKind, inputs: Inputs, passed: ModelPass) -> AttentionRecord:
    """One kind of attention of a pass that has been made: of `inputs`, by the run's model."""
    layers, tokenizer = passed.attentions(kind), run.tokenizer
    queries, keys = passes.query_ids(kind, inputs), passes.key_ids(kind, inputs)
    bias, tokens = [layer.bias for layer in layers if layer.bias is not None], tuple(tokenizer.labels(queries))
    predicts = kind != "encoder_self" and run.config.model.predicts_tokens
    record = AttentionRecord(
        kind,
        tokens,
        tuple(tokenizer.labels(keys)),
        weights=_stacked([layer.weights for layer in layers]),
        scores=_stacked([layer.scores for layer in layers]),
        bias=_stacked(bias) if bias else None,
        formula=score_formula(run.config.model, kind),
        mask=frozen(layers[0].mask.cpu().numpy(), np.bool_),
        query_words=tokenizer.words(queries),
        key_words=tokenizer.words(keys),
        residuals=run.config.model.residuals,
        next_tokens=(*tokens[1:], likeliest_behind(run, passed.last.hidden)) if predicts else (),
        next_predicted=predicts,
    )
    return focused(record)


def _stacked(layers: list[Tensor]) -> NDArray[np.float32]:
    """Shape: a (H, T, S) a layer to (L, H, T, S)."""
    return frozen(torch.stack(layers).cpu().numpy())


def score_formula(model: ModelSection, kind: AttentionKind) -> str:
    """What stands before the softmax, with the divisor worked out: the root of the size of a head's queries and keys
    (Vaswani et al. 2017, equation 1), not of the model."""
    size = model.size_per_head
    formula = {
        "scaled_dot": f"scores = q · k / √Dh, √{size} = {math.sqrt(size):.4g}",
        "dot": "scores = q · k, not divided",
        "additive": "scores = v · tanh(q + k)",
        "parameter_free": "scores = x · x, not projected and not divided",
    }[model.attention_score]
    if model.attention_softcap is not None:
        cap = f"{model.attention_softcap:g}"
        formula += f"; capped to {cap} · tanh(score / {cap})"
    if kind == "cross":
        return formula
    if model.positions == "rotary":
        return formula + "; q and k are turned by their positions (rotary)"
    return f"{formula}; + {_POSITIONS[model.positions]}" if model.positions in _POSITIONS else formula


def difference(
    record: AttentionRecord,
    other: AttentionRecord,
    places: tuple[tuple[int, int], tuple[int, int]],
    names: tuple[str, str],
    *,
    largest: int | None = None,
) -> asked.AttentionDifference:
    """The weights of a layer and head of `record` less those of a layer and head of `other`, cell by cell; a UsageError
    where it has no such head, or not as many queries and keys. `places` are the layer and head of each side, `names`
    what they are called; so many `largest` differences (8) that are not 0 are listed, the furthest from 0 first."""
    num_layers, num_heads = other.weights.shape[:2]
    require_head(HeadPlace(*places[1]), num_layers, num_heads, "--against-head")
    if record.weights.shape[2:] != other.weights.shape[2:]:
        remedy = "choose texts of equally many tokens"
        if record.kind == "cross":
            remedy = "choose sources of equally many tokens, with one --target for both, or --kind encoder_self"
        problem = f"{names[0]} has {_size(record)} and {names[1]} {_size(other)}: a difference needs as many"
        raise UsageError(problem, remedy)
    weights, other_weights = record.weights[places[0]], other.weights[places[1]]
    size = np.abs(weights - other_weights)
    order = np.argsort(-size, axis=None, kind="stable")[: min(largest or 8, int((size > 0).sum()))]
    rows, columns = np.unravel_index(order, size.shape)
    return asked.AttentionDifference(
        **record.sides(),
        names=names,
        place=record.place(*places[0]) if places[0] == places[1] else "",
        other_query_tokens=other.query_tokens,
        other_key_tokens=other.key_tokens,
        other_next_tokens=other.next_tokens,
        weights=frozen(weights),
        other_weights=frozen(other_weights),
        mask=frozen(~(record.hidden(*places[0]) & other.hidden(*places[1])), np.bool_),
        largest=tuple(zip(rows.tolist(), columns.tolist(), strict=True)),
        query_positions=record.rows,
        key_positions=record.columns,
    )


def require_same_tokens(record: AttentionRecord, other: AttentionRecord, name: str) -> None:
    """Refuse another model that cuts the text into other tokens, by a UsageError that names the first."""
    for tokens, others in ((record.query_tokens, other.query_tokens), (record.key_tokens, other.key_tokens)):
        if tokens != others:
            pairs = zip((*tokens, "the end"), (*others, "the end"), strict=False)
            at, (one, two) = next((at, pair) for at, pair in enumerate(pairs) if pair[0] != pair[1])
            problem = f"{name} reads other tokens: token {at} is {two!r}, and here {one!r}"
            raise UsageError(problem, "compare runs with one tokenizer")


def _size(record: AttentionRecord) -> str:
    queries, keys = record.weights.shape[2:]
    return f"{keys} source and {queries} target tokens" if record.kind == "cross" else f"{queries} tokens"


def evolution(run: LoadedRun, inputs: Inputs, kind: AttentionKind, choice: AttentionChoice) -> asked.AttentionEvolution:
    """The chosen head on one text at every checkpoint, or the one that says most with the run's loaded weights. A
    UsageError where the run keeps fewer than three checkpoints, or has no such layer or head."""
    record = choice.of(attention_on(run, inputs, kind)[0])
    layer, head = record.focus
    found = at_checkpoints(run, lambda one: choice.of(attention_on(one, inputs, kind)[0]).weights[layer, head])
    kept, maps = list(found), np.stack([*found.values()])
    nats, among = np.abs(entropy(maps.astype(np.float64))), maps * record.telling
    largest = [np.unravel_index(int(one.argmax()), one.shape) for one in among]
    strongest = [(float(one[at]), *map(int, at)) for one, at in zip(among, largest, strict=True)]
    return asked.AttentionEvolution(
        **record.sides(),
        layer=layer,
        head=head,
        weights=frozen(maps),
        mask=frozen(~record.hidden(layer, head), np.bool_),
        steps=tuple(asked.AttentionStep(*one, *at) for *one, at in zip(kept, nats.tolist(), strongest, strict=True)),
    )


def named_pairs(record: AttentionRecord, names: str) -> AttentionPairs:
    """The weights of pairs of words, "fox jumps, brown fox": the first on the second and, in self-attention, the second
    on the first; in cross-attention the first is what is predicted. Each is named as `row_of` says; a UsageError where
    one is not, or a pair is not two words."""
    seen = ~record.hidden(0, 0)
    alike = replace(record, weights=frozen((seen / np.maximum(seen.sum(axis=1, keepdims=True), 1))[None, None]))
    words, chance = attention_in_words(record), attention_in_words(alike).weights[0, 0]
    means, found, across = words.weights.mean(axis=(0, 1), dtype=np.float64), [], words.kind == "cross"
    turned = replace(words, query_tokens=words.key_tokens, query_words=words.key_words)
    asked = replace(words, query_tokens=words.next_tokens, query_words=words.query_words[1:]) if across else words
    others = (chance > 0) & np.array([word.kind == "word" for word in words.key_words])
    if not across:
        np.fill_diagonal(others, val=False)
    for pair in names.split(","):
        if len(two := pair.split()) != 2:
            problem = f"--pairs {shortened(pair.strip())!r} is not two words"
            raise UsageError(problem, "write two words a pair and a comma between pairs: 'fox jumps, brown fox'")
        row, column = (row_of(side, name, "--pairs") for side, name in zip((asked, turned), two, strict=True))
        if row == column and not across:
            raise UsageError(f"--pairs {shortened(pair.strip())!r} is one word, and no pair", "name two of the text")
        for at in [(row, column)] if across else [(row, column), (column, row)]:
            weights = words.weights[:, :, *at]
            layer, head = map(int, np.unravel_index(int(weights.argmax()), weights.shape))
            named = words.query_tokens[at[0]], words.key_tokens[at[1]], words.asking[at[0]]
            rank = 1 + int((others[at[0]] & (means[at[0]] > means[at])).sum())
            told: dict[str, Any] = {"layer": layer, "head": head, "rank": rank, "others": int(others[at[0]].sum())}
            told = {"weights": weights, "chance": float(chance[at]), **(told if chance[at] else {})}
            found.append(AttentionPair(*at, *named, float(means[at]), **told))
    return AttentionPairs(record.kind, words.weights[..., 0, 0].size, tuple(found))


def strongest_edges(record: AttentionRecord, count: int) -> asked.AttentionEdges:
    """The `count` largest weights of the head in focus; of equal ones, the earlier query and key first. What is masked
    is no edge. A query that may look at one key alone gives it weight 1, and is marked."""
    weights, open_ = record.weights[record.focus], ~record.hidden(*record.focus)
    possible = int(open_.sum())
    order = np.argsort(np.where(open_, -weights, np.inf), axis=None, kind="stable")[: min(count, possible)]
    rows, columns = np.unravel_index(order, weights.shape)
    edges = tuple(
        asked.AttentionEdge(
            *(record.rows[row], record.columns[column], record.query_tokens[row], record.key_tokens[column]),
            record.asking[row],
            weight=float(weights[row, column]),
            only=bool(open_[row].sum() == 1) and len(record.columns) > 1,
        )
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    )
    share = sum(edge.weight for edge in edges) / (float(weights.sum(dtype=np.float64)) or 1.0)
    place, masked = record.place(*record.focus), weights.size - possible
    return asked.AttentionEdges(record.kind, place, edges, possible=possible, masked=masked, share=share)


def inspect_attention(run: LoadedRun, text: str, choice: AttentionChoice, checkpoint: str = "best") -> AttentionFound:
    """What is asked of a text's attention: heads, one query's row, the strongest weights, a difference, an evolution; a
    UsageError where that is not there, or what is compared does not have the same tokens. Row t of a decoder's weights
    is what it looks at to predict the token after t. Of several kinds, a comparison is of the last one: of an
    encoder-decoder, its cross-attention. The run's weights are those of `checkpoint`."""
    kinds = passes.chosen_kinds(run, choice.kind)  # refused before anything is translated
    inputs = choice.read(run, text)
    if choice.evolution:
        return evolution(run, inputs, kinds[-1], choice)
    records = attention_on(run, inputs, choice.kind)
    if choice.rollout and choice.kind is None:
        records = [record for record in records if record.kind != "cross"]
    if choice.compared and choice.against_head is None:
        return _against_another(run, text, inputs, record=records[-1], choice=choice, checkpoint=checkpoint)
    found = chosen_attention(records, choice)
    if choice.query is None or not isinstance(found, asked.AttentionHeads):
        return found
    whole, [row] = records[-1], found.records
    at = whole.query_words[row.rows[0]].places[-1] if choice.words else row.rows[0]
    predicted = tuple(candidates_at(run, inputs, at)) if whole.next_tokens else ()
    return asked.AttentionQuery(found.records, *choice.place, predicted=predicted)


def chosen_attention(records: Sequence[AttentionRecord], choice: AttentionChoice) -> AttentionFound:
    """As `inspect_attention`, of weights that are there: heads, strongest weights, pairs, or one head less another."""
    if choice.pairs is not None:
        return named_pairs(records[-1], choice.pairs)
    whole = (choice.rows, choice.columns, choice.query) == (None, None, None)
    if not whole or choice.top_k is not None or choice.against_head is not None:
        records = records[-1:]  # the sides of an encoder-decoder are of different lengths
    found = [choice.of(record) for record in records]
    ours = found[-1]
    if choice.against_head is not None:
        place = parse_place(choice.against_head, "--against-head")
        if place == ours.focus:
            problem = f"--against-head {choice.against_head} names the head that is shown"
            raise UsageError(problem, "name another one, or choose what is shown with --head")
        names = ours.place(*ours.focus), ours.place(*place)
        return difference(ours, ours, (ours.focus, place), names, largest=choice.top_k)
    if choice.top_k is not None:
        return strongest_edges(ours, choice.top_k)
    return asked.AttentionHeads(tuple(found), *choice.place, choice.scores)


def _against_another(
    run: LoadedRun, text: str, inputs: Inputs, record: AttentionRecord, choice: AttentionChoice, checkpoint: str
) -> asked.AttentionDifference:
    """A head on its text less the same head on another text, of another run, or with other weights. With one tokenizer,
    another run reads the same ids, a translation too; else it reads the text itself."""
    if choice.against_text is not None:
        names = f"“{text}”", f"“{choice.against_text}”"
        [other] = attention_on(run, choice.read(run, choice.against_text), record.kind)
    else:
        rival = load_run(choice.against_run or run.directory.path, choice.against_checkpoint or "best", run.device)
        names = str(run.directory.path), str(choice.against_run)
        if choice.against_checkpoint is not None:
            names = _weights_name(checkpoint), _weights_name(choice.against_checkpoint)
        if rival.config.tokenizer_fingerprint != run.config.tokenizer_fingerprint:
            inputs = choice.read(rival, text)
        passes.require_room(rival, inputs)
        [other] = attention_on(rival, inputs, record.kind)
        require_same_tokens(record, other, names[1])
    ours, theirs = choice.of(record), choice.of(other)
    return difference(ours, theirs, (ours.focus, ours.focus), names, largest=choice.top_k)


def _weights_name(checkpoint: str) -> str:
    return f"step {checkpoint}" if checkpoint.isdecimal() else f"the {checkpoint} weights"
