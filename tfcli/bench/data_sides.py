"""The three ways from text to token ids that `bench data` compares. Nothing here imports torch: memory is measured."""

import json
import time
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from tfcli.bench.measure import Answer, Side
from tfcli.corpora.split import open_split
from tfcli.data.prepare import prepare
from tfcli.machine import temporary_folder
from tfcli.recipe.data import DataSection
from tfcli.tokenization.tokenizer import load_tokenizer

TEXTS, TOKENIZER = "texts.jsonl", "tokenizer.json"  # what all sides read, in one folder
_BATCH = 1000  # texts that are encoded together, as `datasets.map` does by default


class DataWork(Side):
    """A side that does its `work` in a folder of its own, which goes afterwards."""

    def __init__(self, about: Answer, work: Callable[[Path], object]) -> None:
        self._about, self._work = about, work

    def about(self) -> Answer:
        """What is known before the first step."""
        return self._about

    def step(self) -> Answer:
        """Turn all the text into ids, once."""
        with temporary_folder() as out:
            began = time.perf_counter()
            self._work(out)
            return {"seconds": time.perf_counter() - began}


def prepared(folder: Path) -> DataWork:
    """`tfcli prepare`: text is read, divided, encoded, counted and written, and is on the disk."""

    def work(out: Path) -> None:
        division = open_split(DataSection(source=str(folder / TEXTS)), "text")
        prepare(division, load_tokenizer(folder / TOKENIZER), out / "dataset")

    return DataWork({}, work)


def encoded(folder: Path) -> DataWork:
    """`encode_batch_fast` of the tokenizers library, on texts in memory: nothing is read, kept or written."""
    from tokenizers import Tokenizer

    with (folder / TEXTS).open(encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    encode = partial(Tokenizer.from_file(str(folder / TOKENIZER)).encode_batch_fast, add_special_tokens=False)

    def work(_out: Path) -> int:
        batches = (texts[first : first + _BATCH] for first in range(0, len(texts), _BATCH))
        return sum(len(encoding) for batch in batches for encoding in encode(batch))

    return DataWork({"tokens": work(folder)}, work)


def mapped(folder: Path, context: int) -> DataWork:
    """What the example scripts of `transformers` do, with windows of `context`; all of it in a cache on the disk."""
    import datasets
    from transformers import PreTrainedTokenizerFast

    datasets.disable_progress_bars()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / TOKENIZER))

    def group(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        joined = {name: list(chain.from_iterable(rows)) for name, rows in batch.items()}
        starts = range(0, len(joined["input_ids"]) // context * context, context)
        windows = {name: [ids[start : start + context] for start in starts] for name, ids in joined.items()}
        return {**windows, "labels": list(windows["input_ids"])}

    def work(out: Path) -> None:
        texts = datasets.load_dataset("json", data_files=str(folder / TEXTS), split="train", cache_dir=str(out))
        ids = texts.map(lambda batch: tokenizer(batch["text"]), batched=True, remove_columns=texts.column_names)
        ids.map(group, batched=True)

    return DataWork({}, work)
