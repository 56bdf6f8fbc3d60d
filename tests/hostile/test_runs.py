"""Runs of which a file is missing, cut, exchanged, from the future or a lie: runs.md, training.md, architecture.md."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

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
    replace,
    write,
)

SAY = "generate decoder Tom --max-new-tokens 2"
WEIGHTS = "decoder/model.safetensors"
CONFIG = "decoder/config.json"
LAST = "untied/checkpoints/step-000012"
RESUME = "train --resume untied --set train.steps=14"


def tensors(name: str, change: Any) -> Step:
    """Weights of which something is other."""

    def step(here: Path) -> None:
        from safetensors import safe_open

        held = load_file(here / name)
        with safe_open(here / name, "np") as file:
            facts = file.metadata()
        changed = change(held)
        save_file(held if changed is None else changed, here / name, facts)

    return step


def header(name: str, change: Any) -> Step:
    """Weights whose header says something else about the same bytes."""

    def step(here: Path) -> None:
        content = (here / name).read_bytes()
        size = int.from_bytes(content[:8], "little")
        facts = json.loads(content[8 : 8 + size])
        facts = change(facts) or facts
        text = json.dumps(facts).encode()
        text += b" " * (-len(text) % 8)
        (here / name).write_bytes(len(text).to_bytes(8, "little") + text + content[8 + size :])

    return step


def _each(change: Any) -> Any:
    return lambda facts: [change(value) for name, value in facts.items() if name != "__metadata__"] and None


def _nan(held: dict[str, np.ndarray]) -> None:
    for name, array in held.items():
        if array.dtype.kind == "f":
            held[name] = np.full_like(array, np.nan)


def _drop_one(held: dict[str, np.ndarray]) -> None:
    held.pop(sorted(held)[0])


def _damaged(name: str, *steps: Step, command: str = "runs list .", says: str = "") -> Case:
    """A damaged run beside a whole one: both are listed, and what is wrong stands in the damaged one's row."""
    return case(
        name,
        command,
        0,
        "",
        *steps,
        prints=rf"(?s)(?=.*untied +finished)(?=.*decoder +damaged.*{says})",
        needs=("decoder", "untied"),
    )


DEEP = '{"a":' + "[" * 50_000 + "]" * 50_000 + "}"
CASES = [
    case("no recipe", SAY, 2, r"decoder.*recipe\.toml.*; ", gone("decoder/recipe.toml"), sample=True),
    case("an empty recipe", SAY, 1, r"decoder/recipe\.toml.*; .*restore", write("decoder/recipe.toml", "")),
    case("half a recipe", SAY, 1, r"decoder/recipe\.toml.*; .*restore", cut("decoder/recipe.toml")),
    case(
        "a recipe of bytes",
        SAY,
        1,
        r"decoder/recipe\.toml.*; .*restore",
        write("decoder/recipe.toml", bytes(range(256))),
    ),
    case(
        "a recipe with a setting of another program",
        SAY,
        1,
        r"decoder/recipe\.toml.*wings.*; ",
        lambda here: _append(here / "decoder/recipe.toml", "\n[model.wings]\nspan = 3\n"),
    ),
    case(
        "a recipe of another shape than the weights",
        SAY,
        1,
        r"decoder.*; .*restore",
        replace(CONFIG, '"d_model": 16', '"d_model": 24'),
    ),
    case("no config", SAY, 2, r"config\.json.*; .*restore", gone(CONFIG)),
    case("an empty config", SAY, 1, r"config\.json.*; .*restore", write(CONFIG, "")),
    case("a config that is a list", SAY, 1, r"config\.json.*; .*restore", write(CONFIG, "[1, 2]")),
    case("a config nested deep", SAY, 1, r"config\.json.*; .*restore", write(CONFIG, DEEP)),
    case("a config from the future", SAY, 1, r"config\.json.*99.*; ", edit(CONFIG, format_version=99)),
    case("a config without its sizes", SAY, 1, r"config\.json.*; .*restore", edit(CONFIG, model={})),
    case(
        "a config with sizes in words",
        SAY,
        1,
        r"config\.json.*; .*restore",
        replace(CONFIG, '"d_model": 16', '"d_model": "sixteen"'),
    ),
    case(
        "a config with a model beyond memory",
        SAY,
        1,
        r"(config\.json|model\.safetensors).*; ",
        replace(CONFIG, '"d_model": 16', '"d_model": 16777216'),
    ),
    case(
        "a config with a context of millions",
        SAY,
        1,
        r"(config\.json|model\.safetensors|recipe\.toml).*; ",
        replace(CONFIG, '"max_seq_len": 32', '"max_seq_len": 16777216'),
    ),
    case("no weights", SAY, 2, r"model\.safetensors.*; ", gone(WEIGHTS)),
    case("empty weights", SAY, 1, r"model\.safetensors.*; .*restore", write(WEIGHTS, "")),
    case(
        "weights cut in their header",
        SAY,
        1,
        r"model\.safetensors.*; .*restore",
        lambda here: (here / WEIGHTS).write_bytes((here / WEIGHTS).read_bytes()[:40]),
    ),
    case("weights cut in their numbers", SAY, 1, r"model\.safetensors.*; .*restore", cut(WEIGHTS, 0.9)),
    case(
        "weights with rubbish behind",
        SAY,
        1,
        r"model\.safetensors.*; ",
        lambda here: (here / WEIGHTS).write_bytes((here / WEIGHTS).read_bytes() + b"x" * 100),
    ),
    case("a header of a size without end", SAY, 1, r"model\.safetensors.*; ", write(WEIGHTS, b"\xff" * 8 + b"{}")),
    case(
        "weights that are a pickle",
        SAY,
        1,
        r"model\.safetensors.*; ",
        write(WEIGHTS, b"\x80\x04cposix\nsystem\n(Vtouch owned\ntR."),
    ),
    case(
        "weights of another run",
        SAY,
        1,
        r"model\.safetensors.*another run.*; .*restore",
        copy("untied/model.safetensors", WEIGHTS),
        needs=("untied",),
    ),
    case("a weight missing", SAY, 1, r"model\.safetensors.*; ", tensors(WEIGHTS, _drop_one)),
    case(
        "a weight too many",
        SAY,
        1,
        r"model\.safetensors.*wing.*; ",
        tensors(WEIGHTS, lambda held: held.update(wing=np.ones(3, np.float32))),
    ),
    case(
        "weights of another shape",
        SAY,
        1,
        r"model\.safetensors.*; ",
        tensors(WEIGHTS, lambda held: {k: v.reshape(-1) for k, v in held.items()}),
    ),
    case(
        "weights called integers",
        SAY,
        1,
        r"model\.safetensors.*(I32|int|type).*; ",
        header(WEIGHTS, _each(lambda v: v.update(dtype="I32"))),
    ),
    case(
        "weights that overlap",
        SAY,
        1,
        r"model\.safetensors.*; ",
        header(WEIGHTS, _each(lambda v: v.update(data_offsets=[0, v["data_offsets"][1] - v["data_offsets"][0]]))),
    ),
    case("weights that are no numbers", SAY, 1, r"model\.safetensors.*(finite|NaN).*; ", tensors(WEIGHTS, _nan)),
    case("weights behind a link to nowhere", SAY, 2, r"model\.safetensors.*; ", gone(WEIGHTS), link(WEIGHTS, "gone")),
    case("weights that are a folder", SAY, 1, r"model\.safetensors.*; ", gone(WEIGHTS), folder(WEIGHTS)),
    case(
        "no facts about the text",
        "evaluate decoder",
        2,
        r"data\.json.*; |SOURCE.*; |source.*; ",
        gone("decoder/data.json"),
    ),
    case("half the facts about the text", "evaluate decoder", 1, r"data\.json.*; ", cut("decoder/data.json")),
    case("facts about the text in a list", "evaluate decoder", 1, r"data\.json.*; ", write("decoder/data.json", "[]")),
    case(
        "metrics of bytes, shown",
        "runs show decoder",
        1,
        r"metrics\.jsonl.*; ",
        write("decoder/metrics.jsonl", bytes(range(256)) * 20),
    ),
    case(
        "metrics nested deep, shown",
        "runs show decoder",
        1,
        r"metrics\.jsonl.*; ",
        write("decoder/metrics.jsonl", DEEP + "\n"),
    ),
    case(
        "metrics of 400 digits, shown",
        "runs show decoder",
        1,
        r"metrics\.jsonl.*; ",
        replace("decoder/metrics.jsonl", '"loss": ', '"loss": ' + "9" * 400),
    ),
    case(
        "metrics with escape sequences",
        "inspect training decoder",
        1,
        r"metrics\.jsonl.*; ",
        write("decoder/metrics.jsonl", '{"event": "\\u001b[31mred"}\n' * 3),
    ),
    case("no such step", "generate decoder Tom --checkpoint 77", 2, r"'?77'?.*; choose best, last"),
    case(
        "a step that climbs out", "generate decoder Tom --checkpoint ../../x", 2, r"'\.\./\.\./x'.*; choose best, last"
    ),
    case("a file for a run", "generate text.txt Tom", 2, r"text\.txt.*; "),
    case("a run behind a link to nowhere", "generate gone Tom", 2, r"'?gone'?.*; ", link("gone", "nowhere")),
    _damaged("listed without its weights", gone(WEIGHTS), says=r"model\.safetensors"),
    _damaged("listed with a config of bytes", write(CONFIG, bytes(range(256))), says=r"config\.json"),
    _damaged("listed with half a recipe", cut("decoder/recipe.toml"), says=r"recipe\.toml"),
    _damaged(
        "listed with a recipe of one long key",
        lambda here: (here / "decoder/recipe.toml").write_text(".".join("a" * 9000) + " = 1\n"),
        says=r"recipe\.toml",
    ),
    _damaged("listed with metrics nested deep", write("decoder/metrics.jsonl", DEEP + "\n"), says=r"metrics\.jsonl"),
    _damaged(
        "listed with metrics of 400 digits",
        replace("decoder/metrics.jsonl", '"loss": ', '"loss": ' + "9" * 400),
        says=r"metrics\.jsonl",
    ),
    _damaged("listed with a step in words", lambda here: _state(here / "decoder", step="many"), says=r"state\.json"),
    _damaged(
        "listed with a state that is a list", lambda here: _state(here / "decoder", whole="[]"), says=r"state\.json"
    ),
    _damaged("listed with weights that are a pipe's", write(WEIGHTS, b"\x00" * 7), says=r"model\.safetensors"),
    case(
        "a run whose folder's name steers",
        "runs list .",
        0,
        "",
        lambda here: shutil.copytree(here / "untied", here / "\x1b[31mred"),
        needs=("untied",),
        prints=r"\\x1b\[31mred +finished",
    ),
    # Resuming: training.md, "A resumed run is the run".
    case(
        "resumed without a checkpoint",
        "train --resume decoder --set train.steps=90",
        1,
        r"decoder.*checkpoint.*; ",
        gone("decoder/checkpoints"),
    ),
    case(
        "resumed with half the weights", RESUME, 1, rf"{LAST}/model\.safetensors.*; ", cut(f"{LAST}/model.safetensors")
    ),
    case(
        "resumed with half the moments",
        RESUME,
        1,
        rf"{LAST}/optimizer\.safetensors.*; ",
        cut(f"{LAST}/optimizer.safetensors"),
    ),
    case(
        "resumed without the moments", RESUME, 2, r"optimizer\.safetensors.*; ", gone(f"{LAST}/optimizer.safetensors")
    ),
    case("resumed without the state", RESUME, 1, r"state\.json.*; ", gone(f"{LAST}/state.json")),
    case("resumed with an empty state", RESUME, 1, r"state\.json.*; ", write(f"{LAST}/state.json", "")),
    case("resumed with a state that is a list", RESUME, 1, r"step-000012.*; ", write(f"{LAST}/state.json", "[]")),
    case("resumed at a step below nothing", RESUME, 1, r"state\.json.*-5.*; ", edit(f"{LAST}/state.json", step=-5)),
    case("resumed at a step in words", RESUME, 1, r"state\.json.*; ", edit(f"{LAST}/state.json", step="many")),
    case("resumed at a step without end", RESUME, 1, r"state\.json.*; ", edit(f"{LAST}/state.json", step=10**30)),
    case(
        "resumed at another step than the folder's", RESUME, 1, r"state\.json.*; ", edit(f"{LAST}/state.json", step=11)
    ),
    case(
        "resumed with moments that are no numbers",
        RESUME,
        1,
        r"optimizer\.safetensors.*; ",
        tensors(f"{LAST}/optimizer.safetensors", _nan),
    ),
    case(
        "resumed with weights that are no numbers",
        RESUME,
        1,
        r"model\.safetensors.*; ",
        tensors(f"{LAST}/model.safetensors", _nan),
    ),
    case(
        "resumed with a moment missing",
        RESUME,
        1,
        r"optimizer\.safetensors.*; ",
        tensors(f"{LAST}/optimizer.safetensors", _drop_one),
    ),
    case(
        "resumed with random states of zeros",
        RESUME,
        1,
        r"optimizer\.safetensors.*; ",
        tensors(
            f"{LAST}/optimizer.safetensors",
            lambda held: {k: np.zeros(3, v.dtype) if v.dtype == np.uint8 else v for k, v in held.items()},
        ),
    ),
    case(
        "resumed from another run's checkpoint",
        RESUME,
        1,
        r"another run.*; ",
        lambda here: _foreign(here),
        needs=("text.txt",),
    ),
    case(
        "resumed after its model was edited",
        RESUME,
        2,
        r"recipe\.toml.*(dropout|edited|changed).*; ",
        replace("untied/recipe.toml", "dropout = 0.1", "dropout = 0.2"),
    ),
    case(
        "resumed after its seed was edited",
        RESUME,
        2,
        r"recipe\.toml.*(seed|edited|changed).*; ",
        lambda here: _seed(here / "untied/recipe.toml"),
    ),
    case(
        "resumed with another model", "train --resume untied --set model.d_model=32", 2, r"model\.d_model.*; .*--init"
    ),
    case("resumed with another seed", "train --resume untied --set train.seed=7", 2, r"train\.seed.*; .*--init"),
    case("resumed with other text", "train --resume untied --set data.source=text.txt", 2, r"data\.source.*; .*--init"),
    case(
        "resumed with fewer steps than done",
        "train --resume untied --set train.steps=3",
        2,
        r"train\.steps.*3.*12.*; |12.*3.*; ",
    ),
    case("resumed with the tokenizer gone", RESUME, 2, r"tokenizer\.json.*; ", gone("untied/tokenizer.json")),
    case("resumed though it is finished", "train --resume untied", 0, r"finished|unchanged", prints="untied"),
    case(
        "resumed though it was imported",
        "train --resume imported",
        2,
        r"imported.*; .*--init",
        lambda here: _import(here),
        needs=("hf", "decoder"),
    ),
    case(
        "begun from a run that is damaged",
        f"train --init decoder --data text.txt --out run {TINY}",
        1,
        r"decoder/model\.safetensors.*; ",
        cut(WEIGHTS),
    ),
    case(
        "begun into the run it begins from",
        f"train --init decoder --data text.txt --out decoder {TINY}",
        2,
        r"decoder.*; ",
    ),
    case(
        "trained into a run of another recipe", f"train --data text.txt --out decoder {TINY}", 2, r"decoder.*; .*--out"
    ),
    case("trained into a dataset", f"train --data text.txt --out prepared {TINY}", 2, r"prepared.*; .*--out"),
    case(
        "trained into a folder of a run",
        f"train --data text.txt --out decoder/checkpoints {TINY}",
        2,
        r"decoder/checkpoints.*; .*--out",
    ),
]


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def _state(run: Path, whole: str = "", **values: Any) -> None:
    for path in run.glob("checkpoints/*/state.json"):
        path.write_text(whole or json.dumps(json.loads(path.read_text()) | values))


def _foreign(here: Path) -> None:
    from tests.cli.commands import tfcli

    made = tfcli("train", "--data", here / "text.txt", "--out", here / "foreign", *TINY.split(), "--quiet")
    assert made.exit_code == 0, made.stderr
    shutil.rmtree(here / LAST)
    shutil.move(next((here / "foreign/checkpoints").iterdir()), here / LAST)


def _seed(path: Path) -> None:
    head, section, rest = path.read_text().partition("[train]")
    path.write_text(head + section + rest.replace("seed = 0", "seed = 1", 1))


def _import(here: Path) -> None:
    from tests.cli.commands import tfcli

    made = tfcli("import", here / "hf", "--out", here / "imported", "--quiet")
    assert made.exit_code == 0, made.stderr


@every(CASES)
def test_runs(hostile: Case, place: Place):
    check(place, hostile)
