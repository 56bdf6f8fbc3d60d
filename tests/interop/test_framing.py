"""What stands before and behind a text of an imported run: what its own tokenizer puts there, and nothing else."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import processors
from torch.nn import functional as F

from tests.cli.commands import tfcli
from tests.support.checkpoints import edit_json, save_checkpoint
from tfcli.evaluation.evaluate import evaluate
from tfcli.evaluation.windows import EvaluationSettings
from tfcli.interop.exporting import export_run
from tfcli.interop.importing import import_run
from tfcli.pipeline.datasets import dataset_for_evaluation
from tfcli.records.evaluation import Scores
from tfcli.runs.load import LoadedRun, load_run

DOCUMENTS = ["The cat sat on the mat.", "Tom", "the dog ran to the river", "don't stop: the cats can't sit!", "a"]

_BEGUN = processors.TemplateProcessing(single=["<s>", "$A"], special_tokens=[("<s>", 1)])
_AROUND = processors.TemplateProcessing(single=["<s>", "$A", "</s>"], special_tokens=[("<s>", 1), ("</s>", 2)])
_END = processors.TemplateProcessing(single=["<|endoftext|>", "$A"], special_tokens=[("<|endoftext|>", 0)])
CASES: dict[str, tuple[str, Any, tuple[int, ...]]] = {
    "gpt2": ("gpt2", None, ()),
    "begin = end": ("gpt2", _END, (0,)),
    "llama": ("llama", _BEGUN, (1,)),
    "llama, both ends": ("llama", _AROUND, (1,)),
    "llama, nothing": ("llama", None, ()),
}


def checkpoint(folder: Path, name: str) -> Path:
    """A tiny random model with a tokenizer that puts around texts what the case says. tokenizer_config.json says
    otherwise, which no one reads beside a tokenizer.json."""
    family, processor, front = CASES[name]
    save_checkpoint(folder, family)
    state = json.loads((folder / "tokenizer.json").read_text())
    state["post_processor"] = None if processor is None else json.loads(processor.__getstate__())
    (folder / "tokenizer.json").write_text(json.dumps(state))
    edit_json(folder / "tokenizer_config.json", add_bos_token=not front, add_eos_token=False)
    return folder


def written(folder: Path) -> Path:
    text = folder / "text.jsonl"
    text.write_text("".join(json.dumps({"text": one}) + "\n" for one in DOCUMENTS))
    return text


def scores(run: LoadedRun, text: Path, settings: EvaluationSettings) -> Scores:
    return evaluate(run, dataset_for_evaluation(run, (str(text),), lambda event: None), settings)


def their_nats(folder: Path, rows: list[list[int]], quiet: frozenset[int] = frozenset()) -> tuple[float, int]:
    """Nats and tokens of every token but the first of each row, by transformers itself."""
    transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    nats, tokens = 0.0, 0
    for row in rows:
        with torch.no_grad():
            logits = model(torch.tensor([row])).logits[0, :-1].double()
        losses = F.cross_entropy(logits, torch.tensor(row[1:]), reduction="none").tolist()
        asked = [loss for loss, token in zip(losses, row[1:], strict=True) if token not in quiet]
        nats, tokens = nats + sum(asked), tokens + len(asked)
    return nats, tokens


def their_rows(folder: Path, end: int) -> list[list[int]]:
    """Each document as the checkpoint's own tokenizer has it, with the token behind it that ends it."""
    transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = [tokenizer(text)["input_ids"] for text in DOCUMENTS]
    return [row if row[-1] == end else [*row, end] for row in rows]


@pytest.mark.parametrize("name", CASES)
def test_a_text_is_scored_as_transformers_scores_it(name: str, tmp_path: Path) -> None:
    folder, text = checkpoint(tmp_path / "mine", name), written(tmp_path)
    record = import_run(str(folder), tmp_path / "run")
    run, front = load_run(tmp_path / "run"), CASES[name][2]
    assert run.config.roles.text_prefix == front and record.begins == tuple(run.tokenizer.labels(front))
    rows = their_rows(folder, run.config.roles.eos)
    assert all(tuple(row[: len(front)]) == front for row in rows)

    found = scores(run, text, EvaluationSettings())
    nats, tokens = their_nats(folder, rows)
    assert (found.windows, found.text_start, found.tokens) == ("documents", record.begins, tokens)
    assert found.perplexity == pytest.approx(math.exp(nats / tokens), rel=1e-5)
    heads = [] if front else [run.tokenizer.decode(row[:1]) for row in rows]
    assert found.unscored == len(heads)
    size = len("".join(DOCUMENTS)) - len("".join(heads))
    assert found.bits_per_byte == pytest.approx(nats / math.log(2) / size, rel=1e-5)

    # In a row: what begins a document is no news, and one token stands between two where it also ends one.
    stream = scores(run, text, EvaluationSettings(windows="stream", context=40))
    row = list(rows[0])
    for one in rows[1:]:
        row += one[1:] if front == (run.config.roles.eos,) else one
    windows = [row[begin : begin + 41] for begin in range(0, len(row) - 1, 40)]
    nats, tokens = their_nats(folder, windows, frozenset(front) - {run.config.roles.eos})
    assert (stream.windows, stream.tokens, stream.context) == ("stream", tokens, 40)
    assert stream.perplexity == pytest.approx(math.exp(nats / tokens), rel=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_an_export_frames_texts_as_what_came_in(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")
    folder = checkpoint(tmp_path / "mine", name)
    import_run(str(folder), tmp_path / "run")
    export_run(load_run(tmp_path / "run"), tmp_path / "out")
    ours, theirs = (transformers.AutoTokenizer.from_pretrained(one) for one in (tmp_path / "out", folder))
    assert ours(DOCUMENTS)["input_ids"] == theirs(DOCUMENTS)["input_ids"]


def test_a_list_of_end_tokens_comes_in_and_goes_out_whole(tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path / "mine", "llama", eos_token_id=[2, 1])
    edit_json(folder / "generation_config.json", eos_token_id=[2, 0, 7])  # 7 is a byte, and no end of anything
    record = import_run(str(folder), tmp_path / "run")
    run = load_run(tmp_path / "run")
    assert run.config.roles.ends == {0, 1, 2} and record.ends == ("</s>", "<s>", "<unk>")
    export_run(run, tmp_path / "out")
    for file in ("config.json", "generation_config.json"):
        assert json.loads((tmp_path / "out" / file).read_text())["eos_token_id"] == [2, 1, 0]
    again = import_run(str(tmp_path / "out"), tmp_path / "again")
    assert again.ends == record.ends


def test_what_begins_a_text_can_be_said(tmp_path: Path) -> None:
    folder, text = checkpoint(tmp_path / "mine", "gpt2"), written(tmp_path)
    for bos, begins in (("<|endoftext|>", ["<|endoftext|>"]), ("none", [])):
        out = tmp_path / bos.strip("<|>")
        shown = tfcli("import", str(folder), "--bos", bos, "--out", str(out), "--json")
        assert json.loads(shown.stdout)["begins"] == begins
        run = load_run(out)
        assert run.recipe.origin.bos == bos
        rows = [[*([0] if begins else []), *run.tokenizer.encode(one), 0] for one in DOCUMENTS]
        nats, tokens = their_nats(folder, rows)
        shown = tfcli("evaluate", str(out), str(text))
        assert f"{math.exp(nats / tokens):.3f}"[:5] in shown.stdout and f"{tokens} tokens scored" in shown.stdout
        says = (
            "each begun with <|endoftext|>" if begins else f"nothing before a text; {len(rows)} first tokens not scored"
        )
        assert says in shown.stdout
        export_run(run, tmp_path / f"{out.name}-out")
        assert import_run(str(tmp_path / f"{out.name}-out"), tmp_path / f"{out.name}-again").begins == tuple(begins)
    for bos in ("<nope>", "", "a"):
        shown = tfcli("import", str(folder), "--bos", bos, "--out", str(tmp_path / "no"))
        assert shown.exit_code == 2 and f"--bos {bos!r} is no special token of the checkpoint" in shown.stderr
    assert not (tmp_path / "no").exists()
    bert = save_checkpoint(tmp_path / "bert", "bert")
    shown = tfcli("import", str(bert), "--bos", "none", "--out", str(tmp_path / "bert-run"))
    assert shown.exit_code == 0 and "nothing  a text " in shown.stdout and "empty prompt" not in shown.stdout


def test_an_empty_prompt_begins_where_another_text_ends(tmp_path: Path) -> None:
    """GPT-2's way; and what tfcli puts there itself is no token that a text holds, to be kept from repeating."""
    transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")
    folder = checkpoint(tmp_path / "mine", "gpt2")
    import_run(str(folder), tmp_path / "run")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        scores = model(torch.tensor([[0]])).logits[0, -1, :300].double().log_softmax(-1)
    for penalty in ("1.0", "1e6"):
        shown = tfcli(
            *("generate", str(tmp_path / "run"), "", "--json", "--temperature", "0", "--max-new-tokens", "1"),
            *("--repetition-penalty", penalty),
        )
        [token] = json.loads(shown.stdout)["token_ids"]
        assert token == int(scores.argmax())


def test_a_run_imported_by_the_old_rule_keeps_its_frame_and_says_so(tmp_path: Path) -> None:
    folder, text = checkpoint(tmp_path / "mine", "llama, nothing"), written(tmp_path)
    import_run(str(folder), tmp_path / "run")
    config = tmp_path / "run/config.json"
    new = tfcli("evaluate", str(tmp_path / "run"), str(text), "--json")
    assert "old rule" not in new.stderr
    values = json.loads(config.read_text())
    del values["roles"]["text_start"], values["roles"]["more_ends"]
    # As it was written then: its fingerprint did not tell what stands before a text.
    values |= {"format_version": 2, "tokenizer_fingerprint": "to be found"}
    config.write_text(json.dumps(values))
    found = tfcli("evaluate", str(tmp_path / "run"), str(text)).stderr.split("fingerprint ")[1].split(",")[0]
    config.write_text(json.dumps(values | {"tokenizer_fingerprint": found}))
    old = tfcli("evaluate", str(tmp_path / "run"), str(text), "--json")
    assert json.loads(old.stdout)["text_start"] == ["<s>"]
    assert json.loads(old.stdout)["tokens"] == json.loads(new.stdout)["tokens"] + len(DOCUMENTS)
    [said] = [line for line in old.stderr.splitlines() if "old rule" in line]
    assert said.endswith(f"to import it again: tfcli import {folder} --out NEW")


def test_windows_and_context_are_for_texts(tmp_path: Path) -> None:
    for family, arguments, problem in (
        ("gpt2", ("--context", "41"), "--context 41 is longer than the 40 tokens"),
        ("gpt2", ("--context", "8", "--stride", "9"), "--stride 9 is longer than the context of 8 tokens"),
        ("bart", ("--windows", "stream"), "--windows is for a decoder or an encoder"),
    ):
        out = tmp_path / family
        if not out.exists():
            import_run(str(save_checkpoint(tmp_path / f"{family}-folder", family)), out)
        shown = tfcli("evaluate", str(out), str(written(tmp_path)), *arguments)
        assert shown.exit_code == 2 and problem in shown.stderr
