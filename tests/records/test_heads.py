"""A head is chosen as layer and head, both whole numbers."""

import pytest

from tfcli.errors import UsageError
from tfcli.records.heads import HeadPlace, parse_place, read_head, require_head


@pytest.mark.parametrize(
    ("layer", "head", "place"),
    [
        (None, None, (None, None)),
        (1, None, (1, None)),
        (None, "1.0", (1, 0)),
        (None, "1.10", (1, 10)),
        (None, "1.1", (1, 1)),
        (None, "01.00", (1, 0)),
        (1, "1.2", (1, 2)),
        (1, "2", (1, 2)),
        (1, 2, (1, 2)),
        (None, "2", (None, 2)),
    ],
)
def test_a_head_and_a_layer_are_whole_numbers(
    layer: int | None, head: str | int | None, place: tuple[int | None, int | None]
) -> None:
    assert read_head(layer, head) == place


@pytest.mark.parametrize("head", ["", "x", "1.", ".0", "1.0.0", "-1", "1,0", "1.-1", "1e0", " 1.0", "٣", "9" * 19])
def test_anything_else_names_no_head(head: str) -> None:
    with pytest.raises(UsageError, match=r"is not a head; write LAYER.HEAD, .* such as --head 1\.0\.$"):
        read_head(None, head)


def test_a_neuron_is_written_alike() -> None:
    assert parse_place("0.63", "--neuron", "neuron") == (0, 63)
    with pytest.raises(UsageError, match=r"--neuron 7 is not a neuron; write LAYER\.NEURON"):
        parse_place("7", "--neuron", "neuron")


def test_a_float_cannot_tell_head_1_from_head_10() -> None:
    with pytest.raises(UsageError, match=r'head = 1\.1 is a number, .*; write a text: head = "1\.0"'):
        read_head(None, 1.10)


def test_a_pair_is_not_a_text() -> None:
    with pytest.raises(UsageError, match=r'head = \(0, 1\) is not a text; write .*: head = "1\.0"'):
        read_head(None, (0, 1))  # type: ignore[arg-type]


def test_a_layer_beside_a_head_of_another_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--layer 1 and --head 0\.0 name two layers; leave --layer out"):
        read_head(1, "0.0")
    with pytest.raises(UsageError, match=r'inspect\.layer = 1 and inspect\.head = "0\.0" name two layers'):
        read_head(1, "0.0", "inspect.layer", "inspect.head")


@pytest.mark.parametrize(
    ("place", "shape", "complete"),
    [
        ((None, None), (2, 4), (None, None)),
        ((1, None), (2, 4), (1, None)),
        ((1, 3), (2, 4), (1, 3)),
        ((None, 3), (1, 4), (0, 3)),
    ],
)
def test_a_model_of_one_layer_needs_no_layer(
    place: tuple[int | None, int | None], shape: tuple[int, int], complete: tuple[int | None, int | None]
) -> None:
    assert require_head(HeadPlace(*place), *shape) == complete


@pytest.mark.parametrize(
    ("place", "shape", "message"),
    [
        ((2, 0), (2, 4), "There is no layer 2: the model has 2; choose 0 to 1."),
        ((1, 9), (2, 4), "There is no head 1.9: layer 1 has heads 0 to 3; write for example --head 1.3."),
        ((None, 1), (1, 1), "There is no head 0.1: layer 0 has head 0 alone; write for example --head 0.0."),
        (
            (None, 2),
            (2, 4),
            "--head 2 names no layer, and the model has 2 layers; write LAYER.HEAD, such as --head 0.2.",
        ),
        (
            (None, 7),
            (2, 4),
            "--head 7 names no layer, and the model has 2 layers; write LAYER.HEAD, such as --head 0.3.",
        ),
    ],
)
def test_what_a_model_does_not_have_is_refused_with_what_to_write(
    place: tuple[int | None, int | None], shape: tuple[int, int], message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        require_head(HeadPlace(*place), *shape)
    assert str(refused.value) == message
