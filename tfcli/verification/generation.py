"""Generation checks: greedy, beam search and sampling find the same texts by every way that has to lead to them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from operator import eq

import torch

from tfcli.generation.beam_search import continuations, prompt_beams
from tfcli.generation.decoding import Continuation
from tfcli.generation.generate import generate, stream
from tfcli.models.transformer import Decoder
from tfcli.recipe.recipe import GenerateSection
from tfcli.records.generation import Generated
from tfcli.verification.cache import require_generation
from tfcli.verification.check import Finding, Skipped, VerifiedRun, at_most, proof, ragged

_NEW_TOKENS, _BEAM, _SAMPLES, _PROMPTS = 16, 3, 2, 2


@proof("beam of one")
@torch.inference_mode()
def beam_of_one(subject: VerifiedRun) -> Iterator[Finding]:
    """Beam search with one beam finds the text of greedy decoding, with the same score."""
    same = require_generation(subject), _prompts(subject), subject.roles, _settings(subject, temperature=0.0, beam=1)
    greedy, found = continuations(*same), prompt_beams(*same)
    for number, ([ours], [theirs]) in enumerate(zip(found, greedy, strict=True), start=1):
        yield at_most(ours.token_ids != theirs.token_ids, 0, "texts", f"prompt {number} is continued otherwise")
        yield subject.alike(_number(ours.score), _number(theirs.score), f"the score of prompt {number}")


@proof("scores")
@torch.inference_mode()
def scores(subject: VerifiedRun) -> Iterator[Finding]:
    """The score of a text, drawn or found by beams, is the sum of ln p of its tokens when it is read at once."""
    prompts = _prompts(subject)
    for how, chosen in (("drawn", {}), ("found by beams", {"temperature": 0.0, "beam": _BEAM})):
        settings = _settings(subject, num_samples=_SAMPLES, **chosen)
        by_prompt = continuations(require_generation(subject), prompts, subject.roles, settings)
        for number, (prompt, texts) in enumerate(zip(prompts, by_prompt, strict=True), start=1):
            for text in texts:
                again = _score(subject, prompt, text)
                yield subject.alike(_number(text.score), again, f"a text {how}, of prompt {number}")


@proof("same seed")
@torch.inference_mode()
def same_seed(subject: VerifiedRun) -> Iterator[Finding]:
    """The same seed gives the same text, alone and whatever else is in the batch."""
    prompts, settings = _prompts(subject), _settings(subject, seed=7, num_samples=_SAMPLES)
    together = continuations(require_generation(subject), prompts, subject.roles, settings)
    for number, (prompt, ours) in enumerate(zip(prompts, together, strict=True), start=1):
        [alone] = continuations(require_generation(subject), [prompt], subject.roles, settings)
        for sample, (text, by_itself) in enumerate(zip(ours, alone, strict=True), start=1):
            yield at_most(text.token_ids != by_itself.token_ids, 0, "texts", f"sample {sample} of prompt {number}")


def _settings(subject: VerifiedRun, **chosen: object) -> GenerateSection:
    new = max(1, min(_NEW_TOKENS, subject.longest // 2, subject.single_steps // _BEAM))
    return replace(GenerateSection(), max_new_tokens=new, **chosen)  # type: ignore[arg-type]


def _prompts(subject: VerifiedRun) -> list[list[int]]:
    """Prompts of different lengths, as a model of this architecture reads them."""
    is_decoder = isinstance(require_generation(subject), Decoder)
    room = subject.longest // 2 - (0 if is_decoder else len(subject.roles.source(())))
    if room < 1:
        raise Skipped("the context has no room for a prompt and a text")
    return ragged((subject.ids if is_decoder else subject.sources)(min(room, _NEW_TOKENS)))


def _score(subject: VerifiedRun, prompt: Sequence[int], text: Continuation) -> torch.Tensor:
    """The sum of ln p of a text's tokens, from one pass, (1,)."""
    is_pair = subject.run.architecture == "encoder-decoder"
    before = subject.roles.target_prefix if is_pair else prompt
    new = torch.tensor(text.token_ids, dtype=torch.long)[:, None]
    read = [*before, *text.token_ids[:-1]]
    logits = subject.alone(read, len(before), prompt if is_pair else None)[len(before) - 1 :]
    return logits.cpu().double().log_softmax(-1).gather(-1, new).sum()[None]


def _number(score: float) -> torch.Tensor:
    return torch.tensor([score], dtype=torch.float64)


@proof("streaming")
def streaming(subject: VerifiedRun) -> Iterator[Finding]:
    """The pieces of a text that is printed as it comes join to what all its tokens decode to at once."""
    require_generation(subject)
    run = subject.run
    if run.recipe.objective == "span-corruption":
        raise Skipped("it fills sentinels, which its own text has not")
    new = max(1, min(_NEW_TOKENS, subject.single_steps))
    for temperature in (0.0, 1.0):
        settings = replace(GenerateSection(), temperature=temperature, max_new_tokens=new)
        # Pieces of text that leave room for more; a translation needs a source that is not empty.
        for prompt in subject.texts(_PROMPTS, tokens=max(1, min(8, subject.longest // 4))):
            if not 0 < len(run.tokenizer.encode(prompt)) < subject.longest - 2:
                continue
            *pieces, streamed = stream(run, prompt, settings, sample=True)
            made = generate(run, prompt, settings, sample=True)
            assert isinstance(streamed, Generated) and isinstance(made, list)
            printed = "".join(piece for piece in pieces if isinstance(piece, str))
            for text, ids in ((printed, streamed.token_ids), (made[0].text, made[0].token_ids)):
                whole = _text_behind(subject, prompt, ids)
                # Characters from the first that differs to the end of the longer text.
                apart = max(len(text), len(whole)) - sum(takewhile(bool, map(eq, text, whole)))
                yield at_most(apart, 0, "characters", f"what follows {prompt!r}")


def _text_behind(subject: VerifiedRun, prompt: str, ids: Sequence[int]) -> str:
    """The text of some tokens; where they continue a prompt, behind it."""
    tokenizer = subject.run.tokenizer
    before = tokenizer.encode(prompt) if subject.run.architecture == "decoder" else []
    return tokenizer.decode([*before, *ids])[len(tokenizer.decode(before)) :]
