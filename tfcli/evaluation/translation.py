"""BLEU and chrF of translations against references, as sacrebleu computes them, and exact matches.

Shape legend: N pairs, K sufficient statistics of a pair.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfcli.data.dataset import PairsView
from tfcli.evaluation.bootstrap import Array
from tfcli.evaluation.windows import without_frame
from tfcli.generation.generate import GrowingText, translate
from tfcli.generation.prompts import prefix_ids
from tfcli.generation.stopping import stop_finder
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.runs.load import LoadedRun

_LINE_END = re.compile("\r\n|\r|\n")


@dataclass(frozen=True)
class TranslationScores:
    """Corpus BLEU (Papineni et al. 2002) and chrF (Popović 2015), 0 to 100; `exact_match` is a share, 0 to 1."""

    bleu: float
    chrf: float
    exact_match: float
    signature: str


@dataclass(frozen=True, eq=False)
class TranslationStatistics:
    """What the scores of any selection of pairs are computed from. Shape: bleu, chrf (N, K); exact (N,)."""

    bleu: Array
    chrf: Array
    exact: Array
    signature: str

    def scores(self, chosen: NDArray[np.int64] | slice = slice(None)) -> TranslationScores:
        """Scores of some pairs, or of all."""
        return TranslationScores(
            bleu=float(bleu_of(self.bleu[chosen].sum(0))),
            chrf=float(chrf_of(self.chrf[chosen].sum(0))),
            exact_match=float(self.exact[chosen].mean()),
            signature=self.signature,
        )


def one_line(text: str) -> str:
    """A text as a line of a file: each end of a line in it becomes a space.

    Texts are scored as they are written, so that the `sacrebleu` command gives a file the same score.
    """
    return _LINE_END.sub(" ", text)


def translation_statistics(translations: Sequence[str], references: Sequence[str]) -> TranslationStatistics:
    """What sacrebleu counts in each pair, both texts as a line."""
    bleu, chrf = _metrics()
    ours, theirs = [list(map(one_line, texts)) for texts in (translations, references)]
    exact = [float(one == other) for one, other in zip(ours, theirs, strict=True)]
    # sacrebleu.significance works in the same way; there is no public door to these counts.
    counted, matched = (
        np.array(metric._extract_corpus_statistics(ours, [theirs]), np.float64) for metric in (bleu, chrf)
    )
    signature = f"{bleu.get_signature()} {chrf.get_signature()}"
    return TranslationStatistics(counted, matched, np.array(exact), signature)


def bleu_of(counts: Array) -> Array:
    """BLEU of summed counts, (…, K) → (…)."""
    return _scored(_metrics()[0], counts)


def chrf_of(counts: Array) -> Array:
    """ChrF of summed counts, (…, K) → (…)."""
    return _scored(_metrics()[1], counts)


def _metrics() -> tuple[Any, Any]:
    from sacrebleu.metrics import BLEU, CHRF

    return BLEU(), CHRF()


def _scored(metric: Any, counts: Array) -> Array:
    rows = counts.reshape(-1, counts.shape[-1]).tolist()
    scores: list[float] = [metric._compute_score_from_stats(row).score for row in rows]
    return np.array(scores).reshape(counts.shape[:-1])


@dataclass(frozen=True, eq=False)
class Translated:
    """Translations and references, a line each, in the order of the part. `exact`: the references are the text itself
    and not what the tokenizer keeps of it."""

    outputs: list[str]
    references: list[str]
    statistics: TranslationStatistics
    exact: bool
    beam: int


def translated(
    run: LoadedRun, pairs: PairsView, references: Sequence[str], exact: bool, beam: int | None
) -> Translated:
    """Translate every pair's source, greedy or with as many beams, as the run's recipe generates otherwise.

    A source that is longer than the context is cut to it; its reference stays whole.
    """
    roles, longest = run.config.roles, run.config.model.max_seq_len
    assert isinstance(run.model, EncoderDecoder)
    room = longest - len(roles.source_start) - 1  # and for the end token
    sources = [ids[:room] for ids in without_frame(pairs.source, roles.source_start)]
    own = run.recipe.generate
    # Texts within the context, as training had them, whatever the recipe says of others.
    settings = replace(own, max_new_tokens=longest, num_samples=1, beyond_context="stop")
    if beam is not None:
        settings = replace(settings, beam=beam, beam_groups=1 if beam % own.beam_groups else own.beam_groups)
    prefix, ends = prefix_ids(run.model, run.tokenizer, settings), stop_finder(run.tokenizer, settings.stop, [()])
    found = translate(run.model, sources, roles, settings, prefix=prefix, ends=ends)
    outputs = []
    for ids in found:  # up to a stop text, where there is one
        text = GrowingText(run.tokenizer, "", (), settings)
        for token_id in ids:
            text.push(token_id, 0.0)
        outputs.append(text.finished().text)
    statistics = translation_statistics(outputs, references)
    return Translated(list(map(one_line, outputs)), list(map(one_line, references)), statistics, exact, settings.beam)
