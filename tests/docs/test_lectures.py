"""The map of the lectures: every idea has a command that prints what is kept of it; every slip is named.

What a command prints without a run is compared by bytes, but for times. Of a run, two trainings of a recipe give other
weights, so that numbers, shades and what `_LEARNED` names are masked, and the other words compared: `pytest -m slow`
trains the runs, or takes them from the folder that TFCLI_LECTURE_RUNS names.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.cli.commands import PLAIN, tfcli
from tests.docs.lectures import IDEAS, OUTPUTS, output, printed, shown
from tfcli.inspection.explain import NotationName
from tfcli.inspection.explain.attention import explain_attention, explain_scores
from tfcli.inspection.explain.layer import explain_layer
from tfcli.inspection.explain.own import square_scores
from tfcli.inspection.explain.positions import explain_positions, toy_embeddings
from tfcli.inspection.explain.subject import toy
from tfcli.lectures import Idea, lectures
from tfcli.recipe.shipped import shipped_recipes

# Bishop, UDL, CS224n, INF721, the encoder notes.
IDS = [
    *("B1", "B2", "B3", "B4", "B4a", "B4b", "B5", "B6", "B7", "B8", "B9", "B10"),
    *("U1", "U2", "U3", "U4", "U5", "U6", "U6a", "U7", "U8"),
    *("C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8"),
    *("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9"),
    *("E1", "E2", "E3", "E4", "E5"),
]
NOTATIONS: tuple[NotationName, ...] = ("bishop", "udl", "cs224n", "inf721", "encoder")

# What hangs on the machine: times and speeds, and, behind them, bars and the sentence about them; what is trained.
_MEASURED = {
    "B6": r"(?s)(?<=FLOPs over )[\d.]+ [GT]FLOP/s|(?<=  predicted  measured  ratio\n).*",
    # Of more digits, a column is wider: the blanks before it belong to what was measured.
    "I8": r"(?s) +95 % +ms\n.*(?=\n\$ tfcli explain)",
    "C1": r" +[\d.]+ [µm]?s +█.*|(?<=and )[\d.]+ ×\s+the\s+time",
}
# What hangs on the weights of a run beside its numbers: the examples, the strongest pair, the texts that it makes.
_STRONGEST = r"(?m)(?<=^see ).* → \S+"
_LEARNED = {
    "B10": r"(?s)(?<=Where it looks\n).*(?=weight of a word)",
    **dict.fromkeys(("C7", "C8", "I1", "E5"), _STRONGEST),
    "I2": r"(?m)^ +\d.*\n",
    "I6": r"(?m)^(?:the text  .*|  .* %.*|▸.*| +\d.*|Tom swam .*|.* joins the text)$",
}
_EXACT = {"B4"}  # whose numbers hang on no weights
_SLOW = {"B3", "B6", "C4", "I8"}  # above three seconds


def test_every_idea_is_in_the_map_and_no_output_is_left_over() -> None:
    assert [idea.id for idea in IDEAS] == IDS
    assert {path.name for path in OUTPUTS.iterdir()} == {f"{name}.txt" for name in IDS}


@pytest.mark.parametrize("idea", IDEAS, ids=lambda idea: idea.id)
def test_an_idea_leads_to_what_its_commands_printed_and_to_its_run(idea: Idea) -> None:
    lines = output(idea).read_text(encoding="utf-8").splitlines()
    assert [line[2:] for line in lines if line.startswith("$ ")] == list(idea.commands)
    assert len(lines) > 5
    is_recipe = "recipes show" in idea.commands[0]  # a file, as it stands
    assert is_recipe or max(len(line) for line in lines if line[:2] != "$ ") <= 80
    looked_into = {run for command in idea.commands for run in re.findall(r"runs/(\w+)", command)}
    assert looked_into == ({idea.run} if idea.run else set())
    assert 20 < len(idea.see) < 200 and idea.see[-1] not in ".;," and not idea.commands[0].endswith("--help")


@pytest.mark.parametrize("name", lectures().runs)
def test_a_run_is_made_by_a_shipped_recipe_and_some_idea_looks_into_it(name: str) -> None:
    words = shlex.split(lectures().runs[name]["command"])
    assert words[:2] == ["tfcli", "run"] and words[2] in shipped_recipes() and words[-1] == f"runs/{name}"
    assert any(idea.run == name for idea in IDEAS)


def named_slips() -> Iterator[str]:
    """Every sentence by which an explanation says what a lecture prints otherwise."""
    for name in NOTATIONS:
        yield from explain_attention(toy(), name).slips
        yield from explain_layer(toy(), name).slips
        yield from explain_positions(toy_embeddings("a b", 5), name).explanation.slips
    scores, tokens, printed = square_scores(None, None)
    yield from explain_scores(scores, 3, tokens, "inf721", printed).slips


def test_every_slip_that_an_explanation_names_is_in_the_map() -> None:
    phrases = [slip["phrase"] for lecture in lectures().lectures for slip in lecture.slips if "phrase" in slip]
    said = {sentence for sentence in named_slips() if "Which letter" not in sentence}  # which is no slip
    assert [sentence for sentence in said if not any(phrase in sentence for phrase in phrases)] == []
    assert [phrase for phrase in phrases if not any(phrase in sentence for sentence in said)] == []


@pytest.mark.parametrize(
    "idea",
    [pytest.param(idea, id=idea.id, marks=[pytest.mark.slow] * (idea.id in _SLOW)) for idea in IDEAS if not idea.run],
)
def test_what_is_kept_is_what_the_commands_print(idea: Idea) -> None:
    parts = []
    for command in idea.commands:
        result = tfcli(*shlex.split(command)[1:])
        assert result.exit_code == 0, result.stderr
        parts.append(shown(command, result.stdout))
    measured = _MEASURED.get(idea.id, "(?!)")
    ours, kept = (re.sub(measured, "…", text) for text in ("\n".join(parts), output(idea).read_text("utf-8")))
    assert ours == kept, "python -m tests.docs.lectures writes it again"


# Quick ideas of explanations, tables, curves and maps.
_NARROW = ("B1", "B2", "B8", "B9", "U1", "U2", "U3", "U6", "C2", "I4", "I5", "I7", "E2", "E3")


@pytest.mark.parametrize("idea", [idea for idea in IDEAS if idea.id in _NARROW], ids=lambda idea: idea.id)
def test_no_line_is_wider_than_a_narrow_terminal(idea: Idea, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLAIN, "COLUMNS", "60")
    for command in idea.commands:
        result = tfcli(*shlex.split(command)[1:])
        assert result.exit_code == 0, result.stderr
        assert max(map(cell_len, result.stdout.splitlines())) <= 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the three runs: trained here, in a quarter of an hour, or where TFCLI_LECTURE_RUNS says."""
    if place := os.environ.get("TFCLI_LECTURE_RUNS"):
        return Path(place)
    made = tmp_path_factory.mktemp("lectures")
    for run in lectures().runs.values():
        words = [sys.executable, "-m", "tfcli", *shlex.split(run["command"])[1:], "--threads", "1"]
        subprocess.run(words, cwd=made, check=True, capture_output=True)
    return made


_MASKED = re.compile(r"(?<![\w.])[-−<>]?(?:\d[\d,]*)?\.?\d+(?:e[-+]\d+)?|[█▓▒░▏▎▍▌▋▊▉]+")


def words(idea: Idea, text: str) -> list[str]:
    """What an output says whatever the weights are: its words, however the lines are broken."""
    text = re.sub(_LEARNED.get(idea.id, "(?!)"), " ", text)
    return (text if idea.id in _EXACT else _MASKED.sub(" ", text)).split()


def test_words_are_what_is_no_number_of_a_run() -> None:
    idea = next(idea for idea in IDEAS if idea.id == "C7")
    assert (
        words(idea, "head 1  -.50 1e-06 ██▌ L0\nsee a (1) → b")
        == words(idea, "head 0\n.4 2 L0 see\n")
        == ["head", "L0", "see"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("idea", [idea for idea in IDEAS if idea.run], ids=lambda idea: idea.id)
def test_what_is_kept_of_a_run_is_what_its_commands_print(idea: Idea, folder: Path) -> None:
    assert words(idea, printed(idea, folder)) == words(idea, output(idea).read_text(encoding="utf-8"))
