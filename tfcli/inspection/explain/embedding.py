"""What enters: one-hot rows times the embedding matrix, plus positions; of a run, the vectors that its layer reads."""

from torch.nn import functional as F

from tfcli.inspection.explain.notation import VECTORS, Notation, numbered
from tfcli.inspection.explain.subject import Subject
from tfcli.records.explain import Step


def entrance(subject: Subject, n: Notation) -> Step:
    """X, and where it comes from."""
    return _reading(subject, n) if subject.words is None else _embedding(subject, n)


def _embedding(subject: Subject, n: Notation) -> Step:
    words = subject.words
    assert words is not None
    tokens, dimensions = subject.query_tokens, numbered(subject.section.d_model)
    one_hot = F.one_hot(words.ids, len(words.vocabulary)).float()
    return Step(
        "Words and positions",
        n.formulas["embed"],
        (
            n.matrix("one_hot", one_hot, tokens, words.vocabulary, ("tokens", "vocab")),
            n.matrix("table", words.table, words.vocabulary, dimensions, ("vocab", "model")),
            n.matrix("embedded", one_hot @ words.table, tokens, dimensions, VECTORS),
            n.matrix("positions", words.positions, tokens, dimensions, VECTORS),
            n.matrix("input", subject.passed.last.embedded, tokens, dimensions, VECTORS),
        ),
        note=f"A one-hot vector picks its word's vector from {n.symbol('table')}; "
        f"{n.symbol('positions')} holds sines and cosines of the position.",
    )


def _reading(subject: Subject, n: Notation) -> Step:
    passed, size = subject.attention_pass, subject.section.d_model
    matrices = [n.matrix("input", passed.x, subject.query_tokens, numbered(size), VECTORS)]
    notes = []
    if subject.is_cross:
        matrices.append(n.matrix("memory", passed.memory, subject.key_tokens, numbered(size), VECTORS))
        notes.append(f"{n.symbol('memory')} is the encoder's output: keys and values come from it.")
    if subject.section.norm_placement == "pre":
        notes.append("The norm stands before attention: these are normalised vectors.")
    if subject.signal.added is not None:
        notes.append("Positions are added to what queries and keys are projected from, and not to values.")
    return Step("What the attention reads", n.formulas["enter"], tuple(matrices), note="\n".join(notes))
