"""Checkpoints of other libraries that lie, climb out of their folder or carry code; and exports: checkpoints.md."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from tests.hostile.harness import Case, Place, Step, case, check, cut, edit, every, fifo, folder, gone, write

IMPORT = "import hf --out run"
WEIGHTS = "hf/model.safetensors"
CONFIG = "hf/config.json"
INDEX = "hf/model.safetensors.index.json"


def tensors(change: Any) -> Step:
    """The checkpoint's weights with something other."""

    def step(here: Path) -> None:
        held = load_file(here / WEIGHTS)
        save_file(change(held) or held, here / WEIGHTS, {"format": "pt"})

    return step


def sharded(change: Any = lambda index: None, keep: bool = True) -> Step:
    """The checkpoint in two shards with an index, which `change` then changes."""

    def step(here: Path) -> None:
        held = load_file(here / WEIGHTS)
        names = sorted(held)
        index = {"metadata": {"total_size": 1}, "weight_map": {}}
        for number, part in enumerate((names[::2], names[1::2]), 1):
            file = f"model-0000{number}-of-00002.safetensors"
            save_file({name: held[name] for name in part}, here / "hf" / file, {"format": "pt"})
            index["weight_map"] |= dict.fromkeys(part, file)
        (here / WEIGHTS).unlink()
        change(index)
        (here / INDEX).write_text(json.dumps(index))
        if not keep:
            (here / "hf/model-00002-of-00002.safetensors").unlink()

    return step


class _Code:
    def __reduce__(self) -> Any:
        return (open, ("owned.txt", "w"))


def _bin(content: Any) -> Step:
    """The checkpoint as a pickle of PyTorch's form."""

    def step(here: Path) -> None:
        import torch

        (here / WEIGHTS).unlink()
        torch.save(content, here / "hf/pytorch_model.bin")

    return step


def _first(index: Any, file: str) -> None:
    index["weight_map"][sorted(index["weight_map"])[0]] = file


def _nan(held: dict[str, np.ndarray]) -> None:
    name = sorted(held)[-1]
    held[name] = np.full_like(held[name], np.nan)


CASES = [
    case("a folder that is not there", "import nowhere --out run", 2, r"'?nowhere'?.*; ", sample=True),
    case("an empty folder", "import folder --out run", 2, r"folder.*config\.json.*; ", folder("folder")),
    case("a file", "import text.txt --out run", 2, r"text\.txt.*; "),
    case("a name on the hub that climbs", "import hf:../../etc --out run", 2, r"hf:\.\./\.\./etc.*; "),
    case("a name on the hub that is none", "import hf: --out run", 2, r"'hf:'.*; "),
    case("a run in the place of a checkpoint", "import decoder --out run", 2, r"decoder.*; "),
    case("no config", IMPORT, 2, r"hf.*config\.json.*; ", gone(CONFIG)),
    case("half a config", IMPORT, 1, r"config\.json.*; ", cut(CONFIG)),
    case("a config that is a list", IMPORT, 1, r"config\.json.*; ", write(CONFIG, "[]")),
    case(
        "a config nested deep",
        IMPORT,
        1,
        r"config\.json.*; ",
        write(CONFIG, '{"a":' + "[" * 50_000 + "]" * 50_000 + "}"),
    ),
    case("a config of a family that is not read", IMPORT, 2, r"mamba.*; ", edit(CONFIG, model_type="mamba")),
    case(
        "a family in an escape sequence",
        IMPORT,
        2,
        r"\\x1b\[31mred|\\u001b\[31mred.*; ",
        edit(CONFIG, model_type="\x1b[31mred"),
    ),
    case("a family that is a number", IMPORT, 2, r"config\.json.*model_type.*; |7.*; ", edit(CONFIG, model_type=7)),
    case("a setting that nobody knows", IMPORT, 2, r"config\.json.*flux_capacitor.*; ", edit(CONFIG, flux_capacitor=3)),
    case("a size in words", IMPORT, 2, r"config\.json.*hidden_size.*; ", edit(CONFIG, hidden_size="sixteen")),
    case(
        "a size below nothing",
        IMPORT,
        2,
        r"config\.json.*hidden_size.*-16.*; |hidden_size.*; ",
        edit(CONFIG, hidden_size=-16),
    ),
    case(
        "a size of 400 digits",
        IMPORT,
        2,
        r"config\.json.*hidden_size = 9{60,80}….*; ",
        lambda here: _long(here / CONFIG),
    ),
    case(
        "a size that the weights have not",
        IMPORT,
        1,
        r"(config\.json|model\.safetensors|\w+\.weight).*; ",
        edit(CONFIG, hidden_size=24),
    ),
    case(
        "layers by the thousand million",
        IMPORT,
        2,
        r"(num_hidden_layers|layers).*; ",
        edit(CONFIG, num_hidden_layers=10**9),
        timeout=30,
    ),
    case("heads that do not divide", IMPORT, 2, r"(head|hidden_size).*; ", edit(CONFIG, num_attention_heads=5)),
    case(
        "code of its own",
        IMPORT,
        0,
        "",
        edit(CONFIG, auto_map={"AutoModelForCausalLM": "modeling.Model"}),
        write("hf/modeling.py", "open('owned.txt', 'w').write('x')\n"),
        leaves=("run*",),
    ),
    case("no weights", IMPORT, 2, r"hf.*model\.safetensors.*; ", gone(WEIGHTS)),
    case("half the weights", IMPORT, 1, r"model\.safetensors.*; ", cut(WEIGHTS)),
    case("weights that are text", IMPORT, 1, r"model\.safetensors.*; ", write(WEIGHTS, "weights")),
    case("a pipe for weights", IMPORT, 2, r"model\.safetensors.*; ", gone(WEIGHTS), fifo(WEIGHTS), timeout=20),
    case(
        "a tensor missing",
        IMPORT,
        1,
        r"(lacks|no |missing).*\w+\.weight|\w+\.weight.*(lacks|no |missing).*; ",
        tensors(lambda held: held.pop(sorted(held)[0]) is None),
    ),
    case(
        "a tensor too many",
        IMPORT,
        1,
        r"model\.wing.*; ",
        tensors(lambda held: held.update({"model.wing": np.ones(3, np.float32)})),
    ),
    case(
        "a tensor of another shape",
        IMPORT,
        1,
        r"\w+\.weight.*; ",
        tensors(lambda held: {k: v.reshape(1, -1) for k, v in held.items()}),
    ),
    case("a tensor that is not finite", IMPORT, 1, r"\w+\.weight.*(finite|NaN).*; ", tensors(_nan)),
    case(
        "a tensor of integers",
        IMPORT,
        1,
        r"\w+\.weight.*(int|I32).*; ",
        tensors(lambda held: {k: v.astype(np.int32) for k, v in held.items()}),
    ),
    case("a shard missing", IMPORT, 1, r"model-00002-of-00002\.safetensors.*; ", sharded(keep=False)),
    case(
        "a shard that climbs out",
        IMPORT,
        1,
        r"\.\./.*; ",
        sharded(lambda index: _first(index, "../elsewhere.safetensors")),
    ),
    case("a shard somewhere else", IMPORT, 1, r"/etc/passwd.*; ", sharded(lambda index: _first(index, "/etc/passwd"))),
    case(
        "a shard without the tensor",
        IMPORT,
        1,
        r"\w+\.\w+.*; ",
        sharded(lambda index: _first(index, "model-00002-of-00002.safetensors")),
    ),
    case("half an index", IMPORT, 1, r"index\.json.*; ", sharded(), cut(INDEX)),
    case("an index that is a list", IMPORT, 1, r"index\.json.*; ", sharded(), write(INDEX, "[]")),
    case("an index of numbers", IMPORT, 1, r"index\.json.*; ", sharded(), write(INDEX, {"weight_map": {"a": 3}})),
    case("a pickle with code", IMPORT, 1, r"pytorch_model\.bin.*; ", _bin({"weight": _Code()})),
    case(
        "a plain pickle with code",
        IMPORT,
        1,
        r"pytorch_model\.bin.*; ",
        gone(WEIGHTS),
        write("hf/pytorch_model.bin", pickle.dumps(_Code())),
    ),
    case("a pickle of a list", IMPORT, 1, r"pytorch_model\.bin.*; ", _bin([1, 2, 3])),
    case("half a pickle", IMPORT, 1, r"pytorch_model\.bin.*; ", _bin({}), cut("hf/pytorch_model.bin", 0.7)),
    case("no tokenizer", IMPORT, 2, r"hf.*tokenizer.*; .*--tokenizer", gone("hf/tokenizer.json")),
    case("half a tokenizer", IMPORT, 1, r"tokenizer\.json.*; ", cut("hf/tokenizer.json")),
    case(
        "a SentencePiece tokenizer",
        IMPORT,
        2,
        r"spiece\.model.*; .*--tokenizer",
        gone("hf/tokenizer.json"),
        write("hf/spiece.model", "x"),
    ),
    case(
        "a tokenizer with more ids than rows",
        "import hf --out run --tokenizer tokenizer.json",
        2,
        r"tokenizer\.json.*; ",
    ),
    case("a tokenizer that is not there", "import hf --out run --tokenizer nowhere.json", 2, r"nowhere\.json.*; "),
    case("imported over a run", "import hf --out decoder", 2, r"decoder.*; .*--out"),
    case("imported over the checkpoint", "import hf --out hf", 2, r"hf.*; .*--out"),
    case("imported over a file", "import hf --out text.txt", 2, r"text\.txt.*file.*; "),
    case("exported over the run", "export decoder --out decoder", 2, r"decoder.*; .*--out"),
    case(
        "exported over a folder of something else",
        "export decoder --out folder",
        2,
        r"folder.*; .*--out",
        write("folder/notes.md", "mine"),
    ),
    case("exported below a file", "export decoder --out text.txt/exported", 2, r"text\.txt.*file.*; "),
    case(
        "exported from half the weights",
        "export decoder --out exported",
        1,
        r"decoder/model\.safetensors.*; ",
        cut("decoder/model.safetensors"),
    ),
]


def _long(path: Path) -> None:
    content = json.loads(path.read_text())
    path.write_text(
        json.dumps(content).replace(f'"hidden_size": {content["hidden_size"]}', '"hidden_size": ' + "9" * 400)
    )


@every(CASES)
def test_imports(hostile: Case, place: Place):
    check(place, hostile)
