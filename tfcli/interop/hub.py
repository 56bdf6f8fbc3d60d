"""Hugging Face hub, `hf:owner/name[@revision]`: checkpoints fetched into the hub's own cache, nothing of them run."""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

from tfcli.corpora.hub import PREFIX
from tfcli.errors import TfcliError, UsageError, first_lines
from tfcli.interop.checkpoint import CONFIG_NAME, weights_name

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "chat_template.jinja",
    "tokenizer.model",
    "spiece.model",
    "source.spm",
    "target.spm",
)
_NAME = re.compile(r"hf:(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>(?!.*\.\.)\w[\w./-]*))?", re.ASCII)
_SHARDS = {
    "model.safetensors.index.json": "model-*.safetensors",
    "pytorch_model.bin.index.json": "pytorch_model-*.bin",
}


def is_hub_name(source: str) -> bool:
    """Whether a checkpoint is named on the hub, not by its folder."""
    return source.startswith(PREFIX)


def fetch(name: str) -> Path:
    """Fetch the files of a checkpoint that tfcli reads, or find them in the cache where the hub cannot be reached.

    Args:
        name: `hf:owner/name`, or `hf:owner/name@revision` (a branch, a tag or a commit).

    Returns:
        The folder that holds them.

    Raises:
        UsageError: the name is malformed, there is no such model or revision, access to it must be asked for, or it
            has no weights that tfcli reads.
        TfcliError: the hub cannot be reached, and the cache does not have it.
    """
    match = _NAME.fullmatch(name)
    if not match:
        raise UsageError(f"{name!r} is no model name", "write hf:owner/name or hf:owner/name@revision")
    repository, revision = match["name"], match["revision"]
    with _explained(name):
        library = _library()
        from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

        try:
            info = library.HfApi().model_info(repository, revision=revision)
        except (HFValidationError, RepositoryNotFoundError, RevisionNotFoundError):  # the hub has answered no
            raise
        except Exception:
            if not (cached := _cached(library, repository, revision)):
                raise
            return cached
        wanted = needed([file.rfilename for file in info.siblings or []], name)
        # By its name rather than by its commit: the cache then knows what the name stood for.
        return Path(library.snapshot_download(repository, revision=revision, allow_patterns=wanted))


def needed(files: Sequence[str], name: str) -> list[str]:
    """Those of a model's files that tfcli reads: config, tokenizer, and weights in one form alone.

    Raises:
        UsageError: it has no config, or no weights in a form that tfcli reads.
    """
    if CONFIG_NAME not in files:
        raise UsageError(f"{name} has no {CONFIG_NAME}", "name a model in the transformers layout")
    weights = weights_name(files, name)
    small = {CONFIG_NAME, "generation_config.json", *TOKENIZER_FILES}
    shards = _SHARDS.get(weights)
    return [
        file
        for file in files
        if fnmatch(file, "additional_chat_templates/*.jinja")
        or ("/" not in file and (file in small or file == weights or (shards and fnmatch(file, shards))))
    ]


def _library() -> ModuleType:
    """Import `huggingface_hub`; what goes wrong is said by our errors, so its own log lines and bars are off."""
    import huggingface_hub
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
    return huggingface_hub


def _cached(library: ModuleType, repository: str, revision: str | None) -> Path | None:
    """The folder of an earlier fetch; None where there was none. Whether it is whole shows when it is read."""
    try:
        folder = library.snapshot_download(
            repository, revision=revision, local_files_only=True, allow_patterns=[CONFIG_NAME]
        )
    except Exception:  # the error that led here says more
        return None
    return Path(folder)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn whatever the library raises while it fetches `name` into one plain sentence."""
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        yield
    except TfcliError:
        raise
    except Exception as error:
        for kind, problem, remedy in (
            (
                GatedRepoError,
                f"Access to {name} must be asked for",
                "accept its terms on huggingface.co, then run 'hf auth login'",
            ),
            (RevisionNotFoundError, f"{name} names a revision that is not there", "check it on huggingface.co"),
            (HFValidationError, f"{name} is no model name ({first_lines(error)})", "write hf:owner/name"),
            (
                RepositoryNotFoundError,
                f"There is no model {name} that you may read",
                "check the name on huggingface.co, or run 'hf auth login' where it is private",
            ),
        ):
            if isinstance(error, kind):
                raise UsageError(problem, remedy) from error
        raise TfcliError(
            f"Cannot fetch {name} ({first_lines(error)})",
            "check the network, or download the model and name its folder",
        ) from error
