"""Queries, keys and values, and how they are split into heads."""

from collections.abc import Sequence

from torch import Tensor, nn

from tfcli.inspection.explain.notation import Axes, Axis, Notation, numbered
from tfcli.inspection.explain.subject import Subject
from tfcli.records.explain import Matrix, Step

QUANTITIES = ("query", "key", "value")


def projections(subject: Subject, n: Notation) -> Step:
    """W^q, W^k, W^v, and Q, K, V of all heads side by side."""
    passed = subject.attention_pass
    matrices: list[Matrix] = []
    for quantity in QUANTITIES:
        module = getattr(subject.attention, quantity)
        assert isinstance(module, nn.Linear)
        matrices += projection(n, quantity, module, ("model", joined_axis(subject, quantity)))
    for quantity in QUANTITIES:
        split: Tensor = getattr(passed, quantity)
        joined = split.transpose(0, 1).flatten(1)
        matrices.append(n.matrix(quantity, joined, _tokens(subject, quantity), numbered(joined.shape[1]), _SIZES))
    x, m = n.symbol("input"), n.symbol("memory" if subject.is_cross else "input")
    return Step(
        "Queries, keys and values", n.formulas["project"].format(x=x, m=m, v=m), tuple(matrices), note=_note(subject, n)
    )


_SIZES: Axes = ("tokens", "joined")


def projection(n: Notation, quantity: str, module: nn.Linear, axes: Axes) -> list[Matrix]:
    """The matrix of a linear map as the lectures have it, (in, out), and its bias where there is one."""
    matrices = [transposed(n, f"w_{quantity}", module, axes)]
    if module.bias is not None:
        columns = numbered(len(module.bias))
        matrices.append(n.matrix(f"b_{quantity}", module.bias[None], ("1",), columns, ("one", axes[1])))
    return matrices


def transposed(n: Notation, quantity: str, module: nn.Linear, axes: Axes) -> Matrix:
    """The matrix of a linear map, which PyTorch keeps as (out, in), as (in, out)."""
    weight = module.weight.T
    return n.matrix(quantity, weight, numbered(weight.shape[0]), numbered(weight.shape[1]), axes)


def split(subject: Subject, n: Notation, heads: Sequence[int]) -> Step:
    """Each head's part of Q, K and V."""
    size = subject.attention.head_dim
    matrices = [
        n.matrix(
            quantity,
            getattr(subject.attention_pass, quantity)[head],
            _tokens(subject, quantity),
            tuple(str(head * size + i) for i in range(size)),
            ("tokens", "head"),
            head=head,
        )
        for quantity in QUANTITIES
        for head in heads
    ]
    total, model = subject.attention.num_heads, subject.section.d_model
    whole = total * size == model
    note = f"{n.axes['head']} = {model} / {total} = {size}: " if whole else ""
    note += f"head 0 takes columns 0 to {size - 1} of each, head 1 the next {size}, and so on."
    if n.columns_are_tokens:
        note = note.replace("columns", "rows")
    if total == 1:
        note = "There is one head."
    if not subject.has_projections:
        note = f"No projections: Q, K and V are cut out of {n.symbol('input')} itself. {note}"
    return Step("Split into heads", n.formulas["split"], tuple(matrices), note=note)


def _tokens(subject: Subject, quantity: str) -> tuple[str, ...]:
    return subject.query_tokens if quantity == "query" else subject.key_tokens


def joined_axis(subject: Subject, quantity: str) -> Axis:
    """The axis of all heads side by side; of keys and values there may be fewer heads."""
    shared = quantity != "query" and subject.attention.num_kv_heads != subject.attention.num_heads
    return "shared" if shared else "joined"


def _note(subject: Subject, n: Notation) -> str:
    section, notes = subject.section, []
    if section.attention_bias and n.name != "udl":
        notes.append(
            f"A bias is added to every row: {n.symbol('b_query')}, {n.symbol('b_key')}, {n.symbol('b_value')}."
        )
    if not section.attention_bias and n.name == "udl":
        notes.append("Here every β is 0 (model.attention_bias = false), and the maps are linear.")
    if subject.attention.num_kv_heads != subject.attention.num_heads:
        notes.append(
            f"{subject.attention.num_heads} heads of queries share {subject.attention.num_kv_heads} of keys and values"
            ", repeated here."
        )
    if section.query_key_norm:
        notes.append("Queries and keys are normalised a head at a time after the projection.")
    if subject.signal.rotation is not None:
        notes.append("Rotary positions turn queries and keys after the projection: these are turned.")
    return "\n".join(notes)
