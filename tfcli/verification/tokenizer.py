"""Tokenizer round trip: text, ids and back, for every text that there is."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from tokenizers import Tokenizer as Backend

from tfcli.tokenization.tokenizer import Tokenizer
from tfcli.tokenization.tokenizer_json import REPLACEMENT, copy_backend
from tfcli.verification.check import Finding, VerifiedRun, at_most, proof

ZWJ, SKIN = "\u200d", "\U0001f3fd"

_TEXTS = (
    # Nothing, spaces, and every line end.
    *("", " ", "  ", "\t", "\n", "\r\n", "\r", "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"),
    *(" leading", "trailing ", "  two  and   three    ", "tab\tand\ttabs\t\t\n\t"),
    "\n\nlines\n\n\nand\r\nlines\r",
    "\u00a0\u1680\u2000\u2003\u200a\u202f\u205f\u3000 \u200b\u2060\ufeff \u00ad soft",
    # NUL, and all control characters.
    "\x00NUL in \x00 text\x00",
    "".join(map(chr, range(0x20))) + "\x7f" + "".join(map(chr, range(0x80, 0xA0))),
    # One text in two ways; marks without a letter, and many on one.
    *("e\u0301 \u00e9 n\u0303 \u00f1 A\u030a \u212b \ufb01", "\u0301lonely mark", "o\u0323\u0302 \u1ed9"),
    "Z\u0351\u036b\u0343\u036a\u0302a\u0321\u034a\u0360l\u0328\u034dg\u0330\u0332\u0356o\u031b\u0352" * 3,
    # Emoji of several code points: a family, a skin tone, a flag of four, a flag of two.
    f"\U0001f469{ZWJ}\U0001f469{ZWJ}\U0001f467{ZWJ}\U0001f466 \U0001f44d{SKIN}",
    f"\U0001f3f3\ufe0f{ZWJ}\U0001f308 \U0001f1e7\U0001f1f7",
    # From right to left, with points and with marks that turn the direction; syllables in parts; full width.
    "\u0634\u064f\u0643\u0652\u0631\u064b\u0627 \u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd",
    "\u202eback\u202c \u200fmark\u200e",
    "\u0915\u094d\u0937\u093f \u0e01\u0e33\u0e19\u0e49\u0e33 \u1112\u1161\u11ab \ud55c \u110b\u1175",
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3002\u5168\u89d2\uff21\uff11\u3000\u7a7a\u767d \u6f22\U00020000\U0002a6df",
    # Beside surrogates, for private use, no characters, and the one that stands for what could not be read.
    "\ud7ff\ue000\uf8ff\ufdd0\ufffd\ufffe\uffff\U0001fffe\U0010ffff \ufffd\ufffd",
    # Letters whose case is not one to one, numbers that are no digits, signs that a vocabulary uses itself.
    "\u0130stanbul \u0131 \u00df \u1e9e \u01c5 \u03c2\u03c3 \U00010400\U00010428",
    *("don't I'll it\u2019s rock'n'roll", "1234567890 3.14 1,000 \u00bd \u2460 \u0664\u0662 x\u00b2", "a_b-c/d\\e"),
    *("\u2581\u2581meta \u2581space ##piece \u0120gpt \u010aline", "<0x0A> <0xFF>", "&amp;#x41; %F0%9F%98%80"),
    "def f(x):\n    return x  # two  spaces\n",
    # Very long words.
    *("x" * 3000, "\u6f22" * 500, "ab" * 200 + "\u0301" * 50, "\U0001f600" * 200),
)

_PLANES, _OF_A_PLANE = 17, 24
_SHOWN = 40  # characters of a text that a reason quotes


def torture_texts() -> tuple[str, ...]:
    """Combining marks, emoji in several code points, right-to-left text, control characters, all line ends and spaces,
    neighbours of the surrogates, private and unassigned characters, very long words, marks upon marks, and some
    characters of each of the 17 planes."""
    return (*_TEXTS, *map(_of_plane, range(_PLANES)))


def framings(token: str) -> tuple[str, ...]:
    """Texts that spell a special token: alone, in words, several, and as other widths and cases have it."""
    wide = "".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in token)
    return (
        *(token, f" {token}", f"{token} ", f"a{token}b", f"a {token} b", f"\n{token}\n", token * 3, f"{token} {token}"),
        *(token.upper(), token.lower(), wide, f"{token[:1]} {token[1:]}"),
        *(f"\u2581{token}", f"({token}), \u6f22{token}\u0301"),
    )


def _of_plane(plane: int) -> str:
    """Characters spread over a plane, its last ones too; surrogates are none."""
    first, step = plane << 16, 0x10000 // _OF_A_PLANE
    codes = [*range(first, first + 0x10000, step), first + 0xFFFD, first + 0xFFFE, first + 0xFFFF]
    return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)


@proof("tokenizer round trip")
def round_trip(subject: VerifiedRun) -> Finding:
    """Text that is encoded and decoded is the same text (byte-level), or encodes to the same ids (others)."""
    tokenizer = subject.run.tokenizer
    alone = copy_backend(tokenizer.to_json())
    alone.encode_special_tokens = True
    lost = [text for text in _texts(subject) if tokenizer.decode(tokenizer.encode(text)) != text]
    if not tokenizer.is_lossless:
        lost = [text for text in _texts(subject) if not _same_ids(tokenizer, text)]
    finding = _count(text for text in lost if not _is_its_own(tokenizer, alone, text))
    letters = tokenizer.missing_bytes
    notes = [f"the vocabulary has no letter for {len(letters)} of the 256 bytes"] * bool(letters)
    notes += [f"{len(lost)} texts are not kept, the first is {text[:_SHOWN]!a}" for text in lost[:1]]
    return replace(finding, note="; ".join([*notes, "so it is in the tokenizer's own file"]) if notes else "")


@proof("special tokens apart")
def special_tokens_apart(subject: VerifiedRun) -> Finding:
    """No text becomes a special token by its spelling."""
    tokenizer = subject.run.tokenizer
    names = tokenizer.labels(sorted(tokenizer.special_ids))
    texts = [*_texts(subject), *(text for name in names for text in framings(name))]
    return _count(text for text in texts if tokenizer.special_ids & set(tokenizer.encode(text)))


@proof("tokenizer batches")
def batches(subject: VerifiedRun) -> Finding:
    """Texts that are encoded together get the ids that each gets alone."""
    tokenizer, texts = subject.run.tokenizer, _texts(subject)
    together = tokenizer.encode_batch(texts)
    return _count((text for text, ids in zip(texts, together, strict=True) if ids != tokenizer.encode(text)))


@proof("tokenizer stream")
def stream(subject: VerifiedRun) -> Finding:
    """Tokens that are decoded one by one give the text of all of them."""
    tokenizer = subject.run.tokenizer
    random = np.random.default_rng(0).integers(tokenizer.vocab_size, size=(8, 64)).tolist()
    sequences = [*tokenizer.encode_batch(_texts(subject)), *random]
    texts = [(tokenizer.decode(ids), tokenizer.stream(), ids) for ids in sequences]
    return _count((whole for whole, at, ids in texts if "".join([*map(at.push, ids), at.finish()]) != whole))


def _texts(subject: VerifiedRun) -> list[str]:
    return [*torture_texts(), *subject.texts()]


def _same_ids(tokenizer: Tokenizer, text: str) -> bool:
    unknown = tokenizer.roles.unk
    ids = tokenizer.encode(text)
    if unknown in ids and tokenizer.encode(REPLACEMENT) != [unknown]:
        # BERT removes the character that stands for what is unknown, and T5 puts a space before it.
        text = tokenizer.decode(ids).replace(REPLACEMENT, "")
    if tokenizer.decode(tokenizer.encode(" a")) == "a":  # the first space is taken away, each time anew
        text = text.lstrip()
    ids = tokenizer.encode(text)
    return tokenizer.encode(tokenizer.decode(ids)) == ids


def _is_its_own(tokenizer: Tokenizer, alone: Backend, text: str) -> bool:
    """Whether the library, without tfcli, makes the same ids of a text, and the same text of those that are known."""
    ids = alone.encode(text, add_special_tokens=False).ids
    known = [token_id for token_id in ids if token_id != tokenizer.roles.unk]
    return ids == tokenizer.encode(text) and alone.decode(known) == tokenizer.decode(known)


def _count(found: Iterator[str]) -> Finding:
    texts = list(found)
    return at_most(len(texts), 0, "texts", f"the first is {texts[0][:_SHOWN]!a}" if texts else "")
