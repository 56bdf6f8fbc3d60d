"""A tokenizer from a file or from a run, with the roles that were recorded beside it."""

from pathlib import Path
from typing import Any

from tfcli import files
from tfcli.errors import BrokenInputError, UsageError
from tfcli.records.roles import TokenRoles
from tfcli.tokenization.backend import read_backend
from tfcli.tokenization.tokenizer import Tokenizer

FILE_NAME = "tokenizer.json"
RECORDS = ("config.json", "manifest.json")
"""Where a run and a prepared dataset keep the roles of their tokenizer."""


def load_tokenizer(path: Path) -> Tokenizer:
    """Load a tokenizer.json, or the one a folder (a run, a prepared dataset) holds.

    Its roles are those that the folder's own config.json or manifest.json records, else they go by name.

    Raises:
        UsageError: there is none, it is another kind of file, or it has no special tokens to end a text.
        BrokenInputError: the file, or what is recorded beside it, is damaged.
    """
    file = path / FILE_NAME if path.is_dir() else path
    if file != path and not file.is_file():
        raise UsageError(
            f"The folder {path} holds no {FILE_NAME}", "name a run, or a file made by 'tfcli tokenize train'"
        )
    backend = read_backend(file)
    return Tokenizer(backend, str(file), _recorded_roles(file.parent) if file.name == FILE_NAME else None)


def _recorded_roles(folder: Path) -> TokenRoles | None:
    """The roles that tfcli recorded in `folder`; None where it did not."""
    for record in (folder / name for name in RECORDS):
        values = files.read_json(record) if record.is_file() else None
        # Others, too, call their files config.json; theirs have no roles, or no format version.
        if isinstance(values, dict) and "format_version" in values and isinstance(values.get("roles"), dict):
            return _validated(record, values["roles"])
    return None


def _validated(record: Path, roles: dict[str, Any]) -> TokenRoles:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(TokenRoles).validate_python(roles)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, ("roles", *first["loc"])))
        raise BrokenInputError(
            f"{record} is damaged at {where} ({first['msg']})", "restore the file from a copy"
        ) from error
