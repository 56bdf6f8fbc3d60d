"""Pairs of texts whose answer one word decides, while at least two others of the same kind differ as well.

    Tom hoped to find the lost notes, so he ran slowly down the wide field to the bank | desk
    Tom wanted to get the old river, so he walked calmly across the long hill to the bank | side

Sentences of builtin:stories that no run has read, up to "bank"; and of builtin:pt-en, with a combination that is kept
for validation, up to the noun whose translation is asked for: the words that differ beside it are translated behind it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

import numpy as np
import torch
from torch import Tensor

from tfcli.corpora.pt_en import is_held_out, phrase_of
from tfcli.corpora.pt_en_phrases import LEXICON, THE, Noun, Phrase, Verb, noun_phrase, text, word
from tfcli.corpora.stories import SENSES, bank_sentences, stories
from tfcli.inspection.heads.find import HELD_OUT_SEED
from tfcli.inspection.passes import read_text
from tfcli.inspection.patching.compute import patch
from tfcli.runs.load import LoadedRun
from tfcli.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class Cause:
    """Two texts; in `fillers` the clean text's deciding word stands among the corrupt one's others. `exchanged`: how
    many those are. `right`: what the grammar may say after each text."""

    clean: str
    corrupt: str
    fillers: str
    deciding: tuple[str, str]
    exchanged: int
    right: tuple[frozenset[str], frozenset[str]]
    target: str | None = None


_BEHIND = {
    "river": "side", "water": "edge", "boat": "landing", "fish": "reeds",
    "cash": "machine", "money": "clerk", "coins": "counter", "notes": "desk",
}  # fmt: skip
"""What the grammar writes behind "bank", by the word that decides."""
_SLOTS = {
    "hoped": "wanted hoped wished",
    "see": "see find get",
    "old": "old new little good lovely lost",
    "went": "walked hurried went ran",
    "move": "slowly quickly happily quietly bravely calmly gladly boldly proudly softly",
    "along": "along down over across",
    "dusty": "long dusty narrow quiet lonely stony muddy wide sunny empty busy noisy",
    "road": "road path hill field",
}
"""Words of a kind, by the names of the grammar's rules or their first word."""
_KINDS = {name: f"(?P<{name}>{words.replace(' ', '|')})" for name, words in _SLOTS.items()}
_WISH = re.compile(
    f"{_KINDS['hoped']} to {_KINDS['see']} the {_KINDS['old']} (?P<decides>{'|'.join(_BEHIND)}), so s?he "
    f"{_KINDS['went']} {_KINDS['move']} {_KINDS['along']} the {_KINDS['dusty']} {_KINDS['road']} to the bank"
)


def banks(tokenizer: Tokenizer, seed: int, *, masked: bool) -> Iterator[Cause]:
    """Wishes of held-out stories without end: a word of the other sense, and two to eight of the other words,
    exchanged; each is one token."""
    draw = Random(seed)
    for story in stories(seed + HELD_OUT_SEED):
        for sentence in bank_sentences(story):
            read, end = sentence.text[: sentence.words[sentence.bank][1]], " <mask>." if masked else ""
            match = next((one for one in _WISH.finditer(read) if one.end() == len(read)), None)
            if match is None or not _one_token(tokenizer, match["decides"]):
                continue
            one = match["decides"]
            others = [word for word in _BEHIND if SENSES[word] != SENSES[one] and _one_token(tokenizer, word)]
            alike = {
                match.span(name): [
                    word for word in words.split() if word != match[name] and _one_token(tokenizer, word)
                ]
                for name, words in _SLOTS.items()
                if _one_token(tokenizer, match[name])
            }
            places = draw.sample(sorted(alike), draw.randint(2, len(alike)))
            fillers = {place: draw.choice(alike[place]) for place in places}
            exchanged = {match.span("decides"): (other := draw.choice(others))}
            right = tuple(
                frozenset(behind for word, behind in _BEHIND.items() if SENSES[word] == SENSES[decides])
                for decides in (one, other)
            )
            texts = (_with(read, changes) + end for changes in ({}, fillers | exchanged, fillers))
            yield Cause(*texts, (one, other), len(fillers), right)  # type: ignore[arg-type]


def _one_token(tokenizer: Tokenizer, *words: str) -> bool:
    return all(len(tokenizer.encode(f"the {one}")) == len(tokenizer.encode("the")) + 1 for one in words)


def _with(read: str, places: Mapping[tuple[int, int], str]) -> str:
    for (start, end), other in sorted(places.items(), reverse=True):
        read = read[:start] + other + read[end:]
    return read


def nouns(seed: int) -> Iterator[Cause]:
    """Sentences of three patterns without end; the noun and two or three words that are translated behind it
    exchanged. All of a pattern's slots are given, so that the words agree as the grammar has it."""
    draw = Random(seed)
    while True:
        verb, women = draw.choice(LEXICON["verbs"]), draw.sample(LEXICON["women"], 2)
        ann, eve = (word(one, one, None, one, "f") for one in women)
        things = [one for one in LEXICON["things"] if one.kinds & verb.takes]
        made = draw.choice((_did, _bought, _arrived))(draw, verb, things, ann, eve) if len(things) > 1 else None
        if made is None or not is_held_out(made.meets):
            continue
        (clean, said), (corrupt, other_said), (fillers, _) = map(_sentence, made.phrases)
        ours, theirs = said.split(), other_said.split()
        at = next(n for n, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1])
        one, other = made.nouns
        if [ours[at].strip(".,"), theirs[at].strip(".,")] != [one.en, other.en]:
            continue  # "a book" and "an apple" part before the noun
        differing = sum(a != b for a, b in zip(clean.split(), corrupt.split(), strict=True))
        right = frozenset({one.en}), frozenset({other.en})
        yield Cause(clean, corrupt, fillers, (one.pt, other.pt), differing - 1, right, " ".join(ours[:at]))


@dataclass(frozen=True)
class _Made:
    """The clean, the corrupt and the fillers' sentence, and the two words that meet in the first."""

    nouns: tuple[Noun, Noun]
    meets: tuple[str, str]
    phrases: tuple[Phrase, Phrase, Phrase]


def _did(draw: Random, verb: Verb, things: list[Noun], ann: Phrase, _: Phrase) -> _Made | None:
    """Ana comprou o livro no parque em Maio; or Em Maio, Ana comprou …"""
    one, other = nouns = draw.sample(things, 2)
    parks, months = draw.sample(LEXICON["places"], 2), draw.sample(LEXICON["months"], 2)
    if "anywhere" not in verb.kinds or one.gender != other.gender or len({(p.article, p.inside) for p in parks}) > 1:
        return None
    first = draw.random() < 0.5
    made = [
        phrase_of(
            "did_something",
            who=ann,
            verb=verb,
            what=noun_phrase(noun, THE),
            place=park,
            time=None,
            when=when,
            first=first,
        )
        for noun, park, when in zip((one, other, one), (*parks, parks[1]), (*months, months[1]), strict=True)
    ]
    return _Made(tuple(nouns), (verb.pt, one.pt), tuple(made))


def _bought(draw: Random, verb: Verb, things: list[Noun], ann: Phrase, eve: Phrase) -> _Made | None:
    """O livro que Ana comprou é vermelho."""
    one, other = nouns = draw.sample(things, 2)
    reds = [red for red in LEXICON["looks"] if red.fits & one.kinds and red.fits & other.kinds and "ser" in red.kinds]
    if "gone" in verb.kinds or one.gender != other.gender or len(reds) < 2:
        return None
    reds = draw.sample(reds, 2)
    made = [
        phrase_of(
            "that_was_bought", noun=noun, verb=verb, adjective=red, who=who, many=None, what=noun_phrase(noun, THE)
        )
        for noun, red, who in zip((one, other, one), (*reds, reds[1]), (ann, eve, eve), strict=True)
    ]
    return _Made(tuple(nouns), (verb.pt, one.pt), tuple(made))


def _arrived(draw: Random, verb: Verb, things: list[Noun], ann: Phrase, eve: Phrase) -> _Made | None:
    """Quando Lucas chegou ao parque, Ana estava lendo o livro."""
    one, other = parks = draw.sample(LEXICON["places"], 2)
    books, lucas = draw.sample(things, 2), word("Lucas", "Lucas", None, "Lucas")
    if "momentary" in verb.kinds or len({(park.article, park.inside) for park in parks}) > 1:
        return None
    if books[0].gender != books[1].gender:
        return None
    made = [
        phrase_of("when_arrived", who=lucas, someone=who, verb=verb, place=park, what=noun_phrase(book, THE))
        for park, book, who in zip((one, other, one), (*books, books[1]), (ann, eve, eve), strict=True)
    ]
    return _Made(tuple(parks), (verb.pt, books[0].pt), tuple(made))


def _sentence(phrase: Phrase) -> tuple[str, str]:
    source, target = (side[0].upper() + side[1:] + "." for side in text(phrase))
    return source, target


@dataclass
class Found:
    """Of so many `asked` texts, `right` are answered rightly, clean and corrupt. `named`: of those, how often the
    deciding word has the largest effect of all positions that differ, denoising and noising; `deciding`, its effects.
    `fillers`: how far the answer moves where they are exchanged alone."""

    asked: int = 0
    right: int = 0
    named: list[int] = field(default_factory=lambda: [0, 0])
    deciding: list[float] = field(default_factory=list)
    fillers: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """How much the fillers move, of what the deciding word does; means of absolute values."""
        return float(np.abs(self.fillers).mean() / np.abs(self.deciding).mean())


def found(run: LoadedRun, causes: Iterator[Cause], right: int) -> Found:
    """Ask until so many are answered rightly, in both directions."""
    tokenizer, counts = run.tokenizer, Found()
    before = "the" if run.architecture == "encoder-decoder" else "bank"
    behind = len(tokenizer.encode(before))
    while counts.right < right:
        cause = next(causes)
        length = len(tokenizer.encode(cause.clean))
        if length > run.config.model.max_seq_len - 2:
            continue
        counts.asked += 1
        position = None if cause.target is None else len(tokenizer.encode(cause.target))
        logits = [_answer(run, text, cause.target, position) for text in (cause.clean, cause.corrupt, cause.fillers)]
        best = [int(one.argmax()) for one in logits]
        allowed = [{tokenizer.encode(f"{before} {word}")[behind] for word in words} for words in cause.right]
        if best[0] not in allowed[0] or best[1] not in allowed[1]:
            continue
        counts.right += 1
        clean, corrupt, fillers = (float(one[best[0]] - one[best[1]]) for one in logits)
        counts.fillers += [(fillers - clean) / (corrupt - clean)]
        for noising in (False, True):
            patched = patch(run, cause.clean, cause.corrupt, cause.target, position=position, noising=noising)
            side = patched.sides[0]
            effects = next(one for one in patched.grids if one.part == "residual").effects[0]
            [deciding] = [n for n in side.differing if side.clean[n].strip().strip("Ġ▁") == cause.deciding[0]]
            assert len(side.differing) == cause.exchanged + 1
            counts.named[noising] += deciding == max(side.differing, key=lambda place: abs(effects[place]))
            counts.deciding.append(float(effects[deciding]))
    return counts


@torch.inference_mode()
def _answer(run: LoadedRun, text: str, target: str | None, position: int | None) -> Tensor:
    """Logits behind a text, or at its mask, by a plain pass."""
    inputs = read_text(run, text, target)
    if run.architecture == "encoder":
        assert run.config.roles.mask is not None
        position = inputs.sides[0].index(run.config.roles.mask)
    logits: Tensor = run.model(*inputs.tensors(run.device))[0, -1 if position is None else position]
    return logits.double()
