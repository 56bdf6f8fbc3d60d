"""Datasets of the Hugging Face hub, streamed: nothing is downloaded as a whole, and no code from there is run."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tfcli.addresses import require_known
from tfcli.corpora import PARTS, Document, Source, reading, tables
from tfcli.errors import TfcliError, UsageError, first_lines, shortened
from tfcli.files import digest

HUB_PREFIX = "hf:"
_NAME = re.compile(r"hf:(?P<name>[\w.-]+/[\w.-]+)(?::(?P<config>[^:@]+))?(?:@(?P<split>[\w.-]+))?", re.ASCII)


def open_hub(name: str, how: reading.How) -> Source:
    """A dataset on the hub: the split that is named, else its own train and validation, else train."""
    match = _NAME.fullmatch(name)
    if not match:
        remedy = "write hf:owner/name, hf:owner/name:config or hf:owner/name@split"
        raise UsageError(f"'{shortened(name)}' is no dataset name", remedy)
    require_known(name)
    with _explained(name):
        import datasets

        datasets.disable_progress_bars()  # what goes wrong is said by our errors: its own bars and log lines are off
        for library in ("datasets", "huggingface_hub", "fsspec"):
            logging.getLogger(library).setLevel(logging.CRITICAL)
        builder = datasets.load_dataset_builder(match["name"], match["config"])
        streams = builder.as_streaming_dataset()
    splits = _splits(name, match["split"], list(streams))
    readers = {split: _hub_reader(name, split, streams[split], how) for split in splits}
    return Source(
        (name,),
        how.kind,
        lambda: (document for read in readers.values() for document in read()),
        lambda: digest(match[1], builder.config_id, builder.hash, splits, how.kind, how.columns, *["skip"] * how.skips),
        None if len(splits) == 1 else lambda: ((part, one) for part in PARTS for one in readers[part]()),
    )


def _splits(name: str, wanted: str | None, there: list[str]) -> list[str]:
    if wanted is None and "train" in there:
        return list(PARTS) if "validation" in there else ["train"]
    if wanted not in there:
        problem = f"{name} has no split '{wanted or 'train'}', only {', '.join(there)}"
        raise UsageError(problem, f"name one of them, as in {name.split('@')[0]}@{there[0]}")
    return [wanted]


def _hub_reader(name: str, split: str, stream: Any, how: reading.How) -> Callable[[], Iterator[Document]]:
    def records(outer: tuple[str, ...], _: reading.Report) -> Iterator[tuple[str, tables.Record]]:
        with _explained(name):
            undecoded = stream.decode(False)  # images and sound stay as they are stored
            for number, record in enumerate(undecoded.select_columns(list(outer)) if outer else undecoded, 1):
                yield f"Record {number}", record

    table = tables.record_table(
        f"{name.split('@')[0]}@{split}", records, how.bad_records(), null_is_blank=how.as_before
    )
    return tables.documents_of(table, how.kind, tables.chosen_of_records(table.columns, how))


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn whatever the libraries raise while they fetch `name` into one plain sentence."""
    try:
        yield
    except (FileNotFoundError, ValueError, RuntimeError) as error:
        unknown = isinstance(error, FileNotFoundError)
        remedy = "check the name on huggingface.co/datasets" if unknown else "name another dataset or configuration"
        raise UsageError(f"Cannot read {name}: {first_lines(error)}", remedy) from error
    except Exception as error:
        remedy = "check the network, or download the dataset and name its files"
        raise TfcliError(f"Cannot fetch {name}: {first_lines(error)}", remedy) from error
