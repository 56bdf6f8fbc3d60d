"""What every test stands on: a cache of its own, one thread a process, and runs that are trained once."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Before torch is imported. Tiny models are slower on many threads than on one.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tokenizers, datasets and typed addresses of the whole session; the user's own are never touched."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TFCLI_CACHE", str(folder))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        yield folder


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache for one test, empty at first."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TFCLI_CACHE", str(folder))
    return folder


@pytest.fixture
def shared_data() -> Path:
    """The texts that lie beside the repository; a test that wants them is skipped where they do not."""
    if not SHARED.is_dir():
        pytest.skip(f"there is no folder {SHARED}: this test needs the real texts that lie beside the repository")
    return SHARED


@pytest.fixture(scope="session")
def trained(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The run directory of a tiny trained model of an architecture, made at the first call. Copy it to
    change it."""
    from tests.support.runs import tiny_recipe, train_tiny

    runs = tmp_path_factory.mktemp("runs")

    def run(architecture: str) -> Path:
        out = runs / architecture
        if not out.exists():
            longer = {
                "model": {"num_layers": 2},
                "train": {
                    "steps": 80,
                    "batch_size": 16,
                    "evaluate_every": 20,
                    "save_every": 40,
                    "log_every": 10,
                },
            }
            train_tiny(tiny_recipe(architecture, longer), out)
        return out

    return run
