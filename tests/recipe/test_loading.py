"""From settings to a checked recipe: precedence, `--set`, and every way to be wrong."""

import ast
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import tfcli
from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.recipe import shipped
from tfcli.recipe.data import TokenizerSection
from tfcli.recipe.loading import (
    build_recipe,
    load_recorded,
    parse_assignments,
    parse_toml,
    read_recipe,
    read_toml,
    to_toml,
)
from tfcli.recipe.recipe import Recipe, known_keys
from tfcli.recipe.shipped import find_recipe


def refusal(*layers: dict[str, Any]) -> str:
    with pytest.raises(UsageError) as caught:
        build_recipe(*layers)
    return str(caught.value)


def test_nothing_given_is_the_defaults():
    assert build_recipe() == Recipe()


def test_later_layers_win_setting_by_setting():
    """Preset, size, recipe, --set and flag, in that order: each keeps what the later ones do not name."""
    preset = {"model": {"d_model": 512, "num_layers": 6, "num_heads": 8}, "train": {"steps": 1}}
    size = {"model": {"d_model": 64, "num_heads": 2}}
    recipe = {"name": "mine", "model": {"num_heads": 4, "dropout": 0.1}}
    assigned = parse_assignments(["model.dropout=0.2", "train.steps=7"])
    flag = {"train": {"steps": 9}}
    built = build_recipe(preset, size, recipe, assigned, flag)
    assert (built.name, built.model.d_model, built.model.num_layers) == ("mine", 64, 6)
    assert (built.model.num_heads, built.model.dropout, built.train.steps) == (4, 0.2, 9)


def test_layers_are_not_changed_by_merging():
    """Presets are module constants: writing into one would follow the process around."""
    first, second = {"model": {"d_model": 64}}, {"model": {"num_heads": 2}}
    build_recipe(first, second)
    assert first == {"model": {"d_model": 64}}


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("train.steps=50", {"train": {"steps": 50}}),
        ("train.learning_rate = 3e-4", {"train": {"learning_rate": 3e-4}}),
        ("model.norm=layernorm", {"model": {"norm": "layernorm"}}),
        ('model.norm="layernorm"', {"model": {"norm": "layernorm"}}),
        ("model.tie_embeddings=false", {"model": {"tie_embeddings": False}}),
        ('generate.prompts=["a", "b=c"]', {"generate": {"prompts": ["a", "b=c"]}}),
        ("name=quick start", {"name": "quick start"}),
        ("name=", {"name": ""}),
        ("data.source=a=b.txt", {"data": {"source": "a=b.txt"}}),
        ("data.source=texts/*.txt", {"data": {"source": "texts/*.txt"}}),
        ("model={d_model=8, num_heads=2}", {"model": {"d_model": 8, "num_heads": 2}}),
    ],
)
def test_an_assignment_is_toml_and_a_bare_word_is_text(assignment: str, expected: dict[str, Any]):
    assert parse_assignments([assignment]) == expected


def test_assignments_gather_and_the_same_twice_is_once():
    given = ["model.d_model=8", "train.steps=2", "model.num_heads=2", "train={steps = 2}"]
    assert parse_assignments(given) == {"model": {"d_model": 8, "num_heads": 2}, "train": {"steps": 2}}


@pytest.mark.parametrize("assignment", ["train.steps", "=5", "", "  =5"])
def test_an_assignment_without_key_or_value_is_refused(assignment: str):
    with pytest.raises(UsageError, match=r"is not key=value; write for example --set train\.steps=500"):
        parse_assignments([assignment])


@pytest.mark.parametrize(
    "assignments",
    [
        ["model=3", "model.d_model=8"],
        ["model.d_model=8", "model=3"],
        ["model=3"],
        ["model.=3"],
        [".d_model=3"],
        ["a.b.c=3"],
    ],
    ids=str,
)
def test_an_assignment_to_what_is_no_setting_is_refused(assignments: list[str]):
    with pytest.raises(UsageError):
        build_recipe(parse_assignments(assignments))


def test_a_whole_section_after_one_of_its_settings_keeps_the_setting():
    given = ["model.num_layers=2", "model={d_model=8, num_heads=2}"]
    assert build_recipe(parse_assignments(given)).model.num_layers == 2


def test_a_section_that_an_earlier_layer_spoiled_is_refused():
    assert "model" in refusal({"model": 3}, {"model": {"d_model": 8}})


@pytest.mark.parametrize(
    ("settings", "unknown", "remedy"),
    [
        (
            {"model": {"d_modle": 8}},
            "model.d_modle",
            "did you mean model.d_model: d_model = 8 under [model] (`tfcli recipes keys d_model` says more).",
        ),
        ({"model": {"n_heads": 8}}, "model.n_heads", "it is called model.num_heads: num_heads = 8 under [model] ("),
        ({"model": {"learning_rate": 1}}, "model.learning_rate", "it is called train.learning_rate: "),
        ({"modle": {"d_model": 8}}, "modle.d_model", "it is called model.d_model: "),
        ({"train": {"lerning_rate": 8}}, "train.lerning_rate", "did you mean train.learning_rate: "),
        ({"steps": 8}, "steps", "it is called train.steps: "),
        ({"nmae": "x"}, "nmae", 'did you mean name: name = "x" (`tfcli recipes keys name` says more).'),
        ({"train": {"warmpu": 8}}, "train.warmpu", "did you mean train.warmup_steps: "),
        ({"train": {"lr": 1e-3}}, "train.lr", "it is called train.learning_rate: "),
        ({"train": {"output_dir": "x"}}, "train.output_dir", "it is called --out."),
        # A slip in the spelling is one of its section; what is spelled otherwise is nothing that is near.
        ({"train": {"d_modle": 8}}, "train.d_modle", "find it with `tfcli recipes keys d_modle`."),
        ({"train": {"fold": 8}}, "train.fold", "find it with `tfcli recipes keys fold`."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unknown_key_is_refused_with_the_one_that_is_meant(settings, unknown: str, remedy: str):
    assert refusal(settings).startswith(f"{unknown!r} is not a recipe key; {remedy}")


def test_every_known_key_can_be_written():
    """`known_keys` is what suggestions come from: one that cannot be set would be a lie."""
    written = to_toml(Recipe())
    for key in known_keys():
        section, dot, name = key.rpartition(".")
        assert hasattr(getattr(Recipe(), section) if dot else Recipe(), name)
    assert len(known_keys()) == len(set(known_keys())) > written.count(" = ") / 2


@pytest.mark.parametrize(
    ("section", "name", "value", "words"),
    [
        ("train", "steps", 0, "at least 1"),
        ("train", "steps", -5, "at least 1"),
        ("model", "d_model", 0, "at least 1"),
        ("model", "dropout", 1.0, "less than 1"),
        ("model", "dropout", -0.1, "at least 0"),
        ("model", "norm_eps", 0.0, "more than 0"),
        ("data", "validation_fraction", 1.5, "less than 1"),
        ("generate", "top_p", 1.1, "at most 1"),
        ("generate", "top_p", 0, "more than 0"),
        ("train", "final_learning_rate", 2, "at most 1"),
        ("tokenizer", "vocab_size", 3, "at least 6"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(section, name, value, words):
    message = refusal({section: {name: value}})
    assert message.startswith(f"{section}.{name} = {value} is out of range; it must be {words}")


@pytest.mark.parametrize(
    ("section", "name", "value", "words"),
    [
        ("train", "steps", "50", "a whole number"),
        ("train", "steps", 1.5, "a whole number"),
        ("train", "steps", True, "a whole number"),
        ("train", "learning_rate", "fast", "a number"),
        ("train", "learning_rate", float("nan"), "a finite number"),
        ("train", "learning_rate", float("inf"), "a finite number"),
        ("model", "tie_embeddings", 1, "true or false"),
        ("model", "tie_embeddings", "yes", "true or false"),
        ("data", "validation", 3, "a text"),
        ("generate", "prompts", "one", "a list"),
        ("generate", "prompts", [1], "a text"),
        ("model", "d_model", {"x": 1}, "a whole number"),
        ("data", "source", 3, "a text"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_the_right_kind(section, name, value, words):
    message = refusal({section: {name: value}})
    assert message.startswith(f"{section}.{name} = "), message
    assert f"is not {words}" in message


def test_a_choice_that_there_is_not_is_refused_with_those_there_are():
    message = refusal({"model": {"norm": "batchnorm"}})
    assert message.startswith('model.norm = "batchnorm" is not known; choose ')
    assert "layernorm" in message
    assert "rmsnorm" in message


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model": {"d_model": 10, "num_heads": 4}}, ["d_model = 10", "num_heads = 4", "divisible"]),
        ({"model": {"num_heads": 4, "num_kv_heads": 3}}, ["num_heads = 4", "num_kv_heads = 3"]),
        ({"model": {"d_model": 12, "num_heads": 4}}, ["head size 3", "odd"]),
        ({"model": {"head_dim": 5}}, ["head size 5", "odd"]),
        ({"train": {"context": 300}, "model": {"max_seq_len": 200}}, ["train.context = 300", "max_seq_len = 200"]),
        (
            {"train": {"batch_tokens": 299, "context": 300}, "model": {"max_seq_len": 300}},
            ["train.batch_tokens = 299", "train.context = 300"],
        ),
        ({"train": {"batch_tokens": 199}, "model": {"max_seq_len": 200}}, ["train.batch_tokens = 199", "200"]),
        ({"data": {"split": "file"}}, ["data.validation"]),
        ({"data": {"split": "tail", "validation": "v.txt"}}, ["'tail'", "data.validation"]),
        ({"data": {"split": "hash", "validation": "v.txt"}}, ["'hash'", "data.validation"]),
    ],
    ids=str,
)
def test_settings_that_contradict_each_other_are_refused_naming_both(settings, words: list[str]):
    message = refusal(settings)
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    "settings",
    [
        {"model": {"d_model": 10, "num_heads": 4, "head_dim": 2}},
        {"model": {"d_model": 12, "num_heads": 4, "positions": "learned"}},
        {"model": {"num_heads": 4, "num_kv_heads": 1}},
        {"data": {"split": "file", "validation": "v.txt"}},
        {"data": {"validation": "v.txt"}},
        {"train": {"context": 128}, "model": {"max_seq_len": 128}},
        {"train": {"batch_tokens": 100, "context": 100}, "model": {"max_seq_len": 128}},
        {"train": {"batch_tokens": 100}, "model": {"max_seq_len": 128, "architecture": "encoder-decoder"}},
    ],
    ids=str,
)
def test_settings_that_only_look_contradictory_are_accepted(settings):
    build_recipe(settings)


def test_a_section_may_be_frozen_but_not_changed():
    with pytest.raises(AttributeError):
        build_recipe().model.d_model = 3  # type: ignore[misc]


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of shipped recipes of our own, and an empty working folder beside it."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    for name in ("quickstart", "shakespeare-char", "pt-en"):
        (folder / f"{name}.toml").write_text(f'name = "{name}"\n', encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setattr(shipped, "recipes_folder", lambda: folder)
    monkeypatch.chdir(work)
    return folder


def test_a_shipped_recipe_is_found_by_its_name(shelf: Path):
    assert find_recipe("pt-en") == shelf / "pt-en.toml"
    assert read_recipe("pt-en") == {"name": "pt-en"}
    assert [*shipped.shipped_recipes()] == ["pt-en", "quickstart", "shakespeare-char"]


def test_a_file_is_found_by_its_path(shelf: Path):
    Path("mine.toml").write_text("[train]\nsteps = 3\n", encoding="utf-8")
    assert build_recipe(read_recipe("mine.toml")).train.steps == 3
    assert read_recipe(str(Path("mine.toml").absolute())) == {"train": {"steps": 3}}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("quikstart", "There is no recipe 'quikstart'; did you mean 'quickstart'."),
        ("shakespeare", "did you mean 'shakespeare-char'"),
        ("zzz", "choose one of pt-en, quickstart, shakespeare-char"),
        ("mine.toml", "There is no recipe file 'mine.toml'"),
        ("folder/quickstart", "There is no recipe file 'folder/quickstart'"),
    ],
)
def test_a_recipe_that_there_is_not_is_refused(shelf: Path, name: str, words: str):
    with pytest.raises(UsageError) as caught:
        find_recipe(name)
    assert words in str(caught.value)


@pytest.mark.parametrize("content", [b"steps = ", b"\xff\xfe", b"a = 1\na = 2\n"], ids=["cut", "binary", "twice"])
def test_a_file_that_is_no_toml_is_refused_by_name(shelf: Path, content: bytes):
    Path("bad.toml").write_bytes(content)
    with pytest.raises(UsageError, match=r"The recipe bad\.toml is not valid TOML"):
        read_recipe("bad.toml")


def test_the_recipe_of_a_run_that_is_damaged_is_broken_input(tmp_path: Path):
    """Exit 1 rather than 2: the user chose nothing wrong, a file turned out broken."""
    path = tmp_path / "recipe.toml"
    path.write_text("[model]\nd_modle = 3\n", encoding="utf-8")
    with pytest.raises(BrokenInputError, match="d_modle") as caught:
        load_recorded(path)
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 1
    path.write_text(to_toml(Recipe(name="x")), encoding="utf-8")
    assert load_recorded(path) == Recipe(name="x")


def test_of_diverse_beam_search_a_recipe_may_hold_what_was_usual(tmp_path: Path):
    usual: dict[str, Any] = {"beam": 4, "beam_groups": 1, "diversity": 0.5}
    assert build_recipe({"generate": usual}) == build_recipe({"generate": {"beam": 4}})
    with pytest.raises(UsageError, match=r"generate.beam_groups = 2: diverse beam search is gone") as refused:
        build_recipe({"generate": usual | {"beam_groups": 2}})
    (tmp_path / "recipe.toml").write_text("[generate]\ndiversity = 0.7\n")
    with pytest.raises(BrokenInputError, match=r"recipe\.toml cannot be read .*diversity = 0.7") as broken:
        load_recorded(tmp_path / "recipe.toml")
    assert refused.value.remedy == broken.value.remedy == "take the line out of [generate]"


def test_bytes_of_the_command_line_that_are_no_text_are_refused():
    r"""The shell hands the byte 0xFF over as the lone surrogate \udcff, which no file can hold."""
    with pytest.raises(TfcliError, match=r"^name = "):
        build_recipe(parse_assignments(["name=\udcff"]))


def test_a_recipe_with_a_byte_order_mark_is_read(tmp_path: Path):
    path = tmp_path / "bom.toml"
    path.write_bytes(b'\xef\xbb\xbfname = "x"\n')
    assert read_toml(path) == {"name": "x"}


def test_a_recipe_that_is_nested_beyond_reason_is_refused(tmp_path: Path):
    path = tmp_path / "deep.toml"
    path.write_text("a = " + "[" * 100_000)
    with pytest.raises(UsageError, match="is not valid TOML"):
        read_toml(path)


MANY = ".".join(["a"] * 100_000)
CHAIN = ".".join(["a"] * 40)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{MANY} = 1", "a key has more than 32 parts"),
        (MANY.replace("a", '"a b"') + " = 1", "a key has more than 32 parts"),
        (f"[{MANY}]", "a key has more than 32 parts"),
        (f"train = {{ {MANY} = 1 }}", "a key has more than 32 parts"),
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("train.steps = " + "9" * 1_000_000, "a number has thousands of digits"),
        ("description = '" + "x" * (4 << 20) + "'", "larger than 4,194,304 bytes"),
    ],
)
def test_toml_that_no_recipe_needs_is_refused_at_once(tmp_path: Path, text: str, reason: str):
    """A key of 100,000 parts took a minute and 6 GB; as a run's own recipe, too."""
    path = tmp_path / "hostile.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=reason) as caught:
        read_toml(path)
    assert len(str(caught.value)) < 300 + len(str(path))
    with pytest.raises(BrokenInputError, match=reason):
        load_recorded(path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("train.steps = 0x" + "9" * 1_000_000, r"train.steps = 0x9{78}… is out of range; it must be less than 9223"),
        ("train.steps = 9223372036854775808", r"train.steps = 9223372036854775808 is out of range"),
        ("train.steps = -9223372036854775808", r"train.steps = -9223372036854775808 is out of range"),
        ("data.columns = [" + "9" * 4000 + "]", r"data.columns = 9{80}… is out of range"),
        ("name = " + "[" * 200 + "]" * 200, "name is nested too deeply"),
        ("train." + "x" * 1_000_000 + " = 1", r"'train\.x{74}…' is not a recipe key"),
        ("[[train]]\n" * 1000, r"train = \[\{\}, .{75}… is a whole section"),
        ("train.optimizer = '" + "x" * 1000 + "'", r'train.optimizer = "x{79}… is not known'),
    ],
)
def test_a_huge_value_is_refused_and_quoted_in_part(tmp_path: Path, text: str, sentence: str):
    path = tmp_path / "hostile.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=sentence) as caught:
        build_recipe(read_toml(path))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("9" * 5000, "9{80}… cannot be read: a number has thousands of digits"),
        ("[" * 100_000, "cannot be read: it is nested too deeply"),
        ("{" + MANY + " = 1}", "cannot be read: a key has more than 32 parts"),
        ("5\ntrain.seed = 3", "has several lines, and more than one setting; give each setting a --set of its own"),
    ],
)
def test_an_assignment_that_no_recipe_needs_is_refused(value: str, reason: str):
    with pytest.raises(UsageError, match=reason) as caught:
        parse_assignments([f"train.steps={value}"])
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "text", [f'''"""\n{CHAIN}\\""" {CHAIN}""""''', f"'''\n{CHAIN}'''", f'"{CHAIN}"', f"'{CHAIN}'", f"'x' # {CHAIN}"]
)
def test_a_text_or_a_comment_may_have_many_dots(text: str):
    assert parse_toml(f"description = {text}\n").keys() == {"description"}
    with pytest.raises(ValueError, match="a key has more than 32 parts"):
        parse_toml(f"description = {text}\n{CHAIN} = 1")


@pytest.mark.parametrize("begin", ['"""', "'''", '"', "#", '\\"""', '""""""""'])
def test_unfinished_texts_are_read_in_no_time(begin: str):
    with pytest.raises(ValueError, match=r"\(at |more than 32 parts"):
        parse_toml("a = " + begin + '\\""" ' * 200_000 + "\\")


def test_a_list_in_an_assignment_may_have_several_lines():
    assert parse_assignments(['data.columns=["a",\n"b"]']) == {"data": {"columns": ["a", "b"]}}


@pytest.mark.parametrize("place", ["pipe", "/dev/zero"])
def test_a_recipe_that_never_ends_is_refused(tmp_path: Path, place: str):
    path = tmp_path / "recipe.toml"
    os.mkfifo(path) if place == "pipe" else path.symlink_to(place)
    with pytest.raises(UsageError, match="is no plain file"):
        read_toml(path)


@pytest.mark.parametrize(
    "settings",
    [
        {"data": {"source": ""}},
        {"data": {"source": []}},
        {"data": {"source": ["a.txt", ""]}},
        {"data": {"validation": ""}},
        {"data": {"source": " "}},
        {"tokenizer": {"path": ""}},
        {"train": {"init": ""}},
    ],
)
def test_an_empty_name_is_no_default(settings: dict[str, Any]):
    (section, values), (key, *_) = next(iter(settings.items())), *settings.values()
    assert f"{section}.{key} " in refusal(settings), values


def test_no_name_is_a_bad_name_and_none_is_given_on(tmp_path: Path):
    assert refusal({"name": ""}).startswith("name = '' cannot be the name of a run; use letters")
    recipe = build_recipe({})
    assert (recipe.name, recipe.resolved().name) == ("", "decoder")
    assert build_recipe(parse_toml(to_toml(recipe))) == recipe
    for name in ("", "..", "/"):  # as older runs may have it
        (tmp_path / "recipe.toml").write_text(f'name = "{name}"\n')
        assert load_recorded(tmp_path / "recipe.toml").resolved().name in ("decoder", "-")


def test_the_users_toml_is_read_in_one_place():
    """Elsewhere, the bounds would be missing. The others read files of the package; views import no `tfcli.files`."""
    package = Path(tfcli.__file__).parent
    reads = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import) and any(name.name == "tomllib" for name in node.names)
    }
    assert reads == {
        "recipe/loading.py",
        "files.py",
        "generation/view.py",
        "inspection/circuits/view.py",
        "inspection/explain/latex_view.py",
        "inspection/explain/view.py",
        "inspection/heads/view.py",
        "inspection/recurrent/view.py",
        "inspection/scaling/view.py",
    }


def test_many_special_tokens_are_compared_a_few_times_each() -> None:
    """Not each with all before it: of 2,000 those were two million comparisons."""
    comparisons = 0

    class Counted(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal comparisons
            comparisons += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    tokens = tuple(Counted(f"<t{number}>") for number in range(2_000))
    section = object.__new__(TokenizerSection)
    for field in fields(TokenizerSection):
        object.__setattr__(section, field.name, field.default)
    object.__setattr__(section, "special_tokens", tokens)
    assert [*section.refusals()] == []
    assert comparisons < 100 * len(tokens)
    object.__setattr__(section, "special_tokens", (*tokens, "<t7>"))
    assert [*section.refusals()] == [("The special token '<t7>' is there already", "leave it out")]
