"""Tokens that steer terminals, are wide, are nothing or run from right to left, in the pictures of predictions."""

from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from tests.inspection import test_attribution_view as test_attribution
from tests.inspection import test_input_attribution_view as test_inputs
from tests.inspection import test_lens_view as test_lens
from tests.inspection import test_losses_view as test_losses
from tests.inspection import test_predictions_view as test_predictions
from tests.support.consoles import ColorSystem, printed
from tfcli.inspection.attribution.view import AttributionView, InputAttributionView
from tfcli.inspection.predictions.view import LensView, LossesView, PredictionsView
from tfcli.records.generation import Candidate

ODD = ("\x1b[2J", "日本語の文章です", "👩‍👩‍👧", "שלום", "\n", "\u202e", "", "e\u0301", "x" * 50)
CANDIDATES = tuple(Candidate(token, 0.1) for token in ODD)
COUNT = len(ODD)


def views() -> dict[str, Any]:
    prediction = test_predictions.RECORD.predictions[0]
    lens = test_lens.RECORD
    token = test_losses.RECORD.tokens[2]
    return {
        "predictions": PredictionsView(
            replace(
                test_predictions.RECORD,
                predictions=tuple(
                    replace(prediction, position=n, read=odd, answer=odd, candidates=CANDIDATES)
                    for n, odd in enumerate(ODD)
                ),
            )
        ),
        "lens": LensView(
            replace(
                lens,
                tokens=ODD,
                answers=ODD,
                top=(ODD, ODD, ODD),
                probabilities=lens.probabilities[:, [0] * COUNT],
                final=lens.final[:, [0] * COUNT],
                settled=(0,) * COUNT,
                candidates=(CANDIDATES,) * 3,
            )
        ),
        "losses": LossesView(
            replace(
                test_losses.RECORD,
                tokens=tuple(replace(token, token=odd, text=odd, best=Candidate(odd, 0.1)) for odd in ODD),
            )
        ),
        "attribution": AttributionView(
            replace(test_attribution.RECORD, tokens=(ODD[0], ODD[1]), token=ODD[2], best=(ODD[2], ODD[0]))
        ),
        "input attribution": InputAttributionView(replace(test_inputs.RECORD, read=ODD[:4], baseline=ODD[1])),
    }


@pytest.mark.parametrize("name", views())
@pytest.mark.parametrize(("width", "color"), [(60, None), (80, "truecolor")])
def test_they_stay_in_their_places(name: str, width: int, color: ColorSystem | None):
    shown = printed(views()[name], width, color)
    assert "\x1b[2J" not in shown and "\u202e" not in shown
    if color is None:
        assert max(cell_len(line) for line in shown.splitlines()) <= width
