"""Writing small sources and reading them back."""

import bz2
import gzip
import lzma
from pathlib import Path

import pyarrow as pa
import pytest

from tfcli.addresses import typed
from tfcli.corpora import Document, Kind
from tfcli.corpora.open import open_source
from tfcli.errors import TfcliError


def read(names: str | Path | list[str], kind: Kind = "text", **options) -> list[Document]:
    names = str(names) if isinstance(names, Path) else names
    for name in [names] if isinstance(names, str) else names:
        typed(name)
    return list(open_source(names, kind, **options).documents())


def write(path: Path, content: bytes | str) -> Path:
    """Write `content`, compressed as the suffix of `path` says, without any translation of line endings."""
    data = content.encode() if isinstance(content, str) else content
    for suffix, library in {".gz": gzip, ".bz2": bz2, ".xz": lzma}.items():
        if path.suffix == suffix:
            data = library.compress(data)
    if path.suffix == ".zst":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        data = sink.getvalue().to_pybytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def refusal(
    error: type[TfcliError], exit_code: int, names: str | Path | list[str], kind: Kind = "text", **options
) -> str:
    """The sentence with which reading `names` to the end is refused."""
    with pytest.raises(error) as caught:
        read(names, kind, **options)
    assert type(caught.value) is error
    assert caught.value.exit_code == exit_code
    assert caught.value.remedy
    return str(caught.value)
