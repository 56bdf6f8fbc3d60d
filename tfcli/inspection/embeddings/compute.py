"""Embeddings: a text's tokens and the vectors that they pick, nearest neighbours, whole texts as vectors, principal
components. Shape legend: N texts or points, S tokens of the longest, D model."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tfcli.errors import UsageError, shortened
from tfcli.generation.decoding import padded
from tfcli.inspection import embeddings as records
from tfcli.inspection.attention.choice import require_place
from tfcli.inspection.embeddings import Components, EmbeddingsRecord, MatrixSide, NeighboursRecord, Pool, TokensRecord
from tfcli.inspection.passes import text_ids, tower
from tfcli.inspection.probe.compute import labelled_places, prepared, vectors
from tfcli.inspection.words import tokens_in_words
from tfcli.layers.attention import Span
from tfcli.layers.embedding import TokenEmbedding
from tfcli.models.head import require_head
from tfcli.models.transformer import EncoderDecoder, Stack
from tfcli.records.arrays import frozen
from tfcli.runs.load import LoadedRun, remark_if_foreign
from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.tokenization.tokenizer_json import CONTINUATION

_BYTE = re.compile("⟨[0-9A-F]{2}⟩")  # how a label writes a byte that is no whole character


@torch.inference_mode()
def tokens(run: LoadedRun, text: str, *, words: bool = False) -> TokensRecord:
    """A text as the model reads it, special tokens with it; an encoder-decoder's source. With `words`, a row a word."""
    ids, tokenizer = text_ids(run, text), run.tokenizer
    remark_if_foreign(run, text, bits_per_byte=0.0)  # by its tokens alone: no model is run here
    embedding = run.model.embedding
    assert isinstance(embedding, TokenEmbedding)
    index = torch.tensor(ids, dtype=torch.long, device=run.device)
    norms = (embedding.weight[index].float() * embedding.scale).norm(dim=1).tolist()
    of_positions: list[float | None] = [None] * len(ids)
    if embedding.has_positions:
        added: Tensor = embedding.position_rows(Span(0, len(ids)))
        of_positions = added.float().reshape(-1, added.shape[-1]).norm(dim=1).tolist()
    spans, rows = _spans(tokenizer, text, ids), []
    read = zip(ids, tokenizer.labels(ids), norms, of_positions, strict=True)
    for position, (token, label, *lengths) in enumerate(read):
        special: records.TokenRole = "special" if token in tokenizer.special_ids else "text"
        role = "unknown" if token == tokenizer.roles.unk else special
        first, end = spans.get(position, (None, None))
        size = _bytes(label, None if first is None else text[first:end], role)
        rows.append(records.TokenRow(position, token, label, role, first, end, size, *lengths))
    return TokensRecord(
        run=str(run.directory.path),
        algorithm=tokenizer.algorithm,
        vocab_size=tokenizer.vocab_size,
        d_model=run.config.model.d_model,
        scale=embedding.scale,
        context=run.config.model.max_seq_len,
        text=text,
        characters=len(text),
        bytes=len(text.encode("utf-8")),
        words=len(text.split()),
        tokens=tokens_in_words(rows, tokenizer.words(ids)) if words else tuple(rows),
    )


def _spans(tokenizer: Tokenizer, text: str, ids: tuple[int, ...]) -> dict[int, tuple[int, int]]:
    """The characters of each position that stands for some; none where a mask cuts the text otherwise."""
    [(plain, spans)] = tokenizer.encode_spans([text])
    begin = next((at for at in range(len(ids)) if list(ids[at : at + len(plain)]) == plain), None)
    return {} if begin is None else {begin + place: span for place, span in enumerate(spans)}


def _bytes(label: str, spelled: str | None, role: records.TokenRole) -> int:
    """Of a part of a character its own, else those of the text that it is `spelled`; None: by its label."""
    if role == "special":
        return 0
    bare, lone = _BYTE.subn("", label)
    if lone:
        return len(bare.encode("utf-8")) + lone
    return len((label.removeprefix(CONTINUATION) if spelled is None else spelled).encode("utf-8"))


_NAMED = 8  # tokens of a text that an error names


@torch.inference_mode()
def neighbours(run: LoadedRun, texts: Sequence[str], top_k: int, matrix: MatrixSide = "input") -> NeighboursRecord:
    """The `top_k` tokens whose vectors make the smallest angles with those of some (of two inputs: the source's)."""
    ids = [token_of(run.tokenizer, text) for text in texts]
    # The head may share the target's matrix, which ids of a source pick no rows of.
    one_matrix = not isinstance(run.model, EncoderDecoder) or run.config.model.share_embeddings
    tied = run.config.model.tie_embeddings and one_matrix
    if matrix == "output":
        require_head(run.config.model)
    vectors: Any = run.model.head if matrix == "output" else run.model.embedding
    rows: Tensor = vectors.weight.float()  # (Vocab, D)
    norms = rows.norm(dim=1)
    unit = rows / norms.clamp(min=torch.finfo(torch.float32).tiny)[:, None]
    among = torch.tensor(sorted(token for token in run.tokenizer.ordinary_ids if token < len(rows)), device=rows.device)

    def nearest(token: int) -> records.TokenNeighbours:
        others = among[among != token]
        cosines, places = (unit[others] @ unit[token]).topk(min(top_k, len(others)))
        found = others[places].tolist()
        name, *names = run.tokenizer.labels([token, *found])
        close = map(records.Neighbour, names, found, cosines.tolist(), norms[found].tolist())
        return records.TokenNeighbours(name, token, float(norms[token]), tuple(close))

    count = len(among)
    # Σᵢⱼ uᵢ·uⱼ = ‖Σ u‖², of which count pairs are of a token with itself.
    of_pairs = float(unit[among].sum(0).square().sum()) - count
    means = of_pairs / (count * (count - 1)) if count > 1 else 0.0, float(norms[among].mean())
    about = str(run.directory.path), matrix, tied, rows.shape[1], count
    return NeighboursRecord(*about, *means, tuple(map(nearest, ids)))


def token_of(tokenizer: Tokenizer, text: str) -> int:
    """The id of the token that is a word, with the space before it where words carry it; else of the bare text. A
    UsageError where it is several tokens, or none that this tokenizer knows."""
    spaced = text and tokenizer.words_carry_spaces and not text[0].isspace()
    tried = [tokenizer.encode(spelling) for spelling in ((" " + text, text) if spaced else (text,))]
    for ids in tried:
        if len(ids) == 1 and ids[0] != tokenizer.roles.unk:
            return ids[0]
    ids, name = tried[0], repr(shortened(text))
    if not ids:
        raise UsageError(f"{name} is no token", "give a word")
    if len(ids) == 1:
        raise UsageError(f"{name} is not in the vocabulary of this run's tokenizer", "give a word that it knows")
    parts = " ".join(repr(label) for label in tokenizer.labels(ids[:_NAMED])) + (" …" if len(ids) > _NAMED else "")
    raise UsageError(f"{name} is {len(ids)} tokens and has no vector of its own: {parts}", "name one of them")


def embed(
    run: LoadedRun, batches: Iterable[Sequence[str]], pool: Pool, layer: int | None
) -> Iterator[EmbeddingsRecord]:
    """The vectors of each batch of texts, as they come; an encoder-decoder's are those of its encoder. Padding is
    neither looked at nor pooled. A UsageError at once where there is no such `layer` (None: the last, behind its norm).
    """
    stack = tower(run.model).stack
    require_place("layer", layer, len(stack.layers))
    return (_embedded(run, stack, tuple(texts), pool, layer) for texts in batches)


def joined(records: Sequence[EmbeddingsRecord]) -> EmbeddingsRecord:
    """Batches of one call as one record."""
    tokens, vectors = (np.concatenate([getattr(one, name) for one in records]) for name in ("tokens", "vectors"))
    texts = tuple(chain.from_iterable(record.texts for record in records))
    return replace(records[0], texts=texts, tokens=frozen(tokens, int), vectors=frozen(vectors))


@torch.inference_mode()
def _embedded(run: LoadedRun, stack: Stack, texts: tuple[str, ...], pool: Pool, layer: int | None) -> EmbeddingsRecord:
    read = [text_ids(run, text) for text in texts]
    ids, mask = padded(read, run.config.roles.pad, run.device)
    kept, listened = list[Tensor](), stack if layer is None else stack.layers[layer]
    with listened.register_forward_hook(lambda module, inputs, output: kept.append(output)):
        (run.model.encode if isinstance(run.model, EncoderDecoder) else run.model.hidden)(ids, mask)
    counts = torch.tensor([len(text) for text in read], device=run.device)
    found = frozen(counts.cpu(), int), frozen(pooled(kept[0].float(), counts, pool).cpu())
    return EmbeddingsRecord(str(run.directory.path), run.architecture, pool, layer, texts, *found)


def pooled(hidden: Tensor, counts: Tensor, pool: Pool) -> Tensor:
    """One vector a text, (N, D), of `hidden` (N, S, D), padded at the right, and the tokens of each, (N,)."""
    if pool == "first":
        return hidden[:, 0]
    if pool == "last":
        return hidden[torch.arange(len(hidden), device=hidden.device), counts - 1]
    real = torch.arange(hidden.shape[1], device=hidden.device) < counts[:, None]
    return hidden.where(real[..., None], 0.0).sum(1) / counts[:, None]


_TOKENS, _LABELS, _MOST_TOKENS = 26, 5, 52  # that are drawn of their own accord; and what has a letter


def principal_components(rows: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows, (N, D), less their mean, on the two directions of largest variance, (N, 2), and its shares there (Pearson
    1901). The number of a direction that is furthest from 0 is positive. Rows that only rounding tells apart are 0."""
    centred = rows.astype(np.float64) - rows.mean(0, dtype=np.float64)
    centred *= np.abs(centred).max() > 1e-6 * np.abs(rows).max()
    _, spread, axes = np.linalg.svd(centred, full_matrices=False)
    signs = np.sign(axes[[0, 1], np.abs(axes[:2]).argmax(1)])
    return centred @ axes[:2].T * signs, spread[:2] ** 2 / (np.square(spread).sum() or 1.0)


def embeddings(run: LoadedRun, *tokens: str, word: str | None = None, on: Sequence[str] = ()) -> Components:
    """Of tokens, by default the commonest in a source, their rows of E; of a `word` in a source its vectors, by
    the senses that are its labels, or else the words before it. A UsageError of what is no token, of fewer than three
    points, and as of `labelled_places`."""
    ids, probe, maps = [token_of(run.tokenizer, token) for token in dict.fromkeys(tokens)], None, ["rows of E"]
    if word is not None:
        places = labelled_places(run, "sense", on, word, plain=True)
        common = [label for label, _ in Counter(places.labels).most_common(_LABELS)]
        labels = [label if label in common else "other" for label in places.labels]
        with suppress(UsageError):  # too few texts
            probe = prepared(run, places._replace(labels=tuple(labels)), "sense")(run)
        rows, what = vectors(run.model, places), f"{word!r} in {len(places.ids)} texts of {places.source}"
        maps = ["embedding", *(f"layer {n}" for n in range(len(rows) - 1))]
    else:
        if not ids:
            places, special = labelled_places(run, "position", on), run.config.roles.ids()
            read = Counter(token for text in places.ids for token in text if token not in special)
            ids = [token for token, _ in read.most_common(_TOKENS)]
        labels, what = run.tokenizer.labels(ids), f"tokens: {len(ids)}"
        rows = tower(run.model).embedding.weight[ids].detach().float().cpu().numpy()[None]
    if len(labels) < 3 or rows.shape[-1] < 2:
        remedy = "name three tokens or more" if tokens else "name other texts with --on"
        raise UsageError(f"{len(labels)} × {rows.shape[-1]} numbers ({what}) have no two components", remedy)
    if word is None and len(labels) > _MOST_TOKENS:
        raise UsageError(f"{len(labels)} tokens have no letter each", f"name at most {_MOST_TOKENS}")
    points, shares = (frozen(found) for found in zip(*map(principal_components, rows), strict=True))
    return Components(
        str(run.directory.path), what, tuple(labels), tuple(maps), points=points, shares=shares, probe=probe
    )
