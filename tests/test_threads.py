"""One CPU thread or all: the choice follows the time that layers take, on a clock that a test moves."""

from collections.abc import Callable

import pytest

from tfcli.threads import PROBES, SAMPLES, TIMES_APART, WINDOW_LAYERS, ThreadChooser

Seconds = Callable[[int], float]


class Machine:
    """A model whose layers take the seconds that a test says for each number of threads."""

    def __init__(self, most: int = 2) -> None:
        self.now = 0.0
        self.threads = most
        self.used: list[int] = []
        self.probe_seconds = 0.0
        self.probes = 0
        self.chooser = ThreadChooser(most, self.set_threads, self.probe, lambda: self.now)

    def probe(self) -> None:
        assert self.threads > 1
        self.probes += 1
        self.now += self.probe_seconds

    def set_threads(self, number: int) -> None:
        self.threads = number

    def compute(self, layers: int, seconds: Seconds, *, stack: int = 0, tokens: int = 1) -> float:
        """Compute so many layers, and return how long it took."""
        began = self.now
        for _ in range(layers):
            self.chooser.before_layer(stack, tokens)
            self.used.append(self.threads)
            self.now += seconds(self.threads)
            self.chooser.after_layer()
        return self.now - began


def free(threads: int) -> float:
    """All threads together take 0.6 of the time of one."""
    return 0.001 if threads == 1 else 0.0006


def small(threads: int) -> float:
    """Threads that wait for each other take longer than one alone."""
    return 0.0001 if threads == 1 else 0.00012


def busy(threads: int) -> float:
    """Next to a busy process, ten parallel parts of a layer wait 8 ms each."""
    return 0.001 if threads == 1 else 0.080


def slowed(seconds: Seconds, factor: float) -> Seconds:
    return lambda threads: factor * seconds(threads)


def test_it_begins_with_one_thread_and_takes_turns() -> None:
    machine = Machine()
    assert machine.threads == 1
    machine.compute(2 * SAMPLES, free)
    assert machine.used == [1, 2] * SAMPLES


@pytest.mark.parametrize(("seconds", "threads"), [(free, 2), (small, 1), (busy, 1)])
def test_the_faster_number_is_taken(seconds: Seconds, threads: int) -> None:
    machine = Machine()
    machine.compute(2 * SAMPLES, seconds)
    assert machine.chooser.is_decided
    machine.used.clear()
    machine.compute(200, seconds)
    assert set(machine.used) == {threads}
    assert machine.chooser.threads == threads


def test_next_to_a_busy_process_one_layer_is_enough() -> None:
    """With all threads for all of eight layers, choosing would take 0.32 s instead of 0.081."""
    machine = Machine()
    assert machine.compute(8, busy) == pytest.approx(0.080 + 7 * 0.001)
    assert machine.used == [1, 2] + [1] * 6


def test_where_a_short_operation_waits_no_layer_is_tried() -> None:
    """A second stack believes the first one; after a second, it is tried again."""
    machine = Machine()
    machine.probe_seconds = 0.008
    machine.compute(20, free)
    machine.compute(20, free, stack=1)
    assert set(machine.used) == {1}
    assert machine.probes == 1
    machine.now += 1.0
    machine.probe_seconds = 0.0
    machine.compute(20, free, stack=2)
    assert machine.probes == 1 + PROBES
    assert machine.used[-1] == 2


def test_the_first_layers_are_a_warm_up() -> None:
    """The first layer with each number of threads takes far longer, and decides nothing."""
    machine = Machine()
    first = {1: 0.003, 2: 0.0029}

    def seconds(threads: int) -> float:
        return first.pop(threads, free(threads))

    machine.compute(2 * SAMPLES, seconds)
    assert machine.chooser.threads == 2


def test_long_layers_are_measured_less_often() -> None:
    """A layer of a second: four are measured, of which two are a warm-up."""
    machine = Machine()
    machine.compute(5, slowed(free, 1000))
    assert machine.used == [1, 2, 1, 2, 2]


def test_it_measures_again_when_layers_take_three_times_as_long() -> None:
    machine = Machine()
    machine.compute(500, free)
    assert machine.chooser.threads == 2
    machine.used.clear()
    machine.compute(10, busy)
    assert machine.used[:3] == [2, 1, 2], "one slow layer, then a new measurement"
    assert set(machine.used[3:]) == {1}


def test_layers_that_grow_slower_little_by_little_are_not_measured_again() -> None:
    """As in a text that gets longer: each window of layers takes a tenth more, up to 17 times the first."""
    machine = Machine()
    machine.compute(100, free)
    machine.used.clear()
    for window in range(30):
        machine.compute(WINDOW_LAYERS, slowed(free, 1.1**window))
    assert set(machine.used) == {2}


def test_measuring_again_takes_a_small_share_of_the_time() -> None:
    """Layers whose time jumps all the time would be measured all the time."""
    machine = Machine()
    machine.compute(20, busy)
    measuring = 0.0
    computed = 0.0
    for number in range(4000):
        jump = 4.0 if number % 30 < 15 else 1.0
        seconds = machine.compute(1, slowed(busy, jump))
        computed += seconds
        if machine.used[-1] == 2:
            measuring += seconds
    assert measuring <= computed * 4 / TIMES_APART


def test_each_stack_and_size_has_a_choice_of_its_own() -> None:
    machine = Machine()
    machine.compute(20, small, stack=0, tokens=1)
    machine.compute(20, free, stack=0, tokens=1000)
    machine.compute(20, small, stack=1, tokens=1000)
    machine.used.clear()
    machine.compute(1, small, stack=0, tokens=1)
    machine.compute(1, free, stack=0, tokens=1000)
    machine.compute(1, small, stack=1, tokens=1000)
    assert machine.used == [1, 2, 1]


def test_more_work_never_needs_fewer_threads() -> None:
    """So a size between two known ones, or beyond them, is not measured."""
    machine = Machine()
    machine.compute(20, small, tokens=8)
    machine.compute(20, free, tokens=100)
    machine.used.clear()
    machine.compute(1, small, tokens=2)
    machine.compute(1, free, tokens=5000)
    assert machine.used == [1, 2]
    assert machine.chooser.is_decided
