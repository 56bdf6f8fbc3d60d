"""A file that the user names never takes the place of what a command reads."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

import tfcli
from tfcli.errors import UsageError
from tfcli.files import cache_folder
from tfcli.outputs import begin_command, reading, reading_from, require_output, write_output


@pytest.fixture(autouse=True)
def _new_command():
    begin_command()
    yield
    begin_command()


def every_file(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder"])
def test_no_file_of_a_run_and_of_its_dataset_is_an_output(kind: str, trained: Callable[[str], Path]):
    """Every file that is really there, so that no list of names goes stale."""
    run = trained(kind)
    files = every_file(run)
    assert len(files) >= 9, "the seven of a run and a checkpoint's"
    for path in files:
        with pytest.raises(UsageError, match=r"^--svg .* is a file of the run .*; name another file\.$"):
            require_output(path, "--svg")
    made = every_file(cache_folder())
    assert any(path.suffix == ".npy" for path in made)
    for path in made:
        with pytest.raises(UsageError, match="is a file of the "):
            require_output(path, "--out")


def test_a_prepared_dataset_outside_the_cache_is_one_too(trained: Callable[[str], Path], tmp_path: Path):
    trained("decoder")
    made = next((cache_folder() / "datasets").iterdir())
    copy = tmp_path / "prepared"
    copy.mkdir()
    for path in every_file(made):
        (copy / path.name).write_bytes(path.read_bytes())
    for path in every_file(copy):
        with pytest.raises(UsageError, match=r"is a file of the prepared dataset .*prepared; name another file"):
            write_output(path, "--html", "x")


def test_a_run_s_file_is_known_behind_a_link_and_where_it_is_missing(
    trained: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "link").symlink_to(trained("decoder"))
    monkeypatch.chdir(trained("decoder"))
    (tmp_path / "picture.svg").symlink_to(trained("decoder") / "model.safetensors")
    for path in (
        tmp_path / "picture.svg",
        tmp_path / "link" / "model.safetensors",
        Path("recipe.toml"),
        Path("checkpoints/step-000099/new"),
    ):
        with pytest.raises(UsageError, match="is a file of the run"):
            require_output(path, "--svg")


def test_a_picture_beside_the_files_of_a_run_is_its_own_affair(trained: Callable[[str], Path]):
    picture = trained("decoder") / "picture.svg"
    try:
        for text in ("first", "again"):
            write_output(picture, "--svg", text)
        assert picture.read_text() == "again"
    finally:
        picture.unlink()


def test_a_tokenizer_beside_a_recipe_that_is_no_run_is_written(tmp_path: Path):
    (tmp_path / "recipe.toml").write_text('name = "mine"')
    write_output(tmp_path / "tokenizer.json", "--out", "{}")
    assert (tmp_path / "tokenizer.json").read_text() == "{}"


@pytest.mark.parametrize("name", ["n" * 300, "n/" * 3000 + "n"])
def test_a_name_that_no_file_can_have_is_refused_before_any_work(name: str, tmp_path: Path):
    with pytest.raises(UsageError, match=r"^--svg '.*…': File name too long; name another file\.$"):
        require_output(tmp_path / name, "--svg")


@pytest.mark.parametrize("first", ["source", "output"])
@pytest.mark.parametrize("name", ["mine.txt", "./sub/../mine.txt", "hard.txt", "soft.txt"])
def test_a_source_is_no_output_whichever_is_known_first(
    first: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    mine = Path("mine.txt")
    mine.write_text("my only copy")
    Path("sub").mkdir()
    Path("hard.txt").hardlink_to(mine)
    Path("soft.txt").symlink_to(mine)
    steps = [lambda: reading(mine), lambda: require_output(Path(name), "--out")]
    one, other = steps if first == "source" else steps[::-1]
    one()
    with pytest.raises(UsageError, match=r"^--out '.*\.txt' is a source that this command reads; name another file\.$"):
        other()


def test_the_next_command_may_write_what_the_last_one_read(tmp_path: Path):
    path = tmp_path / "mine.txt"
    path.write_text("old")
    reading(path)
    begin_command()
    write_output(path, "--out", "new")
    assert path.read_text() == "new"


@pytest.mark.parametrize("name", ["a.de,a.en", "*.en", "a.en", "**.en", "**/a.*", "./../*/a.??", "[ab].en"])
@pytest.mark.parametrize("first", ["source", "output"])
def test_the_sources_that_a_run_names_are_known(name: str, first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """By their names alone: a run may name what is out of reach, or what no file can be."""
    (tmp_path / "here" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    for part in ("a.de", "a.en", "sub/b.de"):
        Path(part).touch()
    for odd in ("~nobody-of-this-name/x.txt", "a\0/b.txt", "x" * 5000, "-", "builtin:stories", "hf:a/b"):
        reading_from(odd)
    steps = [lambda: reading_from(name), lambda: require_output(Path("a.en"), "--outputs")]
    one, other = steps if first == "source" else steps[::-1]
    one()
    with pytest.raises(UsageError, match=r"--outputs 'a\.en' is a source"):
        other()
    begin_command()
    reading_from(name)
    for other in ("sub/b.de", "new.en", "sub/new.en"):
        require_output(Path(other), "--outputs")


def test_two_options_never_name_one_file(tmp_path: Path):
    require_output(tmp_path / "x", "--csv")
    with pytest.raises(UsageError, match=r"^--csv and --svg are both '.*x'; name two files\.$"):
        require_output(tmp_path / "." / "x", "--svg")


def test_somebody_s_own_manifest_and_what_else_is_in_the_cache_are_no_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TFCLI_CACHE", str(tmp_path))
    (tmp_path / "manifest.json").write_text("{}")
    write_output(tmp_path / "tokenizer.json", "--out", "{}")
    with pytest.raises(UsageError, match="is a file of the cache"):
        require_output(tmp_path / "datasets" / "x" / "a.svg", "--svg")


def writers(path: Path) -> list[str]:
    """What a module calls to write a file at a place that it names itself."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "tfcli.files":
            found += [alias.name for alias in node.names]
    return [name for name in found if name in {"write_text", "write_json", "replacing", "replacing_folder"}]


def test_commands_write_what_an_option_names_in_one_way():
    """`plan --check` writes a recipe for its child into a temporary folder, and no other command writes otherwise."""
    package = Path(tfcli.__file__).parent
    modules = {*(package / "cli").rglob("*.py"), *(package / "explorer").rglob("*.py"), *package.rglob("command.py")}
    assert len(modules) > 30
    found = {path.relative_to(package).as_posix(): names for path in modules if (names := writers(path))}
    assert found == {"planning/command.py": ["write_text"]}
