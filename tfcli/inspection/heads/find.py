"""The head that tells the banks apart or aligns words, chosen on training texts and measured on others; and the texts
that heads are measured on.

A head finds the word that decides a "bank", "boat" or "swam", when it gives it more than any other content word of the
story so far, on the row of "bank". A deciding word of the other sense stands before as well: the order counts. Bishop's
two sentences, which no text of the run has, are read by themselves. A head finds a translated word when, on the row
that predicts its first token, a source word that the grammar put there gets more weight than any other.
Shape legend: L layers, H heads, S keys or source words, W words, D model, N sentences."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tfcli.corpora.open import DEFAULT
from tfcli.corpora.pt_en import DEFAULT_DOCUMENTS, PtEnPair, pairs
from tfcli.corpora.stories import BankSentence, Sense, bank_sentences, stories
from tfcli.data.dataset import PreparedDataset
from tfcli.data.prepare import dataset_fingerprint
from tfcli.data.windows import document_windows
from tfcli.errors import UsageError
from tfcli.inspection import heads as records
from tfcli.inspection.attention import AttentionKind
from tfcli.inspection.heads import Head, ReadSentence, Share, WordFound
from tfcli.inspection.heads import statistics as measure
from tfcli.inspection.heads.statistics import Place, WordWeights, best_head
from tfcli.inspection.passes import Inputs, framed, place_in_run, query_ids, read_text, record_model
from tfcli.records.heads import HeadPlace
from tfcli.runs.config import read_run_data
from tfcli.runs.load import LoadedRun
from tfcli.runs.text import open_text_of_run
from tfcli.tokenization.tokenizer import Tokenizer

_TEXTS, _TOKENS, _LONGEST = 96, 8192, 256
_LABELLED_PAIRS = 256  # the first of the part, for the grammar makes them one after the other
_SEED = 0
HELD_OUT_SEED = 1_000_003  # added to a run's own: other built-in sentences than it was trained on
_KINDS: dict[str, AttentionKind] = {"decoder": "decoder_self", "encoder": "encoder_self"}
# Bishop, Deep Learning (2024), chapter 12.
BISHOP = ("I swam across the river to get to the other bank.", "I walked across the road to get cash from the bank.")
_FEW_STORIES = 500  # that tell whether a run can be asked
_MOST_STORIES = 30_000  # in which held-out sentences are looked for
_READERS = "name a run of the recipe quickstart or stories-encoder"
_TRANSLATORS = "name a run of the recipe pt-en"
_EXAMPLES = 3  # of words that change their place
_EACH_WORD = 40  # sentences that a word is looked for in
_EQUAL = 1e-5  # cosines that are only rounding apart


class Surface(NamedTuple):
    """The text of ids, special tokens by their names, and from where to where each id stands in it."""

    text: str
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Material:
    """What heads are measured on."""

    measured_on: str  # the same in words
    texts: tuple[Inputs, ...]
    stories: bool  # whether the grammar of builtin:stories made them, which knows who acts
    aligned: dict[int, PtEnPair]  # of texts of builtin:pt-en, by their number


def given(run: LoadedRun, text: str, target: str | None) -> Material:
    """One text; a UsageError where it is too long or shorter than two tokens, or the model takes no target."""
    inputs = read_text(run, text, target)
    if run.architecture == "encoder" and not run.tokenizer.encode_masked(text):
        raise UsageError("The text is empty", "give a few words")
    if min(map(len, inputs.sides)) < 2:
        raise UsageError("The text has one token, which can look at nothing else", "give a longer text")
    return Material("the text", (inputs,), False, {})


def sampled(run: LoadedRun, data: PreparedDataset, part: str) -> Material:
    """A sample of a dataset's validation part, which is called `part`; always the same. A UsageError where it was made
    with another tokenizer, or no text of it has two tokens."""
    data.require_tokenizer(run.tokenizer)
    longest = min(run.config.model.max_seq_len, _LONGEST)
    draw, sources = np.random.default_rng(_SEED), tuple(data.record().sources)
    paired = run.architecture == "encoder-decoder"
    labelled = paired and sources == (DEFAULT["pairs"],)
    if paired or run.recipe.train.task is not None:
        view = data.pairs("validation")
        sides = (view.source, view.target) if paired else (view.source,)
        total, noun = len(view.source), "pairs" if paired else "texts"
        numbers = draw.permutation(min(total, _LABELLED_PAIRS) if labelled else total)
        numbers = _within(numbers, np.max([side.lengths for side in sides], axis=0), longest)
        read = [_inputs(run, *(tuple(side.sequence(n)[:longest].tolist()) for side in sides)) for n in numbers]
    else:
        text = data.text("validation")
        starts, lengths = document_windows(text.documents, 0, longest)
        starts, lengths = starts[lengths > 1], lengths[lengths > 1]
        total = len(starts)
        noun = "documents" if total == text.documents.shape[1] else f"pieces of up to {longest} tokens"
        numbers = _within(draw.permutation(total), lengths, longest)
        rows = (text.padded(starts[n : n + 1], lengths[n : n + 1], 0)[0] for n in numbers)
        read = [_inputs(run, tuple(row.tolist())) for row in rows]
    read = [one for one in read if min(map(len, one.sides)) > 1]
    if not read:
        raise UsageError(f"No text of {part} has two tokens", "name longer texts with --on")
    few, seed = (f"{len(read):,}", "") if len(read) == total else (f"{len(read):,} of {total:,}", f" (seed {_SEED})")
    aligned = _aligned(run, read) if labelled else {}
    return Material(f"{few} {noun} of {part}{seed}", tuple(read), sources == (DEFAULT["text"],), aligned)


def _inputs(run: LoadedRun, *sides: tuple[int, ...]) -> Inputs:
    return Inputs(None, *sides) if run.architecture == "decoder" else Inputs(*sides)


def surface(tokenizer: Tokenizer, ids: Sequence[int]) -> Surface:
    """The text of ids, as it was written where it is cut into the same ids again, else label by label."""
    text, spans = "", list[tuple[int, int]]()
    for is_special, run in groupby(ids, key=lambda token_id: token_id in tokenizer.special_ids):
        part = list(run)
        written = "" if is_special else tokenizer.decode(part)
        [(again, offsets)] = tokenizer.encode_spans([written])
        if is_special or again != part:
            joined = is_special or tokenizer.words_carry_spaces or tokenizer.algorithm == "char"
            offsets, written = [], ""
            for label in tokenizer.labels(part):
                own = label if is_special else label.removeprefix("##")
                written += " " if written and not joined and own == label else ""
                offsets.append((len(written), len(written) + len(own)))
                written += own
        for start, end in offsets:
            blank = 0 if is_special else len(written[start:end]) - len(written[start:end].lstrip())
            spans.append((len(text) + start + (blank if blank < end - start else 0), len(text) + end))
        text += written
    return Surface(text, tuple(spans))


def _within(numbers: NDArray[np.int64], lengths: NDArray[np.int64], longest: int) -> NDArray[np.int64]:
    """The first texts that together have no more than so many tokens, and one at least."""
    numbers = numbers[:_TEXTS]
    return numbers[: max(1, (np.minimum(lengths[numbers], longest).cumsum() <= _TOKENS).sum())]


def _aligned(run: LoadedRun, read: Sequence[Inputs]) -> dict[int, PtEnPair]:
    """The pairs of the grammar that have these texts."""
    first = islice(own_pairs(run, "validation"), _LABELLED_PAIRS)
    known = {tuple(run.config.roles.source(run.tokenizer.encode(pair.source))): pair for pair in first}
    return {n: known[one.encoder] for n, one in enumerate(read) if one.encoder in known}


def own_pairs(run: LoadedRun, part: Literal["train", "validation"]) -> Iterator[PtEnPair]:
    """The pairs of builtin:pt-en that a run has read, or those that were held out, with their alignments."""
    data = run.recipe.data
    own = islice(pairs(data.seed), data.max_documents or DEFAULT_DOCUMENTS)
    return (pair for pair in own if pair.validation == (part == "validation"))


def require_trained_on(run: LoadedRun, kind: Literal["text", "pairs"], knows: str, remedy: str) -> None:
    """Refuse a run of another corpus than the built-in one, whose grammar `knows` something, by a UsageError."""
    corpus = DEFAULT[kind]
    if run.recipe.origin.source or (run.recipe.data.source or corpus) != corpus:
        raise UsageError(f"{run.directory.path} was not trained on {corpus}, whose grammar knows {knows}", remedy)
    today = dataset_fingerprint(open_text_of_run(run.directory, run.recipe, kind), run.tokenizer)
    if today != read_run_data(run.directory.data).fingerprint:
        raise UsageError(f"{corpus} has changed since {run.directory.path} was trained on it", remedy)


@dataclass(frozen=True)
class BankText:
    """A sentence as a model reads it, and the places of each word's tokens among the ids."""

    of: BankSentence
    ids: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]

    @property
    def row(self) -> int:
        """The place of "bank", or of its last token."""
        return self.places[self.of.bank][-1]

    @property
    def deciding(self) -> list[str]:
        """The words that decide its sense."""
        return [self.of.word(number) for number in self.of.deciding]


_Readings = dict[Sense, list[BankText]]


def find_bank(run: LoadedRun, training: int = 100, held_out: int = 120, place: Place = None) -> records.BankFound:
    """Choose the head that finds most deciding words of the sense it is worse at, on so many `training` sentences of
    each sense, and for each word that decides in Bishop's sentences the head that finds it; measure them on `held_out`
    ones, of which none is in a training story, and compare the vectors of "bank" there. `place`: choose the first head
    among those of this layer alone, or take this layer and head. A UsageError where the run is no reader of
    builtin:stories, has too short a context, or no such layer or head."""
    _require_reader(run)
    if place is not None:
        place_in_run(run, None, HeadPlace(*place))
    known = [one for story in _training_stories(run) for one in bank_sentences(story)]
    seen = {one.sentence for one in known}
    others = islice(stories(run.recipe.data.seed + HELD_OUT_SEED), _MOST_STORIES)
    unseen = [one for story in others for one in bank_sentences(story) if one.sentence not in seen]
    measured_on, chosen_on = _readings(run, unseen, held_out), _readings(run, known, training)
    on_chosen, on_measured = ([_hits(run, texts) for texts in of.values()] for of in (chosen_on, measured_on))
    first = best_head(np.minimum(*(hits.mean(axis=0) for hits in on_chosen)), place)
    asked = (sentence for text in BISHOP for sentence in bank_sentences(text))
    lecture = [reading for sentence in asked if (reading := read(run, sentence)) is not None]
    underlined = dict.fromkeys(word for one in lecture for word in one.deciding)
    words = tuple(found for word in underlined if (found := _word_found(run, word, [known, unseen], first)) is not None)
    best = Head(_KINDS[run.architecture], *first)
    return records.BankFound(
        best,
        training=records.SenseShares(*(_share(hits, first) for hits in on_chosen)),
        held_out=records.SenseShares(*(_share(hits, first) for hits in on_measured)),
        chance=float(np.mean([len(one.of.deciding) / len(_visible(one)) for of in measured_on.values() for one in of])),
        words=words,
        lecture=tuple(
            records.HeadReads(head, _bank_example(run, one, (head.layer, head.head)))
            for one in lecture
            for head in dict.fromkeys([best, *(found.head for found in words if found.word in one.deciding)])
        ),
        vectors=tuple(_vectors(run, measured_on, lecture)),
    )


def _word_found(run: LoadedRun, word: str, parts: list[list[BankSentence]], first: tuple[int, ...]) -> WordFound | None:
    """The head that most often gives this word the most where it decides, chosen on sentences of training stories and
    measured on others, the `first` one rather than an equal; None where none of them has it."""
    hits = []
    for sentences in parts:
        having = (one for one in sentences if one.contested and word in map(one.word, one.deciding))
        texts = list(islice((text for one in having if (text := read(run, one)) is not None), _EACH_WORD))
        if not texts:
            return None
        hits.append(_hits(run, texts, word))
    chosen = hits[0].mean(axis=0)
    place = first if chosen[first] == chosen.max() else best_head(chosen)
    return WordFound(word, Head(_KINDS[run.architecture], *place), *(_share(of, place) for of in hits))


def require_bank_sentences(run: LoadedRun) -> None:
    """Refuse a run that cannot be asked about its banks, by a UsageError, from its first stories."""
    _require_reader(run)
    _readings(run, (one for story in islice(_training_stories(run), _FEW_STORIES) for one in bank_sentences(story)), 1)


def read(run: LoadedRun, sentence: BankSentence) -> BankText | None:
    """A sentence with the story before it as training has them; None where the context does not hold them."""
    text = measure.spelled_at(run.tokenizer, sentence.text, sentence.words)
    ids = query_ids(_KINDS[run.architecture], framed(run, text.ids))
    read = BankText(sentence, ids, tuple(tuple(1 + place for place in word) for word in text.places))
    return read if len(ids) <= run.config.model.max_seq_len else None


def _hits(run: LoadedRun, texts: Iterable[BankText], word: str | None = None) -> NDArray[np.bool_]:
    """Whether the content word that gets most from "bank" is a deciding one, or this one. Shape: (N, L, H)."""
    found = []
    for text in texts:
        content, of = _visible(text), text.of
        right = [content.index(number) for number in of.deciding if word in (None, of.word(number))]
        found.append(np.isin(_weights(run, text, content).argmax(axis=-1), right))
    return np.stack(found)


def _share(hits: NDArray[np.bool_], place: tuple[int, ...]) -> Share:
    return Share.of(hits[:, place[0], place[1]].tolist())


def _weights(run: LoadedRun, reading: BankText, words: Iterable[int]) -> WordWeights:
    """What every head gives these words from "bank". Shape: (L, H, W)."""
    weights = measure.kind_weights(run, _inputs(run, reading.ids), _KINDS[run.architecture])
    return measure.on_words(weights[:, :, reading.row], [reading.places[word] for word in words])


def _vectors(run: LoadedRun, readings: _Readings, lecture: Sequence[BankText]) -> Iterator[records.BankVectors]:
    """Cosines of the vectors of "bank" at every depth, of two sentences that different words decide."""
    texts = [one for of_sense in readings.values() for one in of_sense]
    streams = np.stack([_streams(run, one) for one in (*texts, *lecture)], axis=1)  # (L + 1, N + 2, D)
    streams /= np.linalg.norm(streams, axis=-1, keepdims=True)
    words = [set(one.deciding) for one in texts]
    apart = np.array([[not one & other for other in words] for one in words])
    is_river = np.array([one.of.sense == "river" for one in texts])
    same, nobody = is_river[:, None] == is_river, ~apart.any(axis=1)
    for depth, every in enumerate(streams):
        cosines = every[: len(texts)] @ every[: len(texts)].T
        nearest = np.where(apart, cosines, -np.inf).argmax(axis=1)
        are_equal = bool(np.ptp(cosines) < _EQUAL)
        kinds = (apart & same & is_river[:, None], apart & same & ~is_river[:, None], apart & ~same)
        river, money, between = (float(cosines[kind].mean()) if kind.any() else None for kind in kinds)
        hits = None if are_equal else Share.of((is_river[nearest] == is_river)[~nobody].tolist())
        pair = float(every[-2] @ every[-1]) if len(lecture) == 2 else None
        yield records.BankVectors(depth, river, money, between, nearest=hits, lecture=pair)


def _streams(run: LoadedRun, reading: BankText) -> NDArray[np.float32]:
    """What stands at "bank" before the first layer and after each. Shape: (L + 1, D)."""
    with torch.inference_mode():
        stack = record_model(run.model, _inputs(run, reading.ids).tensors(run.device)).last
    depths = (stack.embedded, *(layer.after for layer in stack.layers))
    return torch.stack([depth[reading.row] for depth in depths]).float().cpu().numpy()


def _visible(reading: BankText) -> list[int]:
    """The content words up to "bank", which counts as one itself; behind it stands what follows from the sense."""
    return [number for number in reading.of.content() if number <= reading.of.bank]


def _readings(run: LoadedRun, sentences: Iterable[BankSentence], count: int) -> _Readings:
    """The first sentences of each sense that are asked about."""
    found: _Readings = {"river": [], "money": []}
    for one in sentences:
        if one.contested and len(found[one.sense]) < count and (reading := read(run, one)) is not None:
            found[one.sense].append(reading)
            if all(len(readings) == count for readings in found.values()):
                break
    if not all(found.values()):
        short = f"its context of {run.config.model.max_seq_len} tokens is too short for one"
        raise UsageError(f"{run.directory.path} has met too few stories, or {short}", _READERS)
    return found


def _require_reader(run: LoadedRun) -> None:
    if run.architecture not in _KINDS:
        raise UsageError(f"The stories are one text, and this {run.architecture} reads two", _READERS)
    require_trained_on(run, "text", "which word decides", _READERS)


def _training_stories(run: LoadedRun) -> Iterator[str]:
    return map(str, open_text_of_run(run.directory, run.recipe, "text").only("train"))


def _bank_example(run: LoadedRun, reading: BankText, place: tuple[int, ...]) -> ReadSentence:
    sentence, until = reading.of, range(reading.of.bank + 1)
    given = _weights(run, reading, until)[place].tolist()
    hit = max(_visible(reading), key=given.__getitem__) in sentence.deciding
    return ReadSentence(tuple(map(sentence.word, until)), tuple(given), "bank", sentence.deciding, hit)


@dataclass(frozen=True)
class _Word:
    """A target word, the source words it comes from, and every head's weights (L, H, S) on all of them."""

    text: str
    number: int
    right: tuple[int, ...]
    sources: tuple[str, ...]
    weights: WordWeights
    reordered: bool

    def hits(self) -> NDArray[np.bool_]:
        """Shape: (L, H)."""
        return np.isin(self.weights.argmax(axis=-1), self.right)


def find_alignment(
    run: LoadedRun, training_pairs: int = 200, held_out_pairs: int = 300, place: Place = None
) -> records.AlignmentFound:
    """Choose the head that finds most words of training pairs, and measure it on held-out pairs; `place` as in
    `find_bank`. A UsageError where the run is no translator of builtin:pt-en, or has no such layer or head."""
    require_translator(run)
    if place is not None:
        place_in_run(run, "cross", HeadPlace(*place))
    training = [word for pair in islice(own_pairs(run, "train"), training_pairs) for word in _words(run, pair)]
    layer, head = best_head(np.mean([word.hits() for word in training], axis=0), place)
    # Validation pairs have a combination that no training pair has, so the run has read none of them.
    others = (pair for pair in pairs(run.recipe.data.seed + HELD_OUT_SEED) if pair.validation)
    read = [_words(run, pair) for pair in islice(others, held_out_pairs)]
    held_out = [word for words in read for word in words]
    crossing = [found for words in read if (found := [word for word in words if word.reordered])]

    def share(words: Iterable[_Word]) -> Share:
        return Share.of(word.hits()[layer, head] for word in words)

    def example(words: list[_Word]) -> ReadSentence:
        """Of these, the word that comes from the farthest away."""
        word = max(words, key=lambda word: min(abs(word.number - i) for i in word.right))
        weights = tuple(word.weights[layer, head].tolist())
        return ReadSentence(word.sources, weights, word.text, word.right, bool(word.hits()[layer, head]))

    return records.AlignmentFound(
        Head("cross", layer, head),
        training_pairs,
        share(training),
        held_out_pairs=held_out_pairs,
        held_out=share(held_out),
        reordered=share(word for word in held_out if word.reordered),
        mean_of_heads=Share.of(word.weights.mean(axis=(0, 1)).argmax() in word.right for word in held_out),
        same_place=Share.of(word.number in word.right for word in held_out),
        chance=float(np.mean([len(word.right) / len(word.sources) for word in held_out])),
        examples=tuple(map(example, crossing[:_EXAMPLES])),
    )


def require_translator(run: LoadedRun) -> None:
    """Refuse a run whose words nobody has aligned, by a UsageError."""
    if run.architecture != "encoder-decoder":
        raise UsageError(f"An alignment is between two sides, and this {run.architecture} has one", _TRANSLATORS)
    require_trained_on(run, "pairs", "the right alignment", _TRANSLATORS)


def _words(run: LoadedRun, pair: PtEnPair) -> list[_Word]:
    """The target words that the grammar aligned, each read on the row that predicts it."""
    source, target = measure.spelled(run.tokenizer, pair.source), measure.spelled(run.tokenizer, pair.target)
    weights = measure.kind_weights(run, framed(run, source.ids, target.ids), "cross")
    rows, places = measure.cross_places(run, source, target)
    words = []
    for number, (text, row) in enumerate(zip(target.words, rows, strict=True)):
        right = tuple(i for i, j in pair.alignment if j == number)
        if right and row is not None:
            on = measure.on_words(weights[:, :, row], places)
            # It comes from behind the source of a later word, or from before that of an earlier one.
            crosses = any((j - number) * (i - own) < 0 for own in right for i, j in pair.alignment)
            words.append(_Word(text, number, right, sources=source.words, weights=on, reordered=crosses))
    return words
