"""How a text becomes ids, and ids the vectors that enter the first layer."""

import re

import torch
from torch import Tensor

from tfcli.inspection.reading import text_ids
from tfcli.inspection.words import tokens_in_words
from tfcli.layers.embedding import TokenEmbedding
from tfcli.layers.span import Span
from tfcli.records.tokens import TokenRole, TokenRow, TokensRecord
from tfcli.runs.foreign import remark_if_foreign
from tfcli.runs.load import LoadedRun
from tfcli.tokenization.pipelines import CONTINUATION
from tfcli.tokenization.tokenizer import Tokenizer

_BYTE = re.compile("⟨[0-9A-F]{2}⟩")
"""How a label writes a byte that is no whole character."""


@torch.inference_mode()
def tokens(run: LoadedRun, text: str, *, words: bool = False) -> TokensRecord:
    """A text as the model reads it, special tokens with it; of an encoder-decoder, as a source.

    Args:
        words: a row a word.

    Raises:
        UsageError: it is longer than the context, or empty and to be translated.
    """
    ids, tokenizer = text_ids(run, text), run.tokenizer
    remark_if_foreign(run, text, bits_per_byte=0.0)  # by its tokens alone: no model is run here
    embedding = run.model.embedding
    assert isinstance(embedding, TokenEmbedding)
    index = torch.tensor(ids, dtype=torch.long, device=run.device)
    norms = (embedding.weight[index].float() * embedding.scale).norm(dim=1).tolist()
    of_positions = _position_norms(embedding, len(ids))
    spans = _spans(tokenizer, text, ids)
    rows = []
    for position, (token, label, norm) in enumerate(zip(ids, tokenizer.labels(ids), norms, strict=True)):
        role = _role(tokenizer, token)
        first, end = spans.get(position, (None, None))
        rows.append(
            TokenRow(
                position=position,
                token_id=token,
                token=label,
                role=role,
                first=first,
                end=end,
                bytes=_bytes(label, None if first is None else text[first:end], role),
                norm=norm,
                position_norm=None if of_positions is None else of_positions[position],
            )
        )
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


def _role(tokenizer: Tokenizer, token: int) -> TokenRole:
    if token == tokenizer.roles.unk:
        return "unknown"
    return "special" if token in tokenizer.special_ids else "text"


def _spans(tokenizer: Tokenizer, text: str, ids: tuple[int, ...]) -> dict[int, tuple[int, int]]:
    """The characters of each position, of those that stand for some. With a mask among them, a text is cut otherwise
    than it is spelled, and none is told."""
    [(plain, spans)] = tokenizer.encode_spans([text])
    begin = next((at for at in range(len(ids)) if list(ids[at : at + len(plain)]) == plain), None)
    return {} if begin is None else {begin + place: span for place, span in enumerate(spans)}


def _bytes(label: str, spelled: str | None, role: TokenRole) -> int:
    """Of the text that a token stands for: of a part of a character its own, else those of `spelled`; None: by its
    label."""
    if role == "special":
        return 0
    bare, lone = _BYTE.subn("", label)
    if lone:
        return len(bare.encode("utf-8")) + lone
    return len((label.removeprefix(CONTINUATION) if spelled is None else spelled).encode("utf-8"))


def _position_norms(embedding: TokenEmbedding, length: int) -> list[float] | None:
    """Lengths of the vectors of the first positions; None where positions do not join the embeddings."""
    if not embedding.has_positions:
        return None
    rows: Tensor = embedding.position_rows(Span(0, length))
    norms: list[float] = rows.float().reshape(-1, rows.shape[-1]).norm(dim=1).tolist()
    return norms
