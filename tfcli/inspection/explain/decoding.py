"""Decoding step by step: what `tfcli.generation` computes from logits to a token, kept at every stage."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from tfcli.errors import UsageError
from tfcli.generation.beam import beam_search
from tfcli.generation.decode import Continuation, collect, decode, random_numbers
from tfcli.generation.prompts import prompt_ids
from tfcli.generation.reader import Reader, open_reader
from tfcli.generation.sampling import (
    apply_temperature,
    chances,
    draw,
    keep_top_k,
    keep_top_p,
    never_generated,
    rule_out,
)
from tfcli.generation.tree import beam_tree
from tfcli.inspection.explain.toy_language import PROMPT, ROLES, TOKENS, ToyReader, toy_labels
from tfcli.models.decoder import Decoder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.models.head import require_head
from tfcli.recipe.generate import GenerateSection
from tfcli.records.decoding import DecodedPath, DecodingCandidate, DecodingRecord, DecodingStep
from tfcli.records.generation import BeamNode, Generated
from tfcli.records.roles import TokenRoles
from tfcli.runs.load import LoadedRun

CANDIDATES = 8
"""Told at every step."""

Labels = Callable[[Sequence[int]], list[str]]


def explain_toy_decoding(settings: GenerateSection) -> DecodingRecord:
    """The toy language, whose numbers can be checked by hand."""

    def read(rows: int) -> Reader:
        return cast(Reader, ToyReader(settings.max_new_tokens))

    return _explained(None, PROMPT, (), read, ROLES, toy_labels, len(TOKENS), settings)


def explain_decoding(run: LoadedRun, prompt: str, settings: GenerateSection) -> DecodingRecord:
    """A run's own text behind a prompt, or its translation, of `settings.max_new_tokens` at most.

    Raises:
        UsageError: the run is an encoder or has no head, or the prompt does not fit.
    """
    model = run.model
    require_head(run.config.model)
    if not isinstance(model, Decoder | EncoderDecoder):
        raise UsageError("An encoder writes no text", "name a decoder or an encoder-decoder, or leave --run out")
    ids, roles = prompt_ids(model, run.tokenizer, prompt), run.config.roles

    def read(rows: int) -> Reader:
        return open_reader(model, [ids], roles, settings, rows=rows)

    name = str(run.directory.path)
    return _explained(name, prompt, ids, read, roles, run.tokenizer.labels, run.tokenizer.vocab_size, settings)


@torch.inference_mode()
def _explained(
    source: str | None,
    prompt: str,
    ids: Sequence[int],
    read: Callable[[int], Reader],
    roles: TokenRoles,
    labels: Labels,
    vocabulary: int,
    settings: GenerateSection,
) -> DecodingRecord:
    """Args: read opens a reader behind the prompt, with room for so many rows."""
    greedy_settings = replace(settings, temperature=0.0, beam=1)
    [greedy] = collect(decode(read(1), roles, greedy_settings, texts=[ids]), 1)
    # Texts of one length are compared by their probability alone.
    beam_settings = replace(settings, temperature=0.0, length_penalty=0.0)
    nodes: list[BeamNode] = []
    [[best]] = beam_search(
        read(settings.beam), roles, beam_settings, texts=[ids], observe=lambda _, node: nodes.append(node)
    )
    text = "".join(labels([token for token in best.token_ids if token != roles.eos]))
    found = Generated(prompt, text, best.token_ids, best.score, best.log_probabilities, "length")
    return DecodingRecord(
        source=source,
        prompt=prompt,
        vocabulary=vocabulary,
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        seed=settings.seed,
        steps=tuple(_steps(read(1), ids, roles, labels, settings)),
        greedy=_path("greedy", greedy, labels),
        beam=_path(f"beam {settings.beam}", best, labels),
        tree=beam_tree(prompt, nodes, [found], labels, beam_settings),
    )


def _path(name: str, text: Continuation, labels: Labels) -> DecodedPath:
    shares = tuple(math.exp(one) for one in text.log_probabilities)
    return DecodedPath(name, tuple(labels(text.token_ids)), shares, text.score)


def _steps(
    reader: Reader, ids: Sequence[int], roles: TokenRoles, labels: Labels, settings: GenerateSection
) -> list[DecodingStep]:
    """The first sample of `decode`: the same logits, the same stages, the same random numbers."""
    random = random_numbers(settings, ids, 0)
    new: list[int] = []
    steps = []
    while len(new) < reader.limits[0]:
        uniform = random.random() if random is not None else None
        step = _step(reader.logits, tuple(labels(new)), uniform, roles, labels, settings)
        steps.append(step)
        new.append(step.token_id)
        if step.token_id == roles.eos:
            break
        reader.read(torch.tensor([step.token_id], device=reader.logits.device))
    return steps


def _step(
    logits: Tensor,
    before: tuple[str, ...],
    uniform: float | None,
    roles: TokenRoles,
    labels: Labels,
    settings: GenerateSection,
) -> DecodingStep:
    """Shape: logits (1, Vocab)."""
    allowed = rule_out(logits, never_generated(roles, logits.shape[-1]))
    scaled = apply_temperature(allowed, settings.temperature) if uniform is not None else allowed
    after_k = keep_top_k(scaled, settings.top_k) if settings.top_k and uniform is not None else scaled
    after_p = keep_top_p(after_k, settings.top_p) if uniform is not None else after_k
    shares = chances(allowed, settings)
    if uniform is None:
        chosen = int(allowed.argmax())
    else:
        chosen = int(draw(shares, torch.tensor([uniform], dtype=torch.float64, device=shares.device)))
    ends = shares[0].double().cumsum(-1)
    possible = int((allowed > -torch.inf).sum())
    shown = allowed[0].sort(descending=True, stable=True).indices[: min(CANDIDATES, possible)].tolist()
    if chosen not in shown:
        shown[-1] = chosen
    stages = [stage.softmax(-1)[0].tolist() for stage in (logits, scaled, after_k, after_p)]
    candidates = tuple(
        DecodingCandidate(
            token=label,
            token_id=token,
            logit=float(logits[0, token]),
            scaled=None if uniform is None else float(scaled[0, token]),
            probability=stages[0][token],
            tempered=stages[1][token],
            after_top_k=stages[2][token],
            after_top_p=stages[3][token],
            chance=float(shares[0, token]),
            begin=float(ends[token] - shares[0, token].double()) / float(ends[-1]),
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
        uniform=uniform,
        token=labels([chosen])[0],
        token_id=chosen,
    )
