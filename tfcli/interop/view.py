"""What came in from another library, and what went out to it, as plain facts."""

from tfcli.draw.numbers import exact
from tfcli.draw.safe import printable
from tfcli.draw.tables import Fact, Facts
from tfcli.interop import ExportedRun, ImportedRun

_SHOWN = 4  # names before the rest is counted


def imported_view(record: ImportedRun) -> Facts:
    """A checkpoint that has become a run."""
    unused = record.vocab_size - record.tokens
    rows = f"{exact(unused)} rows of the embedding have no token" if unused else "the tokenizer has as many"
    facts = [
        Fact("family", record.layout, record.architecture),
        Fact("parameters", exact(record.parameters), f"numbers in the weights, {record.precision}"),
        Fact("vocabulary", exact(record.vocab_size), rows),
        Fact("context", exact(record.context), "tokens at most"),
        Fact("begins with", *_beginning(record)),
        Fact("ends with", _tokens(record.ends[:1]), _ending(record.ends)),
        Fact("pads with", _tokens((record.pads,) if record.pads else ()), "the end of batches"),
    ]
    if not record.has_head:
        facts.append(Fact("head", "none", "the checkpoint is a base model: it predicts no tokens"))
    for name, what, names in (
        ("left over", "not of the model", record.left_over),
        ("never appear", "entries that no text is cut into", record.never),
    ):
        if names:
            facts.append(Fact(name, exact(len(names)), f"{what}: {_names(names)}"))
    return Facts(f"{printable(record.path)} · from {printable(record.source)}", facts)


def exported_view(record: ExportedRun) -> Facts:
    """A run that has become a folder for `transformers`."""
    facts = [
        Fact("family", record.layout, record.architecture),
        Fact("parameters", exact(record.parameters), f"numbers in model.safetensors, {record.precision}"),
        Fact("files", exact(len(record.files)), ", ".join(record.files)),
        Fact("load with", record.auto_class, f'from_pretrained("{printable(record.path)}")'),
    ]
    if record.lacks:
        random = f"{', '.join(record.lacks)}: transformers draws them at random; the last hidden states are the run's"
        facts.append(Fact("not in it", exact(len(record.lacks)), random))
    return Facts(f"{printable(record.path)} · from {printable(record.run)}", facts)


def _beginning(record: ImportedRun) -> tuple[str, str]:
    if record.begins:
        return _tokens(record.begins), "every target" if record.architecture == "encoder-decoder" else "every text"
    empty = f"; an empty prompt is {_tokens(record.ends[:1]) if record.ends else 'refused'}"
    return "nothing", "a text" + empty * (record.architecture != "encoder")


def _tokens(names: tuple[str, ...]) -> str:
    return " ".join(map(printable, names)) or "nothing"


def _ending(names: tuple[str, ...]) -> str:
    if not names:
        return "a text; generation stops at its limit"
    return f"every document; {', '.join(map(printable, names[1:]))} ends a text too" if names[1:] else "every document"


def _names(names: tuple[str, ...]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(map(printable, names[:_SHOWN])) + (f" and {exact(more)} more" if more > 0 else "")
