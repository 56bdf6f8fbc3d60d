"""What goes beside an explanation: flow diagrams, algorithms in PyTorch, and exercises with holes."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tfcli.errors import UsageError
from tfcli.files import packaged
from tfcli.inspection.explain import HOLE, Explanation, Matrix, Step
from tfcli.inspection.explain.scoring import QUANTITIES
from tfcli.inspection.explain.subject import Subject, notation

_PIECES = packaged(__file__, "handout.toml")
_MOST_NUMBERS = 2_000
_HEAD_NUMBER = re.compile("[₀-₉]|⁽[⁰¹²³⁴-⁹]+⁾")
_DECIMALS = re.compile(r"\d*\.(\d{2,})")


def flow(subject: Subject, explanation: Explanation, head: int) -> tuple[Step, ...]:
    """How the numbers of one head flow, and those of all, with the names and sizes of an explanation's matrices."""
    n, flows, total = subject.notation(explanation.notation or "bishop"), _PIECES["flow"], subject.attention.num_heads
    sizes = {one.name: " × ".join(map(str, one.values.shape)) for step in explanation.steps for one in step.matrices}
    about = {"head": str(head + 1), "last": str(total)}
    for quantity in n.names:
        source = _PIECES["plain"].get(quantity, quantity) if subject.is_plain else quantity
        for name in (n.symbol(source), n.symbol(source, head)):
            if size := sizes.get(name):
                about |= {quantity: name, f"{quantity}_size": size, f"{quantity}_sized": f"{name}  {size}"}
    lines = [about.get("raw_sized", n.scores["additive"])]
    lines += [f"÷ {n.root}"] * (subject.section.attention_score == "scaled_dot")
    lines += [f"+ {about[one]}" for one in ("bias", "mask") if one in about]
    lines += [f"softmax of {n.line}s"]
    into = ["project", *["shift"] * ("b_query" in about), "into"] * ("w_query" in about)
    one, recombined = ["cross" if subject.is_cross else "self", *into, "vectors", *lines, "mix"], "w_output" in about
    behind = ["recombine", *["moved"] * ("b_output" in about), "result"] * recombined
    every = [f"heads{total}" if total < 4 else "heads", "join", *behind]

    def drawn(title: str, names: Sequence[str]) -> Step:
        texts = (flows.get(name, flows["line"]).format(line=name, **about) for name in names)
        return Step(title, "", lines="\n".join(line.rstrip() for line in "".join(texts).splitlines()))

    whole = drawn("How the numbers of a head flow", one)
    return (whole,) if total == 1 and not recombined else (whole, drawn("How those of all heads meet", every))


def listing(subject: Subject, head: int | None = None) -> Step:
    """Short PyTorch that runs as it stands, with a toy's numbers: of one `head` Bishop and Bishop's (2024) Algorithm 1,
    else Algorithm 2. A UsageError for another attention than theirs, and numbers too many to be printed."""
    module, section, code = subject.attention, subject.section, _PIECES["code"]
    if (additive := section.attention_score == "additive") or subject.vocabulary is None:
        what = f"{subject.label} has {'additive scores' if additive else 'the numbers of a run'}"
        raise UsageError(f"--code writes Bishop's Algorithms 1 and 2 out for a toy, and {what}", "leave --code out")
    recombined, numbers = head is None and isinstance(module.output, nn.Linear), {"X": subject.attention_pass.x}
    parts = ["many" if head is None else "one", "recombine" if recombined else "shown"]
    added = dict.fromkeys(("b_q", "b_k", "b_v", "b_o"), "")
    for quantity in () if subject.is_plain else (*QUANTITIES, *["output"] * recombined):
        map_, name = getattr(module, quantity), f"b_{quantity[0]}"
        size = len(map_.weight) // module.num_heads
        columns = slice(None) if head is None else slice(head * size, (head + 1) * size)
        numbers[f"W_{quantity[0]}"] = map_.weight.T[:, columns]
        if map_.bias is not None:
            numbers[name] = map_.bias[None, columns]
            added[name] = f" + of_heads({name})[h]" if head is None and quantity != "output" else f" + {name}"
    if (count := sum(map(torch.numel, numbers.values()))) > _MOST_NUMBERS:
        problem = f"--code prints every number, and these are {count:,}; at most {_MOST_NUMBERS:,} can be read"
        raise UsageError(problem, "take a smaller toy")
    printed = ""
    for name, values in numbers.items():  # with as many digits as name them exactly
        digits = np.array2string(values.detach().numpy(), 76, separator=", ", threshold=count + 1, floatmode="unique")
        printed += f"{name} = torch.tensor(\n{digits})\n"
    score, mask = code[section.attention_score], code["masked"] if section.architecture == "decoder" else ""
    text = "".join(code[part] for part in ("attention", *(["plain"] if subject.is_plain else parts)))
    lines = text.format(score=score, mask=mask, numbers=printed, heads=module.num_heads, **added)
    which = "1" if subject.is_plain else "2" if head is None else f"1, head {head + 1}"
    return Step(f"In PyTorch: Bishop's Algorithm {which}", "", lines=lines.rstrip())


def with_holes(explanation: Explanation, names: Sequence[str]) -> Explanation:
    """The explanation without the numbers of matrices called by name, of a head or of all, or by kind ("weights"), and
    of what tells them: matrices that hold one, sums, measures, sentences. A UsageError where there is none such."""
    shown = [one for step in explanation.steps for one in step.matrices]
    there = dict.fromkeys(one.name for one in shown)
    plain = {name: _HEAD_NUMBER.sub("", name) for name in there}
    symbol, hidden = notation(explanation.notation or "bishop").symbol, set[str]()
    kinds = {kind: {_HEAD_NUMBER.sub("", symbol(one)) for one in ones} for kind, ones in _PIECES["hide"].items()}
    for name in names:
        found = {one for one in there if name == one or plain[one] in kinds.get(name, {name})}
        if not found:
            known = [*(kind for kind, symbols in kinds.items() if symbols & {*plain.values()}), *there]
            raise UsageError(f"--hide {name!r} names nothing on this page", f"choose from {', '.join(known)}")
        hidden |= found
    secret = _telling(one for one in shown if one.name in hidden)
    hidden |= {one.name for one in shown if np.isin(_telling([one]), secret).any()}
    told = np.abs(np.concatenate([one.values.ravel() for one in shown if one.name in hidden]))

    def cover(found: re.Match[str]) -> str:
        near = np.abs(told - float(found[0])) <= 0.501 * 10.0 ** -len(found[1])
        return HOLE if near.any() else found[0]

    def covered(step: Step) -> Step:
        matrices, measures = step.matrices, step.measures
        if hidden & {one.name for one in matrices}:
            measures = tuple(replace(one, value=np.nan, meaning=_DECIMALS.sub(cover, one.meaning)) for one in measures)
        matrices = tuple(
            replace(one, values=np.full_like(one.values, np.nan), sums=None, holes=True) if one.name in hidden else one
            for one in matrices
        )
        return replace(step, matrices=matrices, measures=measures, note=_DECIMALS.sub(cover, step.note))

    return replace(explanation, steps=tuple(map(covered, explanation.steps)))


def _telling(matrices: Iterable[Matrix]) -> NDArray[np.float32]:
    """The numbers by which matrices are known, but for rounding: whole ones stand in many. Shape: (n,)."""
    values = np.concatenate([one.values[np.isfinite(one.values)] for one in matrices]).round(6)
    return values[values % 1 != 0]
