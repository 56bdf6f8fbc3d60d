"""Which size is proposed, and how many steps, from measurements that are made up."""

from pathlib import Path

import pytest

from tfcli.models.presets import SIZES
from tfcli.planning import Candidate, plan
from tfcli.planning.plan import candidates, choose, least_minutes, settings_of, worth
from tfcli.recipe.loading import build_recipe
from tfcli.training import memory

HERE = Path()
VOCABULARY = {"model": {"vocab_size": 100}, "train": {"device": "cpu"}}


def compose(*settings):
    return build_recipe(*settings, VOCABULARY)


def probed(patch: pytest.MonkeyPatch, **values: float) -> None:
    """Every size takes a second a step of 4,096 tokens, 2 to start, 1.5 to evaluate and 0.5 to save."""
    answer = {
        "parameters": 1000,
        "start_seconds": 2.0,
        "step_seconds": 1.0,
        "tokens_per_step": 4096.0,
        "evaluation_seconds": 1.5,
        "save_seconds": 0.5,
        "ending_seconds": 0.0,
        "steps_per_epoch": 1e9,
        "memory": 10**8,
    }
    patch.setattr(plan, "measure_steps", lambda *arguments: {**answer, **values})


def found(minutes: float, sizes: tuple[str, ...] = ("tiny",)) -> list[Candidate]:
    return list(candidates(compose, HERE, minutes, sizes, ()))


def test_steps_fill_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch):
    """0.95 · 600 s less 2 to start are 568; ten evaluations and checkpoints of 2 s leave 548 steps. In all 570 s."""
    probed(monkeypatch)
    (candidate,) = found(10)
    assert (candidate.steps, candidate.evaluations, candidate.seconds) == (548, 10, 570)
    assert candidate.tokens == 548 * 4096
    assert settings_of(candidate)["train"]["evaluate_every"] == 55, "548 / 10 upwards: not an eleventh at the end"


def test_scoring_the_whole_part_at_the_end_is_planned_for(monkeypatch: pytest.MonkeyPatch):
    """30 s of it leave 518 steps of the 548."""
    probed(monkeypatch, ending_seconds=30.0)
    (candidate,) = found(10)
    assert (candidate.steps, candidate.seconds) == (518, 570)


def test_evaluations_take_a_tenth_at_most(monkeypatch: pytest.MonkeyPatch):
    """Of 568 s, three of 10.5 s and no more than 56.8 s in all: five, and 568 − 5 · 11 = 513 steps."""
    probed(monkeypatch, evaluation_seconds=10.5)
    (candidate,) = found(10)
    assert (candidate.evaluations, candidate.steps) == (5, 513)


def test_a_small_text_ends_training_after_sixteen_epochs(monkeypatch: pytest.MonkeyPatch):
    probed(monkeypatch, steps_per_epoch=10.0)
    (candidate,) = found(10)
    assert (candidate.steps, candidate.epochs) == (160, 16)


def test_repeated_text_is_worth_less_each_time():
    """Muennighoff et al., equation 5: one epoch counts whole, the second 15.4 (1 − e^(−1/15.4)) = 0.968 of it; never
    more than 16.4."""
    assert worth(1000, 1000) == 1000
    assert worth(2000, 1000) == pytest.approx(1968, abs=0.5)
    assert 16_300 < worth(10**6, 1000) <= 16_400


def sized(size: str, parameters: int, tokens: int, steps: int = 100) -> Candidate:
    return Candidate(size, parameters, 128, 4096, 1e-3, steps, 1, tokens, 1e3, 1.0, tokens, 60.0, 10**8, fits=True)


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ([sized("tiny", 100, 4000), sized("mini", 200, 4000), sized("small", 300, 4000)], "mini"),
        ([sized("tiny", 100, 1999), sized("mini", 200, 1000)], "tiny"),
        ([sized("tiny", 100, 4000), sized("mini", 200, 4000, steps=19)], "tiny"),
        ([sized("tiny", 100, 4000, steps=19)], None),
    ],
    ids=["twenty tokens each", "too little text for any", "too few steps", "nothing"],
)
def test_the_largest_that_reads_twenty_tokens_a_parameter(given: list[Candidate], chosen: str | None):
    assert [c.size for c in choose(given) if c.chosen] == ([] if chosen is None else [chosen])


def test_no_size_is_tried_after_the_first_that_reads_too_little(monkeypatch: pytest.MonkeyPatch):
    probed(monkeypatch, parameters=10**9)
    assert [c.size for c in found(10, tuple(SIZES))] == ["tiny", "mini"]


def test_a_batch_shrinks_until_it_fits_and_what_never_does_is_told(monkeypatch: pytest.MonkeyPatch):
    probed(monkeypatch)
    whole = found(10, ("mini",))[0]
    assert whole.batch_tokens == 4096
    room = memory.process_memory() + 60_000_000
    monkeypatch.setattr(plan, "memory_of", lambda device: room / plan.SHARE_OF_MEMORY)
    assert found(10, ("mini",))[0].batch_tokens < whole.batch_tokens
    monkeypatch.setattr(plan, "memory_of", lambda device: 1000)
    assert [(c.fits, c.steps) for c in found(10, ("mini",))] == [(False, 0)]


def test_the_least_time_is_that_of_twenty_steps(monkeypatch: pytest.MonkeyPatch):
    """2 s to start, 20 steps of a second and one evaluation of 2 s: 24 s, which are 0.95 of 25.3 s."""
    probed(monkeypatch)
    (candidate,) = found(0.1)
    assert candidate.steps < plan.FEWEST_STEPS
    assert least_minutes(candidate) * 60 == pytest.approx(25.3, abs=0.1)
