"""What was proved, as a table: at 80 and 140 columns, with and without colour and UTF-8."""

import io
from typing import Any

import pytest
from rich.console import Console

from tests.support.consoles import printed
from tfcli.draw.tables import to_json
from tfcli.verification import Check, Verification
from tfcli.verification.view import CheckRow, VerificationHeader, VerificationSummary

CLOSE = Check("fused attention", "The kernel is softmax(QKᵀ/√Dh)V.", "passed", 3.1e-15, 1e-9, "of the largest number")
EXACT = Check("tokenizer round trip", "Text comes back as it was.", "passed", 0, 0, "texts")
FAR = Check("future values", "No prediction sees what follows.", "failed", 2.34e-4, 1e-9, "", "at position 7")
SOME = Check("special tokens apart", "No spelling is a special token.", "failed", 3, 0, "texts", "the first is '</s>'")
BROKEN = Check("saved and loaded", "What is saved is loaded.", "failed", reason="model.safetensors is \x1b[31mred")
OFF = Check(
    "exported = original", "Under transformers it is the same.", "skipped", reason="transformers is not installed"
)
ALL = (CLOSE, EXACT, FAR, SOME, BROKEN, OFF)


def rows(width: int = 80, **options: Any) -> list[str]:
    return "\n".join(printed(CheckRow(check), width, **options) for check in ALL).splitlines()


def test_a_figure_stands_beside_its_limit_and_a_count_by_itself():
    def first(check: Check) -> str:
        return printed(CheckRow(check)).splitlines()[0]

    assert first(CLOSE).split() == ["✓", "fused", "attention", "3.1e-15", "≤", "1e-09"]
    assert first(FAR).split() == ["✗", "future", "values", "0.00023", ">", "1e-09"]
    assert first(EXACT).endswith("0 texts") and first(SOME).endswith("3 texts > 0")
    assert first(BROKEN).split() == ["✗", "saved", "and", "loaded"] and first(OFF).startswith("–")


@pytest.mark.parametrize("width", [80, 140])
def test_names_claims_and_reasons_are_all_there(width: int):
    lines = rows(width)
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    for check in ALL:
        assert check.name in text and check.claim in text
        assert check.reason.replace("\x1b", "\\x1b") in text
    assert "\x1b" not in text, "what a file says may not steer the terminal"
    beside = [line for line in lines if OFF.name in line and OFF.claim in line]
    assert bool(beside) == (width == 140)


def test_without_utf_8_every_sign_is_spelled():
    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    console = Console(width=80, file=output, color_system=None, legacy_windows=False, _environ={})
    verification = Verification("runs/a", "decoder", "its own validation text", ALL)
    for part in (
        VerificationHeader("runs/a", "decoder", "text"),
        *map(CheckRow, ALL),
        VerificationSummary(verification, 2),
    ):
        console.print(part)
    output.seek(0)
    text = output.read()
    assert text.isascii() and "?" not in text
    assert "ok  fused attention" in text and "<= 1e-09" in text and "softmax(QK^T/sqrt Dh)V" in text
    assert "NO  future values" in text and "--  exported" in text and "ok 2 proved" in text


def test_the_summary_counts_every_kind_there_is():
    verification = Verification("runs/a", "decoder", "text", ALL)
    assert (
        printed(VerificationSummary(verification, 8.2)).splitlines()[1]
        == "✓ 2 proved   ✗ 3 failed   – 1 skipped   in 8.2 s"
    )
    sound = Verification("runs/a", "decoder", "text", (EXACT,))
    assert printed(VerificationSummary(sound, 0.5)).splitlines()[1] == "✓ 1 proved   in 500 ms"


def test_a_mark_has_its_colour():
    assert "\x1b[1;32m✓" in printed(CheckRow(EXACT), color="truecolor")
    assert "\x1b[1;31m✗" in printed(CheckRow(FAR), color="truecolor")


def test_json_has_the_keys_of_the_contract():
    value = to_json(Verification("runs/a", "decoder", "text", ALL))
    assert value["passed"] is False and value["run"] == "runs/a"
    assert {"name", "status", "measured", "limit", "reason"} <= value["checks"][0].keys()
    assert [check["status"] for check in value["checks"]] == [
        "passed",
        "passed",
        "failed",
        "failed",
        "failed",
        "skipped",
    ]
    assert value["checks"][5]["measured"] is None
    assert (
        to_json(Verification("a", "decoder", "", (Check("a", "b", "failed", float("nan"), 0),)))["checks"][0][
            "measured"
        ]
        is None
    )
