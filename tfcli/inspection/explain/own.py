"""Numbers of one's own: matrices as they are typed or as files have them, and the attention that they make."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tfcli.errors import UsageError, shortened
from tfcli.inspection.explain.subject import EXAMPLE, MOST_WORDS, Subject, drawn, lectures
from tfcli.inspection.passes import record_attention
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.layers.positions import NO_SIGNAL
from tfcli.outputs import reading
from tfcli.recipe.model import ModelSection

_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[-+]?[0-9]+)?", re.IGNORECASE)
_LARGEST, _MOST, _MOST_BYTES = 1e6, 512, 1 << 24


def typed_matrix(text: str, named: str, rows: str = ";") -> Tensor:
    """The numbers of a text, rows apart by `rows` and numbers by spaces, tabs or commas; a UsageError, which says where
    in what is `named`, of what is no number, and of rows of several lengths. Shape: returns (R, C)."""
    lines = [line.replace(",", " ").split() for line in text.split(rows) if line.strip(" \t\r\n,")]
    if not lines:
        raise UsageError(f"{named} holds no numbers", "write rows of numbers, such as 1 0 2")
    for row, line in enumerate(lines, 1):
        for column, cell in enumerate(line, 1):
            if not (_NUMBER.fullmatch(cell) and abs(float(cell)) <= _LARGEST):
                what = f"{shortened(cell)!r}: no number within ±{_LARGEST:,.0f}"
                raise UsageError(f"Row {row}, column {column} of {named} is {what}", "write one such as -1.5")
        if len(line) != len(lines[0]):
            problem = f"Row {row} of {named} has another length ({len(line)}) than row 1 ({len(lines[0])})"
            raise UsageError(problem, "give every row as many")
    return torch.tensor([[float(cell) for cell in line] for line in lines])


def read_matrix(path: Path, named: str) -> Tensor:
    """A matrix of a file: .npy, never unpickled, or text with a row a line. A UsageError of what cannot be read, is no
    matrix of numbers, or larger than what can be drawn. Shape: returns (R, C)."""
    reading(path)
    try:
        if path.is_file() and path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{named} is larger than {_MOST_BYTES >> 20} MiB", "give a matrix that can be looked at")
        if path.suffix == ".npy":
            values = np.asarray(np.load(path, allow_pickle=False))
            if values.ndim != 2 or values.dtype.kind not in "fiub":
                problem = f"{named} has the shape {values.shape} of {values.dtype}, and no matrix of numbers"
                raise UsageError(problem, "save an array of two axes")
            text = "\n".join(" ".join(map(repr, row)) for row in values.astype(float).tolist())
        else:
            text = path.read_text("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{named} cannot be read: {error.strerror or error}", "name a file of numbers") from None
    except (ValueError, EOFError):
        raise UsageError(f"{named} is neither text nor a NumPy array", "write a row a line, or save a .npy") from None
    matrix = typed_matrix(text, named, "\n")
    if max(matrix.shape) > _MOST:
        raise UsageError(f"{named} is {_sizes(matrix.shape)}: at most {_MOST} rows and columns are drawn", "give fewer")
    return matrix


def _sizes(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))


def of_files(paths: Mapping[str, Path], heads: int = 1, words: tuple[str, ...] | None = None) -> Subject:
    """An attention of the matrices in files: x (N, D), wq and wk (D, H·d_k), wv (D, H·d_v) and, where there is one, wo
    (H·d_v, D). `words` name the rows of x. A UsageError of one missing, and of a shape, with what would fit."""
    if missing := [name for name in ("x", "wq", "wk", "wv") if name not in paths]:
        problem = f"An attention of your own needs --x, --wq, --wk and --wv, and --{missing[0]} is missing"
        raise UsageError(problem, "add it")
    found = {name: read_matrix(path, f"--{name} {path}") for name, path in paths.items()}
    (size, model), size_k, size_v = found["x"].shape, found["wq"].shape[1], found["wv"].shape[1]
    words = words or tuple(f"x{number}" for number in range(1, size + 1))
    needed = {"x": (len(words), model), "wq": (model, size_k), "wk": (model, size_k), "wv": (model, size_v)}
    for name, shape in (needed | {"wo": (size_v, model)}).items():
        if name in found and found[name].shape != shape:
            problem = f"--{name} {paths[name]} is {_sizes(found[name].shape)}, and {_sizes(shape)} is needed"
            raise UsageError(problem, f"fit it to --x {_sizes(found['x'].shape)}, --wq and --wv, or to the text")
    if size > MOST_WORDS or size_k % heads or size_v % heads:
        problem = f"{size} rows of --x, {size_k} columns of --wq and {size_v} of --wv cannot be shown as {heads} heads"
        raise UsageError(problem, f"give {MOST_WORDS} rows at most, and a --heads that divides both")
    sizes = {"d_model": model, "positions": "none", "vocab_size": 2, "num_heads": heads, "head_dim": size_k // heads}
    section = ModelSection(**{**lectures()["toy"], **sizes})
    attention = MultiHeadAttention(section).eval()
    for module, name in {"query": "wq", "key": "wk", "value": "wv", "output": "wo"}.items():
        setattr(attention, module, nn.Identity())
        if name in found:
            setattr(attention, module, nn.Linear(*found[name].shape, bias=False))  # type: ignore[misc]
            getattr(attention, module).weight = nn.Parameter(found[name].T)
    with torch.inference_mode():
        passed = record_attention(attention, found["x"][None])
    label = f"given: {', '.join(f'{name} of {path}' for name, path in paths.items())}"
    around = replace(drawn(section, ("x",), ("x", "-"), label), attention=attention, attention_pass=passed)
    return replace(around, query_tokens=words, key_tokens=words, vocabulary=(), signal=NO_SIGNAL)


def square_scores(text: str | None, words: tuple[str, ...] | None) -> tuple[Tensor, tuple[str, ...], Tensor | None]:
    """Typed scores, a row a query, and the `words` that name rows; without any, those of INF721, with the weights that
    it prints. A UsageError where there is not a row for each column and word, or more of them than can be shown."""
    lecture = lectures()["masking"]
    scores, own = typed_matrix(text or lecture["scores"], "--scores"), typed_matrix(lecture["scores"], "the lecture")
    if len(scores) != scores.shape[1] or len(scores) > MOST_WORDS:
        problem = f"--scores is {_sizes(scores.shape)}, and a mask needs as many rows as columns, at most {MOST_WORDS}"
        raise UsageError(problem, 'write a row a query, such as "2 1; 0 3"')
    if words is not None and len(words) != len(scores):
        raise UsageError(f"The text has {len(words)} words, and --scores {len(scores)} rows", "name each row once")
    is_lecture = torch.equal(scores, own)
    words = words or (tuple(EXAMPLE.split()) if is_lecture else tuple(f"x{row + 1}" for row in range(len(scores))))
    return scores, words, typed_matrix(lecture["printed"], "the lecture") if is_lecture else None
