"""What a run makes of every source of a part."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tfcli.data.views import PairsView
from tfcli.evaluation.cells import without_frame
from tfcli.evaluation.translation import TranslationStatistics, one_line, translation_statistics
from tfcli.generation.translate import translate
from tfcli.models.encoder_decoder import EncoderDecoder
from tfcli.runs.load import LoadedRun


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
    settings = replace(own, max_new_tokens=longest, num_samples=1)
    if beam is not None:
        settings = replace(settings, beam=beam, beam_groups=1 if beam % own.beam_groups else own.beam_groups)
    outputs = [run.tokenizer.decode(ids) for ids in translate(run.model, sources, roles, settings)]
    statistics = translation_statistics(outputs, references)
    return Translated(list(map(one_line, outputs)), list(map(one_line, references)), statistics, exact, settings.beam)
