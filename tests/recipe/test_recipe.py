"""A recipe's own rules: saving, resolving, comparing, and that every field says what it is."""

import ast
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tfcli.recipe
from tfcli.recipe.loading import build_recipe, first_difference, to_toml
from tfcli.recipe.recipe import SECTIONS, Recipe

FINITE = {"allow_nan": False, "allow_infinity": False}
odd_text = st.text(max_size=8) | st.sampled_from(
    [
        '"',
        "'''",
        '"""',
        "\\",
        "\\u0041",
        "\x00",
        "\x7f",
        "\x85",
        "\u2028",
        "a\r\nb",
        "\t",
        "é",
        "😀",
        "#",
        "= [",
        "\ufeff",
    ]
)
some_text = odd_text.filter(str.strip)  # blanks alone name nothing
positive = st.floats(min_value=0, exclude_min=True, **FINITE)
fraction = st.floats(0, 1, exclude_min=True, exclude_max=True)


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


WRITTEN: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "tokenizer": {
        "algorithm": st.sampled_from(["bpe", "char"]),
        "vocab_size": st.integers(6, 2_000_000),
        "lowercase": st.booleans(),
        "path": optional(some_text),
    },
    "data": {
        "source": optional(some_text | st.lists(some_text, min_size=1, max_size=3)),
        "columns": optional(st.lists(odd_text, max_size=2)),
        "validation_fraction": fraction,
        "max_documents": optional(st.integers(1, 2**63 - 1)),
    },
    "model": {
        "position_base": st.floats(min_value=1, exclude_min=True, **FINITE),
        "norm_eps": positive,
        "vocab_size": optional(st.integers(2, 1 << 24)),
        "scale_embeddings": optional(st.booleans()),
    },
    "train": {"learning_rate": positive, "label_smoothing": optional(st.floats(0, 0.99)), "adam_eps": positive},
    "generate": {"prompts": st.lists(odd_text, max_size=3), "temperature": st.floats(min_value=0, **FINITE)},
    "inspect": {"attention": optional(odd_text), "positions": st.integers(0, 500)},
    "check": {"max_loss": optional(positive)},
    "result": {"reached": odd_text, "minutes": optional(st.floats(**FINITE))},
}


@st.composite
def settings_of_a_recipe(draw: st.DrawFn) -> dict[str, Any]:
    written: dict[str, Any] = {
        "name": draw(st.from_regex(r"[\w-][\w.-]{0,24}", fullmatch=True)),
        "description": draw(odd_text),
    }
    for section, names in WRITTEN.items():
        written[section] = {name: draw(strategy) for name, strategy in names.items()}
        written[section] = {name: value for name, value in written[section].items() if value is not None}
    return written


@settings(max_examples=80, deadline=None)
@given(settings_of_a_recipe())
def test_what_is_saved_is_read_back(written: dict[str, Any]):
    """Whatever stands in texts, and to the last bit of every number."""
    recipe = build_recipe(written)
    assert recipe.name == written["name"]
    assert build_recipe(tomllib.loads(to_toml(recipe))) == recipe


@settings(max_examples=40, deadline=None)
@given(odd_text)
def test_a_saved_recipe_survives_a_file(tmp_path_factory: pytest.TempPathFactory, text: str):
    """Reading a text file turns \\r\\n into \\n: what matters must be escaped."""
    path = tmp_path_factory.getbasetemp() / "drawn.toml"
    recipe = replace(Recipe(), description=text)
    path.write_text(to_toml(recipe), encoding="utf-8")
    assert build_recipe(tomllib.loads(path.read_text(encoding="utf-8"))) == recipe


def test_every_setting_that_has_a_value_is_written_out():
    """The file alone must reproduce the run, even where a later version has other defaults."""
    written = tomllib.loads(to_toml(Recipe().resolved()))
    for section in ("tokenizer", "data", "model", "train", "generate"):
        values = getattr(Recipe().resolved(), section)
        expected = {f.name for f in fields(values) if getattr(values, f.name) is not None}
        assert set(written[section]) == expected, section


@pytest.mark.parametrize(
    ("architecture", "source", "smoothing"),
    [
        ("decoder", "builtin:stories", 0.0),
        ("encoder", "builtin:stories", 0.0),
        ("encoder-decoder", "builtin:pt-en", 0.1),
    ],
)
def test_resolving_writes_out_what_follows_from_the_architecture(architecture: str, source: str, smoothing: float):
    recipe = build_recipe({"model": {"architecture": architecture, "max_seq_len": 77}}).resolved()
    assert recipe.name == architecture
    assert recipe.data.source == source
    assert recipe.train.label_smoothing == smoothing
    assert recipe.train.context == 77


def test_resolving_leaves_what_was_chosen():
    chosen = {
        "name": "mine",
        "data": {"source": ["a.txt", "b.txt"]},
        "train": {"context": 16, "label_smoothing": 0.0},
        "model": {"architecture": "encoder-decoder"},
    }
    recipe = build_recipe(chosen)
    assert recipe.resolved() == recipe
    assert recipe.data.source == ("a.txt", "b.txt")


def test_resolving_twice_is_resolving_once():
    assert Recipe().resolved().resolved() == Recipe().resolved()


def test_no_difference_between_a_recipe_and_itself_or_what_is_only_shown():
    recipe = Recipe().resolved()
    shown = build_recipe({"generate": {"seed": 3}, "inspect": {"positions": 8}, "name": "x"}).resolved()
    assert first_difference(recipe, recipe) is None
    assert first_difference(shown, recipe) is None


@pytest.mark.parametrize(
    ("section", "name", "value", "recorded"),
    [
        ("tokenizer", "vocab_size", 500, 2048),
        ("data", "source", "other.txt", "builtin:stories"),
        ("model", "d_model", 64, 128),
        ("train", "seed", 3, 0),
        ("train", "label_smoothing", 0.2, 0.0),
    ],
)
def test_the_first_difference_is_named_with_both_values(section: str, name: str, value: Any, recorded: Any):
    wanted = build_recipe({section: {name: value}})
    assert first_difference(wanted, Recipe().resolved()) == (f"{section}.{name}", value, recorded)


def test_sections_are_compared_in_the_order_of_the_stages():
    wanted = build_recipe({"train": {"steps": 3}, "model": {"d_model": 64}, "tokenizer": {"vocab_size": 99}})
    assert first_difference(wanted, Recipe())[0] == "tokenizer.vocab_size"


def test_what_the_wanted_recipe_leaves_open_may_have_been_decided():
    """None and "auto" are decided once, when the run begins; asking again must not look like a change."""
    decided = {"windows": "documents", "device": "cuda", "precision": "bfloat16", "threads": 8}
    recorded = build_recipe({"model": {"vocab_size": 1000}, "train": decided})
    assert first_difference(Recipe(), recorded) is None
    wanted = build_recipe({"train": {"windows": "stream"}})
    assert first_difference(wanted, recorded) == ("train.windows", "stream", "documents")
    wanted = build_recipe({"train": {"device": "cpu"}})
    assert first_difference(wanted, recorded) == ("train.device", "cpu", "cuda")


@pytest.mark.parametrize(
    ("section", "name", "recorded"), [("data", "max_documents", 100), ("model", "d_ff", 48), ("model", "head_dim", 64)]
)
def test_a_default_of_none_is_a_wish_where_the_run_decides_nothing(section: str, name: str, recorded: int):
    """A run with another inner size is another model, although the wanted recipe does not name one."""
    difference = first_difference(Recipe(), build_recipe({section: {name: recorded}}))
    assert difference == (f"{section}.{name}", None, recorded)


def test_the_sizes_that_follow_from_others():
    model = build_recipe({"model": {"d_model": 48, "num_heads": 4}}).model
    assert (model.size_per_head, model.kv_heads, model.inner_size) == (12, 4, 128)
    model = build_recipe({"model": {"head_dim": 6, "num_kv_heads": 2, "d_ff": 9}}).model
    assert (model.size_per_head, model.kv_heads, model.inner_size) == (6, 2, 9)
    objectives = {a: build_recipe({"model": {"architecture": a}}).model.objective for a in ("decoder", "encoder")}
    assert objectives == {"decoder": "clm", "encoder": "mlm"}


@pytest.mark.parametrize(
    ("settings", "scale"),
    [
        ({}, 8.0),
        ({"initialization": "gpt2"}, 1.0),
        ({"initialization": "gpt2", "positions": "sinusoidal"}, 8.0),
        ({"scale_embeddings": False}, 1.0),
        ({"initialization": "gpt2", "scale_embeddings": True}, 8.0),
    ],
    ids=str,
)
def test_embeddings_are_scaled_for_copying_and_for_sinusoids_unless_said_otherwise(
    settings: dict[str, Any], scale: float
):
    """√64 = 8."""
    assert build_recipe({"model": {"d_model": 64, **settings}}).model.embedding_scale == scale


def undocumented(source: str) -> list[str]:
    """Fields of dataclasses without a docstring on the line below. A section within a recipe documents
    itself."""
    missing = []
    for kind in (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.decorator_list):
        for node, below in zip(kind.body, [*kind.body[1:], None], strict=True):
            if not isinstance(node, ast.AnnAssign) or "default_factory" in ast.unparse(node):
                continue
            documented = (
                isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
                and below.value.value.strip()
            )
            if not documented:
                missing.append(f"{kind.name}.{ast.unparse(node.target)}")
    return missing


FILES = sorted(Path(next(iter(tfcli.recipe.__path__))).glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_setting_is_documented_below_its_default(path: Path):
    assert undocumented(path.read_text(encoding="utf-8")) == []


def test_an_undocumented_setting_is_found():
    source = "@dataclass\nclass A:\n    x: int = 1\n    '''Good.'''\n    y: int = 2\n"
    assert undocumented(source) == ["A.y"]


def test_every_section_and_setting_has_a_default():
    """`tfcli train --arch decoder` with nothing else: no recipe may demand a setting."""
    stages = {"tokenizer", "data", "model", "train", "generate", "evaluate", "inspect"}
    assert set(SECTIONS) == {*stages, "check", "result", "origin"}
    for kind in SECTIONS.values():
        assert kind() == kind()
