"""The score that INF721 sets beside the other: additive attention of RNNs, scaled dot product of transformers."""

from collections.abc import Sequence

from tfcli.inspection.explain.notation import PAIRS, Notation
from tfcli.inspection.explain.scoring import score_formula
from tfcli.inspection.explain.subject import Subject
from tfcli.layers.attention import explicit_attention
from tfcli.layers.scores import dot_scores
from tfcli.records.explain import Step


def beside_scaled_dot(subject: Subject, n: Notation, heads: Sequence[int]) -> Step:
    """What the softmax makes of the same queries and keys, with this score and with the scaled dot product."""
    passed = subject.attention_pass
    scaled = dot_scores(passed.query, passed.key, subject.attention.head_dim**-0.5)
    scaled = scaled if passed.bias is None else scaled + passed.bias
    mask = None if passed.mask.all() else passed.mask
    _, weights = explicit_attention(scaled[None], passed.value[None], mask)
    rows, columns = subject.query_tokens, subject.key_tokens
    matrices = [
        n.matrix(quantity, values[head], rows, columns, PAIRS, head=head, kind="weights", sums=True)
        for head in heads
        for quantity, values in (("weights", passed.weights), ("weights_beside", weights[0]))
    ]
    score = subject.section.attention_score
    note = {
        "additive": "Additive scores stay within the sum of |u| of their head; scaled dot products have no bound.",
        "dot": "Without the division scores are larger, and their weights nearer to 0 and 1.",
    }[score]
    return Step(
        "Beside scaled dot product",
        f"{score_formula(subject, n)}   beside   {n.scores['scaled_dot']}",
        tuple(matrices),
        note=note,
    )
