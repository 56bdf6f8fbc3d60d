"""Decoding step by step: what `tfcli.generation` computes from logits to a token, kept at every stage."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from tfcli.errors import UsageError
from tfcli.generation.beam import beam_search
from tfcli.generation.decode import Continuation, Ends, collect, decode, random_numbers
from tfcli.generation.prompts import prefix_ids, prompt_ids
from tfcli.generation.reader import Reader, continued, open_reader
from tfcli.generation.repetition import against_repetition
from tfcli.generation.sampling import (
    apply_temperature,
    chances,
    draw,
    keep_min_p,
    keep_top_k,
    keep_top_p,
    never_generated,
    rule_out,
)
from tfcli.generation.settings import settled
from tfcli.generation.stop import stop_finder
from tfcli.generation.tree import beam_tree
from tfcli.inspection.explain.toy_language import PROMPT, ROLES, TOKENS, ToyReader, toy_labels
from tfcli.inspection.reading import Inputs, require_room
from tfcli.models.decoder import Decoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.models.head import require_head
from tfcli.recipe.generate import GenerateSection
from tfcli.recipe.loading import generation_settings
from tfcli.records.decoding import DecodedPath, DecodingCandidate, DecodingRecord, DecodingStep
from tfcli.records.generation import BeamNode, Generated
from tfcli.records.roles import TokenRoles
from tfcli.runs.load import LoadedRun

CANDIDATES = 8
"""Told at every step."""

Labels = Callable[[Sequence[int]], list[str]]


@dataclass(frozen=True)
class _Begun:
    """What is gone on from: a run and its prompt, or the toy.

    Args:
        read: opens a reader behind the prompt, with room for so many rows.
        prefix, ends: as those of `decode`.
    """

    source: str | None
    prompt: str
    ids: Sequence[int]
    read: Callable[[int], Reader]
    roles: TokenRoles
    labels: Labels
    vocabulary: int
    prefix: Sequence[int] = ()
    ends: Ends | None = None


def run_settings(run: LoadedRun, given: Mapping[str, Any]) -> GenerateSection:
    """What `tfcli generate` would draw with: the recipe's own settings, with what is given, and not None, over them.

    Raises:
        UsageError: a value is out of range, or does not fit the model.
    """
    settings = generation_settings(run.recipe, {**given, "beam_groups": 1, "num_samples": 1})
    sample = None if given.get("temperature") is None else settings.temperature > 0
    drawn = settled(run.model, run.tokenizer, replace(settings, beam=1), sample)
    return replace(drawn, beam=max(2, settings.beam))


def explain_toy_decoding(settings: GenerateSection) -> DecodingRecord:
    """The toy language, whose numbers can be checked by hand."""

    def read(rows: int) -> Reader:
        return cast(Reader, ToyReader(settings.max_new_tokens))

    return _explained(_Begun(None, PROMPT, (), read, ROLES, toy_labels, len(TOKENS)), settings)


def explain_decoding(run: LoadedRun, prompt: str, settings: GenerateSection) -> DecodingRecord:
    """A run's own text behind a prompt, or its translation, of `settings.max_new_tokens` at most.

    Args:
        settings: as they apply to the model, such as those of `run_settings`.

    Raises:
        UsageError: the run is an encoder or has no head, or the prompt does not fit.
    """
    model = run.model
    require_head(run.config.model)
    if not isinstance(model, Decoder | EncoderDecoder):
        raise UsageError("An encoder writes no text", "name a decoder or an encoder-decoder, or leave --run out")
    ids, roles = prompt_ids(model, run.tokenizer, prompt, settings), run.config.roles
    if settings.beyond_context == "stop" and isinstance(model, Decoder):
        require_room(run, Inputs(decoder=tuple(ids)))

    def read(rows: int) -> Reader:
        return open_reader(model, [ids], roles, settings, rows=rows)

    begun = _Begun(
        source=str(run.directory.path),
        prompt=prompt,
        ids=ids,
        read=read,
        roles=roles,
        labels=run.tokenizer.labels,
        vocabulary=run.tokenizer.vocab_size,
        prefix=prefix_ids(model, run.tokenizer, settings),
        ends=stop_finder(run.tokenizer, settings.stop, continued(model, [ids], roles)),
    )
    return _explained(begun, settings)


@torch.inference_mode()
def _explained(begun: _Begun, settings: GenerateSection) -> DecodingRecord:
    read, roles, labels = begun.read, begun.roles, begun.labels
    same: dict[str, Any] = {"texts": [begun.ids], "prefix": begun.prefix, "ends": begun.ends}
    [greedy] = collect(decode(read(1), roles, replace(settings, temperature=0.0, beam=1), **same), 1)
    # Texts of one length are compared by their probability alone.
    beam_settings = replace(settings, temperature=0.0, length_penalty=0.0)
    nodes: list[BeamNode] = []
    [[best]] = beam_search(
        read(settings.beam), roles, beam_settings, **same, observe=lambda _, node: nodes.append(node)
    )
    text = "".join(labels([token for token in best.token_ids if token not in roles.ends]))
    found = Generated(begun.prompt, text, best.token_ids, best.score, best.log_probabilities, "length")
    return DecodingRecord(
        source=begun.source,
        prompt=begun.prompt,
        vocabulary=begun.vocabulary,
        repetition_penalty=settings.repetition_penalty,
        no_repeat_ngram=settings.no_repeat_ngram,
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p,
        seed=settings.seed,
        steps=tuple(_steps(begun, settings)),
        greedy=_path("greedy", greedy, labels),
        beam=_path(f"beam {settings.beam}", best, labels),
        tree=beam_tree(begun.prompt, nodes, [found], labels, beam_settings),
    )


def _path(name: str, text: Continuation, labels: Labels) -> DecodedPath:
    shares = tuple(math.exp(one) for one in text.log_probabilities)
    return DecodedPath(name, tuple(labels(text.token_ids)), shares, text.score)


def _steps(begun: _Begun, settings: GenerateSection) -> list[DecodingStep]:
    """The first sample of `decode`: the same logits, the same stages, the same random numbers."""
    reader = begun.read(1)
    random = random_numbers(settings, begun.ids, 0)
    held = list(continued(reader.model, [begun.ids], begun.roles)[0])
    new: list[int] = []
    steps = []
    while len(new) < reader.limits[0]:
        uniform = random.random() if random is not None else None
        if len(new) < len(begun.prefix):
            token = begun.prefix[len(new)]
        else:
            step = _step(reader.logits, [*held, *new], begun, tuple(begun.labels(new)), uniform, settings)
            steps.append(step)
            token = step.token_id
        new.append(token)
        if token in begun.roles.ends or (begun.ends is not None and begun.ends(new)):
            break
        reader.read(torch.tensor([token], device=reader.logits.device))
    return steps


def _step(
    logits: Tensor,
    held: Sequence[int],
    begun: _Begun,
    before: tuple[str, ...],
    uniform: float | None,
    settings: GenerateSection,
) -> DecodingStep:
    """Args: held are all ids that are not to be repeated; before are the labels of the new ones.

    Shape:
        logits: (1, Vocab)
    """
    labels = begun.labels
    no_special = rule_out(logits, never_generated(begun.roles, logits.shape[-1]))
    allowed = against_repetition(no_special, [held], settings)
    scaled = apply_temperature(allowed, settings.temperature) if uniform is not None else allowed
    after_k = keep_top_k(scaled, settings.top_k) if settings.top_k and uniform is not None else scaled
    after_p = keep_top_p(after_k, settings.top_p) if uniform is not None else after_k
    after_min = keep_min_p(after_p, settings.min_p) if uniform is not None else after_p
    shares = chances(allowed, settings)
    if uniform is None:
        chosen = int(allowed.argmax())
    else:
        chosen = int(draw(shares, torch.tensor([uniform], dtype=torch.float64)))
    ends = shares[0].cpu().double().cumsum(-1)
    possible = int((allowed > -torch.inf).sum())
    shown = allowed[0].sort(descending=True, stable=True).indices[: min(CANDIDATES, possible)].tolist()
    if chosen not in shown:
        shown[-1] = chosen
    stages = [stage.softmax(-1)[0].tolist() for stage in (logits, scaled, after_k, after_p, after_min)]
    candidates = tuple(
        DecodingCandidate(
            token=label,
            token_id=token,
            logit=float(logits[0, token]),
            adjusted=float(allowed[0, token]),
            scaled=None if uniform is None else float(scaled[0, token]),
            probability=stages[0][token],
            tempered=stages[1][token],
            after_top_k=stages[2][token],
            after_top_p=stages[3][token],
            after_min_p=stages[4][token],
            chance=float(shares[0, token]),
            begin=float(ends[token] - shares[0, token].cpu().double()) / float(ends[-1]),
            end=float(ends[token] / ends[-1]),
        )
        for token, label in zip(shown, labels(shown), strict=True)
    )
    return DecodingStep(
        before=before,
        candidates=candidates,
        others=possible - len(candidates),
        rest=max(0.0, 1.0 - sum(one.probability for one in candidates)),
        kept_top_k=int((after_k > -torch.inf).sum()),
        kept_top_p=int((after_p > -torch.inf).sum()),
        kept_min_p=int((after_min > -torch.inf).sum()),
        uniform=uniform,
        token=labels([chosen])[0],
        token_id=chosen,
    )
