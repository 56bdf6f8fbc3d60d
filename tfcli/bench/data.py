"""Throughput of tokenization: `tfcli prepare` beside the bare tokenizers library, and beside `datasets.map`."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from statistics import median

from tfcli.bench import DataSide, DataSpeed
from tfcli.bench.data_sides import TEXTS, TOKENIZER
from tfcli.bench.machine import describe_machine, require_sides
from tfcli.bench.measure import SideProcess, Tell, measure, spread
from tfcli.corpora import Source, pieces, texts
from tfcli.corpora.open import open_source
from tfcli.machine import cores, temporary_folder
from tfcli.recipe.data import TokenizerSection
from tfcli.tokenization.tokenizer import load_tokenizer
from tfcli.tokenization.train import train_tokenizer

WARMUP = 1  # rounds that do not count


def bench_data(
    sources: Sequence[str],
    tokenizer: Path | None,
    *,
    rounds: int,
    context: int,
    threads: int = 0,
    transformers: bool = False,
    tell: Tell = lambda _: None,
) -> DataSpeed:
    """Measure how fast a text becomes a dataset of token ids, every side in a process of its own and in turns. Without
    a `tokenizer` (a file or a run) one of the default size is trained first. A UsageError where there is no such
    source, tokenizer or library, or too many threads; a TfcliError where a side fails."""
    threads = threads or cores()
    require_sides(threads, transformers=transformers)
    loaded = None if tokenizer is None else load_tokenizer(tokenizer)
    source = open_source(sources, "text")
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        tell("reading the text")
        lines, size = _write_texts(source, folder / TEXTS)
        if loaded is None:
            tell("training a tokenizer")
            loaded, _ = train_tokenizer(lambda: chain.from_iterable(map(texts, source.documents())), TokenizerSection())
        loaded.save(folder / TOKENIZER)
        sides = []
        environment = dict.fromkeys(("RAYON_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
        for name in ("prepare", "encode_batch_fast", "datasets.map")[: 2 + transformers]:
            tell(f"starting {name}")
            request = {"open": name, "folder": str(folder), "context": context}
            sides.append(stack.enter_context(SideProcess(name, request, environment)))
        measured = measure(sides, rounds, warmup=WARMUP, tell=tell)
    tokens: int = sides[1].about["tokens"]
    return DataSpeed(
        sources=tuple(sources),
        lines=lines,
        bytes=size,
        tokens=tokens,
        algorithm=loaded.algorithm,
        vocab_size=loaded.vocab_size,
        context=context,
        rounds=rounds,
        warmup=WARMUP,
        machine=describe_machine("cpu", threads),
        sides=tuple(
            DataSide(side.name, size / median(seconds), tokens / median(seconds), spread(seconds), **beside)
            for side, seconds, beside in measured
        ),
    )


def _write_texts(source: Source, path: Path) -> tuple[int, int]:
    """A line a text, or a piece of a long one. Returns how many, and the bytes of their text."""
    lines = size = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for text in chain.from_iterable(map(texts, source.documents())):
            for piece in filter(None, pieces(text)):
                file.write(json.dumps({"text": piece}, ensure_ascii=False) + "\n")
                lines, size = lines + 1, size + len(piece.encode())
    return lines, size
