"""What goes beside an explanation: flow diagrams, algorithms in PyTorch, and exercises with holes."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import nn

from tfcli.errors import UsageError
from tfcli.files import packaged
from tfcli.inspection.explain import HOLE, Explanation, Matrix, NotationName, Step
from tfcli.inspection.explain.scoring import QUANTITIES
from tfcli.inspection.explain.subject import Subject, notation

_PIECES = packaged(__file__, "handout.toml")
_MOST_NUMBERS = 2_000
_HEAD_NUMBER = re.compile("[₀-₉]|⁽[⁰¹²³⁴-⁹]+⁾")
# A number with its sign, which a hole covers, too.
_DECIMALS = re.compile(r"(?:(?<![\w)])[-−+])?(?P<magnitude>\d*\.(?P<decimals>\d{2,}))")


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
    """The explanation without the numbers of some matrices, and without anything that shows them.

    Args:
        explanation: The whole page.
        names: Names of matrices, of one head or of all; or kinds, such as "weights".

    Raises:
        UsageError: A name names nothing on the page.
    """
    shown = [matrix for step in explanation.steps for matrix in step.matrices]
    hidden = _named_matrices(shown, names, explanation.notation or "bishop")
    secrets = [matrix for matrix in shown if matrix.name in hidden]
    numbers = _telling(secrets)
    for matrix in shown:
        shares_numbers = np.isin(_telling([matrix]), numbers).any()
        if shares_numbers or any(_repeats(matrix.values, secret.values) for secret in secrets):
            hidden.add(matrix.name)
    magnitudes = np.abs(np.concatenate([matrix.values.ravel() for matrix in shown if matrix.name in hidden]))
    steps = [_covered(step, hidden, magnitudes) for step in explanation.steps]
    return replace(explanation, steps=tuple(steps))


def _named_matrices(shown: Sequence[Matrix], names: Sequence[str], notation_name: NotationName) -> set[str]:
    """The names of the matrices that are to be hidden. A UsageError if a name names none."""
    there = dict.fromkeys(matrix.name for matrix in shown)
    plain = {name: _HEAD_NUMBER.sub("", name) for name in there}
    symbol = notation(notation_name).symbol
    kinds = {}
    for kind, quantities in _PIECES["hide"].items():
        kinds[kind] = {_HEAD_NUMBER.sub("", symbol(quantity)) for quantity in quantities}
    hidden = set[str]()
    for name in names:
        named = {matrix for matrix in there if name == matrix or plain[matrix] in kinds.get(name, {name})}
        if not named:
            known = [kind for kind, symbols in kinds.items() if symbols & {*plain.values()}]
            choices = ", ".join([*known, *there])
            raise UsageError(f"--hide {name!r} names nothing on this page", f"choose from {choices}")
        hidden |= named
    angle, cosine = symbol("angle"), symbol("cosine")
    if any(plain[name] == cosine for name in hidden) and angle in there:
        hidden.add(angle)
    return hidden


def _covered(step: Step, hidden: set[str], magnitudes: NDArray[np.float32]) -> Step:
    """A step with holes for hidden numbers; what is measured on them, and what that means, is hidden too."""

    def cover(number: re.Match[str]) -> str:
        distance = np.abs(magnitudes - float(number["magnitude"]))
        is_hidden = (distance <= 0.501 * 10.0 ** -len(number["decimals"])).any()
        return HOLE if is_hidden else number[0]

    matrices = []
    for matrix in step.matrices:
        if matrix.name in hidden:
            matrix = replace(matrix, values=np.full_like(matrix.values, np.nan), sums=None, holes=True)
        matrices.append(matrix)
    measures = step.measures
    if any(matrix.holes for matrix in matrices):
        measures = tuple(replace(measure, value=np.nan, meaning="") for measure in measures)
    note = _DECIMALS.sub(cover, step.note)
    return replace(step, matrices=tuple(matrices), measures=measures, note=note)


def _telling(matrices: Iterable[Matrix]) -> NDArray[np.float32]:
    """The numbers by which matrices are known, but for rounding: whole ones stand in many. Shape: (n,)."""
    values = np.concatenate([one.values[np.isfinite(one.values)] for one in matrices]).round(6)
    return values[values % 1 != 0]


def _repeats(values: NDArray[np.float32], secret: NDArray[np.float32]) -> bool:
    """Whether a matrix contains another one, as rows or columns side by side; what a mask hides agrees with anything.

    Numbers that are all the same, such as zeros, are no secret.
    """
    known = secret[np.isfinite(secret)]
    if known.size == 0 or (known == known[0]).all():
        return False
    for candidate in (values, values.T):
        same_rows = candidate.shape[0] == secret.shape[0] and candidate.shape[1] >= secret.shape[1]
        same_columns = candidate.shape[1] == secret.shape[1] and candidate.shape[0] >= secret.shape[0]
        if not same_rows and not same_columns:
            continue
        for window in sliding_window_view(candidate, secret.shape).reshape(-1, *secret.shape):
            is_known = np.isfinite(window) & np.isfinite(secret)
            if is_known.any() and np.allclose(window[is_known], secret[is_known], atol=1e-6):
                return True
    return False
