"""CPU threads: one or all, chosen by the time that the layers of a model take.

On a free machine, all threads are faster for large matrices. Next to a busy process, each parallel part of the work
waits for the thread that shares its core, a slice of the scheduler's time (8 ms) where the work takes 0.1 ms. Which of
the two holds is measured on the first layers that a command computes, and again when they become three times slower.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

# Layers measured for each number of threads; the first of each is a warm-up that does not count.
SAMPLES = 4
SAMPLES_OF_LONG_LAYERS = 2
LONG_LAYER_SECONDS = 0.01

# All threads are taken if their time is at most this share of one thread's.
LARGEST_SHARE = 0.9

# One layer decides against all threads if it takes this many times as long as with one, and so many seconds longer.
SLOWER = 3.0
SLICE_SECONDS = 0.004

# Short parallel operations that are tried before a whole layer is; none may take SLICE_SECONDS.
PROBES = 8

# Seconds for which it is known that a probe has failed.
PROBE_HOLDS_SECONDS = 1.0

# The layers that are compared with the usual time together, about as many as a step has.
WINDOW_LAYERS = 12

# A second measurement takes at most one part in so many of the time.
TIMES_APART = 50


@dataclass
class _Size:
    """What is known of layers of one stack that read about as many tokens."""

    threads: int | None = None  # the choice; None while it is measured
    samples: dict[int, list[float]] = field(default_factory=dict)  # seconds, for each number of threads
    usual: float | None = None  # seconds for each token
    window: float = 0.0
    window_layers: int = 0
    measured_at: float = 0.0
    measuring_seconds: float = 0.0


class ThreadChooser:
    """Chooses between one thread and all threads while a model computes.

    Call `before_layer` and `after_layer` around each layer. Layers of a stack do the same work, so neighbouring layers
    are compared: one computes with one thread, the next with all. The choice is made for each stack and each order of
    magnitude of the number of tokens.

    Attributes:
        threads: The number of threads that is used now.
    """

    def __init__(
        self,
        most: int,
        set_threads: Callable[[int], None],
        probe: Callable[[], object],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Begin with one thread.

        Args:
            most: The number of threads that "all" means; at least 2.
            set_threads: Sets the number of threads of this process.
            probe: Computes something short with all threads, such as a sum of two vectors.
            clock: Returns seconds.
        """
        self._most = most
        self._set_threads = set_threads
        self._probe = probe
        self._probe_failed_at: float | None = None
        self._clock = clock
        self._sizes: dict[tuple[int, int], _Size] = {}
        self._current = _Size()
        self._tokens = 1
        self._began = 0.0
        self.threads = 1
        set_threads(1)

    @property
    def is_decided(self) -> bool:
        """Whether the number of threads for the last layer's size is chosen."""
        return self._current.threads is not None

    def before_layer(self, stack: int, tokens: int) -> None:
        """Set the number of threads for a layer of a stack that reads so many tokens, and start the clock."""
        key = stack, tokens.bit_length()
        if key not in self._sizes:
            self._sizes[key] = _Size(threads=self._known_choice(*key))
        self._current = self._sizes[key]
        self._tokens = tokens
        if self._current.threads is None:
            self._use(self._next_to_measure(self._current))
        if self._current.threads is not None:
            self._use(self._current.threads)
        self._began = self._clock()

    def after_layer(self) -> None:
        """Stop the clock."""
        size = self._current
        seconds = self._clock() - self._began
        if size.threads is None:
            size.samples.setdefault(self.threads, []).append(seconds)
            self._decide(size)
            self._use(size.threads or 1)
        else:
            self._compare_with_usual(size, seconds)

    def _use(self, threads: int) -> None:
        if threads != self.threads:
            self._set_threads(threads)
            self.threads = threads

    def _next_to_measure(self, size: _Size) -> int:
        """Take turns; before all threads are tried on a whole layer, try them on something short."""
        with_one = size.samples.get(1, [])
        with_all = size.samples.get(self._most, [])
        if len(with_one) <= len(with_all):
            return 1
        if not with_all and self._other_programs_are_busy():
            self._choose(size, 1, min(with_one))
            return 1
        return self._most

    def _other_programs_are_busy(self) -> bool:
        """Whether a short operation with all threads waits for a slice of the scheduler's time."""
        if self._probe_failed_at is not None and self._clock() - self._probe_failed_at < PROBE_HOLDS_SECONDS:
            return True
        self._use(self._most)
        for _ in range(PROBES):
            began = self._clock()
            self._probe()
            now = self._clock()
            if now - began > SLICE_SECONDS:
                self._probe_failed_at = now
                self._use(1)
                return True
        return False

    def _known_choice(self, stack: int, magnitude: int) -> int | None:
        """What layers with more or fewer tokens have shown: more work never needs fewer threads."""
        for (other_stack, other_magnitude), size in self._sizes.items():
            if other_stack == stack and size.threads is not None:
                if size.threads == 1 and other_magnitude > magnitude:
                    return 1
                if size.threads > 1 and other_magnitude < magnitude:
                    return size.threads
        return None

    def _decide(self, size: _Size) -> None:
        """Choose once enough layers are measured, or at once if all threads are far slower."""
        with_one = size.samples.get(1, [])
        with_all = size.samples.get(self._most, [])
        if not with_all:
            return
        least = min(with_one)
        if with_all[-1] > max(SLOWER * least, least + SLICE_SECONDS):
            self._choose(size, 1, least)
            return
        needed = SAMPLES_OF_LONG_LAYERS if least > LONG_LAYER_SECONDS else SAMPLES
        if len(with_all) < needed:
            return
        one = sum(with_one[1:]) / len(with_one[1:])
        all_threads = sum(with_all[1:]) / len(with_all[1:])
        if all_threads <= LARGEST_SHARE * one:
            self._choose(size, self._most, all_threads)
        else:
            self._choose(size, 1, one)

    def _choose(self, size: _Size, threads: int, seconds: float) -> None:
        other = 1 if threads > 1 else self._most
        size.measuring_seconds = sum(size.samples.get(other, []))
        size.measured_at = self._clock()
        size.threads = threads
        size.samples = {}
        size.usual = seconds / self._tokens
        size.window = 0.0
        size.window_layers = 0

    def _compare_with_usual(self, size: _Size, seconds: float) -> None:
        """Measure again if the layers of a window take three times as long as before."""
        size.window += seconds / self._tokens
        size.window_layers += 1
        is_slow = size.usual is not None and size.window > SLOWER * WINDOW_LAYERS * size.usual
        if is_slow:
            passed = self._clock() - size.measured_at
            if passed >= TIMES_APART * size.measuring_seconds:
                size.threads = None
        elif size.window_layers == WINDOW_LAYERS:
            # A text that grows makes layers slower little by little.
            mean = size.window / WINDOW_LAYERS
            size.usual = mean if size.usual is None else 0.8 * size.usual + 0.2 * mean
        if is_slow or size.window_layers == WINDOW_LAYERS:
            size.window = 0.0
            size.window_layers = 0


_chooser: ThreadChooser | None = None
_fixed: int | None = None


def forget_threads() -> None:
    """Forget what the last command chose: a process may run several."""
    global _chooser, _fixed
    _chooser = None
    _fixed = None


def keep_threads(number: int) -> None:
    """Note that this command computes with a fixed number of threads."""
    global _fixed
    _fixed = number


def begin_choosing(most: int, set_threads: Callable[[int], None], probe: Callable[[], object]) -> None:
    """Let the models that this command loads choose between one thread and so many, as `ThreadChooser` does."""
    global _chooser
    _chooser = ThreadChooser(most, set_threads, probe)


def thread_chooser() -> ThreadChooser | None:
    """Return what chooses in this command; None if the number of threads is fixed."""
    return _chooser


def threads_in_use() -> int | None:
    """Return the number of threads that this command computes with; None if it computes nothing."""
    return _fixed if _chooser is None else _chooser.threads
