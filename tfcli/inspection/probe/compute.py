"""Linear probes of position, word class and sense (Alain and Bengio 2017), beside control tasks (Hewitt and Liang 2019)
and the untrained model. Shape legend: N places, L layers, D model, C classes, U held-out texts."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from tfcli.corpora import Document, Kind, Labelled, Pair, stretches
from tfcli.corpora.open import DEFAULT, open_source
from tfcli.errors import UsageError
from tfcli.evaluation.bootstrap import FEWEST_UNITS
from tfcli.evaluation.intervals import paired_intervals, share_interval
from tfcli.inspection.heads.find import HELD_OUT_SEED
from tfcli.inspection.heads.statistics import spelled_at
from tfcli.inspection.passes import framed, tower
from tfcli.inspection.probe import Probe, ProbedLayer, Task
from tfcli.models.build import build_model
from tfcli.models.transformer import Transformer
from tfcli.runs.load import LoadedRun

PENALTIES = (1e-1, 1e-2, 1e-3)
_TEXTS, _PLACES, _POSITIONS, _QUARTERS = 600, 3000, 16, 4
_INITIAL = 3  # untrained models; what stands for them is the best
_WORD = re.compile(r"\w+")
_CONTROLS: dict[Task, str] = {
    "position": "each token's commonest position in the training texts",
    "word-class": "a random class for each word",
    "sense": "a random sense for each word that begins a text",
}
Labels = NDArray[np.int64]


class Places(NamedTuple):
    """Different texts as ids; of each place that is asked about the number of its text, where it stands there, its
    label, and its type, which a control task gives a random label."""

    source: str
    ids: tuple[tuple[int, ...], ...]
    texts: tuple[int, ...]
    at: tuple[int, ...]
    labels: tuple[str, ...]
    types: tuple[str, ...]


def labelled_places(
    run: LoadedRun, task: Task, on: Sequence[str] = (), word: str = "bank", *, plain: bool = False
) -> Places:
    """The first places of a source that a task has labels for; of a built-in one, in other texts than a run was trained
    on. A word's place is that of its last token, which has read all of it in every model. Texts are cut at the context,
    of a sense before it. `plain`: in lines without labels, a word's sense is the word before it. A UsageError where
    nothing is labelled, or the word stands nowhere."""
    spoken: Kind = "pairs" if run.architecture == "encoder-decoder" else "text"
    kind: Kind = "tag" if task == "word-class" else "classify" if task == "sense" else spoken
    names, seed = tuple(on) or (DEFAULT[kind],), run.recipe.data.seed + HELD_OUT_SEED
    try:
        source = open_source(names, kind, seed=seed, **(run.recipe.data.reading if kind == spoken else {}))
    except UsageError:
        if not (plain and on):
            raise
        source = open_source(names, "text")
    roles, found, rows = run.config.roles, dict[str, tuple[int, ...]](), list[tuple[Any, ...]]()
    before = len(roles.source_start if run.architecture == "encoder-decoder" else roles.text_prefix)
    draw, room = np.random.default_rng(0), run.config.model.max_seq_len - before - len(roles.end)
    for text, words in _marked(source.documents(), task, word):
        spelled = spelled_at(run.tokenizer, text, [one[:2] for one in words])
        places = [(where[-1], *one[2:]) for where, one in zip(spelled.places, words, strict=True) if where]
        begin = max(0, places[-1][0] + 1 - room) if task == "sense" and places else 0
        if task == "position":  # begun anywhere, for texts begin alike, and tokens would tell their positions
            begin = int(draw.integers(max(1, len(spelled.ids) - _POSITIONS)))
            own_ids = enumerate(spelled.ids[begin : begin + _POSITIONS])
            places = [(begin + place, str(place), str(token)) for place, token in own_ids]
        own = [(len(found), before + at - begin, *rest) for at, *rest in places if 0 <= at - begin < room]
        if own and text not in found:
            found[text] = framed(run, spelled.ids[begin : begin + room]).sides[0]
            rows += own
        if len(found) == _TEXTS or len(rows) > _PLACES:
            break
    if not rows:
        what = repr(word) if task == "sense" else f"a place with a {task}"
        raise UsageError(f"No text of {', '.join(names)} has {what}", "name others with --on")
    return Places(", ".join(names), tuple(found.values()), *zip(*rows, strict=True))


def _marked(documents: Iterable[Document], task: Task, word: str) -> Iterator[tuple[str, list[Any]]]:
    """Texts, each with words in it: from, up to, label, type."""
    if not _WORD.search(word):
        raise UsageError(f"{word!r} is no word", "name one that has letters with --word")
    asked = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
    for one in documents:
        text, label = (one.source, one.target) if isinstance(one, Pair) else ("".join(stretches(one)), "")
        for part in [text] if label else text.splitlines():
            spans, (first, *_) = list[Any](), [*_WORD.findall(part.lower()), ""]
            if task == "sense":
                for begin, end in (match.span() for match in asked.finditer(part)):
                    before = ["–", *_WORD.findall(part[:begin].lower())]
                    spans.append((begin, end, label or before[-1], first))
            elif task == "word-class" and isinstance(one, Labelled):
                spans = [(*span, text[span[0] : span[1]]) for span in one.spans]
            yield part, spans


@torch.inference_mode()
def vectors(model: Transformer, places: Places) -> NDArray[np.float32]:
    """What stands there behind the embedding and behind each layer; of two stacks the encoder's. (L + 1, N, D)."""
    reader, found, kept = tower(model), list[Tensor](), list[Tensor]()
    with ExitStack() as hooks:
        for module in (reader.embedding, *reader.stack.layers):
            hooks.enter_context(module.register_forward_hook(lambda module, given, output: kept.append(output)))
        for number, ids in enumerate(places.ids):
            kept.clear()
            reader.hidden(torch.tensor([ids], device=model.device))
            at = [place for text, place in zip(places.texts, places.at, strict=True) if text == number]
            found.append(torch.cat(kept)[:, at].float().cpu())
    return torch.cat(found, dim=1).numpy()


def probe(run: LoadedRun, task: Task, on: Sequence[str] = (), word: str = "bank") -> Probe:
    """Probe a run; errors as of `labelled_places` and `prepared`."""
    return prepared(run, labelled_places(run, task, on, word), task)(run)


def prepared(run: LoadedRun, places: Places, task: Task) -> Callable[[LoadedRun], Probe]:
    """The same probe for any weights of a run, a quarter of the texts held out. In the control, every type has a random
    label, drawn as it is frequent (Hewitt and Liang 2019, section 2.1). A UsageError of few texts, or one label."""
    names = sorted({*places.labels}, key=lambda name: (len(name) * name.isdigit(), name))
    if (count := len(places.ids)) < FEWEST_UNITS * _QUARTERS or len(names) < 2:
        problem = f"{places.source} has {count} texts with {len(names)} different labels, and a probe takes"
        raise UsageError(f"{problem} {FEWEST_UNITS * _QUARTERS} with 2", "name other texts with --on SOURCE")
    labels, texts = np.array([names.index(one) for one in places.labels]), np.array(places.texts)
    _, types = np.unique(places.types, return_inverse=True)
    types = types if types.any() else texts  # of one type, which tells nothing, each text is one
    draw = np.random.default_rng(0)
    quarter, drawn = draw.permutation(count)[texts] % _QUARTERS, draw.choice(labels, types.max() + 1)[types]
    held, rows = quarter == 0, np.unique(texts[quarter == 0], return_inverse=True)[1]
    fresh = (build_model(run.config.model, run.recipe.train.seed + n).to(run.device).eval() for n in range(_INITIAL))
    told = [[probed(of, labels, quarter) for of in vectors(one, places)] for one in fresh]
    before = [max(same, key=np.mean) for same in zip(*told, strict=True)]
    counts = np.zeros((types.max() + 1, len(names)))
    np.add.at(counts, (types[~held], labels[~held]), 1)
    common, alone = counts.sum(0).argmax() == labels[held], counts.argmax(1)[types[held]] == labels[held]

    def measured(one: LoadedRun) -> Probe:
        layers = list[ProbedLayer]()
        for of, untaught in zip(vectors(one.model, places), before, strict=True):
            control = alone if task == "position" else probed(of, drawn, quarter)
            right = np.ones(len(rows)), probed(of, labels, quarter), common, control, untaught
            name = f"layer {len(layers) - 1}" if layers else "embedding"
            layers.append(probed_layer(name, np.stack([np.bincount(rows, column) for column in right], 1)))
        about = str(one.directory.path), task, places.source, _CONTROLS[task], tuple(names), count
        return Probe(*about, int(rows.max()) + 1, len(rows), tuple(layers))

    return measured


def probed_layer(name: str, sums: NDArray[np.float64]) -> ProbedLayer:
    """The figures of a depth, from its sums over held-out texts.

    `above` is the smallest of three differences. Its interval has the smallest of their lower ends and the smallest of
    their upper ends: the former is above 0 where all three are (an intersection-union test; Berger 1982).

    Args:
        name: The embedding, or a layer.
        sums: The places of each text, and how many of them were right by the probe, the majority, the control and the
            untrained model, (U, 5).
    """
    places, right, others = sums[:, 0], sums[:, 1], sums[:, 2:]
    accuracy = float(right.sum() / places.sum())
    majority, control, untrained = (others.sum(0) / places.sum()).tolist()
    low, high = share_interval(right, places) or (0.0, 1.0)
    differences = [between or (-1.0, 1.0) for between in paired_intervals(right, others, places)]

    names = ("majority", "control", "untrained")
    missed = [other for other, between in zip(names, differences, strict=True) if between[0] <= 0]
    return ProbedLayer(
        name=name,
        verdict=f"not above {', '.join(missed)}" if missed else "above all three",
        accuracy=accuracy,
        low=low,
        high=high,
        majority=majority,
        control=control,
        untrained=untrained,
        selectivity=accuracy - control,
        above=accuracy - max(majority, control, untrained),
        above_low=min(between[0] for between in differences),
        above_high=min(between[1] for between in differences),
    )


def probed(of: NDArray[np.float32], labels: Labels, quarter: Labels) -> NDArray[np.bool_]:
    """Whether each place of quarter 0 is told by a probe of all others. Its penalty is the strongest of those that are
    best at quarter 1 without having seen it. Shape: of (N, D), labels and quarter (N,)."""
    known, part, wide = torch.from_numpy(labels), torch.from_numpy(quarter), torch.from_numpy(of).double()
    spread = wide[part > 0].std(0, correction=0)
    scale = torch.where(spread > 1e-6 * wide.abs().max(), spread, torch.inf)  # below is rounding
    x = (wide - wide[part > 0].mean(0)) / scale

    def told(train: Tensor, test: Tensor, l2: float) -> NDArray[np.bool_]:
        weights = fit(x[train], known[train], int(known.max()) + 1, l2)
        return ((x[test] @ weights[:-1] + weights[-1]).argmax(1) == known[test]).numpy()

    return told(part > 0, part == 0, max(PENALTIES, key=lambda l2: (told(part > 1, part == 1, l2).mean(), l2)))


def fit(x: Tensor, labels: Tensor, classes: int, l2: float) -> Tensor:
    """The minimum of the mean cross-entropy of a softmax plus l2/2 · ‖W‖², by L-BFGS; the bias, in the last row, is
    free. Shape: x (N, D), labels (N,), returns (D + 1, C)."""
    weights = torch.zeros(x.shape[1] + 1, classes, dtype=x.dtype, requires_grad=True)
    search = torch.optim.LBFGS([weights], max_iter=500, tolerance_grad=1e-4, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        search.zero_grad()
        loss = F.cross_entropy(x @ weights[:-1] + weights[-1], labels) + l2 / 2 * weights[:-1].square().sum()
        loss.backward()
        return loss

    search.step(closure)
    return weights.detach()
