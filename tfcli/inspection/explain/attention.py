"""Attention from tokens to output, every matrix in its place."""

from collections.abc import Sequence

import torch

from tfcli.inspection.attention.focus import require_place
from tfcli.inspection.explain.beside_scaled_dot import beside_scaled_dot
from tfcli.inspection.explain.cosines import cosines
from tfcli.inspection.explain.embedding import entrance
from tfcli.inspection.explain.mixing import mixing, output
from tfcli.inspection.explain.notation import Notation, notation
from tfcli.inspection.explain.projections import projections, split
from tfcli.inspection.explain.scoring import scoring
from tfcli.inspection.explain.slips import slips
from tfcli.inspection.explain.subject import Subject
from tfcli.inspection.explain.superposition import superposition
from tfcli.records.explain import Explanation, NotationName, Step


def explain_attention(
    subject: Subject, name: NotationName = "bishop", *, head: int | None = None, with_cosines: bool = False
) -> Explanation:
    """Every step of an attention, with the numbers that the model computes.

    Args:
        head: the one that is shown; None: all of a toy, the first of a run.
        with_cosines: cosines beside dot products, too.

    Raises:
        UsageError: there is no such head.
    """
    n, total = notation(name), subject.attention.num_heads
    require_place("head", head, total)
    heads: Sequence[int] = range(total) if head is None and subject.words is not None else (head or 0,)
    with torch.inference_mode():
        steps = _steps(subject, n, heads, with_cosines)
    return Explanation(
        f"{_kind(subject)}, step by step",
        f"{subject.label}; heads and dimensions count from 0",
        name,
        tuple(steps),
        slips(name, "attention") if subject.has_projections else (),
    )


def _steps(subject: Subject, n: Notation, heads: Sequence[int], with_cosines: bool) -> list[Step]:
    score = subject.section.attention_score
    steps = [entrance(subject, n)]
    if subject.has_projections:
        steps.append(projections(subject, n))
    if not subject.is_plain:
        steps.append(split(subject, n, heads))
    steps += scoring(subject, n, heads)
    if with_cosines:
        steps.append(cosines(subject, n, heads))
    if score in ("additive", "dot"):
        steps.append(beside_scaled_dot(subject, n, heads))
    steps.append(mixing(subject, n, heads))
    if not subject.is_plain:
        steps.append(output(subject, n))
    return [*steps, superposition(subject)]


def _kind(subject: Subject) -> str:
    if subject.is_cross:
        return "Cross-attention"
    kind = "Causal self-attention" if subject.attention.causal else "Self-attention"
    return kind if subject.has_projections else f"{kind} without parameters"
