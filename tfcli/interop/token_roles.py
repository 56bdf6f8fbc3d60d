"""Special tokens of a checkpoint: which serves as what, from the files that come with it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers.processors import TemplateProcessing

from tfcli.errors import BrokenInputError, shortened
from tfcli.interop.checkpoint import read_optional
from tfcli.records.roles import ROLE_NAMES, TokenRoles, find_roles

_SETTINGS = {"pad": ("pad",), "bos": ("bos", "cls"), "eos": ("eos", "sep"), "mask": ("mask",), "unk": ("unk",)}
"""The names that a role goes by in these files, the first that is there: BERT has cls and sep."""
ENCODER_DECODERS = ("bart", "marian", "t5", "mt5")


def special_names(folder: Path) -> dict[str, str]:
    """The names of special tokens, {"eos": "</s>", …}, from tokenizer_config.json and special_tokens_map.json."""
    found: dict[str, str] = {}
    for file in (folder / "special_tokens_map.json", folder / "tokenizer_config.json"):
        values = read_optional(file)
        for setting in chain.from_iterable(_SETTINGS.values()):
            value = values.get(f"{setting}_token")
            token = value.get("content") if isinstance(value, dict) else value
            if isinstance(token, str):
                found[setting] = token
            elif value is not None:
                problem = f"{file} has {setting}_token = {shortened(repr(value))}, not a token"
                raise BrokenInputError(problem, "restore the file")
    return found


def checkpoint_roles(backend: Backend, folder: Path, values: Mapping[str, Any], where: str) -> TokenRoles:
    """The roles of a checkpoint's special tokens. A UsageError where none can end a text of an encoder-decoder; a
    BrokenInputError where a file is damaged, or an entry is no token id. An id in config.json comes first, then one in
    generation_config.json, then a name in tokenizer_config.json and special_tokens_map.json, at last a well-known name.
    Ids count where the tokenizer has declared the token, or knows it by such a name: configs that were copied from
    another model name ordinary words, or nothing at all. Both files may list several tokens that end a text. What
    stands before one is what the tokenizer itself puts there. `where` is how to name the tokenizer in an error."""
    files = [(folder / "config.json", values)]
    files.append((folder / "generation_config.json", read_optional(folder / "generation_config.json")))
    well_known = (backend.token_to_id(name) for names in ROLE_NAMES.values() for name in names)
    known = {*backend.get_added_tokens_decoder(), *well_known}
    names = special_names(folder)

    def all_of(setting: str) -> list[int]:
        return [token_id for token_id in _ids(files, setting) if token_id in known]

    def of(*settings: str) -> int | None:
        for setting in settings:
            candidates = all_of(setting)
            if setting in names and (named := backend.token_to_id(names[setting])) is not None:
                candidates.append(named)
            if candidates:
                return candidates[0]
        return None

    ids = {role: found for role, settings in _SETTINGS.items() if (found := of(*settings)) is not None}
    if ids.get("unk") in (ids.get("bos"), ids.get("eos")):
        ids.pop("unk", None)  # GPT-2 names its one special token so, and knows every byte
    family = values.get("model_type")
    is_pair = values.get("is_encoder_decoder") is True or family in ENCODER_DECODERS
    roles = find_roles(backend.token_to_id, where, ids, may_be_endless=not is_pair)
    more_ends = [token for token in dict.fromkeys(all_of("eos")) if token != roles.eos]
    front = prefix_token_ids(backend)
    is_plain = front == (roles.bos,) and roles.bos != roles.eos and not roles.endless
    roles = replace(roles, more_ends=tuple(more_ends), text_start=None if is_plain else front)
    if not is_pair:
        return roles
    start, forced = of("decoder_start"), of("forced_bos")
    if start is None:  # no file says with what the decoder begins
        start = roles.eos if family == "bart" else roles.pad
    first = front if forced is None else (forced,)
    return replace(roles, source_start=front, target_start=(start, *first), text_start=None)


def _ids(files: list[tuple[Path, Mapping[str, Any]]], setting: str) -> Iterator[int]:
    for file, values in files:
        value = values.get(f"{setting}_token_id")
        for token in value if isinstance(value, list) else () if value is None else (value,):
            if isinstance(token, bool) or not isinstance(token, int):
                problem = f"{file} has {setting}_token_id = {shortened(repr(value))}, and the id of a token is needed"
                raise BrokenInputError(problem, "restore the file")
            yield token


def prefix_token_ids(backend: Backend) -> tuple[int, ...]:
    """What the tokenizer puts before a text: ``<s>`` for Llama and BART, nothing for GPT-2 and T5."""
    backend.no_truncation()
    backend.no_padding()
    for text in chain("a", (backend.decode([token_id]) for token_id in range(backend.get_vocab_size()))):
        if own := backend.encode(text, add_special_tokens=False).ids:
            ids = backend.encode(text, add_special_tokens=True).ids
            before = next((n for n in range(len(ids)) if ids[n : n + len(own)] == own), 0)
            return tuple(ids[:before])
    return ()


def framing_template(backend: Backend, before: list[str], after: list[str], **pair: list[str]) -> TemplateProcessing:
    """The post-processor that puts these special tokens around a text; `pair`: how it frames two texts."""
    special = [(name, backend.token_to_id(name)) for name in dict.fromkeys([*before, *after])]
    return TemplateProcessing(single=[*before, "$A", *after], special_tokens=special, **pair)
