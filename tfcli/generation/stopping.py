"""Stop strings, a stopping criterion: texts that end a text where they appear, and are left out of it."""

from collections.abc import Callable, Sequence

from tfcli.tokenization.labels import INCOMPLETE
from tfcli.tokenization.tokenizer import Tokenizer

_BEFORE = 4  # tokens that decide on what the first one behind them decodes to: one, or the bytes of a character
_TOKENS_PER_CHARACTER = 4  # at most: one for each of its bytes


class StopTexts:
    """Lets a text through piece by piece up to the first stop text; holds back what may become one.

    The first is the one that ends first, so that it does not matter how the text is cut into pieces.

        >>> text = StopTexts(["END"])
        >>> text.push("to the E"), text.push("N"), text.push("emy EN"), text.push("D."), text.stopped
        ('to the ', '', 'ENemy ', '', True)
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._held = ""
        self.stopped = False

    def push(self, piece: str) -> str:
        """What `piece` lets through."""
        if self.stopped:
            return ""
        self._held += piece
        found = [(place + len(stop), place) for stop in self._stops if (place := self._held.find(stop)) >= 0]
        self.stopped = bool(found)
        longest = min(max(map(len, self._stops), default=1) - 1, len(self._held))
        ends = (self._held[-length:] for length in range(longest, 0, -1))
        beginning = next((len(end) for end in ends if any(stop.startswith(end) for stop in self._stops)), 0)
        return self._release(min(found)[1] if found else len(self._held) - beginning)

    def finish(self) -> str:
        """What is still held back, once no more will come."""
        return "" if self.stopped else self._release(len(self._held))

    def _release(self, length: int) -> str:
        released, self._held = self._held[:length], self._held[length:]
        return released


def stop_finder(
    tokenizer: Tokenizer, stops: Sequence[str], prompts: Sequence[Sequence[int]]
) -> Callable[[Sequence[int]], bool] | None:
    """Tells, by the last tokens alone, whether the newest of a text's new ids has completed a stop text; None where
    there are no stop texts. It may miss one at the very beginning of a text, where the `prompts` that it continues
    decide differently on the space before; `StopTexts` does not."""
    if not stops:
        return None
    window = _TOKENS_PER_CHARACTER * (max(map(len, stops)) + 1)
    starts = {tuple(prompt[-_BEFORE:]) for prompt in prompts}

    def found(before: Sequence[int], ids: Sequence[int]) -> bool:
        text = tokenizer.decode([*before, *ids])[len(tokenizer.decode(before)) :].rstrip(INCOMPLETE)
        return any(stop in text for stop in stops)

    def ends(ids: Sequence[int]) -> bool:
        if len(ids) > window + _BEFORE:
            return found(ids[-window - _BEFORE : -window], ids[-window:])
        return all(found(start, ids) for start in starts)

    return ends
