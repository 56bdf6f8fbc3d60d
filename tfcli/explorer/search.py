"""Where a text stands among tokens."""

from itertools import accumulate


def found_tokens(tokens: tuple[str, ...], text: str) -> list[int]:
    """The tokens that `text` begins in, whatever its case; a word of several tokens is found, too.

    >>> found_tokens(("<s>", "to", " the", " river", "bank"), "riverb")
    [3]
    """
    needle = text.casefold()
    if not needle:
        return []
    folded = [token.casefold() for token in tokens]
    starts = [0, *accumulate(map(len, folded))]
    joined = "".join(folded)
    places: list[int] = []
    at = joined.find(needle)
    while at >= 0:
        token = next(index for index in range(len(tokens)) if starts[index] <= at < starts[index + 1])
        if token not in places:
            places.append(token)
        at = joined.find(needle, at + 1)
    return places
