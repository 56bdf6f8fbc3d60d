"""Self-attention and cross-attention of a run on a text, as it is asked for: the one function behind the command, the
explorer and the Python API."""

from collections.abc import Sequence

from tfcli.errors import UsageError
from tfcli.inspection.attention.choice import AttentionChoice, head_place
from tfcli.inspection.attention.difference import LARGEST, difference, require_same_tokens
from tfcli.inspection.attention.edges import strongest_edges
from tfcli.inspection.attention.evolution import evolution
from tfcli.inspection.attention.focus import require_place
from tfcli.inspection.attention.weights import attention_on
from tfcli.inspection.kinds import chosen_kinds
from tfcli.inspection.predictions.predictions import candidates_at
from tfcli.inspection.reading import Inputs, require_room
from tfcli.records.attention import (
    AttentionDifference,
    AttentionEdges,
    AttentionFound,
    AttentionHeads,
    AttentionQuery,
    AttentionRecord,
)
from tfcli.runs.load import LoadedRun, load_run


def inspect_attention(
    run: LoadedRun, text: str, choice: AttentionChoice | None = None, checkpoint: str = "best"
) -> AttentionFound:
    """What is asked of a text's attention: heads, one query's row, the strongest weights, a difference, an evolution.

    Without a choice, the weights of all heads. Row t of a decoder's weights is what it looks at to predict the token
    after t. Of several kinds, a comparison is of the last one: of an encoder-decoder, its cross-attention.

    Args:
        checkpoint: which weights of the run are loaded, to call them by in a comparison.

    Raises:
        UsageError: the model has no attention of that kind, or no such layer or head; takes no target or beam; a text
            is longer than the context or has no such part; or what is compared does not have the same tokens.
    """
    choice = choice or AttentionChoice()
    chosen_kinds(run, choice.kind)  # refused before anything is translated
    inputs = choice.read(run, text)
    records = attention_on(run, inputs, choice.kind)
    if choice.rollout and choice.kind is None:
        records = [record for record in records if record.kind != "cross"]
    if choice.evolution:
        return evolution(run, inputs, records[-1].kind, choice.layer, choice.head, words=choice.words)
    if choice.compared and choice.against_head is None:
        return _against_another(run, text, inputs, records[-1], choice, checkpoint)
    found = chosen_attention(records, choice)
    if choice.query is None or not isinstance(found, AttentionHeads):
        return found
    whole, [row] = records[-1], found.records
    at = whole.query_words[row.rows[0]].places[-1] if choice.words else row.rows[0]
    predicts = whole.kind != "encoder_self" and run.config.model.head != "none"
    predicted = tuple(candidates_at(run, inputs, at)) if predicts else ()
    return AttentionQuery(found.records, choice.layer, choice.head, predicted=predicted)


def chosen_attention(
    records: Sequence[AttentionRecord], choice: AttentionChoice
) -> AttentionHeads | AttentionEdges | AttentionDifference:
    """As `inspect_attention`, of weights that are there: heads, the strongest weights, or a head less another one.

    Raises:
        UsageError: there is no such layer, head, word or part.
    """
    whole = (choice.rows, choice.columns, choice.query) == (None, None, None)
    if not whole or choice.top_k is not None or choice.against_head is not None:
        records = records[-1:]  # the sides of an encoder-decoder are of different lengths
    found = [choice.of(record) for record in records]
    ours = found[-1]
    if choice.against_head is not None:
        place = head_place(choice.against_head, "--against-head")
        if place == ours.focus:
            raise UsageError(
                f"--against-head {choice.against_head} names the head that is shown",
                "name another one, or choose what is shown with --layer and --head",
            )
        require_place("layer", place[0], ours.weights.shape[0])
        require_place("head", place[1], ours.weights.shape[1])
        names = ours.place(*ours.focus), ours.place(*place)
        return difference(ours, ours, (ours.focus, place), names, largest=choice.top_k or LARGEST)
    if choice.top_k is not None:
        return strongest_edges(ours, *ours.focus, choice.top_k)
    return AttentionHeads(tuple(found), choice.layer, choice.head, choice.scores)


def _against_another(
    run: LoadedRun, text: str, inputs: Inputs, record: AttentionRecord, choice: AttentionChoice, checkpoint: str
) -> AttentionDifference:
    """A head on its text less the same head on another text, of another run, or with other weights.

    With one tokenizer, another run reads the same ids, a translation too; else it reads the text itself.
    """
    if choice.against_text is not None:
        names = f"“{text}”", f"“{choice.against_text}”"
        [other] = attention_on(run, choice.read(run, choice.against_text), record.kind)
    else:
        if choice.against_run is not None:
            names = str(run.directory.path), str(choice.against_run)
            rival = load_run(choice.against_run, device=run.device)
        else:
            assert choice.against_checkpoint is not None
            names = _weights_name(checkpoint), _weights_name(choice.against_checkpoint)
            rival = load_run(run.directory.path, choice.against_checkpoint, run.device)
        if rival.config.tokenizer_fingerprint != run.config.tokenizer_fingerprint:
            inputs = choice.read(rival, text)
        require_room(rival, inputs)
        [other] = attention_on(rival, inputs, record.kind)
        require_same_tokens(record, other, names[1])
    ours, theirs = choice.of(record), choice.of(other)
    require_place("layer", ours.focus[0], theirs.weights.shape[0])
    require_place("head", ours.focus[1], theirs.weights.shape[1])
    return difference(ours, theirs, (ours.focus, ours.focus), names, largest=choice.top_k or LARGEST)


def _weights_name(checkpoint: str) -> str:
    return f"step {checkpoint}" if checkpoint.isdecimal() else f"the {checkpoint} weights"
