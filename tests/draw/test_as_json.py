"""The JSON contract, key by key."""

import json

import numpy as np
import pytest

from tfcli.draw.tables import to_json
from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.positions import PositionsRecord
from tfcli.records.arrays import frozen
from tfcli.records.dataset import Encoding, TokenizerReport
from tfcli.records.evaluation import Scores
from tfcli.records.generation import Candidate, Filled, Generated
from tfcli.records.runs import CheckpointSaved, Evaluated, TrainingFinished

NAN = float("nan")


def test_generated() -> None:
    assert to_json(Generated("a", " b", (3, 4), -1.5, (-1.0, -0.5), "length")) == {
        "prompt": "a",
        "text": " b",
        "token_ids": [3, 4],
        "score": -1.5,
        "log_probabilities": [-1.0, -0.5],
        "finish": "length",
    }


def test_filled() -> None:
    filled = Filled("a <mask>", ((Candidate("b", 0.75), Candidate("c", 0.25)),), "a b")
    assert to_json([filled]) == [
        {
            "prompt": "a <mask>",
            "predictions": [[{"token": "b", "probability": 0.75}, {"token": "c", "probability": 0.25}]],
            "text": "a b",
            "order": None,
        }
    ]


def test_attention_is_always_under_records() -> None:
    record = AttentionRecord("cross", ("q",), ("k", "l"), frozen([[[[0.1, 0.9]]]]))
    one = {"kind": "cross", "query_tokens": ["q"], "key_tokens": ["k", "l"], "weights": [[[[0.1, 0.9]]]]}
    assert to_json(record) == {"records": [one]}
    assert to_json([record, record]) == {"records": [one, one]}


def test_positions_have_the_contracts_keys() -> None:
    record = PositionsRecord("learned", None, 1, 2, frozen([[0.1, -2]]), frozen([1]))
    made = to_json(record)
    assert {key: made[key] for key in ("encoding", "base", "length", "d_model", "table")} == {
        "encoding": "learned",
        "base": None,
        "length": 1,
        "d_model": 2,
        "table": [[0.1, -2.0]],
    }


def test_float32_is_written_shortest_and_exactly() -> None:
    values = np.random.default_rng(0).random(1000, dtype=np.float32)
    record = AttentionRecord("cross", ("q",), ("k",) * 1000, values.reshape(1, 1, 1, 1000))
    (again,) = np.array(to_json(record)["records"][0]["weights"], dtype=np.float32)[0, 0]
    assert (again == values).all()


@pytest.mark.parametrize("bad", [NAN, float("inf"), -float("inf")])
def test_what_is_not_finite_is_null(bad: float) -> None:
    scores = Scores("r", "clm", ("s",), bad, bad, None, 1, 1, 0.5)
    made = json.loads(json.dumps(to_json(scores), allow_nan=False))
    assert made["loss"] is None
    assert made["accuracy"] == 0.5
    record = AttentionRecord("cross", ("q",), ("k", "l"), frozen([[[[bad, 0.5]]]]))
    assert to_json(record)["records"][0]["weights"] == [[[[None, 0.5]]]]


def test_events_carry_their_name() -> None:
    assert to_json(CheckpointSaved(7, "p")) == {"event": "saved", "step": 7, "path": "p"}
    assert to_json(Evaluated(7, 9, NAN, 0.5, True, 1.0))["loss"] is None
    assert to_json(TrainingFinished("done", 7, 9, 1.0, None, None, "r"))["event"] == "finished"


def test_tokenization() -> None:
    assert to_json(Encoding("a", (1,), ("a",), 0)) == {
        "text": "a",
        "token_ids": [1],
        "tokens": ["a"],
        "unknown": 0,
    }
    assert to_json(TokenizerReport("bpe", 9, "f", 1, 10, 12, 4, 0))["bytes_per_token"] == 3.0
