"""Prepared datasets whose files are missing, cut, exchanged or lie: data.md, "A prepared dataset"."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from tests.hostile.harness import (
    TINY,
    Case,
    Place,
    Step,
    case,
    check,
    copy,
    cut,
    edit,
    every,
    folder,
    gone,
    link,
    write,
)
from tfcli.files import file_digest

TRAIN = f"train --data prepared --out run {TINY}"
PAIRS = f"train --arch encoder-decoder --data pairs --out run {TINY}"
MANIFEST = "prepared/manifest.json"
TOKENS = "prepared/train-00000.tokens.npy"
OFFSETS = "prepared/train-00000.offsets.npy"


def array(name: str, change: Any, *, vouched: bool = True) -> Step:
    """An array of a dataset with other numbers, and a manifest that vouches for them."""

    def step(here: Path) -> None:
        file, manifest = here / name, here / name.split("/")[0] / "manifest.json"
        np.save(file, change(np.load(file)))
        if vouched:
            content = json.loads(manifest.read_text())
            for shard in (*content["train"]["shards"], *content["validation"]["shards"]):
                for facts in shard.values():
                    if facts["file"] == file.name:
                        facts.update(size=file.stat().st_size, digest=file_digest(file))
            manifest.write_text(json.dumps(content))

    return step


def _set(index: int, value: int) -> Any:
    def change(numbers: np.ndarray) -> np.ndarray:
        numbers = numbers.copy()
        numbers[index] = value
        return numbers

    return change


CASES = [
    case("no manifest", TRAIN, 2, r"prepared.*(manifest|\.txt|no prepared dataset).*; ", gone(MANIFEST)),
    case("an empty manifest", TRAIN, 1, r"manifest\.json.*JSON.*; ", write(MANIFEST, "")),
    case("half a manifest", TRAIN, 1, r"manifest\.json.*JSON.*; ", cut(MANIFEST)),
    case("a manifest that is a list", TRAIN, 1, r"manifest\.json.*; ", write(MANIFEST, "[]")),
    case("a manifest without a word", TRAIN, 2, r"manifest\.json.*; ", write(MANIFEST, "{}")),
    case("a manifest of bytes", TRAIN, 1, r"manifest\.json.*; ", write(MANIFEST, bytes(range(256)))),
    case(
        "a manifest nested 100,000 deep",
        TRAIN,
        1,
        r"manifest\.json.*; ",
        write(MANIFEST, '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"),
    ),
    case("a manifest from the future", TRAIN, 2, r"manifest\.json.*999.*; ", edit(MANIFEST, format_version=999)),
    case(
        "a manifest without a version",
        TRAIN,
        2,
        r"manifest\.json.*format.version.*; ",
        edit(MANIFEST, lambda m: {k: v for k, v in m.items() if k != "format_version"}),
    ),
    case("a version in words", TRAIN, 2, r"manifest\.json.*two.*; ", edit(MANIFEST, format_version="two")),
    case("a kind that is none", TRAIN, 1, r"manifest\.json.*(kind|pictures).*; ", edit(MANIFEST, kind="pictures")),
    case(
        "text that says it is pairs",
        f"train --arch encoder-decoder --data prepared --out run {TINY}",
        1,
        r"(manifest\.json|prepared).*; ",
        edit(MANIFEST, kind="pairs"),
    ),
    case("pairs where text is needed", f"train --arch decoder --data pairs --out run {TINY}", 2, r"pairs.*; "),
    case("tokens missing", TRAIN, 1, r"train-00000\.tokens\.npy.*; ", gone(TOKENS)),
    case("offsets missing", TRAIN, 1, r"train-00000\.offsets\.npy.*; ", gone(OFFSETS)),
    case(
        "a validation part missing",
        TRAIN,
        1,
        r"validation-00000\.tokens\.npy.*; ",
        gone("prepared/validation-00000.tokens.npy"),
    ),
    case(
        "the tokenizer missing",
        TRAIN,
        1,
        r"prepared.*tokenizer\.json.*; .*(prepare|restore)",
        gone("prepared/tokenizer.json"),
    ),
    case("tokens cut short", TRAIN, 1, r"train-00000\.tokens\.npy.*; ", cut(TOKENS)),
    case("tokens empty", TRAIN, 1, r"train-00000\.tokens\.npy.*; ", write(TOKENS, "")),
    case("tokens that are text", TRAIN, 1, r"train-00000\.tokens\.npy.*; ", write(TOKENS, "tokens\n" * 500)),
    case(
        "tokens of the validation part",
        TRAIN,
        1,
        r"train-00000\.tokens\.npy.*; ",
        copy("prepared/validation-00000.tokens.npy", TOKENS),
    ),
    case(
        "a byte changed",
        TRAIN,
        1,
        r"train-00000\.tokens\.npy.*(changed|not the|digest).*; ",
        array(TOKENS, _set(7, 9), vouched=False),
    ),
    case("tokens that are a folder", TRAIN, 1, r"train-00000\.tokens\.npy.*; ", gone(TOKENS), folder(TOKENS)),
    case(
        "tokens behind a link to nowhere",
        TRAIN,
        1,
        r"train-00000\.tokens\.npy.*; ",
        gone(TOKENS),
        link(TOKENS, "gone.npy"),
    ),
    case(
        "tokens that are Python objects",
        TRAIN,
        1,
        r"train-00000\.tokens\.npy.*; ",
        array(TOKENS, lambda a: a.astype(object)),
    ),
    case(
        "tokens that are fractions",
        TRAIN,
        1,
        r"train-00000\.tokens\.npy.*; ",
        array(TOKENS, lambda a: a.astype(np.float32)),
    ),
    case(
        "tokens in rows",
        TRAIN,
        1,
        r"train-00000\.tokens\.npy.*; ",
        array(TOKENS, lambda a: a[: len(a) // 2 * 2].reshape(-1, 2)),
    ),
    case(
        "ids outside the vocabulary",
        TRAIN,
        1,
        r"train-00000\.tokens\.npy.*(60000|vocabulary|ids).*; ",
        array(TOKENS, _set(3, 60_000)),
    ),
    case(
        "fewer tokens than offsets say",
        TRAIN,
        1,
        r"train-00000\.(tokens|offsets)\.npy.*; ",
        array(TOKENS, lambda a: a[:-5]),
    ),
    case("offsets that go backwards", TRAIN, 1, r"train-00000\.offsets\.npy.*; ", array(OFFSETS, lambda a: a[::-1])),
    case("offsets below nothing", TRAIN, 1, r"train-00000\.offsets\.npy.*; ", array(OFFSETS, _set(0, -5))),
    case("offsets beyond the end", TRAIN, 1, r"train-00000\.offsets\.npy.*; ", array(OFFSETS, _set(-1, 10**9))),
    case(
        "offsets of another type",
        TRAIN,
        1,
        r"train-00000\.offsets\.npy.*; ",
        array(OFFSETS, lambda a: a.astype(np.float64)),
    ),
    case("one offset", TRAIN, 1, r"train-00000\.offsets\.npy.*; ", array(OFFSETS, lambda a: a[:1])),
    case(
        "another tokenizer in the folder",
        TRAIN,
        1,
        r"prepared/tokenizer\.json is not the tokenizer that was made here.*; ",
        copy("other.json", "prepared/tokenizer.json"),
        needs=("other.json",),
    ),
    case("half a tokenizer in the folder", TRAIN, 1, r"tokenizer\.json.*; ", cut("prepared/tokenizer.json")),
    case(
        "a shard that climbs out",
        TRAIN,
        1,
        r"(manifest\.json|\.\./).*; ",
        lambda here: (here / MANIFEST).write_text(
            (here / MANIFEST).read_text().replace("train-00000", "../train-00000")
        ),
    ),
    case("counts that lie", TRAIN, 1, r"manifest\.json.*; ", lambda here: _counts(here)),
    case(
        "pairs of unequal number",
        PAIRS,
        1,
        r"train-00000\.(source|target)\.offsets\.npy.*; ",
        array("pairs/train-00000.target.offsets.npy", lambda a: a[:-1]),
    ),
    case(
        "a side missing", PAIRS, 1, r"train-00000\.target\.tokens\.npy.*; ", gone("pairs/train-00000.target.tokens.npy")
    ),
    case(
        "sides exchanged",
        PAIRS,
        1,
        r"train-00000\.(source|target)\.\w+\.npy.*; ",
        copy("pairs/train-00000.source.tokens.npy", "pairs/train-00000.target.tokens.npy"),
    ),
    case("prepared over another dataset", "prepare text.txt --tokenizer other.json --out prepared", 2, r"prepared.*; "),
    case("prepared over a run", "prepare text.txt --tokenizer tokenizer.json --out decoder", 2, r"decoder.*; "),
    case(
        "prepared over a file",
        "prepare text.txt --tokenizer tokenizer.json --out text.txt",
        2,
        r"text\.txt.*file.*; ",
        sample=True,
    ),
    case("prepared with what is no tokenizer", "prepare text.txt --tokenizer text.txt --out data", 1, r"text\.txt.*; "),
    case(
        "prepared with a tokenizer that is not there",
        "prepare text.txt --tokenizer nowhere --out data",
        2,
        r"nowhere.*; ",
    ),
    case(
        "a prepared folder of something else",
        "train --data folder --out run",
        2,
        r"folder.*; ",
        write("folder/notes.md", "mine"),
    ),
    case("a prepared dataset scored with another tokenizer", "evaluate decoder prepared", 2, r"prepared.*; "),
]


def _counts(here: Path) -> None:
    text = (here / MANIFEST).read_text()
    (here / MANIFEST).write_text(re.sub(r'("documents": )\d+', r"\g<1>123456789", text))


@every(CASES)
def test_prepared(hostile: Case, place: Place):
    check(place, hostile)
