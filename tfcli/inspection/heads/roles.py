"""Roles of attention heads: the share of a head's attention that each role's keys get, beside chance. A role's share is
the mean, over the rows that see a key of it and one more, of the weight on those keys; chance is the same with equal
weights on all keys that a row sees. A role is chosen on every other text and measured on the rest, so that the best of
many is not flattered. Shape legend: H heads, T queries, S keys, R roles, U texts."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from tfcli.corpora.pt_en import PtEnPair
from tfcli.corpora.stories import TOLD_BY
from tfcli.errors import UsageError
from tfcli.evaluation.intervals import mean_intervals
from tfcli.inspection.attention import AttentionKind
from tfcli.inspection.heads import NO_ROLE, Head, HeadExample, HeadsRecord, HeadStatistics, RoleShare
from tfcli.inspection.heads import statistics as measure
from tfcli.inspection.heads.find import Material, Surface, require_bank_sentences, require_translator, surface
from tfcli.inspection.heads.statistics import Copies, PerHead, Place, copies, covered, cross_places, spelled
from tfcli.inspection.passes import (
    AttentionPass,
    Inputs,
    ModelPass,
    chosen_kinds,
    key_ids,
    place_in_run,
    query_ids,
    record_model,
)
from tfcli.records.evaluation import Interval
from tfcli.records.heads import HeadPlace
from tfcli.runs.load import LoadedRun

_FARTHEST = 8  # of the single offsets that are looked at
_SENTENCE_END = (".", "!", "?", "…", "。", "！", "？")
Keys = NDArray[np.bool_]
_CLEAR = 0.3  # above chance: what a role is named from
_HELD = 0.2  # above chance, on the texts that it is measured on
_COVERAGE = 0.12  # of all rows, those that have a key of the role
_RESTING = ("first token", "end mark")  # a head that looks for something rests there where it finds nothing
_BESIDE = 0.2  # above chance, from which on it rests there
_FEWEST = 3  # rows of a query token, for it to have a role
_FAVOURITES = 3  # tokens, and pairs of them
_FIGURES = ("entropy", "entropy_share", "sharpness", "distance", "induction", "duplicate", "even", "in_order")
_EARLIER, _LETTERS = 0.002, 0.05  # of two rows, the example is the one with less before it, and a word
_BREAK = re.compile(r"(?<=[.!?…。！？])[\"”']?\s+|(?<=[.!?][\"”'])\s+|\n+")
_BEFORE, _BEHIND = 60, 60  # characters, where no sentence begins or ends nearer
_Naming = tuple[str, tuple[str, ...], RoleShare | None, str | None, tuple[RoleShare, ...]]
"""The role of a head, on the rows of which queries, how much, where it rests, and all shares: as in HeadStatistics."""


def role_keys(run: LoadedRun, kind: AttentionKind, material: Material, number: int) -> dict[str, Keys]:
    """The keys of every role of a kind of attention, on a text by its number; of some, none. Shape: (T, S) each."""
    inputs = material.texts[number]
    ids, queries = np.array(key_ids(kind, inputs)), np.array(query_ids(kind, inputs))
    labels, special = run.tokenizer.labels(ids.tolist()), np.isin(ids, sorted(run.tokenizer.special_ids))
    shape = (len(queries), len(ids))
    places, rows = np.arange(len(ids)), np.arange(len(queries))[:, None]
    elsewhere = np.ones(shape, bool) if kind == "cross" else places != rows
    marks = np.array([bool(label.strip()) and not re.search(r"\w", label) for label in labels]) & ~special
    ends = marks & np.array([label.strip().startswith(_SENTENCE_END) for label in labels])
    same = (queries[:, None] == ids) & elsewhere & ~special
    found = {
        "first token": np.broadcast_to(places == 0, shape),
        "end mark": (special & (places > 0)) & elsewhere,
        "same token": same,
        "punctuation": marks & elsewhere,
        "end of a sentence": ends & elsewhere,
        "space": np.array([label.isspace() for label in labels]) & elsewhere,
    }
    if kind == "cross":
        found["same place"] = abs(places - rows * (len(ids) - 1) / max(1, len(queries) - 1)) <= 1
        if material.aligned:
            found["aligned word"] = _aligned(run, shape, material.aligned.get(number))
        return found
    found |= {"itself": places == rows, "after the same token": np.pad(same, ((0, 0), (1, 0)))[:, :-1] & elsewhere}
    for offset in (*range(-_FARTHEST, 0), *(range(1, _FARTHEST + 1) if kind == "encoder_self" else ())):
        found[offset_role(offset)] = places - rows == offset
    if material.stories:
        told = surface(run.tokenizer, ids.tolist())
        found |= {role: _last(told, pattern, elsewhere) for role, pattern in TOLD_BY.items()}
    return found


def offset_role(offset: int) -> str:
    """The role of a head that looks so many tokens on, or back.

    >>> offset_role(-1), offset_role(3)
    ('previous token', '3 tokens after')
    """
    if abs(offset) == 1:
        return "previous token" if offset < 0 else "next token"
    return f"{abs(offset)} tokens {'before' if offset < 0 else 'after'}"


def _last(told: Surface, pattern: re.Pattern[str], elsewhere: Keys) -> Keys:
    """The tokens of the last such word that ends before a row's own token. Shape: (T, S)."""
    keys = np.zeros_like(elsewhere)
    for match in pattern.finditer(told.text):
        tokens = covered(told.spans, *match.span())
        if tokens:
            after = tokens[-1] + 1
            keys[after:] = False
            keys[after:, tokens] = True
    return keys


def _aligned(run: LoadedRun, shape: tuple[int, int], pair: PtEnPair | None) -> Keys:
    """On the row that predicts a target word's first token, the source words that it comes from. Shape: (T, S)."""
    keys = np.zeros(shape, bool)
    if pair is not None:
        source, target = spelled(run.tokenizer, pair.source), spelled(run.tokenizer, pair.target)
        rows, columns = cross_places(run, source, target)
        for i, j in pair.alignment:
            row = rows[j]
            if row is not None and row < shape[0]:
                keys[row, [column for column in columns[i] if column < shape[1]]] = True
    return keys


def heads(run: LoadedRun, material: Material, kind: AttentionKind | None = None, place: Place = None) -> HeadsRecord:
    """What every head does, of one kind or of all that the model has; or those of one layer, or at a layer and head. A
    UsageError where the model has no such kind or head."""
    kinds = chosen_kinds(run, kind)
    if place is not None:
        place_in_run(run, kind, HeadPlace(*place))
    copied = copies(run)

    @torch.inference_mode()
    def read(number: int) -> ModelPass:
        return record_model(run.model, material.texts[number].tensors(run.device))

    every, texts = heads_on(run, kinds, material, read, copied), material.texts
    layer, own = place or (None, None)
    found = tuple(one for one in every if layer in (None, one.layer) and own in (None, one.head))
    measured = (material.measured_on, len(texts), len(texts) > 1, sum(max(map(len, one.sides)) for one in texts))
    return HeadsRecord(str(run.directory.path), *measured, copied.period, copied.sequences, _search(run), found)


def heads_on(
    run: LoadedRun, kinds: Sequence[AttentionKind], material: Material, read: Callable[[int], ModelPass], copied: Copies
) -> tuple[HeadStatistics, ...]:
    """As `heads`; `read` runs the model on a text by its number, on those of the examples once more."""
    tallies: dict[tuple[AttentionKind, int], _Layer] = {}
    for number in range(len(material.texts)):
        passed = read(number)
        for kind in kinds:
            keys = role_keys(run, kind, material, number)
            queries, labels = (run.tokenizer.labels(ids(kind, material.texts[number])) for ids in (query_ids, key_ids))
            known: _Text | None = None
            for layer, one in enumerate(passed.attentions(kind)):
                mask = one.mask.cpu().numpy()
                if known is None or not np.array_equal(mask, known.mask):  # layers may have windows of their own
                    known = _Text.of(keys, mask, queries, labels)
                tallies.setdefault((kind, layer), _Layer(tuple(keys))).add(kind, one, known)
    named = [(Head(*of, n), tally, *tally.named(n)) for of, tally in tallies.items() for n in range(tally.heads)]
    found = {}
    for number in sorted({where[0] for *_, where in named}):
        passed = read(number)
        for place, tally, naming, (text, row) in named:
            if text == number:
                kind, one = place.kind, passed.attentions(place.kind)[place.layer]
                keys = {NO_ROLE: one.mask.cpu().numpy()} | role_keys(run, kind, material, number)
                weights = one.weights[place.head, row].cpu().double().numpy()
                key = int(np.where(keys[naming[0]][row] & keys[NO_ROLE][row], weights, -1).argmax())
                shown = example(run, kind, material.texts[number], query=row, key=key, weight=float(weights[key]))
                found[place] = tally.statistics(place, naming, copied.scores.get((kind, place.layer), {}), shown)
    return tuple(found[place] for place, *_ in named)


def _search(run: LoadedRun) -> str | None:
    """What `inspect heads --find` can look for in a run."""
    translates = run.architecture == "encoder-decoder"
    with suppress(UsageError):
        (require_translator if translates else require_bank_sentences)(run)
        return "alignment" if translates else "bank"
    return None


@dataclass(frozen=True)
class _Text:
    """What the heads of a kind can look at in a text: `visible` keys (T,), those `meant` by each role (T, S, R), and
    whether such a one is `seen`, and another key (T, R)."""

    mask: NDArray[np.bool_]
    visible: NDArray[np.int64]
    meant: NDArray[np.float32]
    seen: NDArray[np.bool_]
    chance: NDArray[np.float32]
    queries: list[str]
    keys: list[str]

    @classmethod
    def of(cls, roles: dict[str, Keys], mask: NDArray[np.bool_], queries: list[str], keys: list[str]) -> "_Text":
        meant = np.stack([of_role & mask for of_role in roles.values()], axis=-1).astype(np.float32)
        visible, count = np.maximum(1, mask.sum(-1)), meant.sum(1)
        seen = (count > 0) & (visible > 1)[:, None]
        return cls(mask, visible, meant, seen, (count / visible[:, None]).astype(np.float32), queries, keys)


class _Layer:
    """The heads of a layer: on every row of every text, what each gives to the keys of each role, `shares` (T, H, R),
    and its `largest` weight above chance (T, H)."""

    def __init__(self, roles: tuple[str, ...]) -> None:
        self._roles = roles
        self._texts, self._figures = list[_Text](), list[dict[str, PerHead]]()
        self._shares, self._largest = list[NDArray[np.float32]](), list[NDArray[np.float32]]()
        self._received: dict[str, PerHead] = {}
        self._pairs: dict[int, dict[tuple[str, str], float]] = {}  # above chance, a head

    @property
    def heads(self) -> int:
        return self._shares[0].shape[1]

    def add(self, kind: AttentionKind, one: AttentionPass, text: _Text) -> None:
        """Count a text in."""
        weights = one.weights.cpu().double().numpy()
        self._texts.append(replace(text, meant=np.empty(0, np.float32)))  # which is large
        self._shares.append(np.matmul(weights.transpose(1, 0, 2).astype(np.float32), text.meant))
        self._largest.append((weights.max(-1) - 1 / text.visible).T.astype(np.float32))
        figures = {"entropy": measure.entropy(weights), "sharpness": measure.sharpness(weights)}
        if largest := measure.largest_entropy(text.mask):  # where every query sees one key, there is nothing to share
            figures["entropy_share"] = figures["entropy"] / largest
        if kind != "cross":
            figures["distance"] = measure.distance(weights)
        elif weights.shape[1] > 1:
            figures["in_order"] = measure.in_order(weights)
        self._figures.append(figures)
        for name, received in zip(text.keys, weights.sum(1).T, strict=True):
            self._received[name] = self._received.get(name, 0.0) + received
        for head, (keys, above) in enumerate(zip(weights.argmax(-1), self._largest[-1].T, strict=True)):
            pairs = self._pairs.setdefault(head, defaultdict(float))
            for query, key, value in zip(text.queries, keys.tolist(), above.tolist(), strict=True):
                pairs[query, text.keys[key]] += value

    def named(self, head: int) -> tuple[_Naming, tuple[int, int]]:
        """The role of a head, and the text and the row that show it best."""
        apart = len(self._shares) > 1
        chosen, measured = (range(n, len(self._shares), 2) if apart else range(1) for n in (0, 1))
        shares = {one.role: one for one in self._of(head, measured, sure=True)}
        often = [one for one in self._of(head, chosen) if one.above_chance >= _CLEAR and one.coverage >= _COVERAGE]
        clear = [one for one in often if _holds(shares.get(one.role))]
        at, does = frozenset[str](), None
        if clear:
            does = shares[min(clear, key=lambda one: (one.role in _RESTING, -one.above_chance)).role]
        elif apart:
            role, at = self._at_some_words(head, chosen)
            there = [one for one in self._of(head, measured, at, sure=True) if one.role == role] if at else []
            does = next((one for one in there if one.coverage >= _COVERAGE and _holds(one)), None)
        role, at = (NO_ROLE, frozenset()) if does is None else (does.role, at)
        rests = [shares[one] for one in _RESTING if one != role and one in shares]
        rests = sorted((one for one in rests if one.above_chance >= _BESIDE), key=lambda one: -one.share)
        order = Counter(query for number in measured for query in self._texts[number].queries if query in at)
        words = tuple(query for query, _ in order.most_common())
        return (role, words, does, rests[0].role if rests else None, (*shares.values(),)), self._best(head, role, at)

    def _at_some_words(self, head: int, texts: Sequence[int]) -> tuple[str, frozenset[str]]:
        """The role that a head has at some query tokens, and these: where most of its weight above chance is told."""
        queries = np.array([query for number in texts for query in self._texts[number].queries])
        names, groups = np.unique(queries, return_inverse=True)
        seen = np.concatenate([self._texts[number].seen for number in texts])
        above = np.concatenate([(self._shares[n][:, head] - self._texts[n].chance) for n in texts]) * seen
        sums, counts = np.zeros((2, len(names), len(self._roles)))
        np.add.at(sums, groups, above)
        np.add.at(counts, groups, seen)
        there = (counts >= _FEWEST) & (sums >= _CLEAR * counts)
        role = int((sums * there).sum(0).argmax())
        return self._roles[role], frozenset(names[there[:, role]].tolist())

    def _best(self, head: int, role: str, at: Container[str]) -> tuple[int, int]:
        rows = []
        for number, text in enumerate(self._texts):
            value = self._largest[number][:, head].copy()
            if role != NO_ROLE:
                column = self._roles.index(role)
                meant = text.seen[:, column] & [not at or query in at for query in text.queries]
                value = np.where(meant, self._shares[number][:, head, column] - text.chance[:, column], -np.inf)
            value += _LETTERS * np.array([query.strip(" ")[:1].isalpha() for query in text.queries])
            value -= _EARLIER * np.arange(len(value))
            rows.append((value.max(), -number, int(value.argmax())))
        _, text_number, row = max(rows)
        return -text_number, row

    def _of(self, head: int, texts: Sequence[int], at: Container[str] = (), *, sure: bool = False) -> list[RoleShare]:
        """The shares of those roles that have a key in these texts; if there are queries `at`, on their rows alone; if
        `sure`, with their intervals."""
        sums = []
        for n in texts:
            seen = self._texts[n].seen
            if at:
                seen = seen & np.array([query in at for query in self._texts[n].queries])[:, None]
            sums.append([seen.sum(0), (self._shares[n][:, head] * seen).sum(0), (self._texts[n].chance * seen).sum(0)])
        units = np.array(sums, float)  # (U, 3, R)
        rows, share, chance = units.sum(0).tolist()
        every = sum(len(self._texts[n].queries) for n in texts)
        intervals: list[Interval | None] = [None] * len(rows)
        if sure:
            intervals = mean_intervals(units[:, :2].reshape(len(units), -1), _mean_shares)
        shares = []
        for i, (role, n) in enumerate(zip(self._roles, rows, strict=True)):
            if not n:
                continue
            low, high = intervals[i] or (None, None)
            role_share = RoleShare(
                role,
                share[i] / n,
                low=low,
                high=high,
                chance=chance[i] / n,
                rows=int(n),
                coverage=n / every,
            )
            shares.append(role_share)
        return shares

    def statistics(self, place: Head, naming: _Naming, copied: dict[str, PerHead], best: HeadExample) -> HeadStatistics:
        """Everything about a head."""
        measured = [(name, column[place.head]) for one in (*self._figures, copied) for name, column in one.items()]
        figures = ([value for name, value in measured if name == key] for key in _FIGURES)
        rows, pairs = sum(len(text.queries) for text in self._texts), self._pairs[place.head]
        received = {name: float(own[place.head]) / rows for name, own in self._received.items()}
        return HeadStatistics(
            *(place.kind, place.layer, place.head, *naming),
            *(float(np.mean(one)) if one else None for one in figures),  # type: ignore[call-arg, arg-type]
            tuple(sorted(received.items(), key=lambda one: -one[1])[:_FAVOURITES]),
            tuple(sorted(pairs, key=lambda pair: -pairs[pair])[:_FAVOURITES]),
            best,
        )


def _mean_shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares over rows, 0 where there is no row, from sums of rows and of shares. Shape: (…, 2R) → (…, R)."""
    rows, shares = np.split(sums, 2, axis=-1)
    return shares / np.maximum(1, rows)


def _holds(one: RoleShare | None) -> bool:
    """Whether a role that was chosen elsewhere is there on these texts, too."""
    return one is not None and (one.low is None or one.low > one.chance) and one.above_chance >= _HELD


def example(run: LoadedRun, kind: AttentionKind, inputs: Inputs, query: int, key: int, weight: float) -> HeadExample:
    """What stands around a row's query and a key."""
    source, target = None, None
    if kind == "cross":
        text, [at], _ = _around(run, query_ids(kind, inputs), (query,))
        source, [on], _ = _around(run, key_ids(kind, inputs), (key,))
    else:
        text, [at, on], prompt = _around(run, key_ids(kind, inputs), (query, key))
    if len(inputs.sides) == 2:
        prompt, target = map(run.tokenizer.decode, inputs.sides)
    return HeadExample(text, source, at, key=on, weight=weight, prompt=prompt, target=target)


def _around(run: LoadedRun, ids: Sequence[int], places: Sequence[int]) -> tuple[str, list[tuple[int, int]], str]:
    """From the beginning of a sentence to the end of one, where these places stand in it, and what one types for it."""
    told = surface(run.tokenizer, ids)
    spans = [told.spans[place] for place in places]
    low, high = min(start for start, _ in spans), max(end for _, end in spans)
    breaks = [(0, 0), *((match.start(), match.end()) for match in _BREAK.finditer(told.text))]
    start = max(end for _, end in breaks if end <= low)
    if start < low - _BEFORE:
        start = told.text.find(" ", low - _BEFORE, low) + 1 or low - _BEFORE
    end = min((begin for begin, _ in breaks if begin >= high), default=len(told.text))
    if end > high + _BEHIND:
        end = max(told.text.rfind(" ", high, high + _BEHIND), high)
    inside = [token for token, (first, last) in zip(ids, told.spans, strict=True) if first < end and last > start]
    room = run.config.model.max_seq_len - len(run.config.roles.text(()))  # a piece of a document lacks its marks
    inside = inside[-room:] if max(places) == len(ids) - 1 else inside[:room]
    before = "… " if start and start not in [end for _, end in breaks] else ""
    behind = " …" if end < len(told.text) and end not in [begin for begin, _ in breaks] else ""
    shift = len(before) - start
    text = before + told.text[start:end] + behind
    return text, [(first + shift, last + shift) for first, last in spans], run.tokenizer.decode(inside).strip()
