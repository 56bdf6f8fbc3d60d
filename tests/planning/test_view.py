"""Tables of what would be trained, at 80 columns."""

from dataclasses import replace

from tests.support.consoles import printed
from tfcli.inspection.model import ParameterGroup
from tfcli.interop import Exportable
from tfcli.planning import Candidate, Measured, MemoryRecord, Plan, TrainingOutline
from tfcli.planning.view import OutlineView, PlanView

MEMORY = MemoryRecord(300 * 10**6, 10**6, 0, 10**6, 2 * 10**6, 96 * 10**6, 10**5, 0, 400 * 10**6)
GROUPS = (
    ParameterGroup("attention", 2, tuple((f"{name}.weight", (64, 64)) for name in ("query", "key", "value")), 24_576),
    ParameterGroup("norms", 2, (("attention norm.weight", (64,)), ("feed-forward norm.weight", (64,))), 256),
)
LLAMA = Exportable("Llama", ("transformers", "CTranslate2"), None)
OUTLINE = TrainingOutline(
    *("decoder", GROUPS, 24_832, 2048, True, 32, 128, 1000, 4_096_000, 10**9, 244_141),
    *("cpu", "float32", "fused", "off", 2, MEMORY, 32, None, True, LLAMA),
)
TINY = Candidate("tiny", 232_000, 128, 4096, 5e-3, 900, 9, 3_686_400, 2e4, 2.5, 5e6, 190.0, 5 * 10**8, True, True)
MINI = replace(TINY, size="mini", chosen=False, worth=10.0, parameters=10**6)
LARGE = Candidate("base", 10**9, 1024, 1, 6e-4, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0, fits=False)
PLAN = Plan(
    *(3.0, "decoder", LLAMA, ("a.txt",), 2, 347_000, 38_000, 2048, None, "cpu", "float32", 2),
    *((TINY, MINI, LARGE), "tfcli train --size tiny", 1.0, 9.0),
)


def test_an_outline_fits_eighty_columns_and_names_equal_shapes_together():
    text = printed(OutlineView(OUTLINE))
    assert "query, key, value 64×64" in text
    assert "99.0 %" in text and "24,832" in text
    assert "2,048 ids at most" in text
    assert "as many tokens as 32 documents of mean length" in " ".join(text.split())
    assert "4,096 tokens, padding included" in printed(OutlineView(replace(OUTLINE, batch_tokens=4096)))
    assert "a micro-batch  32 sequences" in printed(OutlineView(replace(OUTLINE, equal_tokens=False)))
    assert "bfloat16" not in text, "there are no copies"
    assert max(map(len, text.splitlines())) <= 80


def test_the_chosen_candidate_is_marked_and_too_large_ones_say_so():
    lines = printed(PlanView(PLAN)).splitlines()
    (chosen,) = [line for line in lines if "▸" in line]
    assert "tiny" in chosen and "4,096" in chosen and "3 min 10 s" in chosen and "500 MB" in chosen
    assert any("base" in line and "too much" in line for line in lines)
    assert max(map(len, lines)) <= 80
    assert "the largest that gets 20 tokens" in " ".join(lines)


def test_pairs_are_called_pairs():
    way = "model.positions = 'rotary' is not in t5, mt5"
    pairs = replace(PLAN, architecture="encoder-decoder", exportable=Exportable(None, (), way))
    worse = replace(TINY, worth=10.0)
    text = printed(PlanView(replace(pairs, candidates=(worse,))))
    assert "a.txt: 2 pairs, 347 k tokens to train on" in text and "document" not in text
    assert "too little time or too few pairs for 20 tokens a parameter" in " ".join(text.split())
    assert f"exports as nothing: {way}" in " ".join(text.split())
    assert "2 documents" in printed(PlanView(PLAN))
    assert "exports as Llama (transformers, CTranslate2)" in printed(PlanView(PLAN))


def test_a_checked_plan_says_how_far_it_was_off():
    text = printed(PlanView(replace(PLAN, measured=Measured(200.0, 4 * 10**8))))
    assert "-5.0%" in text and "+25.0%" in text
