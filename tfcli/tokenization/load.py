"""A tokenizer from a file or from a run."""

import json
from pathlib import Path

from tokenizers import Tokenizer as Backend

from tfcli import files
from tfcli.errors import BrokenInputError, UsageError
from tfcli.tokenization.tokenizer import Tokenizer

FILE_NAME = "tokenizer.json"


def load_tokenizer(path: Path) -> Tokenizer:
    """Load a tokenizer.json, or the one a folder (a run) holds.

    Raises:
        UsageError: there is none, it is another kind of file, or it has no special tokens to end a text.
        BrokenInputError: the file is damaged.
    """
    file = path / FILE_NAME if path.is_dir() else path
    if file != path and not file.is_file():
        raise UsageError(
            f"The folder {path} holds no {FILE_NAME}", "name a run, or a file made by 'tfcli tokenize train'"
        )
    state = files.read_json(file)
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise UsageError(f"{file} is JSON but no tokenizer", "name a file made by 'tfcli tokenize train'")
    try:
        backend = Backend.from_str(json.dumps(state))
    except Exception as error:  # the library raises no narrower kind
        raise BrokenInputError(
            f"{file} is no tokenizer that can be read ({error})", "restore the file or train it again"
        ) from error
    return Tokenizer(backend, str(file))
