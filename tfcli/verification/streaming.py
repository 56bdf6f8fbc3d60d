"""Streaming check: text that is printed as it comes against the whole."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tfcli.generation.generate import generate, stream
from tfcli.recipe.generate import GenerateSection
from tfcli.records.generation import Filled, Generated
from tfcli.verification.cached import require_generation
from tfcli.verification.check import Finding, at_most, proof
from tfcli.verification.subject import VerifiedRun

_PROMPTS = 2
_NEW_TOKENS = 16


@proof("streaming", "The pieces of a text that is printed as it comes join to what all its tokens decode to at once.")
def streaming(subject: VerifiedRun) -> Iterator[Finding]:
    """Greedy and drawn, through the run itself; so is the text that is made in one go."""
    require_generation(subject)
    run = subject.run
    new = max(1, min(_NEW_TOKENS, subject.single_steps))
    for temperature in (0.0, 1.0):
        settings = replace(GenerateSection(), temperature=temperature, max_new_tokens=new)
        for prompt in _prompts(subject):
            *pieces, streamed = stream(run, prompt, settings, sample=True)
            made = generate(run, prompt, settings, sample=True)
            assert isinstance(streamed, Generated) and not isinstance(made, Filled)
            printed = "".join(piece for piece in pieces if isinstance(piece, str))
            for text, ids in ((printed, streamed.token_ids), (made[0].text, made[0].token_ids)):
                whole = _decoded(subject, prompt, ids)
                yield at_most(_apart(text, whole), 0, "characters", f"what follows {prompt!r}")


def _decoded(subject: VerifiedRun, prompt: str, ids: Sequence[int]) -> str:
    """The text of some tokens; where they continue a prompt, behind it."""
    tokenizer = subject.run.tokenizer
    before = tokenizer.encode(prompt) if subject.run.architecture == "decoder" else []
    return tokenizer.decode([*before, *ids])[len(tokenizer.decode(before)) :]


def _prompts(subject: VerifiedRun) -> list[str]:
    """Pieces of text that leave room for more; a translation needs a source that is not empty."""
    texts = subject.texts(_PROMPTS, tokens=max(1, min(8, subject.longest // 4)))
    return [text for text in texts if 0 < len(subject.run.tokenizer.encode(text)) < subject.longest - 2]


def _apart(ours: str, theirs: str) -> int:
    """Characters from the first that differs to the end of the longer text."""
    same = next((place for place, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other), None)
    shorter, longer = sorted((len(ours), len(theirs)))
    return longer - (shorter if same is None else same)
