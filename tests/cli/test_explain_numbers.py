"""Numbers of one's own, as they are typed or lie in files: ``--scores``, ``--x`` and its matrices, ``--integers``."""

import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.commands import tfcli

X, WQ, WV = [[1, 0, 2], [0, 1, 1]], [[1, 0], [0, 1], [1, 1]], [[1], [2], [0]]


def values(output: str) -> dict[str, Any]:
    steps = json.loads(output)["steps"]
    return {matrix["name"]: matrix["values"] for step in steps for matrix in step["matrices"]}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Text with commas, text with spaces, and an array; K = Q."""
    (tmp_path / "x.csv").write_text("\ufeff1,0,2\n0,1,1\n", encoding="utf-8")
    (tmp_path / "wq.txt").write_text("1 0\n0\t1\n\n1 1\n")
    np.save(tmp_path / "wv.npy", np.array(WV, dtype=np.int64))
    names = {"--x": "x.csv", "--wq": "wq.txt", "--wk": "wq.txt", "--wv": "wv.npy"}
    return [word for option, name in names.items() for word in (option, str(tmp_path / name))]


def test_an_attention_of_given_matrices(files: list[str]):
    """Q = K = [3 2; 1 2], Q Kᵀ = [13 7; 7 5], V = [1; 2], all by hand."""
    shown = values(tfcli("explain", "attention", *files, "--json").stdout)
    assert shown["X"] == X and shown["W⁽q⁾"] == WQ and shown["Q"] == [[3, 2], [1, 2]] and shown["V"] == [[1], [2]]
    assert shown["QKᵀ"] == [[13, 7], [7, 5]]
    first, second = (1 / (1 + math.exp(-apart / 2**0.5)) for apart in (6, 2))
    assert shown["A"] == [pytest.approx([first, 1 - first]), pytest.approx([second, 1 - second])]
    assert shown["H"] == [[pytest.approx(2 - first)], [pytest.approx(2 - second)]]
    assert "Y" not in shown and "O" not in shown
    page = tfcli("explain", "attention", "I swim", *files, "--notation", "inf721").stdout
    assert "X_epe  T_x × d_model = 2 × 3" in page and "swim" in page and "Concat" not in page


def test_heads_and_an_output_matrix_of_ones_own(files: list[str], tmp_path: Path):
    np.save(tmp_path / "wv2.npy", np.array([[1.0, 2.0], [0.5, 0.0], [0.0, 1.0]]))
    (tmp_path / "wo.txt").write_text("1 2 0\n0 1 1\n")
    given = [*files[:-1], str(tmp_path / "wv2.npy"), "--heads", "2", "--head", "1", "--wo", str(tmp_path / "wo.txt")]
    shown = values(tfcli("explain", "attention", *given, "--json").stdout)
    q, v = np.array(X) @ np.array(WQ)[:, 1], np.array(X) @ np.array([2.0, 0.0, 1.0])
    powers = np.exp(np.outer(q, q))  # d_k = 1
    assert np.allclose(shown["H₂"], (powers / powers.sum(1, keepdims=True) @ v)[:, None])
    assert np.allclose(shown["Y"], np.array(shown["H"]) @ [[1, 2, 0], [0, 1, 1]])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"--wk": ""}, "needs --x, --wq, --wk and --wv, and --wk is missing; add it."),
        ({"--wk": "x.csv"}, "x.csv is 2 × 3, and 3 × 2 is needed; fit it to --x 2 × 3"),
        ({"--wv": "x.csv"}, "x.csv is 2 × 3, and 3 × 3 is needed"),
        ({"--wo": "x.csv"}, "x.csv is 2 × 3, and 1 × 3 is needed"),
        ({"--wq": "nowhere"}, "nowhere cannot be read: No such file or directory; name a file of numbers."),
        ({"--x": "."}, "cannot be read: Is a directory"),
        ({"--x": "ragged"}, "has another length (1) than row 1 (2); give every row as many."),
        ({"--x": "letters"}, "is 'b': no number within ±1,000,000"),
        ({"--x": "empty"}, "holds no numbers"),
        ({"--x": "bytes"}, "is neither text nor a NumPy array"),
        ({"--x": "pickled.npy"}, "is neither text nor a NumPy array"),
        ({"--x": "vector.npy"}, "has the shape (3,) of float64, and no matrix of numbers"),
        ({"--x": "nan.npy"}, "Row 1, column 2 of --x"),
        ({"--x": "wide.npy"}, "is 1 × 513: at most 512 rows and columns are drawn"),
        ({"--x": "long.npy"}, "65 rows of --x"),
        ({"--heads": "2"}, "1 of --wv cannot be shown as 2 heads; give 64 rows at most"),
        ({"--seed": "1"}, "Matrices of your own are given, and --seed asks for others; leave it out."),
        ({"--head": "1"}, "There is no head 1"),
        ({"I": ""}, "is 2 × 3, and 1 × 3 is needed"),
    ],
)
def test_matrices_that_do_not_fit(files: list[str], tmp_path: Path, changes: dict[str, str], problem: str):
    for name, text in {"ragged": "1 2\n3", "letters": "a,b\n", "empty": " \n,\n", "bytes": ""}.items():
        (tmp_path / name).write_text(text.replace("a,", "1,"))
    (tmp_path / "bytes").write_bytes(bytes(range(128, 256)))
    (tmp_path / "pickled.npy").write_bytes(pickle.dumps([[1, 2, 3]]))
    arrays = {"vector": np.ones(3), "nan": np.array([[1, np.nan]]), "wide": np.ones((1, 513)), "long": np.ones((65, 3))}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    options = dict(zip(files[::2], files[1::2], strict=True))
    for option, name in changes.items():
        options[option] = name if not name or name.isdecimal() else str(tmp_path / name)
    missing = {option for option, name in options.items() if not name and option.startswith("--")}
    words = [word for option, name in options.items() if option not in missing for word in (option, name) if word]
    result = tfcli("explain", "attention", *words)
    assert result.exit_code == 2 and result.stdout == "" and "Traceback" not in result.stderr
    assert problem in " ".join(result.stderr.split())


def test_an_array_is_never_unpickled(files: list[str], tmp_path: Path):
    class Planted:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "planted",)

    np.save(tmp_path / "x.npy", np.array([[Planted()]], dtype=object), allow_pickle=True)
    result = tfcli("explain", "attention", *files[2:], "--x", tmp_path / "x.npy")
    assert result.exit_code == 2 and not (tmp_path / "planted").exists()


def test_scores_of_ones_own():
    """Scores 0 and 3 over √4: e^0 against e^1.5."""
    shown = values(tfcli("explain", "masking", "--scores", "2 1; 0 3", "--d-k", "4", "--json").stdout)
    assert shown["softmax"] == [[1, 0], pytest.approx([1 / (1 + math.exp(1.5)), 1 / (1 + math.exp(-1.5))])]
    assert "printed" not in shown
    page = tfcli("explain", "masking", "I swim", "--scores", "2,1;0,3", "--notation", "bishop").stdout
    assert "scores as they are given, D_k = 3" in page and "swim" in page and "lecture prints" not in page


def test_the_lectures_scores_are_the_default_and_their_slip_stands_on_its_page():
    bare, typed = (
        tfcli("explain", "masking", *more).stdout for more in ((), ("--scores", "31 27 22;27 42 31;22 31 37"))
    )
    assert bare == typed and "INF721 prints other weights" in bare
    for more in (("--d-k", "4"), ("--notation", "bishop")):
        assert "prints" not in tfcli("explain", "masking", *more).stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--scores", "1 2; 3"], "Row 2 of --scores has another length (1) than row 1 (2)"),
        (["--scores", "1 a; 2 3"], "Row 1, column 2 of --scores is 'a': no number within ±1,000,000"),
        (["--scores", "1 2; -inf 3"], "Row 2, column 1 of --scores is '-inf'"),
        (["--scores", "1_0"], "is '1_0'"),
        (["--scores", "nan"], "is 'nan'"),
        (["--scores", "1 2 3; 4 5 6"], "--scores is 2 × 3, and a mask needs as many rows as columns"),
        (["--scores", ";"], "--scores holds no numbers"),
        (["--scores", ";".join(["1 " * 65] * 65)], "--scores is 65 × 65"),
        (["a b c", "--scores", "1 2; 3 4"], "The text has 3 words, and --scores 2 rows; name each row once."),
        (["--scores", "1", "--seed", "1"], "Your scores are given, and --seed would change nothing; leave it out."),
        (["a b", "--d-k", "2"], "--d-k is the size behind --scores, and a model has its own; leave it out."),
    ],
)
def test_scores_that_are_none(arguments: list[str], problem: str):
    result = tfcli("explain", "masking", *arguments)
    assert result.exit_code == 2 and result.stdout == "" and problem in " ".join(result.stderr.split())


def test_a_toy_of_whole_numbers_can_be_worked_by_hand():
    """Whole everywhere but behind the division by √4 = 2 and the softmax."""
    shown = values(tfcli("explain", "attention", "I swim", "--integers", "--json").stdout)
    for name in ("E", "R", "X", "W⁽q⁾", "W⁽k⁾", "W⁽v⁾", "Q", "K", "V", "QKᵀ", "W⁽o⁾"):
        assert np.array_equal(np.array(shown[name]) % 1, np.zeros(np.shape(shown[name]))), name
        assert np.abs(shown[name]).max() < 100
    assert np.abs(shown["W⁽q⁾"]).max() == 1 and shown["L"] == (np.array(shown["QKᵀ"]) / 2).tolist()
    assert np.array_equal(np.array(shown["X"]) @ shown["W⁽q⁾"], shown["Q"])
    other = values(tfcli("explain", "attention", "I swim", "--integers", "--seed", "1", "--json").stdout)
    assert other["W⁽q⁾"] != shown["W⁽q⁾"]
    sizes = tfcli("explain", "attention", "I swim", "--integers", "--d-model", "6", "--heads", "2").stdout
    assert "W₁⁽q⁾  D × D_k = 6 × 3" in sizes


@pytest.mark.parametrize("option", [["--bias"], ["--value-dim", "2"], ["--head-dim", "3"], ["--score", "dot"]])
def test_without_projections_nothing_has_another_size(option: list[str]):
    result = tfcli("explain", "attention", "--projection", "none", *option)
    assert result.exit_code == 2 and f"leave {option[0]} out" in result.stderr
