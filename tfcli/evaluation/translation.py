"""BLEU and chrF of translations against references, as sacrebleu computes them, and exact matches.
Shape legend: N pairs, K sufficient statistics of a pair."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tfcli.data.dataset import PairsView
from tfcli.evaluation.bleu_tokenization import bleu_tokenize_for, require_bleu_tokenize
from tfcli.evaluation.bootstrap import Array
from tfcli.evaluation.windows import without_frame
from tfcli.generation.generate import GrowingText, prefix_ids, translate
from tfcli.generation.stopping import stop_finder
from tfcli.models.transformer import EncoderDecoder
from tfcli.recipe.evaluate import BleuTokenize
from tfcli.runs.load import LoadedRun


@dataclass(frozen=True, eq=False)
class TranslationStatistics:
    """What the scores of any selection of pairs are computed from. Shape: bleu, chrf (N, K); exact (N,)."""

    bleu: Array
    chrf: Array
    exact: Array
    signature: str
    bleu_tokenize: BleuTokenize

    def scores(self, chosen: NDArray[np.int64] | slice = slice(None)) -> dict[str, float]:
        """Of some pairs, or of all: corpus BLEU (Papineni et al. 2002), chrF (Popović 2015), exact matches."""
        bleu, chrf = bleu_of(self.bleu[chosen].sum(0)), chrf_of(self.chrf[chosen].sum(0))
        return {"bleu": float(bleu), "chrf": float(chrf), "exact_match": float(self.exact[chosen].mean())}


def one_line(text: str) -> str:
    """A text as a line of a file, so that the `sacrebleu` command gives a file the same score."""
    return re.sub("\r\n|\r|\n", " ", text)


def translation_statistics(
    translations: Sequence[str], references: Sequence[str], bleu_tokenize: BleuTokenize = "auto"
) -> TranslationStatistics:
    """What sacrebleu counts in each pair, both texts as a line.

    Args:
        translations: The outputs of a model.
        references: What they should be, as many.
        bleu_tokenize: How BLEU cuts texts into words; "auto" is `bleu_tokenize_for` the references.

    Raises:
        UsageError: The tokenization needs what is not installed.
    """
    outputs = [one_line(text) for text in translations]
    targets = [one_line(text) for text in references]
    pairs = list(zip(outputs, targets, strict=True))
    if bleu_tokenize == "auto":
        bleu_tokenize = bleu_tokenize_for(targets)
    require_bleu_tokenize(bleu_tokenize)

    from sacrebleu.metrics import BLEU, CHRF

    bleu, chrf = BLEU(tokenize=bleu_tokenize), CHRF()
    bleu.corpus_score(outputs, [targets])  # warns of texts that look tokenized
    chrf.corpus_score(outputs[:1], [targets[:1]])  # has a signature then
    scores = [bleu.corpus_score([output], [[target]]) for output, target in pairs]
    counts = [[score.sys_len, score.ref_len, *score.counts, *score.totals] for score in scores]
    return TranslationStatistics(
        bleu=np.array(counts, np.float64),
        chrf=np.array([_chrf_counts(*pair) for pair in pairs], np.float64),
        exact=np.array([float(output == target) for output, target in pairs]),
        signature=f"{bleu.get_signature()} {chrf.get_signature()}",
        bleu_tokenize=bleu_tokenize,
    )


def bleu_of(counts: Array) -> Array:
    """BLEU of summed counts, (…, K) → (…)."""
    from sacrebleu.metrics import BLEU

    score = partial(BLEU().compute_bleu, smooth_method="exp")
    rows = counts.astype(int).reshape(-1, 10).tolist()
    scores = [score(of[:4], of[4:], sys_len=ours, ref_len=theirs).score for ours, theirs, *of in rows]
    return np.array(scores).reshape(counts.shape[:-1])


def _chrf_counts(ours: str, theirs: str) -> list[float]:
    """Of each n up to 6 the n-grams of characters of ours, where theirs has any, of theirs, and those in both."""
    counts: list[float] = []
    texts = ["".join(text.split()) for text in (ours, theirs)]
    for n in range(1, 7):
        here, there = (Counter(text[at : at + n] for at in range(len(text) - n + 1)) for text in texts)
        counts += [here.total() if there else 0, there.total(), (here & there).total()]
    return counts


def chrf_of(counts: Array) -> Array:
    """ChrF of summed counts, (…, K) → (…): F with β = 2, of mean precision and recall over orders on both sides."""
    *sides, hits = np.moveaxis(counts.reshape(*counts.shape[:-1], 6, 3), -1, 0)
    known = (sides[0] > 0) & (sides[1] > 0)
    precision, recall = ((hits / np.where(known, side, 1)).sum(-1) / np.maximum(known.sum(-1), 1) for side in sides)
    both = 4 * precision + recall
    return 100 * (5 * precision * recall / np.where(both > 0, both, 1))


@dataclass(frozen=True, eq=False)
class Translated:
    """A line a pair. `exact`: the references are the text itself and not what the tokenizer keeps of it."""

    outputs: list[str]
    references: list[str]
    statistics: TranslationStatistics
    exact: bool
    beam: int


def translated(
    run: LoadedRun,
    pairs: PairsView,
    references: list[str],
    *,
    are_exact: bool,
    beam: int | None,
    bleu_tokenize: BleuTokenize,
) -> Translated:
    """Translate every pair's source, and count what the scores need.

    Args:
        run: An encoder-decoder that was trained to translate.
        pairs: Sources, which are cut to the context, and their targets.
        references: The targets as texts.
        are_exact: Whether the references are the text itself, and not what the tokenizer keeps of it.
        beam: Hypotheses kept; None: as the recipe generates.
        bleu_tokenize: How BLEU cuts texts into words.
    """
    roles, longest = run.config.roles, run.config.model.max_seq_len
    assert isinstance(run.model, EncoderDecoder)
    room = longest - len(roles.source_start) - 1  # and for the end token
    sources = [ids[:room] for ids in without_frame(pairs.source, roles.source_start)]
    # Texts within the context, as training had them, whatever the recipe says of others.
    settings = replace(run.recipe.generate, max_new_tokens=longest, num_samples=1, beyond_context="stop")
    if beam is not None:
        settings = replace(settings, beam=beam)
    prefix = prefix_ids(run.model, run.tokenizer, settings)
    ends = stop_finder(run.tokenizer, settings.stop, [()])
    translations = translate(run.model, sources, roles, settings, prefix=prefix, ends=ends)

    outputs = []
    for ids in translations:
        text = GrowingText(run.tokenizer, "", (), settings).whole(ids, [0.0] * len(ids))
        outputs.append(one_line(text.text))  # up to a stop text, where there is one
    references = [one_line(text) for text in references]
    statistics = translation_statistics(outputs, references, bleu_tokenize)
    return Translated(outputs, references, statistics, are_exact, settings.beam)
