"""From weights and values to the output: each head's mixture, all of them side by side, W^o."""

from collections.abc import Sequence

from torch import nn

from tfcli.inspection.explain.notation import VECTORS, Notation, numbered
from tfcli.inspection.explain.projections import projection
from tfcli.inspection.explain.subject import Subject
from tfcli.records.explain import Step

_MOST_SUMMANDS = 4


def mixing(subject: Subject, n: Notation, heads: Sequence[int]) -> Step:
    """Weights times values."""
    mixed, size = subject.attention_pass.mixed, subject.attention.head_dim
    if subject.is_plain:
        matrix = n.matrix("mixed_alone", mixed[0], subject.query_tokens, numbered(size), VECTORS)
        return Step("Weights times the input", n.formulas["mix_alone"], (matrix,), note=_last_row(subject, 0, "x"))
    alone = subject.attention.num_heads == 1
    matrices = tuple(
        n.matrix(
            "mixed",
            mixed[head],
            subject.query_tokens,
            tuple(str(head * size + i) for i in range(size)),
            ("tokens", "head"),
            head=None if alone else head,
        )
        for head in heads
    )
    note = _last_row(subject, heads[0], "v")
    return Step("Weights times values", n.formulas["mix"], matrices, note=note)


def output(subject: Subject, n: Notation) -> Step:
    """All heads side by side, times W^o."""
    passed, module = subject.attention_pass, subject.attention.output
    joined = passed.mixed.transpose(0, 1).flatten(1)
    tokens = subject.query_tokens
    matrices = (
        n.matrix("joined", joined, tokens, numbered(joined.shape[1]), ("tokens", "joined")),
        *(projection(n, "output", module, ("joined", "model")) if isinstance(module, nn.Linear) else ()),
        n.matrix("output", passed.output, tokens, numbered(passed.output.shape[1]), VECTORS),
    )
    shape = " × ".join(map(str, passed.output.T.shape if n.columns_are_tokens else passed.output.shape))
    note = f"The output is {shape}, as what entered: it can be added to it, and layers can be stacked."
    if not subject.has_projections:
        return Step("Concatenate", "heads side by side, no projection behind them", matrices, note=note)
    return Step("Concatenate, and recombine", n.formulas["join"], matrices, note=note)


def _last_row(subject: Subject, head: int, letter: str) -> str:
    """The last mixture written out, where it is short."""
    weights, tokens = subject.attention_pass.weights[head], subject.key_tokens
    if len(tokens) > _MOST_SUMMANDS:
        return ""
    summands = " + ".join(f"{w:.3f} {letter}({token})" for w, token in zip(weights[-1].tolist(), tokens, strict=True))
    return f"head {head}, {subject.query_tokens[-1]}: {summands}"
