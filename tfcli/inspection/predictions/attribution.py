"""Direct logit attribution: what a token's logit owes to each part of a model.

The logit is h · W[token] + b, and h is a sum over parts (`decomposition.py`), so the logit is one too (Elhage et al.
2021; Nanda 2022, "direct logit attribution"). What a part does by way of later parts counts as theirs.
"""

import torch
from torch import Tensor

from tfcli.inspection.passes import record_model
from tfcli.inspection.predictions.decomposition import OUTSIDE, Summands, decomposed, exact
from tfcli.inspection.predictions.named_token import chosen_token
from tfcli.inspection.predictions.question import ask, named
from tfcli.models.head import Head, TransformHead
from tfcli.records.attribution import Attribution, Contribution
from tfcli.runs.load import LoadedRun


def attribution(
    run: LoadedRun,
    text: str,
    target: str | None = None,
    *,
    position: int | None = None,
    token: str | None = None,
    against: str | None = None,
) -> Attribution:
    """Divide the logit of a token at a position among the parts of the model.

    Args:
        position: from 0; None: as `asked.ask` chooses.
        token: its text; None: the likeliest.
        against: the text of a token whose logit is taken off; None: the logit itself.

    Raises:
        UsageError: the model has no head, or there is no such token or position.
    """
    asked = ask(run, text, target, position)
    wanted, other = (None if one is None else chosen_token(run.tokenizer, one) for one in (token, against))
    inputs, head = asked.inputs.tensors(run.device), run.model.head
    assert isinstance(head, Head)
    with torch.inference_mode():
        passed = record_model(run.model, inputs)
        logits = head(passed.last.hidden[asked.position])
        summands = decomposed(run.model, passed, asked.read[asked.position], asked.position)
        scores = named(run, logits)
        best = scores.topk(min(2, len(scores))).indices.tolist()
        wanted = best[0] if wanted is None else wanted
        label = run.tokenizer.labels
        difference = logits[wanted] - (0.0 if other is None else logits[other])
        return Attribution(
            tokens=tuple(label(asked.read)),
            position=asked.position,
            token=label([wanted])[0],
            probability=float(logits.softmax(-1)[wanted]),
            rank=1 + int((scores > logits[wanted]).sum()),
            against=None if other is None else label([other])[0],
            best=tuple(label(best)),
            logit=float(difference),
            parts=contributions(head, summands, wanted, other),
            gated=isinstance(head, TransformHead),
        )


def contributions(head: Head, summands: Summands, token: int, against: int | None = None) -> tuple[Contribution, ...]:
    """Each summand's share of a token's logit, less that of another token; the head's own bias counts as bias.

    Shape:
        summands: each (D,), as `decomposed` gives them
    """

    def less(of: Tensor) -> Tensor:
        return exact(of[token]) - (0.0 if against is None else exact(of[against]))

    direction = less(head.weight)
    values = {part: float(row @ direction) for part, row in summands.items()}
    if head.bias is not None:
        values[OUTSIDE] = values.get(OUTSIDE, 0.0) + float(less(head.bias))
    return tuple(Contribution(part, value) for part, value in values.items())
