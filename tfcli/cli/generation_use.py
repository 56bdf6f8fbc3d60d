"""Options of `tfcli generate` that would change nothing, or contradict each other."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tfcli.errors import UsageError

if TYPE_CHECKING:
    from tfcli.recipe.generate import GenerateSection

_DRAWS = ("top_k", "top_p", "min_p", "seed")
_BEAMS = ("length_penalty", "beam_groups", "diversity", "show_beams")
_OF_ENCODERS = ("top_k", "joint", "batch_size")


def require_use(given: Iterable[str], architecture: str, settings: "GenerateSection", *, sample: bool | None) -> None:
    """Refuse options that would change nothing.

    Args:
        given: the names of those that stand on the command line.
        sample: whether a temperature that is given asks for samples; None: none is given.

    Raises:
        UsageError: naming the first of them.
    """
    names = sorted(given)
    if architecture == "encoder":
        for name in names:
            if name not in _OF_ENCODERS:
                raise UsageError(f"An encoder fills masks, and {option(name)} changes nothing", "leave it out")
        return
    for useless, problem, remedy in _useless(architecture, settings, sample):
        for name in names:
            if name in useless:
                raise UsageError(problem.format(option=option(name)), remedy)


def option(name: str) -> str:
    """As it is typed: "--top-k" for "top_k"."""
    return "--" + name.replace("_", "-")


def _useless(
    architecture: str, settings: "GenerateSection", sample: bool | None
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Which options have no effect, why, and what to do instead."""
    beam = settings.beam
    yield ("joint",), "{option} is for the masks of an encoder, and this run is none", "leave it out"
    if architecture == "decoder":
        yield ("prefix",), "{option} is for translations, and this run continues text", "end the prompt with it"
    if beam > 1:
        problem = f"A beam of {beam} draws no samples, and {{option}} is for them"
        yield (*_DRAWS, "trace"), problem, "give one of the two"
        if settings.beam_groups == 1:
            yield ("diversity",), "{option} parts groups of beams, and there is one", "add --beam-groups 2"
        return
    yield _BEAMS, "{option} is for a beam search, and there is none", "add --beam 4"
    if settings.num_samples > 1:
        problem = f"{{option}} shows how one text comes about, and there are {settings.num_samples}"
        yield ("trace",), problem, "leave --num-samples out"
    if architecture == "encoder-decoder" and not sample:
        problem = "An encoder-decoder draws no samples of itself, and {option} is for them"
        yield (*_DRAWS, "num_samples"), problem, "add --temperature 1, or leave it out"
    elif settings.temperature == 0:
        problem = "At temperature 0 nothing is drawn, and {option} is for samples"
        yield (*_DRAWS, "num_samples"), problem, "raise the temperature, or leave it out"
