"""Score a run on the whole of a prepared part."""

from dataclasses import replace

from tfcli.data.dataset import PreparedDataset
from tfcli.data.masking import MaskedBatches
from tfcli.data.pairs import PairBatches
from tfcli.data.views import SequencesView
from tfcli.evaluation.batches import Batches, build_batches
from tfcli.evaluation.loss import Totals, total_loss
from tfcli.evaluation.translation import TranslationScores, score_translations
from tfcli.generation.translate import translate
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.recipe.recipe import Recipe
from tfcli.records.evaluation import Scores
from tfcli.runs.load import LoadedRun

_SCORED_TOKENS = 8192
"""Tokens scored at a time: enough to keep two cores busy, few enough for the logits of a large vocabulary."""


def evaluate(run: LoadedRun, data: PreparedDataset) -> Scores:
    """Loss and accuracy over the validation part of `data`; for pairs, translations of all of it as well.

    Raises:
        UsageError: the dataset was made with another tokenizer, or holds the wrong kind.
    """
    data.require_tokenizer(run.tokenizer)
    batches = build_batches(_scored(run), data, "validation", run.config.roles)
    totals = total_loss(run.model, batches.whole(), run.device)
    record = data.record()
    scores = Scores(
        run=str(run.directory.path),
        objective=run.config.model.objective,
        sources=record.sources,
        loss=totals.loss,
        perplexity=totals.perplexity,
        bits_per_byte=_bits_per_byte(batches, totals, record.validation.bytes),
        tokens=totals.tokens,
        documents=record.validation.documents,
        accuracy=totals.accuracy,
        left_out=_left_out(batches),
    )
    if run.config.model.objective != "seq2seq":
        return scores
    translated = evaluate_translations(run, data)
    return replace(
        scores,
        bleu=translated.bleu,
        chrf=translated.chrf,
        exact_match=translated.exact_match,
        signature=translated.signature,
    )


def evaluate_translations(run: LoadedRun, data: PreparedDataset) -> TranslationScores:
    """Translate every validation pair, and compare with its target as the tokenizer writes it.

    A source that is longer than the context is cut to it; its reference stays whole.
    """
    pairs, roles = data.pairs("validation"), run.config.roles
    assert isinstance(run.model, EncoderDecoder)
    room = run.config.model.max_seq_len - len(roles.source_start) - 1  # and for the end token
    sources = [ids[:room] for ids in _ids(pairs.source, roles.source_start)]
    references = [run.tokenizer.decode(ids) for ids in _ids(pairs.target, roles.target_prefix)]
    settings = replace(run.recipe.generate, max_new_tokens=run.config.model.max_seq_len)
    outputs = translate(run.model, sources, roles, settings)
    return score_translations([run.tokenizer.decode(ids) for ids in outputs], references)


def _scored(run: LoadedRun) -> Recipe:
    """The run's recipe with batches of some thousand tokens: without gradients, more fits than in training."""
    train = run.recipe.train
    context = train.context or run.config.model.max_seq_len
    train = replace(
        train,
        batch_size=max(train.batch_size, _SCORED_TOKENS // context),
        batch_tokens=None if train.batch_tokens is None else max(train.batch_tokens, _SCORED_TOKENS),
    )
    return replace(run.recipe, train=train)


def _left_out(batches: Batches) -> int:
    return batches.left_out if isinstance(batches, PairBatches) else 0


def _bits_per_byte(batches: Batches, totals: Totals, number_of_bytes: int) -> float | None:
    """None where the nats do not cover every byte: a masked model scores one token in seven, and pairs that are too
    long have no part in the loss."""
    if isinstance(batches, MaskedBatches) or _left_out(batches):
        return None
    return totals.bits_per_byte(number_of_bytes)


def _ids(view: SequencesView, start: tuple[int, ...]) -> list[list[int]]:
    """Every sequence without the tokens that begin and the one that ends it."""
    return [view.sequence(number)[len(start) : -1].tolist() for number in range(len(view))]
