"""Tokenizer files of a checkpoint: tokenizer.json, or older ones of byte-level BPE, WordPiece and SentencePiece."""

import re
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from tfcli.errors import BrokenInputError, UsageError, shortened
from tfcli.files import read_object, require_size
from tfcli.interop.checkpoint import LARGEST_FILE, read_optional
from tfcli.interop.sentencepiece_files import ENDINGS, REMEDY, add_sentinels, framed, sentencepiece_backend
from tfcli.interop.token_roles import checkpoint_roles, framing_template, special_names
from tfcli.records.roles import ROLE_NAMES
from tfcli.tokenization.chat import ChatTemplates
from tfcli.tokenization.tokenizer import FILE_NAME, Tokenizer, load_tokenizer
from tfcli.tokenization.tokenizer_json import copy_backend, library_refusals, read_backend, require_ids, tried

CHAT_FILE, CHAT_FOLDER, _SETTINGS = "chat_template.jinja", "additional_chat_templates", "tokenizer_config.json"


def read_tokenizer(folder: Path, values: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of a checkpoint with these `values` in config.json, and the roles of its special tokens. UsageError
    where there is none that tfcli reads, or no token can end a text; BrokenInputError where a file is damaged."""
    file, backend = _backend(folder, str(values.get("model_type", "")))
    return Tokenizer(backend, str(file), checkpoint_roles(backend, folder, values, str(file)))


def any_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer.json, that of a run or a prepared dataset, or what an import reads; errors as of `load_tokenizer`."""
    values = read_optional(path / "config.json") if path.is_dir() else {}
    older = any((path / name).is_file() for name in ("vocab.json", "vocab.txt"))
    if "format_version" not in values and (values or older):
        return read_tokenizer(path, values)
    return load_tokenizer(path)


def read_roles(tokenizer: Tokenizer, folder: Path, values: Mapping[str, Any]) -> Tokenizer:
    """Another tokenizer for a checkpoint, with the roles that the checkpoint gives its special tokens."""
    return tokenizer.with_roles(checkpoint_roles(copy_backend(tokenizer.to_json()), folder, values, "The tokenizer"))


def read_chat(folder: Path) -> ChatTemplates | None:
    """Chat templates of a checkpoint: files, else in tokenizer_config.json; BrokenInputError: damaged, or ill-named."""
    file = folder / _SETTINGS
    said = read_optional(file).get("chat_template")
    named = [{"name": "default", "template": said}] if isinstance(said, str) else said or []
    files = {"default": folder / CHAT_FILE} | {one.stem: one for one in sorted(folder.glob(f"{CHAT_FOLDER}/*.jinja"))}
    tokens = {f"{name}_token": token for name, token in special_names(folder).items()}
    if found := {name: _text(path) for name, path in files.items() if path.is_file()}:
        return ChatTemplates(found, tokens)
    try:
        templates = {one["name"]: one["template"] for one in named}
        if not all(isinstance(text, str) for text in (*templates, *templates.values())):
            raise TypeError
    except (TypeError, KeyError) as error:
        raise BrokenInputError(f"{file} has a chat_template that is no text", "restore the file") from error
    for name in templates:
        if not re.fullmatch(r"[\w.-]{1,80}", name):
            raise BrokenInputError(f"{file} has a chat template called {shortened(name)!r}", "give it a plain name")
    return ChatTemplates(templates, tokens) if templates else None


def _backend(folder: Path, family: str) -> tuple[Path, Backend]:
    """The file to name in errors, and what it says."""
    if (file := folder / FILE_NAME).is_file():
        return file, read_backend(file)
    if (file := folder / "merges.txt").is_file() and (folder / "vocab.json").is_file():
        return file, _byte_level(folder)
    if (file := folder / "vocab.txt").is_file():
        return file, _wordpiece(folder)
    if files := sorted(path for path in folder.iterdir() if path.suffix in ENDINGS):
        return files[0], _sentencepiece(files, family)
    raise UsageError(f"{folder} holds no tokenizer", REMEDY)


def _sentencepiece(files: list[Path], family: str) -> Backend:
    """Pieces as T5 and Llama keep them."""
    folder = files[0].parent
    backend, special = sentencepiece_backend(files, family)
    with library_refusals(files[0]):
        backend.add_special_tokens([_special(name) for name in special])
        add_sentinels(backend, family, folder)
        _declare(backend, folder, backend.get_vocab())
        framed(backend, family, special_names(folder), folder)
        for _ in range(4):  # the library reads some scores an ulp beside what it writes, until it has done so often
            backend = copy_backend(backend.to_str())
        return tried(backend)


def _byte_level(folder: Path) -> Backend:
    """Byte-level byte-pair encoding, as GPT-2, RoBERTa and BART keep it: vocab.json and merges.txt."""
    vocabulary = _vocabulary(folder / "vocab.json")
    file = folder / "merges.txt"
    merges: list[tuple[str, str]] = []
    for number, line in enumerate(_lines(file), 1):
        if line and not line.startswith("#version"):
            first, *second = line.split(" ")
            if len(second) != 1:
                problem = f"{file} has {line[:80]!r} in line {number}, and two pieces are needed"
                raise BrokenInputError(problem, "restore the file")
            merges.append((first, second[0]))
    settings = read_optional(folder / _SETTINGS)
    prefix_space = settings.get("add_prefix_space") is True
    with library_refusals(file):
        backend = Backend(models.BPE(vocab=vocabulary, merges=merges))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
        backend.decoder = decoders.ByteLevel()
        _declare(backend, folder, vocabulary)
        if settings.keys() & {"add_bos_token", "add_eos_token"}:
            # A tokenizer.json says it itself, whatever stands beside it, as transformers 5 has it.
            named = dict.fromkeys(("bos", "eos"), "<|endoftext|>") | special_names(folder)
            before, after = (
                [named[one]] * bool(settings.get(f"add_{one}_token") and backend.token_to_id(named[one]) is not None)
                for one in ("bos", "eos")
            )
            backend.post_processor = framing_template(backend, before, after)
        elif "<s>" in vocabulary and "</s>" in vocabulary:
            backend.post_processor = processors.RobertaProcessing(
                ("</s>", vocabulary["</s>"]), ("<s>", vocabulary["<s>"]), add_prefix_space=prefix_space
            )
        else:
            backend.post_processor = processors.ByteLevel(trim_offsets=False)
        return tried(backend)


def _wordpiece(folder: Path) -> Backend:
    """WordPiece as BERT keeps it: vocab.txt, a token a line."""
    file = folder / "vocab.txt"
    vocabulary = {token: token_id for token_id, token in enumerate(_lines(file))}
    settings = read_optional(folder / _SETTINGS)
    names = {"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]"} | special_names(folder)
    unk, cls, sep = (names[role] for role in ("unk", "cls", "sep"))
    if unk not in vocabulary:  # which the algorithm cannot do without
        raise BrokenInputError(f"{file} lacks the token {unk!r}", "restore the file")
    strip_accents = settings.get("strip_accents")
    with library_refusals(file):
        backend = Backend(models.WordPiece(vocabulary, unk_token=unk, max_input_chars_per_word=100))
        backend.normalizer = normalizers.BertNormalizer(
            lowercase=settings.get("do_lower_case") is not False,
            handle_chinese_chars=settings.get("tokenize_chinese_chars") is not False,
            strip_accents=strip_accents if isinstance(strip_accents, bool) else None,
        )
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.WordPiece(prefix="##")
        _declare(backend, folder, vocabulary)
        if cls in vocabulary and sep in vocabulary:
            backend.post_processor = processors.TemplateProcessing(
                single=f"{cls}:0 $A:0 {sep}:0",
                pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
                special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])],
            )
        return tried(backend)


def _declare(backend: Backend, folder: Path, vocabulary: Mapping[str, int]) -> None:
    """Declare the added tokens, and as special those with well-known names and those that the folder's files name."""
    file = folder / "added_tokens.json"
    added = sorted(_vocabulary(file, len(vocabulary)).items(), key=itemgetter(1)) if file.exists() else []
    names = {name for well_known in ROLE_NAMES.values() for name in well_known} | set(special_names(folder).values())
    backend.add_special_tokens([_special(name) for name in vocabulary if name in names])
    for name, token_id in added:
        backend.add_tokens([_special(name) if name in names else AddedToken(name, normalized=False)])
        if (given := backend.token_to_id(name)) != token_id:
            problem = f"{file} gives {name!r} the id {token_id}, which is {given} here"
            raise BrokenInputError(problem, "restore the file")


def _special(name: str) -> AddedToken:
    # RoBERTa's mask takes the space before it along, as its words do.
    return AddedToken(name, special=True, normalized=False, lstrip=name == "<mask>")


def _vocabulary(file: Path, entries: int = 0) -> dict[str, int]:
    """`entries` are those of another file, to which it adds."""
    vocabulary = read_object(file, LARGEST_FILE)
    try:
        require_ids(str(file), vocabulary.items(), entries + len(vocabulary))
    except ValueError as error:
        raise BrokenInputError(str(error), "restore the file") from error
    return vocabulary


def _lines(file: Path) -> list[str]:
    """Line ends alone end one, for tokens may hold any other character."""
    return _text(file).removesuffix("\n").split("\n")


def _text(file: Path) -> str:
    require_size(file, LARGEST_FILE)
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Cannot read {file}: {error.strerror}", "check the path and its permissions") from error
    except UnicodeDecodeError as error:
        raise BrokenInputError(f"{file} is not UTF-8 text (byte {error.start})", "restore the file") from error
