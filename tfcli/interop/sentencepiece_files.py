"""SentencePiece models (Kudo and Richardson 2018) as tokenizers of the library that a run's tokenizer.json is for."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from tfcli.errors import BrokenInputError, UsageError
from tfcli.files import require_size
from tfcli.interop.checkpoint import LARGEST_FILE, read_optional
from tfcli.interop.token_roles import framing_template
from tfcli.tokenization.tokenizer import first_characters
from tfcli.tokenization.tokenizer_json import validate_tokenizer

ENDINGS = (".model", ".spm")
REMEDY = "give a tokenizer.json of the same vocabulary with --tokenizer FILE"

_FRAMES = dict.fromkeys(("t5", "mt5"), "eos") | dict.fromkeys(("llama", "mistral", "gemma"), "bos")
"""Families that number their pieces as the file does, and what each puts around a text: its end, or a beginning."""
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6
_UNIGRAM, _BPE = 1, 2
MOST_BLANKS = 1_000_000  # before a text, from which SentencePiece removes all
_MARKED = ("½̣", "ế", "ǻb", "a\r\nb", "🏽b", "각", "ﬁ̈")  # characters that a map may take together, or one by one


def sentencepiece_backend(files: Sequence[Path], family: str) -> tuple[Backend, list[str]]:
    """The tokenizer of SentencePiece files, and its special tokens; UsageError: no library or no form for the model."""
    file = files[0]
    if family not in _FRAMES or files[1:]:
        how = f"how {family or 'this family'} numbers its pieces" + f" in {len(files)} files" * (len(files) > 1)
        raise UsageError(f"{file} is a SentencePiece file, and tfcli does not know {how}", REMEDY)
    model = _parsed(file)
    _require_convertible(model, file)
    backend = Backend(_pieces_model(model))
    backend.normalizer = normalizers.Sequence(_normalizers(model.normalizer_spec, file))
    hidden = [piece.piece for piece in model.pieces if piece.type != _NORMAL and len(piece.piece) > 1]
    if hidden and model.trainer_spec.model_type == _UNIGRAM:  # such a spelling is cut behind its first character
        backend.pre_tokenizer = pre_tokenizers.Split(first_characters(hidden), "merged_with_previous")
    user_defined = _spellings(model, _USER_DEFINED)
    if user_defined:
        backend.pre_tokenizer = _isolated(user_defined, backend)
        backend.model.ignore_merges = True
    backend.decoder = _decoder(model)
    _require_same_normalization(model, backend, file)
    validate_tokenizer(json.loads(backend.to_str()))
    return backend, _spellings(model, _UNKNOWN, _CONTROL)


def add_sentinels(backend: Backend, family: str, folder: Path) -> None:
    """Declare the tokens that T5 has behind the pieces of its file."""
    count = read_optional(folder / "tokenizer_config.json").get("extra_ids", 100 if family == "t5" else 0)
    if isinstance(count, int) and 0 < count <= 1000:
        backend.add_special_tokens([f"<extra_id_{number}>" for number in reversed(range(count))])


def framed(backend: Backend, family: str, names: Mapping[str, str], folder: Path) -> None:
    """Let the tokenizer put before and behind a text what the family's own does."""
    role, settings = _FRAMES[family], read_optional(folder / "tokenizer_config.json")
    name = names.get(role, {"bos": "<s>", "eos": "</s>"}[role])
    if settings.get(f"add_{role}_token") is not False and backend.token_to_id(name) is not None:
        backend.post_processor = framing_template(backend, [name] * (role == "bos"), [name] * (role == "eos"))


def _parsed(file: Path) -> Any:
    try:
        failures = import_module("google.protobuf.message")
        form = import_module("sentencepiece.sentencepiece_model_pb2")
    except ImportError as error:
        problem = f"{file} is a SentencePiece file, and the library that reads it is not installed"
        raise UsageError(problem, f"pip install 'tfcli[sentencepiece]', or {REMEDY}") from error
    require_size(file, LARGEST_FILE)
    try:
        model = form.ModelProto.FromString(file.read_bytes())
    except failures.DecodeError as error:
        raise BrokenInputError(f"{file} is no SentencePiece model", "restore the file") from error
    except OSError as error:
        raise UsageError(f"Cannot read {file}: {error.strerror}", "check the path and its permissions") from error
    kinds = [piece.type for piece in model.pieces]
    if kinds.count(_UNKNOWN) != 1 or len({piece.piece for piece in model.pieces}) != len(kinds):
        raise BrokenInputError(f"{file} is no SentencePiece model, of different pieces", "restore the file")
    return model


def _spellings(model: Any, *types: int) -> list[str]:
    """The pieces of some types, in the order of their ids."""
    return [piece.piece for piece in model.pieces if piece.type in types]


def _require_convertible(model: Any, file: Path) -> None:
    """Refuse what the tokenizers library has no form for."""
    if model.trainer_spec.model_type not in (_UNIGRAM, _BPE):
        raise UsageError(f"{file} does not convert: its model_type is neither unigram nor bpe", REMEDY)
    user_defined = _spellings(model, _USER_DEFINED)
    if user_defined and model.trainer_spec.model_type == _UNIGRAM:
        problem = (
            f"{file} does not convert: it is a unigram model with user_defined_symbols "
            f"({user_defined[0]!r} is the first)"
        )
        raise UsageError(problem, REMEDY)
    unused = _spellings(model, _UNUSED)
    if unused:
        problem = f"{file} does not convert: it has pieces that are not used ({unused[0]!r} is the first)"
        raise UsageError(problem, REMEDY)
    controls = _spellings(model, _UNKNOWN, _CONTROL)
    _require_hidden(controls, model, file)


def _require_hidden(controls: Sequence[str], model: Any, file: Path) -> None:
    """Refuse a model in which a text could become a control token, or a piece could not be reached.

    The tokenizers library knows all pieces alike. Merges lead to no control token of two characters,
    but one character is a token by itself. In a unigram model, control tokens are cut in a text after
    their first character, so no piece may have one inside.
    """
    for control in controls:
        if len(control) == 1:
            raise UsageError(f"{file} does not convert: its control token {control!r} is one character", REMEDY)
    if model.trainer_spec.model_type != _UNIGRAM:
        return
    for piece in model.pieces:
        for control in controls:
            if piece.type == _NORMAL and control in piece.piece:
                problem = f"{file} does not convert: its piece {piece.piece!r} contains the control token {control!r}"
                raise UsageError(problem, REMEDY)


def _decoder(model: Any) -> decoders.Decoder:
    """Spaces and bytes; the blank before a text is removed, or all of them if SentencePiece removes extra ones."""
    spec = model.normalizer_spec
    steps: list[decoders.Decoder] = [decoders.Replace("▁", " ")]
    if any(piece.type == _BYTE for piece in model.pieces):
        steps.append(decoders.ByteFallback())
    steps.append(decoders.Fuse())
    if spec.remove_extra_whitespaces:
        steps.append(decoders.Strip(" ", MOST_BLANKS, 0))
    elif spec.add_dummy_prefix:
        steps.append(decoders.Strip(" ", 1, 0))
    return decoders.Sequence(steps)


def _pieces_model(model: Any) -> models.Model:
    """Unigram by the scores; BPE by every pair of pieces that makes a third, the best first."""
    fallback, kinds = model.trainer_spec.byte_fallback, [piece.type for piece in model.pieces]
    unknown = kinds.index(_UNKNOWN)
    if model.trainer_spec.model_type == _UNIGRAM:
        return models.Unigram([(piece.piece, piece.score) for piece in model.pieces], unknown, fallback)
    ids = {piece.piece: place for place, piece in enumerate(model.pieces)}
    normal = {piece.piece: piece.score for piece in model.pieces if piece.type == _NORMAL}
    merges = [
        (-score, cut, piece[:cut], piece[cut:])
        for piece, score in normal.items()
        for cut in range(1, len(piece))
        if piece[:cut] in normal and piece[cut:] in normal
    ]
    pairs = [(first, second) for _, _, first, second in sorted(merges, key=lambda merge: merge[:2])]
    name = model.pieces[unknown].piece
    return models.BPE(vocab=ids, merges=pairs, unk_token=name, fuse_unk=True, byte_fallback=fallback)


def _isolated(user_defined: Sequence[str], backend: Backend) -> pre_tokenizers.PreTokenizer:
    """Cut user-defined symbols out of a text, the longest that fits first, as SentencePiece does.

    A symbol has no merges that lead to it. The model therefore ignores merges for a part of a text
    that is a piece as a whole. That would be wrong for other pieces that merges do not lead to:
    control tokens, bytes, and some ordinary pieces. A part with the spelling of such a piece is cut
    after the first token that merges make of it.

    Args:
        user_defined: The symbols.
        backend: The tokenizer, whose model still uses merges everywhere.
    """
    steps = [pre_tokenizers.Split(Regex(_any_of(user_defined)), "isolated")]
    rests = _unreachable(set(user_defined), backend)
    if rests:
        alternatives = [rf"{re.escape(first)}(?={_any_of(of_first)}\z)" for first, of_first in rests.items()]
        cut = pre_tokenizers.Split(Regex(rf"\A(?:{'|'.join(alternatives)})"), "isolated")
        steps += [cut] * _longest_chain(rests)
    return pre_tokenizers.Sequence(steps)


def _unreachable(user_defined: set[str], backend: Backend) -> dict[str, list[str]]:
    """The spellings of pieces that merges do not lead to, each as the first token that merges
    make of it, and the rest."""
    rests: dict[str, list[str]] = {}
    for piece in sorted(backend.get_vocab(with_added_tokens=False)):
        if piece in user_defined:
            continue
        first_token = backend.model.tokenize(piece)[0]
        length = first_token.offsets[1]
        first = piece.encode()[:length].decode()
        if first != piece:
            rests.setdefault(first, []).append(piece.removeprefix(first))
    return rests


def _longest_chain(rests: Mapping[str, Sequence[str]]) -> int:
    """How often a spelling may have to be cut: once, and again if its rest is such a spelling."""
    rest_of = {first + rest: rest for first, of_first in rests.items() for rest in of_first}
    longest = 1
    for rest in rest_of.values():
        cuts = 1
        while rest in rest_of:
            rest = rest_of[rest]
            cuts += 1
        longest = max(longest, cuts)
    return longest


def _any_of(texts: Iterable[str]) -> str:
    """A pattern that matches the longest of the texts that fits. Common beginnings are written once."""
    by_first: dict[str, list[str]] = {}
    for text in sorted(texts):
        by_first.setdefault(text[:1], []).append(text[1:])
    is_optional = by_first.pop("", None) is not None
    branches = [re.escape(first) + _any_of(rests) for first, rests in by_first.items()]
    if not branches:
        return ""
    pattern = "|".join(branches)
    if is_optional:
        return f"(?:{pattern})?"
    return pattern if len(branches) == 1 else f"(?:{pattern})"


def _normalizers(spec: Any, file: Path) -> list[normalizers.Normalizer]:
    """SentencePiece's normalizer step by step. Its map of characters takes the longest sequence that it knows; the
    other library asks it for a cluster of characters as a whole and may drop the rest. So sequences are composed first
    (NFC), and clusters are cut by a character that the map removes."""
    steps: list[normalizers.Normalizer] = []
    if spec.precompiled_charsmap:
        try:
            table = normalizers.Precompiled(spec.precompiled_charsmap)
        except Exception as error:
            raise BrokenInputError(f"{file} has a map of characters that cannot be read", "restore the file") from error
        controls = map(chr, (*range(0x20), *range(0x7F, 0xA0)))
        removed = [one for one in controls if table.normalize_str(f"b{one}b") == "bb"]
        steps = [normalizers.NFC(), table]
        if removed:
            run = "".join(f"\\x{{{ord(one):x}}}" for one in removed)
            cut = normalizers.Replace(Regex(r"(?<=[\s\S])(?=[^\x00-\x7f]|\n)"), removed[0])
            steps[1:1] = [normalizers.Replace(Regex(f"\\A[{run}]+"), ""), cut]
    if spec.remove_extra_whitespaces:
        steps += [normalizers.Replace(Regex(r"\A +"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
    if spec.add_dummy_prefix:
        steps.append(normalizers.Prepend("▁"))
    steps.append(normalizers.Replace(" ", "▁"))
    return steps + [normalizers.Replace(Regex(r"▁+\z"), "")] * bool(spec.remove_extra_whitespaces)


def _require_same_normalization(model: Any, backend: Backend, file: Path) -> None:
    """Ask both libraries about every character of the basic plane, and some that a map takes together."""
    from sentencepiece import SentencePieceProcessor

    original, ours = SentencePieceProcessor(model_proto=model.SerializeToString()), backend.normalizer
    assert ours is not None
    characters = (f"b{chr(code)}b" for code in (*range(0xD800), *range(0xE000, 0x10000)))
    symbols = _spellings(model, _USER_DEFINED)
    for text in (*characters, *_MARKED, *(f"b{symbol}b" for symbol in symbols), *symbols):
        if ours.normalize_str(text) != original.normalize(text):
            shown = text.encode("unicode_escape").decode()
            raise UsageError(f"{file} does not convert: its map of characters takes '{shown}' in its own way", REMEDY)
