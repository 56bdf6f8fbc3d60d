"""Scaled dot-product attention, its heads and its masks, step by step."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfcli.errors import UsageError
from tfcli.inspection.explain import Explanation, Measure, NotationName, Step
from tfcli.inspection.explain.positions import entrance
from tfcli.inspection.explain.scoring import divided, masking, of_heads, projections, score_formula, scoring, transposed
from tfcli.inspection.explain.subject import PAIRS, Notation, Subject, lectures, notation, numbered
from tfcli.inspection.passes import record_attention
from tfcli.layers.attention import causal_mask, dot_scores, explicit_attention

_MOST_SUMMANDS = 4


def mixing(subject: Subject, n: Notation, head: int, heads: Sequence[int]) -> Step:
    """Weights times values, with the last mixture of a head written out where it is short."""
    passed, note, letter = subject.attention_pass, "", "x" if subject.is_plain else "v"
    if len(subject.key_tokens) <= _MOST_SUMMANDS:
        summands = zip(passed.weights[head, -1].tolist(), subject.key_tokens, strict=True)
        note = f"head {head + 1}, {subject.query_tokens[-1]}: "
        note += " + ".join(f"{weight:.3f} {letter}({token})" for weight, token in summands)
    if subject.is_plain:
        matrix = n.vectors("mixed_alone", passed.mixed[0], subject.query_tokens)
        return Step("Weights times the input", n.formulas["mix_alone"], (matrix,), note=note)
    matrices = of_heads(subject, n, "mixed", passed.mixed, heads, axis="value")
    return Step("Weights times values", n.formulas["mix"], matrices, note=note)


def output(subject: Subject, n: Notation) -> Step:
    """All heads side by side, times W^o where there is one."""
    passed, module, tokens = subject.attention_pass, subject.attention.output, subject.query_tokens
    joined = n.vectors("joined", passed.mixed.transpose(0, 1).flatten(1), tokens, ("tokens", "joined"))
    if not isinstance(module, nn.Linear):
        return Step("Concatenate", "heads side by side, no projection behind them", (joined,))
    matrices = [joined, transposed(n, "w_output", module, ("joined", "model"))]
    if module.bias is not None:
        matrices.append(n.vectors("b_output", module.bias[None], ("1",), ("one", "model")))
    matrices.append(n.vectors("output", passed.output, tokens))
    shape = " × ".join(map(str, matrices[-1].values.shape))
    note = f"The output is {shape}, as what entered: it can be added to it, and layers can be stacked."
    return Step("Concatenate, and recombine", n.formulas["join"], tuple(matrices), note=note)


def cosines(subject: Subject, n: Notation, head: int) -> Step:
    """Cos θ of queries and keys beside their dot products, and the pairs nearest to 0°, 90°, 180°; in UDL's with θ."""
    passed = subject.attention_pass
    raw = dot_scores(passed.query, passed.key, 1.0)
    # In float32 two parallel vectors would be 0.03° apart.
    query, key = passed.query.cpu().double(), passed.key.cpu().double()
    cosine = F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).transpose(-2, -1)
    matrices = of_heads(subject, n, "cosine", cosine, [head]) + of_heads(subject, n, "raw", raw, [head], kind="scores")
    degrees = angles_between(query[head], key[head]).rad2deg()
    if n.name == "udl":
        matrices += (n.matrix("angle", degrees, subject.query_tokens, subject.key_tokens, subject.pairs),)
    between = cosine[head]
    note, *nearest = lectures()["notes"]["cosines"]
    measures = []
    for nearness, name in zip((between, -between.abs(), -between), nearest, strict=True):
        row, column = (int(index) for index in torch.unravel_index(nearness.argmax(), between.shape))
        pair = f"q of {subject.query_tokens[row]}, k of {subject.key_tokens[column]}"
        measures.append(Measure(name, float(between[row, column]), f"θ = {degrees[row, column]:.0f}°: {pair}"))
    return Step("Cosines beside dot products", "q · k = |q| |k| cos θ", matrices, tuple(measures), note)


def angles_between(query: Tensor, key: Tensor) -> Tensor:
    """The angle of every query with every key in radians; π/2 for a vector of zeros.

    The arc cosine loses half of the digits near 0 and π. This formula is exact there:
    θ = 2 atan2(|u − v|, |u + v|) for unit vectors u and v (Kahan 2006, "How futile are mindless assessments
    of roundoff in floating-point computation?", section 12).

    Shape:
        query (T, D) and key (S, D); the result is (T, S).
    """
    u, v = F.normalize(query, dim=-1), F.normalize(key, dim=-1)
    distance = partial(torch.cdist, compute_mode="donot_use_mm_for_euclid_dist")
    angles = 2 * torch.atan2(distance(u, v), distance(u, -v))
    is_zero = (u == 0).all(dim=-1)[:, None] | (v == 0).all(dim=-1)[None, :]
    return angles.masked_fill(is_zero, torch.pi / 2)


def beside_scaled_dot(subject: Subject, n: Notation, head: int) -> Step:
    """What the softmax makes of the same queries and keys, with this score and with the scaled dot product."""
    passed = subject.attention_pass
    scaled = dot_scores(passed.query, passed.key, subject.attention.head_dim**-0.5)
    scaled = scaled if passed.bias is None else scaled + passed.bias
    _, weights = explicit_attention(scaled[None], passed.value[None], None if passed.mask.all() else passed.mask)
    matrices = of_heads(subject, n, "weights", passed.weights, [head], kind="weights", sums=True)
    matrices += of_heads(subject, n, "weights_beside", weights[0], [head], kind="weights", sums=True)
    formula = f"{score_formula(subject, n)}   beside   {n.score('scaled_dot')}"
    vector = n.symbol("score_vector", head)
    note = lectures()["notes"][subject.section.attention_score].format(vector=vector)
    return Step("Beside scaled dot product", formula, matrices, note=note)


def superposition(subject: Subject, n: Notation, head: int) -> Step:
    """Weights held fast, a head is linear in its values; in X it is not, for the weights move with X."""
    passed, notes, x_name = subject.attention_pass, lectures()["notes"], n.symbol("input")
    weights, value, other = passed.weights[head], passed.value[head], passed.value[head].flip(0)
    memory = 2.0 * passed.memory[None] if subject.is_cross else None
    x = passed.x if subject.signal.added is None else passed.value_source
    doubled = record_attention(subject.attention, 2.0 * x[None], memory, subject.signal).mixed[head]
    v = x_name if subject.is_plain else n.symbol("value", head)
    whole, parts = f"f({v} + {v}′)", f"f({v}) + f({v}′)"
    sums = {whole: weights @ (value + other), parts: weights @ value + weights @ other}
    twice = {f"f(2 {x_name})": doubled, f"2 f({x_name})": 2.0 * passed.mixed[head]}
    size, axes = numbered(len(value.T), head * len(value.T)), ("tokens", "model" if subject.is_plain else "value")
    matrices = [n.matrix(name, one, subject.query_tokens, size, axes) for name, one in (sums | twice).items()]
    linear, nonlinear = (float((one - both).abs().max()) for one, both in (sums.values(), twice.values()))
    moved = notes["moved_alone" if len(value) == 1 else "moved"] + notes["moved_bias"] * subject.section.attention_bias
    formula = f"{whole} = {parts}, weights held fast   {' ≠ '.join(twice)}, weights computed anew"
    measures = (
        Measure(f"deviation in {v}, weights held", linear, "rounding alone: linear", is_residue=True),
        Measure(f"deviation in {x_name}, weights anew", nonlinear, moved),
    )
    note = f"{notes['superposition'].format(v=v, line=n.line)} {n.formulas['linear']}".strip()
    return Step("Linear in V, not in X", formula, tuple(matrices), measures, note)


def two_maps(subject: Subject, n: Notation, head: int) -> Step:
    """A head on projected queries, as the encoder notes build it: W_q (D, d_k) of all, a fitted W_q⁽ⁱ⁾ (d_k, d_k)."""
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
    from_product = float((x @ (common @ own) - in_turn).abs().max())
    from_head = float((x @ whole - in_turn).abs().max())
    cause = "rounding alone" if is_full else "lost in W_q"
    measures = (
        Measure("two maps, or their product", from_product, "largest deviation: rounding alone", is_residue=True),
        Measure("two maps, or the head above", from_head, f"largest deviation: {cause}", is_residue=is_full),
    )
    notes = lectures()["notes"]
    note = notes["two_maps"] + notes["full" if is_full else "narrow"].format(size=size, model=len(whole))
    formula = "Q⁽ⁱ⁾ = Q W_q⁽ⁱ⁾ = (X W_q) W_q⁽ⁱ⁾ = X (W_q W_q⁽ⁱ⁾)"
    return Step("Two linear maps in a row are one", formula, matrices, measures, note)


# How often keys vary, by which share of their length, and how far a query lifts what it asks for above the rest.
_DRAWS, _SPREAD, _SHARP = 5, 0.2, 10.0


def averaging(subject: Subject, n: Notation, head: int) -> list[Step]:
    """One head that is to average two of its values, beside two heads with one each; nothing where no values differ."""
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


def explain_attention(
    subject: Subject, name: NotationName = "bishop", *, head: int | None = None, with_cosines: bool = False
) -> Explanation:
    """Every step of a head, the first by default, and outputs of all heads of a toy. A UsageError of no such head."""
    n, (head, heads) = subject.notation(name), subject.heads(head)
    with torch.inference_mode():
        steps = [entrance(subject, n)]
        if not subject.is_plain:
            steps.append(projections(subject, n, head))
        if name == "encoder" and subject.has_projections and subject.attention.num_heads > 1:
            steps.append(two_maps(subject, n, head))
        steps += scoring(subject, n, head, heads)
        if with_cosines:
            steps.append(cosines(subject, n, head))
        if subject.section.attention_score in ("additive", "dot"):
            steps.append(beside_scaled_dot(subject, n, head))
        steps.append(mixing(subject, n, head, heads))
        if subject.attention.num_heads > 1 or isinstance(subject.attention.output, nn.Linear):
            steps.append(output(subject, n))
        steps.append(superposition(subject, n, head))
        if name == "cs224n" and subject.has_projections:
            steps += averaging(subject, n, head)
    kind = "Causal self-attention" if subject.attention.causal else "Self-attention"
    title = ("Cross-attention" if subject.is_cross else kind) + " without parameters" * (not subject.has_projections)
    slips = tuple(n.slips["attention"]) if subject.has_projections else ()
    return Explanation(f"{title}, step by step", _subtitle(subject), name, tuple(steps), slips)


def _subtitle(subject: Subject) -> str:
    first = "0" if subject.layer_number is None else f"{subject.layer_number}.0"
    several = f"heads count from 1 (head 1 is --head {first}), dimensions from 0"
    return f"{subject.label}; {several if subject.attention.num_heads > 1 else 'dimensions count from 0'}"


_MOST_PREFIXES = 8  # passes that are compared with the whole one, spread over a long text


def in_parallel(subject: Subject, n: Notation) -> list[Step]:
    """Row t predicts token t + 1; and the same rows from passes over every prefix."""
    tokens = subject.query_tokens
    *source, decoded = subject.inputs
    if len(tokens) < 2:
        return []

    def predicted(length: int) -> Tensor:  # P of every next token of a prefix: (T, Vocab)
        return torch.softmax(subject.model(*source, decoded[:, :length]).float(), dim=-1)[0]

    whole, ends = predicted(len(tokens)), range(0, len(tokens), -(-len(tokens) // _MOST_PREFIXES))
    apart = max(float((predicted(end + 1)[end] - whole[end]).abs().max()) for end in ends)
    nexts = whole[:-1, decoded[0, 1:]]  # row t: the probability of every token that follows somewhere
    diagonal = nexts.diagonal().clamp(min=1e-30)
    pairs = ", ".join(f"{one} → {after}" for one, after in pairwise(tokens[:4]))
    sides = "Columns are inputs, rows" if n.columns_are_tokens else "Rows are inputs, columns"
    length, notes = f"{n.axes['tokens']}−1", lectures()["notes"]
    matrix = n.matrix("P(next)", nexts, tokens[:-1], tokens[1:], (length, length), kind="weights")
    measures = (
        Measure("loss of this text", float(-diagonal.log().mean()), "in nats a token"),
        Measure("largest deviation", apart, "of a prediction from a pass over its prefix alone", is_residue=True),
    )
    note = f"{sides} what follows: {pairs}{', …' if len(tokens) > 4 else ''}\n{notes['next'].format(line=n.line)}"
    formula = notes["all_at_once"].format(line=n.line)
    return [Step(f"All {n.line}s at once", formula, (matrix,), measures, note)]


def explain_scores(
    scores: Tensor, d_k: int, tokens: Sequence[str], name: NotationName = "inf721", printed: Tensor | None = None
) -> Explanation:
    """Scores Q Kᵀ of one's own, by the project's own attention; a lecture has `printed` weights behind them.
    Shape: scores and printed (T, T)."""
    n, mask = notation(name), causal_mask(len(tokens), len(tokens))
    matrix = partial(n.matrix, rows=tokens, columns=tokens, axes=PAIRS)
    with torch.inference_mode():
        scaled = scores / d_k**0.5
        _, weights = explicit_attention(scaled[None, None], torch.eye(len(tokens))[None, None], mask)
    logits, raw = f"{n.score('scaled_dot')} + {n.symbol('mask')}", f"{n.score('dot')} + {n.symbol('mask')}"
    shares, measures = [matrix("weights", weights[0, 0], kind="weights", sums=True)], list[Measure]()
    notes, scaled_formula = lectures()["notes"], n.formulas["masked"].format(scores=f"({raw}) / {n.root}")
    note = notes["row_by_row"].format(line=n.line)
    whose, slips = "scores as they are given", tuple[str, ...]()
    if printed is not None:
        shares.append(matrix("printed", printed, kind="weights", sums=True))
        measures.append(Measure("printed first row, sum", float(printed[0].sum()), "a row of a softmax sums to 1"))
        note += f"\n{shares[0].name} is what these scores come to, printed is what the lecture has."
        whose, slips = "INF721's scores", tuple(n.slips["masking"])
    hidden = scaled.masked_fill(~mask, -torch.inf)
    scaled_note = f"{divided(n, d_k)} {notes['divided_mask']}"
    steps = (
        Step("Scores", n.score("dot"), (matrix("raw", scores, kind="scores"),)),
        masking(n, scores, mask, tokens, raw, quantity="masked_raw"),
        Step("Scaled", scaled_formula, (matrix("masked", hidden, kind="scores"),), note=scaled_note),
        Step("Weights", n.formulas["weights"].format(scores=logits), tuple(shares), tuple(measures), note),
    )
    return Explanation("Causal masking, step by step", f"{whose}, {n.axes['head']} = {d_k}", name, steps, slips)


def explain_masking(subject: Subject, name: NotationName = "bishop", *, head: int | None = None) -> Explanation:
    """Masked scores and weights, and what each row predicts. A UsageError without a causal mask, or such a head."""
    if not subject.attention.causal:
        problem = f"There is no causal mask in {subject.label}: every token sees the whole text"
        raise UsageError(problem, "name a decoder or an encoder-decoder")
    n, (head, heads) = subject.notation(name), subject.heads(head)
    with torch.inference_mode():
        steps = [*scoring(subject, n, head, heads), *in_parallel(subject, n)]
    return Explanation("Causal masking, step by step", _subtitle(subject), name, tuple(steps))
