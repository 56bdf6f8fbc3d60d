"""Loading a tokenizer from a file or from a run, with the special tokens' roles that were recorded beside it."""

from pathlib import Path
from typing import Any

from tfcli import files
from tfcli.errors import BrokenInputError, UsageError, shortened
from tfcli.records.roles import TokenRoles
from tfcli.tokenization.backend import read_backend
from tfcli.tokenization.chat import read_chat_templates
from tfcli.tokenization.tokenizer import Tokenizer

FILE_NAME = "tokenizer.json"
RECORDS = {
    "config.json": ("this run was trained with", "restore the run's own tokenizer.json"),
    "manifest.json": ("that was made here", "restore the file, or remove its folder and make it again"),
}
"""Where a run, a prepared dataset and the cache keep the fingerprint of their tokenizer, and its roles; how that
tokenizer is called, and what to do when another one is there."""


def load_tokenizer(path: Path) -> Tokenizer:
    """Load a tokenizer.json, or the one a folder (a run, a prepared dataset) holds.

    Its roles are those that the folder's own config.json or manifest.json records, else they go by name; where one of
    them records a fingerprint, it is compared.

    Raises:
        UsageError: there is none, it is another kind of file, or it has no special tokens to end a text.
        BrokenInputError: the file, or what is recorded beside it, is damaged, it is not the one that is recorded, or a
            dataset has lost it.
    """
    file = path / FILE_NAME if path.is_dir() else path
    record, values = _record(file.parent) if file.name == FILE_NAME else (file, {})
    if file != path and not file.is_file():
        if record.name == "manifest.json":
            raise BrokenInputError(f"{path} has lost its {FILE_NAME}", RECORDS[record.name][1])
        raise UsageError(
            f"The folder {path} holds no {FILE_NAME}", "name a run, or a file made by 'tfcli tokenize train'"
        )
    roles = None
    if isinstance(values.get("roles"), dict):
        recorded = {"roles": values["roles"]}
        roles = files.validated(dict[str, TokenRoles], recorded, record, "restore the file from a copy")["roles"]
    tokenizer = Tokenizer(read_backend(file), str(file), roles, read_chat_templates(record.parent))
    if "tokenizer_fingerprint" in values and tokenizer.fingerprint != values["tokenizer_fingerprint"]:
        which, remedy = RECORDS[record.name]
        given = shortened(str(values["tokenizer_fingerprint"]))
        raise BrokenInputError(
            f"{file} is not the tokenizer {which} (fingerprint {tokenizer.fingerprint}, not {given})", remedy
        )
    return tokenizer


def _record(folder: Path) -> tuple[Path, dict[str, Any]]:
    """What tfcli recorded in `folder`, and in which file; nothing where it did not."""
    for record in (folder / name for name in RECORDS):
        values = files.read_json(record) if record.is_file() else None
        # Others, too, call their files config.json; theirs have no format version.
        if isinstance(values, dict) and "format_version" in values:
            return record, values
    return folder, {}
