"""Pairs from two parallel text files, one sentence a line: `train.de.gz,train.en.gz`."""

from collections.abc import Callable, Iterator
from itertools import zip_longest

from tfcli.corpora.reading import StoredFile, read_lines
from tfcli.corpora.source import Document, Pair
from tfcli.errors import BrokenInputError


def parallel_documents(source: StoredFile, target: StoredFile) -> Callable[[], Iterator[Document]]:
    """How to read the pairs of two files; reading raises BrokenInputError when their lengths differ."""

    def documents() -> Iterator[Document]:
        lengths = [0, 0]
        for sides in zip_longest(_sentences(source), _sentences(target)):
            for side, sentence in enumerate(sides):
                lengths[side] += sentence is not None
            if lengths[0] == lengths[1]:
                yield Pair(*sides)
        if lengths[0] != lengths[1]:
            problem = f"{source.label} has {lengths[0]} lines and {target.label} has {lengths[1]}"
            raise BrokenInputError(problem, "give files in which line n of one translates line n of the other")

    return documents


def _sentences(file: StoredFile) -> Iterator[str]:
    for line in read_lines(file):
        yield line.removesuffix("\n").removesuffix("\r")
