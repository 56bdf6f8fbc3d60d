"""Translations of every source of a part, for BLEU and chrF."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfcli.data.views import PairsView
from tfcli.evaluation.cells import without_frame
from tfcli.evaluation.translation import TranslationStatistics, one_line, translation_statistics
from tfcli.generation.batch import GrowingText
from tfcli.generation.prompts import prefix_ids
from tfcli.generation.stop import stop_finder
from tfcli.generation.translate import translate
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.recipe.generate import GenerateSection
from tfcli.runs.load import LoadedRun
from tfcli.tokenization.tokenizer import Tokenizer


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
    outputs = [_text(run.tokenizer, ids, settings) for ids in found]
    statistics = translation_statistics(outputs, references)
    return Translated(list(map(one_line, outputs)), list(map(one_line, references)), statistics, exact, settings.beam)


def _text(tokenizer: Tokenizer, ids: Sequence[int], settings: GenerateSection) -> str:
    """The text of a translation, up to a stop text where there is one."""
    text = GrowingText(tokenizer, "", (), settings)
    for token_id in ids:
        text.push(token_id, 0.0)
    return text.finished().text
