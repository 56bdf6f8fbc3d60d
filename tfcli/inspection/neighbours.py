"""Nearest neighbours in a model's embedding matrix."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tfcli.errors import UsageError, shortened
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.models.head import require_head
from tfcli.records.neighbours import MatrixSide, Neighbour, NeighboursRecord, TokenNeighbours
from tfcli.runs.load import LoadedRun
from tfcli.tokenization.tokenizer import Tokenizer

_NAMED = 8
"""Tokens of a text that an error names."""


@torch.inference_mode()
def neighbours(run: LoadedRun, texts: Sequence[str], top_k: int, matrix: MatrixSide = "input") -> NeighboursRecord:
    """The `top_k` tokens whose vectors make the smallest angles with those of some tokens.

    Args:
        texts: each the text of one token.
        matrix: of an encoder-decoder whose sides have a matrix each, input is the source's.

    Raises:
        UsageError: a text is no token, or the model has no head and so no output matrix.
    """
    ids = [token_of(run.tokenizer, text) for text in texts]
    tied = run.config.model.tie_embeddings and _embeds_with_one(run)
    rows = _matrix(run, matrix).float()
    ordinary = sorted(token for token in run.tokenizer.ordinary_ids if token < len(rows))
    norms = rows.norm(dim=1)
    unit = rows / norms.clamp(min=torch.finfo(torch.float32).tiny)[:, None]
    among = torch.tensor(ordinary, device=rows.device)
    found = [_neighbours(run.tokenizer, token, unit, norms, among, top_k) for token in ids]
    count = len(ordinary)
    # Σᵢⱼ uᵢ·uⱼ = ‖Σ u‖², of which count pairs are of a token with itself.
    of_pairs = float(unit[among].sum(0).square().sum()) - count
    return NeighboursRecord(
        run=str(run.directory.path),
        matrix=matrix,
        tied=tied,
        d_model=rows.shape[1],
        vocabulary=count,
        mean_cosine=of_pairs / (count * (count - 1)) if count > 1 else 0.0,
        mean_norm=float(norms[among].mean()),
        tokens=tuple(found),
    )


def token_of(tokenizer: Tokenizer, text: str) -> int:
    """The id of the token that is a word, with the space before it where words carry it; else of the bare text.

    Raises:
        UsageError: it is several tokens, and says which; or none that this tokenizer knows.
    """
    spellings = [text]
    if text and tokenizer.words_carry_spaces and not text[0].isspace():
        spellings.insert(0, " " + text)
    tried = [tokenizer.encode(spelling) for spelling in spellings]
    for ids in tried:
        if len(ids) == 1 and ids[0] != tokenizer.roles.unk:
            return ids[0]
    ids = tried[0]
    if not ids:
        raise UsageError(f"{shortened(text)!r} is no token", "give a word")
    if len(ids) == 1:
        raise UsageError(
            f"{shortened(text)!r} is not in the vocabulary of this run's tokenizer", "give a word that it knows"
        )
    parts = " ".join(repr(label) for label in tokenizer.labels(ids[:_NAMED])) + (" …" if len(ids) > _NAMED else "")
    raise UsageError(
        f"{shortened(text)!r} is {len(ids)} tokens and has no vector of its own: {parts}", "name one of them"
    )


def _embeds_with_one(run: LoadedRun) -> bool:
    """Whether the matrix that the head may share is the one that ids pick rows of."""
    return not isinstance(run.model, EncoderDecoder) or run.config.model.share_embeddings


def _matrix(run: LoadedRun, matrix: MatrixSide) -> Tensor:
    """E or W.

    Shape:
        returns: (Vocab, D)
    """
    if matrix == "output":
        require_head(run.config.model)
        return run.model.head.weight  # type: ignore[return-value]
    return run.model.embedding.weight  # type: ignore[return-value, union-attr]


def _neighbours(
    tokenizer: Tokenizer, token: int, unit: Tensor, norms: Tensor, among: Tensor, top_k: int
) -> TokenNeighbours:
    """Shape: unit (Vocab, D), rows of length 1; norms (Vocab,); among (N,), the ids to look at."""
    others = among[among != token]
    cosines, places = (unit[others] @ unit[token]).topk(min(top_k, len(others)))
    nearest = others[places].tolist()
    labels = tokenizer.labels([token, *nearest])
    return TokenNeighbours(
        labels[0],
        token,
        float(norms[token]),
        tuple(
            Neighbour(label, other, cosine, float(norms[other]))
            for label, other, cosine in zip(labels[1:], nearest, cosines.tolist(), strict=True)
        ),
    )
