"""The recipes are found wherever tfcli is installed from: a wheel, an sdist, the repository itself."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RECIPES = sorted(path.name for path in (ROOT / "recipes").glob("*.toml"))

FOUND = """
import sys, site
site.addsitedir(sys.argv[1])
import tfcli
from tfcli.recipe.shipped import recipes_folder, shipped_recipes
print(tfcli.__file__)
print(recipes_folder())
print(*sorted(path.name for path in shipped_recipes().values()))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository, so that building and editing touch no original."""
    folder = tmp_path_factory.mktemp("repository") / "tfcli"
    folder.mkdir()
    for name in ("tfcli", "recipes", "tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def built(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A wheel of the tree, an sdist, and the wheel that is made from that sdist alone."""
    direct, through = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("sdist")
    _run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", direct, copy)
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", through, copy)
    return {
        "wheel": next(direct.glob("*.whl")),
        "sdist": next(through.glob("*.whl")),
        "archive": next(through.glob("*.tar.gz")),
    }


def _run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def installed(wheel: Path, folder: Path) -> list[str]:
    """Install a wheel into an empty folder, and ask there, outside the repository, what is found."""
    _run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target", folder, wheel)
    return found(folder)


def found(folder: Path) -> list[str]:
    # -S: of the environment that the tests run in, not even an editable tfcli is seen.
    return _run(sys.executable, "-S", "-c", FOUND, folder, cwd=folder).splitlines()


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_wheel_finds_the_recipes_that_it_carries(kind: str, built: dict[str, Path], tmp_path: Path):
    module, folder, recipes = installed(built[kind], tmp_path)
    assert Path(module) == tmp_path / "tfcli" / "__init__.py"
    assert Path(folder) == tmp_path / "tfcli" / "recipes"
    assert recipes.split() == RECIPES


def test_a_wheel_holds_the_package_and_its_licence(built: dict[str, Path]):
    names = zipfile.ZipFile(built["wheel"]).namelist()
    needed = {str(path.relative_to(ROOT)) for kind in ("py", "toml") for path in (ROOT / "tfcli").rglob(f"*.{kind}")}
    assert {"tfcli/corpora/stories.toml", "tfcli/corpora/pt_en.toml"} <= needed <= set(names)
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"tfcli"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_an_editable_install_reads_the_repositorys_own_recipes(copy: Path, tmp_path: Path):
    """Not a copy made when it was installed: an edited and an added recipe are seen at once."""
    build = "import sys, hatchling.build; print(hatchling.build.build_editable(sys.argv[1]))"
    wheel = _run(sys.executable, "-c", build, tmp_path, cwd=copy).splitlines()[-1]
    assert not [name for name in zipfile.ZipFile(tmp_path / wheel).namelist() if name.endswith(".toml")]

    target = tmp_path / "site"
    module, folder, recipes = installed(tmp_path / wheel, target)
    assert Path(module) == copy / "tfcli" / "__init__.py"
    assert Path(folder) == copy / "recipes"
    assert recipes.split() == RECIPES

    (copy / "recipes" / "zebra.toml").write_text('description = "Mine"\n')
    try:
        assert found(target)[2].split() == [*RECIPES, "zebra.toml"]
    finally:
        (copy / "recipes" / "zebra.toml").unlink()
