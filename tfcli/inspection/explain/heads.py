"""Heads of multi-head attention: two linear maps in a row, and two values that one head is to average."""

import torch
from torch import Tensor, nn

from tfcli.inspection.explain import Measure, Step
from tfcli.inspection.explain.subject import Notation, Subject, lectures, numbered


def two_maps(subject: Subject, n: Notation, head: int) -> Step:
    """A head on queries that are projected already, as the encoder notes build it: a W_q (D, d_k) of all heads, then
    its own W_q⁽ⁱ⁾ (d_k, d_k), which is fitted to what the head has."""
    module, size, x = subject.attention.query, subject.attention.head_dim, subject.attention_pass.x.double().cpu()
    assert isinstance(module, nn.Linear)
    whole, columns, tokens = module.weight.double().cpu().split(size)[head].T, numbered(size), ("tokens", "head")
    common = nn.init.orthogonal_(torch.empty_like(whole), generator=torch.Generator().manual_seed(0))
    own = torch.linalg.pinv(common) @ whole
    name, in_turn, is_full = n.symbol("w_query"), x @ common @ own, size >= len(whole)
    own_name = n.symbol("w_query", head).removeprefix(f"{name} ")
    matrices = (
        n.matrix(name, common, numbered(len(whole)), columns, ("model", "head")),
        n.vectors("query", x @ common, subject.query_tokens, tokens),
        n.matrix(own_name, own, columns, columns, ("head", "head")),
        n.matrix(f"{n.symbol('query')} {own_name}", in_turn, subject.query_tokens, columns, tokens),
    )
    measures, exact = list[Measure](), "rounding alone"
    lost = exact if is_full else "lost in W_q"
    for other, product, why in (("their product", x @ (common @ own), exact), ("the head above", x @ whole, lost)):
        apart = float((product - in_turn).abs().max())
        measures.append(Measure(f"two maps, or {other}", apart, f"largest deviation: {why}"))
    notes = lectures()["notes"]
    note = notes["two_maps"] + notes["full" if is_full else "narrow"].format(size=size, model=len(whole))
    formula = "Q⁽ⁱ⁾ = Q W_q⁽ⁱ⁾ = (X W_q) W_q⁽ⁱ⁾ = X (W_q W_q⁽ⁱ⁾)"
    return Step("Two linear maps in a row are one", formula, matrices, tuple(measures), note)


# How often keys vary, by which share of their length, and how far a query lifts what it asks for above the rest.
_DRAWS, _SPREAD, _SHARP = 5, 0.2, 10.0


def averaging(subject: Subject, n: Notation, head: int) -> list[Step]:
    """One head that is to average two of its values, beside two heads with one each: their weights where keys stand at
    right angles, and where their lengths vary. Nothing where no two values differ."""
    value, tokens = subject.attention_pass.value[head].float().cpu(), subject.key_tokens
    apart = torch.cdist(value, value)
    a, b = sorted(int(i) for i in torch.unravel_index(apart.argmax(), apart.shape))
    if apart[a, b] == 0:
        return []
    lengths = 1 + _SPREAD * torch.randn(_DRAWS + 1, len(tokens), generator=torch.Generator().manual_seed(0))
    lengths[0] = 1.0

    def weights(*asked: int) -> Tensor:
        """Of a query that is the sum of the keys asked for, times what makes it sharp: (draws, S)."""
        wanted = torch.zeros(len(tokens)).index_fill(0, torch.tensor(asked), _SHARP)
        return (wanted * lengths).softmax(dim=-1)

    rows, columns = ("exact", *numbered(_DRAWS, 1)), (tokens[a], tokens[b], *["others"] * (len(tokens) > 2))
    axes, matrices, measures = (str(len(rows)), str(len(columns))), [], []
    for name, shares in (("one head", weights(a, b)), ("two heads", (weights(a) + weights(b)) / 2)):
        pair = shares[:, [a, b]]
        shown = torch.cat((pair, 1 - pair.sum(dim=1, keepdim=True)), dim=1)[:, : len(columns)]
        off = (shares @ value - (value[a] + value[b]) / 2).norm(dim=-1).max() / (apart[a, b] / 2)
        matrices.append(n.matrix(name, shown, rows, columns, axes, kind="weights", sums=True))
        measures.append(Measure(f"{name}, furthest off the average", float(off), "0: on it; 1: at one value alone"))
    formula, note = (lectures()["notes"][key].format(draws=_DRAWS, sharp=_SHARP) for key in ("asked", "averaging"))
    return [Step("Two values to be averaged", formula, tuple(matrices), tuple(measures), note)]
