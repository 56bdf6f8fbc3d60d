"""The tokenizer: text to token ids and back, special tokens apart."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, pre_tokenizers
from tokenizers import Tokenizer as Backend

from tfcli import files
from tfcli.errors import BrokenInputError, UsageError, shortened
from tfcli.files import digest
from tfcli.inspection.embeddings import Word
from tfcli.records.dataset import Encoding
from tfcli.records.roles import MASK_NAMES, TokenRoles, find_roles
from tfcli.tokenization import tokenizer_json
from tfcli.tokenization.chat import ChatTemplates, read_chat_templates
from tfcli.tokenization.labels import TokenStream, WordStarts, are_one_word, labeller, lone_bytes

Framing = tuple[int | tuple[int, ...], ...]

# Unicode's white space, as the library strips it. `str.strip` also takes control characters.
WHITE_SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))

# Truncation and padding are switched off on load, and tfcli places special tokens itself.
_WITHOUT_EFFECT = ("version", "truncation", "padding", "post_processor")


def fingerprint(state: dict[str, Any], framing: Framing | None = None) -> str:
    """16 hex digits of a tokenizer's state, however laid out, and of a `framing` that its tokens' names do not say."""
    pipeline = _canonical({key: value for key, value in state.items() if key not in _WITHOUT_EFFECT})
    return digest(pipeline) if framing is None else digest(pipeline, framing)


def framing(roles: TokenRoles) -> Framing:
    """What a prepared dataset has around its texts; one thing more where they do not end."""
    before = roles.bos, roles.eos, roles.source_start, roles.target_prefix
    return before if roles.text_start is None else (*before, roles.text_start, *[()] * roles.endless)


def _canonical(value: Any) -> Any:
    """Leave out what is switched off: a new option of the library, off by default, then changes nothing."""
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items() if item is not None and item is not False}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return value


def first_characters(spellings: Iterable[str]) -> Regex:
    """Matches the first character of every such spelling, behind which a pipeline cuts it."""
    return Regex("|".join(f"{re.escape(one[0])}(?={re.escape(one[1:])})" for one in spellings))


def escape_special_tokens(backend: Backend, special: Iterable[int]) -> None:
    """See to it that no special token can be reached by its spelling."""
    backend.encode_special_tokens = True  # the library does not look for them
    # A unigram model, however, holds them as pieces like any other (T5's </s>): there, a last step before the model
    # cuts such a spelling, and nothing else, behind its first character.
    longer = [token for one in sorted(special) if len(token := backend.id_to_token(one) or "") > 1]
    reached = [t for t in longer if backend.token_to_id(t) in backend.encode(t, add_special_tokens=False).ids]
    if reached:
        before = [] if backend.pre_tokenizer is None else [backend.pre_tokenizer]
        last = pre_tokenizers.Split(first_characters(reached), "isolated")
        backend.pre_tokenizer = pre_tokenizers.Sequence([*before, last])


class Tokenizer:
    """A trained tokenizer with its special-token roles. Text never becomes a special token by its spelling. Its
    `vocab_size` is one more than the largest id. Of the library's `backend`, truncation and padding are switched off;
    `where` names it in errors. The `roles` say which special token serves as what; None: found by their names.
    UsageError: no tokens to begin, end and pad texts with; BrokenInputError: the roles name ids that it lacks."""

    def __init__(
        self,
        backend: Backend,
        where: str = "The tokenizer",
        roles: TokenRoles | None = None,
        chat: ChatTemplates | None = None,
    ) -> None:
        backend.no_truncation()
        backend.no_padding()
        self.chat = chat
        self._original, self._where = backend, where  # what is saved and compared, as it came
        self.roles = find_roles(backend.token_to_id, where) if roles is None else roles
        self.vocab_size = max(backend.get_vocab().values(), default=-1) + 1
        _check(self.roles, self.vocab_size, where)
        self._declared = backend.get_added_tokens_decoder()
        serving = set(self.roles.ids()) - {self.roles.unk}
        undeclared = [token for token_id, token in self._declared.items() if token_id in serving and not token.special]
        if undeclared:  # text would become it by its spelling
            backend = tokenizer_json.copy_backend(backend.to_str())
            for token in undeclared:
                token.special = True
            backend.add_special_tokens(undeclared)
        self._backend = backend
        # GPT-2 names the token that ends its texts as the unknown one too.
        serves_otherwise = self.roles.unk in replace(self.roles, unk=None, pad=-1).ids()
        self._unknown = None if serves_otherwise else self.roles.unk
        self._special = frozenset(token_id for token_id, token in self._declared.items() if token.special)
        escape_special_tokens(backend, self.special_ids)

    def with_roles(self, roles: TokenRoles) -> Tokenizer:
        """The same tokenizer, its special tokens serving otherwise; BrokenInputError where it lacks their ids."""
        return Tokenizer(self._original, self._where, roles, self.chat)

    def of_model(self, rows: int) -> Tokenizer:
        """The same tokenizer, whose roles say which ids of a model of so many rows (`vocab_size` up) have no token."""
        named = set(self._backend.get_vocab().values())
        missing = tuple(token_id for token_id in range(self.vocab_size) if token_id not in named)
        roles = replace(self.roles, known=self.vocab_size if self.vocab_size < rows else None, missing=missing)
        return self if roles == self.roles else self.with_roles(roles)

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits of vocabulary, merges or scores, pipeline, and a framing that the tokens' names do not say."""
        own = framing(self.roles)
        try:
            by_name = find_roles(self._backend.token_to_id, self._where)
        except UsageError:
            return fingerprint(self._state, own)
        return fingerprint(self._state, None if own == framing(replace(by_name, text_start=None)) else own)

    @cached_property
    def algorithm(self) -> str:
        """bpe, wordpiece, unigram, word or char."""
        model = self._state["model"]
        if model["type"] == "BPE":
            return "bpe" if model["merges"] or '"ByteLevel"' in self._pipeline else "char"
        return "word" if model["type"] == "WordLevel" else str(model["type"]).lower()

    @cached_property
    def ordinary_ids(self) -> frozenset[int]:
        """The ids that text is made of: the vocabulary without special tokens."""
        return frozenset(self._backend.get_vocab().values()) - self._special - set(self.roles.ids())

    @property
    def special_names(self) -> list[str]:
        """How the special tokens are spelled, the unknown one's among them."""
        ids = sorted(self._special | set(self.roles.ids()))
        return [name for token_id in ids if (name := self._backend.id_to_token(token_id))]

    @property
    def words_carry_spaces(self) -> bool:
        """Whether a word's token has the space before it."""
        return any(mark in self._pipeline for mark in ('"ByteLevel"', "▁", '"ByteFallback"'))

    @property
    def is_lossless(self) -> bool:
        """Whether every text decodes to itself: letters are bytes or spelled in them, and nothing rewrites it."""
        before = json.dumps(self._state["pre_tokenizer"])
        if len(self.fallback_bytes) == 256 and self._state["model"].get("byte_fallback"):
            return self._state["normalizer"] is None and not re.search("▁|Metaspace|Prepend|Strip", self._pipeline)
        rewritten = self._state["normalizer"] is not None or '"add_prefix_space": true' in before
        return '"ByteLevel"' in before and not rewritten and not self.missing_bytes

    @cached_property
    def missing_bytes(self) -> frozenset[str]:
        """The letters of a byte-level alphabet that the vocabulary lacks: text with these bytes loses them."""
        if '"ByteLevel"' not in json.dumps(self._state["pre_tokenizer"]):
            return frozenset()
        letters = pre_tokenizers.ByteLevel.alphabet()
        return frozenset(letter for letter in letters if self._backend.token_to_id(letter) is None)

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids that no text has: those of the special tokens, but the unknown one's."""
        return (self._special | set(self.roles.ids())) - {self.roles.unk}

    @cached_property
    def _word_starts(self) -> WordStarts:
        alone = np.isin(np.arange(self.vocab_size), list(self.special_ids))
        return WordStarts(self.labels(range(self.vocab_size)), alone, self.algorithm)

    def encode(self, text: str) -> list[int]:
        """Text to ids; no special token is added. A BrokenInputError where it holds half a surrogate pair."""
        with self._reading():
            return self._backend.encode(text, add_special_tokens=False).ids

    def encode_special(self, text: str) -> list[int]:
        """As `encode`, but the spelling of a special token becomes that token."""
        with self._reading():
            return self._spelled.encode(text, add_special_tokens=False).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Texts to ids, as `encode` and faster for many."""
        with self._reading():
            return [one.ids for one in self._backend.encode_batch_fast(list(texts), add_special_tokens=False)]

    def encode_spans(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """Texts to ids, and which of its text's characters each stands for: from, and up to."""
        with self._reading():
            return [(one.ids, one.offsets) for one in self._backend.encode_batch(list(texts), add_special_tokens=False)]

    def encode_masked(self, text: str) -> list[int]:
        """Encode a text in which the spelling of the mask token becomes the mask: "the <mask> sat".

        So does any other usual spelling of a mask ("[MASK]") that is no token of this vocabulary. A mask takes the
        place of a word as training has it: where words carry the space before them, so does the mask. A mask that is
        declared to take the white space around it (RoBERTa's takes all before it) takes that.

        Raises:
            UsageError: The tokenizer has no mask token.
        """
        mask = self.roles.mask
        if mask is None:
            raise UsageError("The tokenizer has no mask token", "use an encoder's tokenizer")
        spelled = [name for name in MASK_NAMES if self.token_id(name) is None]
        spelled.append(str(self._backend.id_to_token(mask)))
        parts = re.split("|".join(map(re.escape, spelled)), text)
        declared = self._declared.get(mask)
        if declared is not None and declared.lstrip:
            parts = [*(part.rstrip(WHITE_SPACE) for part in parts[:-1]), parts[-1]]
        if declared is not None and declared.rstrip:
            parts = [parts[0], *(part.lstrip(WHITE_SPACE) for part in parts[1:])]
        ids: list[int] = []
        for part in parts[:-1]:
            for piece in self._before_mask(part):
                ids += self.encode(piece)
            ids.append(mask)
        return ids + self.encode(parts[-1])

    def decode(self, ids: Iterable[int]) -> str:
        """Ids to text; special tokens are skipped, an unknown is shown as U+FFFD. Raises UsageError for other ids."""
        return self._decode(self._checked(ids))

    def labels(self, ids: Iterable[int]) -> list[str]:
        """One label an id for tables: the true text it stands for, with the space before it, nothing escaped. A part of
        a character is named by its bytes (``⟨E2⟩``), a special one by its name; a word's continuation keeps ``##``."""
        label = labeller(self._pipeline)
        named = self._special if self.roles.unk is None else self._special | {self.roles.unk}
        tokens = [(token_id, self._backend.id_to_token(token_id) or "") for token_id in self._checked(ids)]
        return [token if token_id in named else label(token) for token_id, token in tokens]

    def words(self, ids: Sequence[int]) -> tuple[Word, ...]:
        """The words that ids spell, in their order; every place is in one of them. A word is what stands between white
        space, and punctuation is apart. A line end stands alone, and so does a special token."""
        found: list[tuple[str, list[int]]] = []
        special = np.isin(ids, list(self.special_ids)).tolist()
        for places, label in self._characters(ids, special):
            stands_alone = special[places[0]] or (places[0] > 0 and special[places[0] - 1])
            if found and not stands_alone and self._goes_on(found[-1][0], label):
                text, before = found.pop()
                places, label = [*before, *places], text + label.removeprefix("##")
            found.append((label, places))
        words = []
        for text, places in found:
            bare, first = text.removesuffix("</w>"), places[0]
            is_word = ids[first] == self.roles.mask if special[first] else any(map(str.isalnum, text))
            kind: Literal["word", "sign", "special"] = "word" if is_word else "special" if special[first] else "sign"
            words.append(Word(bare.strip() or bare, tuple(places), kind))
        return tuple(words)

    def word_starts(self, ids: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Where words begin in rows of ids: the first of each row, and where `words` begins one; of characters that are
        cut into bytes, every one counts as a letter. Shape: ids and result (B, S)."""
        return self._word_starts(ids)

    def token_id(self, name: str) -> int | None:
        """The id of a token by its name, a special one's too; None where there is none."""
        return self._backend.token_to_id(name)

    def encoding(self, text: str, *, special: bool = False) -> Encoding:
        """A text's ids with their labels; `special`: the spelling of a special token becomes that token."""
        ids = self.encode_special(text) if special else self.encode(text)
        return Encoding(text, tuple(ids), tuple(self.labels(ids)), self.count_unknown(ids))

    def count_unknown(self, ids: Iterable[int]) -> int:
        """How many ids are the unknown token."""
        return 0 if self.roles.unk is None else sum(token_id == self.roles.unk for token_id in ids)

    def extends(self, old: Tokenizer) -> bool:
        """Whether it has more ids than another one, and all of that one's tokens have theirs."""
        vocabulary = self._backend.get_vocab()
        return self.vocab_size > old.vocab_size and old._backend.get_vocab().items() <= vocabulary.items()

    def never_made(self) -> list[int]:
        """The ids that no text is cut into: an entry whose own spelling is cut otherwise, or rewritten before. It then
        is in every longer word, for merges keep their order and the best path its parts. Bytes are not looked at."""
        cut, normalizer = self._backend.model.tokenize, self._backend.normalizer
        rewrites = normalizer.normalize_str if self.algorithm == "wordpiece" and normalizer is not None else None
        added = self._backend.get_added_tokens_decoder()
        found = []
        for token_id in sorted(self.ordinary_ids - added.keys() - self.fallback_bytes):
            name = self._backend.id_to_token(token_id) or ""
            spelling = name.removeprefix("##")
            is_rewritten = rewrites is not None and rewrites(spelling).strip() != spelling
            if is_rewritten or [token.id for token in cut(name)] != [token_id]:
                found.append(token_id)
        return found

    def stream(self, after: Iterable[int] = ()) -> TokenStream:
        """Decode one id at a time; `after` are the ids that came before and are not to be repeated."""
        return TokenStream(self._decode, self._special - {self._unknown}, self.fallback_bytes, after)

    def to_json(self) -> str:
        """The tokenizer.json that the `tokenizers` and `transformers` libraries read."""
        return self._original.to_str(pretty=True) + "\n"

    def save(self, path: Path) -> None:
        """Write the tokenizer.json, whole or not at all."""
        files.write_text(path, self.to_json())

    def _decode(self, ids: list[int]) -> str:
        with self._reading():
            if self._unknown in ids:
                return self._decode_with_unknown(ids)
            return self._backend.decode(ids, skip_special_tokens=True)

    def _decode_with_unknown(self, ids: list[int]) -> str:
        """Decode as the library does, with U+FFFD in the place of the unknown token.

        Most tokenizers from elsewhere declare the unknown token as special, so the library would drop it.
        """
        tokens = []
        for token_id in ids:
            if token_id == self._unknown:
                tokens.append(tokenizer_json.REPLACEMENT)
            elif token_id not in self._special:
                token = self._backend.id_to_token(token_id)
                if token is not None:
                    tokens.append(token)
        decoder = self._backend.decoder
        return " ".join(tokens) if decoder is None else decoder.decode(tokens)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """One sentence where the library does not take a text; where that is to be expected, nothing of its own."""
        try:
            with tokenizer_json.no_native_stderr() if self._is_doubtful else nullcontext():
                yield
        except TypeError as error:
            problem = "The text holds half a surrogate pair, which is no character"
            raise BrokenInputError(problem, "save the text as UTF-8") from error
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # of Rust code that gave up; no module has the class
                raise
            problem = f"{self._where} does not get through this text ({tokenizer_json.reason(error)})"
            raise BrokenInputError(problem, "use another tokenizer") from error

    @cached_property
    def _spelled(self) -> Backend:
        """The library's tokenizer as it came, which finds special tokens by their spelling."""
        backend = tokenizer_json.copy_backend(self._original.to_str())
        backend.encode_special_tokens = False
        return backend

    @cached_property
    def _is_doubtful(self) -> bool:
        return bool(tokenizer_json.suspicious_patterns(self._state))

    @cached_property
    def _state(self) -> dict[str, Any]:
        return json.loads(self._original.to_str())

    @cached_property
    def _pipeline(self) -> str:
        """Everything around the model, serialised."""
        parts = {key: self._state[key] for key in ("normalizer", "pre_tokenizer", "decoder")}
        return json.dumps(parts, ensure_ascii=False)

    @cached_property
    def fallback_bytes(self) -> frozenset[int]:
        """The tokens of single bytes. A run of them becomes characters if all of it is valid UTF-8, else none."""
        if '"ByteFallback"' not in self._pipeline:
            return frozenset()
        found = (self._backend.token_to_id(f"<0x{byte:02X}>") for byte in range(256))
        return frozenset(token_id for token_id in found if token_id is not None)

    def _before_mask(self, text: str) -> list[str]:
        """The text before a mask in pieces that are cut as if a word stood there."""
        if self.words_carry_spaces and text.endswith(" "):  # which goes into the mask
            return [text[:-1]]
        if '"ByteLevel"' in self._pipeline and text[-1:].isspace():  # the last line end before a word stands apart
            return [text[:-1], text[-1:]]
        return [text]

    def _goes_on(self, text: str, label: str) -> bool:
        """Whether a token belongs to the word before it."""
        if self.algorithm == "wordpiece":
            return label.startswith("##")
        return self.algorithm != "word" and not text.endswith("</w>") and are_one_word(text, label)

    def _characters(self, ids: Sequence[int], special: Sequence[bool]) -> Iterator[tuple[list[int], str]]:
        """Places with their label, those together that are parts of one character."""
        held: list[int] = []
        for place, label in enumerate(self.labels(ids)):
            if not held and (special[place] or not lone_bytes(label)):
                yield [place], label
                continue
            held.append(place)
            text = self.decode(ids[one] for one in held)
            if not text.endswith("\ufffd"):
                yield held, text
                held = []
        if held:
            yield held, "".join(self.labels(ids[one] for one in held))

    def _checked(self, ids: Iterable[int]) -> list[int]:
        checked = [int(token_id) for token_id in ids]
        for token_id in checked:
            if not 0 <= token_id < self.vocab_size:
                problem = f"There is no token id {token_id} in this vocabulary of {self.vocab_size}"
                raise UsageError(problem, f"use ids from 0 to {self.vocab_size - 1}")
        return checked


def _check(roles: TokenRoles, vocab_size: int, where: str) -> None:
    if not roles.target_prefix:
        raise BrokenInputError(f"{where} begins targets with no token", "give target_start one token at least")
    for token_id in (*roles.ids(), *roles.source_start, *roles.target_prefix):
        if not 0 <= token_id < vocab_size:
            problem = f"{where} has no token id {token_id}, which is to be one of its special tokens"
            raise BrokenInputError(problem, "restore the tokenizer that the ids belong to")


FILE_NAME = "tokenizer.json"
RECORDS = {  # the files that say a tokenizer's fingerprint and roles, how it is called, and what to do about another
    "config.json": ("this run was trained with", "restore the run's own tokenizer.json"),
    "manifest.json": ("that was made here", "restore the file, or remove its folder and make it again"),
}


def load_tokenizer(path: Path) -> Tokenizer:
    """Load a tokenizer.json, or the one a folder (a run, a prepared dataset) holds. Its roles are those that the
    folder's own config.json or manifest.json records, else they go by name. UsageError: there is none, another kind of
    file, or no special token ends a text; BrokenInputError: damaged, lost, or of another fingerprint than recorded."""
    file = path / FILE_NAME if path.is_dir() else path
    record, values = _record(file.parent) if file.name == FILE_NAME else (file, {})
    if file != path and not file.is_file():
        if record.name == "manifest.json":
            raise BrokenInputError(f"{path} has lost its {FILE_NAME}", RECORDS[record.name][1])
        problem = f"The folder {path} holds no {FILE_NAME}"
        raise UsageError(problem, "name a run, or a file made by 'tfcli tokenize train'")
    roles = None
    if isinstance(recorded := values.get("roles"), dict):
        kept = files.validated(dict[str, TokenRoles], {"roles": recorded}, record, "restore the file from a copy")
        roles = kept["roles"]
    tokenizer = Tokenizer(tokenizer_json.read_backend(file), str(file), roles, read_chat_templates(record.parent))
    if "tokenizer_fingerprint" in values and tokenizer.fingerprint != values["tokenizer_fingerprint"]:
        which, remedy = RECORDS[record.name]
        given = shortened(str(values["tokenizer_fingerprint"]))
        problem = f"{file} is not the tokenizer {which} (fingerprint {tokenizer.fingerprint}, not {given})"
        raise BrokenInputError(problem, remedy)
    return tokenizer


def _record(folder: Path) -> tuple[Path, dict[str, Any]]:
    """What tfcli recorded in `folder`, and in which file; nothing where it did not."""
    for record in (folder / name for name in RECORDS):
        values = files.read_json(record) if record.is_file() else None
        # Others, too, call their files config.json; theirs have no format version.
        if isinstance(values, dict) and "format_version" in values:
            return record, values
    return folder, {}
