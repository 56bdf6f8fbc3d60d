"""From a recipe to its tokenizer and its prepared dataset, made once and kept in the cache.

cache/tokenizers/<fingerprint of text and settings>/   tokenizer.json, and manifest.json with its fingerprint
cache/datasets/<fingerprint of text, split and tokenizer>/
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tfcli.addresses import reachable, require_known
from tfcli.corpora import Kind, Pair, Source
from tfcli.corpora.open import expanded, is_there, open_source
from tfcli.corpora.split import TrainValidationSplit, evaluation_only, open_split
from tfcli.data.cache import used
from tfcli.data.dataset import PreparedDataset
from tfcli.data.denoising import sentinel_names
from tfcli.data.prepare import dataset_fingerprint, prepare
from tfcli.data.shards import MANIFEST_NAME
from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.files import cache_folder, digest, names_path, require_writable, write_json, write_text
from tfcli.recipe.data import DataSection, TokenizerSection
from tfcli.recipe.loading import naming_text
from tfcli.recipe.recipe import Recipe
from tfcli.records.dataset import WholePart
from tfcli.records.roles import ROLE_NAMES
from tfcli.records.runs import StageProgress, StageStarted
from tfcli.runs.config import read_config, read_run_data
from tfcli.runs.directory import RunDirectory, existing_run, is_run
from tfcli.runs.load import LoadedRun, load_run_tokenizer
from tfcli.runs.text import naming_run, open_text_of_run
from tfcli.tokenization.tokenizer import Tokenizer, load_tokenizer
from tfcli.tokenization.train import reported_texts, train_tokenizer

Report = Callable[[Any], None]  # receives events and records as they come
_TOKENIZER_FORMAT = 1
_LATER = (*ROLE_NAMES, "sample_bytes", "byte_fallback")  # newer keys: left alone, they change no place in the cache


def kind_of(recipe: Recipe) -> Kind:
    """The kind of data that the recipe's objective is trained on."""
    return recipe.train.task or ("pairs" if recipe.reads_pairs else "text")


def obtain_data(
    recipe: Recipe, report: Report, tokenizer: Tokenizer | None = None
) -> tuple[Tokenizer, PreparedDataset]:
    """The tokenizer and the dataset of a recipe, from the cache where they are there; a folder made by `tfcli prepare`
    is taken as it is, with the tokenizer inside it. A `tokenizer` that is given takes the place of the recipe's."""
    if (prepared := prepared_data(recipe)) is not None:
        report(StageStarted("data", str(prepared[1].path), reused=True))
        report(prepared[1].record(reused=True))
        return prepared
    split, section = open_split(recipe.data, kind_of(recipe)), recipe.tokenizer
    if recipe.train.objective == "span-corruption":
        own = [name for name in sentinel_names(recipe.context) if name not in section.special_tokens]
        section = replace(section, special_tokens=(*section.special_tokens, *own))
    tokenizer = tokenizer or obtain_tokenizer(section, split, report)
    return tokenizer, cached_dataset(split, tokenizer, report)


def prepared_data(recipe: Recipe) -> tuple[Tokenizer, PreparedDataset] | None:
    """The dataset that the recipe's source is, made by `tfcli prepare`, and the tokenizer; None: it is another source.
    One that does not fit the architecture, or a tokenizer that is not its own, is refused."""
    if (folder := prepared_folder(recipe.data)) is None:
        return None
    data = PreparedDataset.open(folder)
    data.require_kind(kind_of(recipe))
    tokenizer = load_tokenizer(Path(recipe.tokenizer.path or folder))
    data.require_tokenizer(tokenizer)
    return tokenizer, data


def obtain_tokenizer(section: TokenizerSection, split: TrainValidationSplit, report: Report) -> Tokenizer:
    """The tokenizer that the recipe names, or one trained on the training part (held-out text stays unseen)."""
    if section.path is not None:
        report(StageStarted("tokenizer", section.path, reused=True))
        return load_tokenizer(Path(section.path))
    own = TokenizerSection()
    asked = {key: value for key, value in asdict(section).items() if key not in _LATER or value != getattr(own, key)}
    key = digest("tokenizer", _TOKENIZER_FORMAT, split.fingerprint, asked)
    file = cache_folder() / "tokenizers" / key / "tokenizer.json"
    manifest = file.with_name(MANIFEST_NAME)
    what = f"{section.algorithm}, {section.vocab_size} ids at most"
    used(file.parent)
    if file.is_file() and manifest.is_file():  # without it, there is nothing to compare the file with
        report(StageStarted("tokenizer", what, reused=True))
        return load_tokenizer(file)
    require_writable_cache()
    report(StageStarted("tokenizer", what))
    tokenizer, result = train_tokenizer(lambda: reported_texts(split.only("train"), report), section)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, tokenizer.to_json())
    about = {"tokenizer_fingerprint": tokenizer.fingerprint, "sources": split.source.names}
    write_json(manifest, {"format_version": _TOKENIZER_FORMAT, **about})
    used(file.parent)
    report(result)
    return tokenizer


def cached_dataset(
    split: TrainValidationSplit, tokenizer: Tokenizer, report: Report, only: WholePart | None = None
) -> PreparedDataset:
    """A prepared corpus, from the cache if it is there. `only`: what of it both parts are, where both are the same."""
    folder, names = cache_folder() / "datasets" / dataset_fingerprint(split, tokenizer), split.source.names
    used(folder)
    report(StageStarted("data", ", ".join(names), reused=folder.is_dir()))
    require_writable_cache()
    record = prepare(split, tokenizer, folder, progress=lambda *done: report(StageProgress("data", *done)))
    used(folder)
    data = PreparedDataset.open(folder).called(names)
    report(replace(data.record(reused=record.reused), only=only))
    return data


def require_writable_cache() -> None:
    """Refuse, before any work, a cache in which nothing can be kept."""
    try:
        require_writable(cache_folder())
    except UsageError as error:
        problem = f"The cache cannot be written: {error.problem}"
        raise UsageError(problem, "name another folder in TFCLI_CACHE") from error


def prepared_folder(section: DataSection) -> Path | None:
    """The folder that the section's source names, where it is a prepared dataset."""
    name = section.source
    if isinstance(name, str):
        with naming_text(section):
            require_known(name)
    return Path(name) if isinstance(name, str) and (Path(name) / MANIFEST_NAME).is_file() else None


def dataset_of_run(run: RunDirectory, recipe: Recipe, report: Report) -> PreparedDataset:
    """The dataset a run was trained on: from the cache by its fingerprint, else made again from the sources. Refused
    are sources that have changed, standard input, and imported runs."""
    if recipe.is_imported:
        raise UsageError(f"The run {run.path} was imported and has no text of its own", "name a SOURCE after the run")
    trained_on = read_run_data(run.data)
    cached = cache_folder() / "datasets" / trained_on.fingerprint
    used(cached)
    if cached.is_dir():
        data = PreparedDataset.open(cached)
        if data.manifest.fingerprint != trained_on.fingerprint:
            problem = f"{cached} holds another prepared dataset ({data.manifest.fingerprint})"
            raise BrokenInputError(problem, f"remove the folder {cached}: it is made again")
        return data.called(trained_on.sources)
    if (found := require_same_text(run, recipe)) is None:
        problem = f"The text of {run.path} came from standard input and is no longer in the cache"
        raise UsageError(problem, "train again from a file")
    return found if isinstance(found, PreparedDataset) else cached_dataset(*found, report)


def require_addresses(run: RunDirectory, recipe: Recipe) -> None:
    """Refuse, without contacting any, the addresses that `dataset_of_run` would refuse."""
    if (cache_folder() / "datasets" / read_run_data(run.data).fingerprint).is_dir():
        return
    with naming_run(run, recipe), naming_text(recipe.data):
        for name in filter(None, (*recipe.data.names, recipe.data.validation)):
            reachable(name)


def require_same_text(
    run: RunDirectory, recipe: Recipe, remedy: str = "restore it, or train a new run"
) -> PreparedDataset | tuple[TrainValidationSplit, Tokenizer] | None:
    """Refuse to go on with a run whose text has changed since. Return the text as it was prepared, or as it can be
    prepared again; None: it was standard input, which cannot be compared."""
    trained_on = read_run_data(run.data)
    with naming_run(run, recipe):
        folder = prepared_folder(recipe.data)
    if "-" in trained_on.sources and folder is None:
        return None
    if folder is not None:
        dataset = PreparedDataset.open(folder, trained_on.fingerprint)
        if dataset.manifest.fingerprint == trained_on.fingerprint:
            return dataset
    else:
        tokenizer = load_run_tokenizer(run, read_config(run.config))
        split = _split_of(trained_on.fingerprint, run, recipe, tokenizer)
        if split is not None:
            return split, tokenizer
    problem = f"The text of {', '.join(trained_on.sources)} has changed since {run.path} was trained on it"
    raise UsageError(problem, remedy)


def _split_of(fingerprint: str, run: RunDirectory, recipe: Recipe, tokenizer: Tokenizer) -> TrainValidationSplit | None:
    """The text of a run, read so that its dataset has this fingerprint; None if it has another one. A run of an
    older version goes on with tables read as that version read them."""
    with suppress(TfcliError):  # an older version may not have read them at all
        split = open_text_of_run(run, recipe, kind_of(recipe), as_before=True)
        if dataset_fingerprint(split, tokenizer) == fingerprint:
            return split
    split = open_text_of_run(run, recipe, kind_of(recipe))
    return split if dataset_fingerprint(split, tokenizer) == fingerprint else None


def dataset_for_evaluation(
    run: LoadedRun, names: tuple[str, ...], report: Report, max_documents: int | None = None
) -> PreparedDataset:
    """Another source, whole or its first documents, prepared with a run's tokenizer as a validation part."""
    source = open_source(names, kind_of(run.recipe), max_documents=max_documents, **run.recipe.data.reading)
    return cached_dataset(evaluation_only(source), run.tokenizer, report, "whole")


def with_absolute_paths(recipe: Recipe) -> Recipe:
    """The recipe with its paths written from the root, so that a run resumes from any folder."""
    data, tokenizer, kind, source = recipe.data, recipe.tokenizer, kind_of(recipe), recipe.data.source
    if source is not None:
        source = _absolute(source, kind) if isinstance(source, str) else tuple(_absolute(name, kind) for name in source)
    sources = data.sources and tuple(replace(one, source=_absolute(one.source, kind)) for one in data.sources)
    validation = data.validation and _absolute(data.validation, kind)
    return replace(
        recipe,
        data=replace(data, source=source, sources=sources, validation=validation),
        tokenizer=replace(tokenizer, path=tokenizer.path and _absolute_run(tokenizer.path)),
        train=replace(recipe.train, init=recipe.train.init and _absolute_run(recipe.train.init)),
    )


def _absolute(name: str, kind: Kind) -> str:
    if not names_path(name):
        return name
    parallel = kind == "pairs" and not is_there(name)
    return ",".join(str(expanded(path).absolute()) for path in (name.split(",") if parallel else [name]))


def _absolute_run(name: str) -> str:
    path = expanded(name)
    return str((existing_run(path).path if is_run(path) else path).absolute())


def original_targets(run: LoadedRun, sources: tuple[str, ...]) -> list[str] | None:
    """The targets of `sources`, or, without any, of the run's own validation part; None: they cannot be read again."""
    try:
        if sources:
            documents = open_source(sources, kind_of(run.recipe), **run.recipe.data.reading).documents()
        elif (split := _split_behind(run)) is not None:
            documents = split.only("validation")
        else:
            return None
        return [document.target for document in documents if isinstance(document, Pair)]
    except TfcliError:
        return None  # the sources are gone: scores are of the dataset, which is still there


def _split_behind(run: LoadedRun) -> TrainValidationSplit | None:
    """The run's own text, refused where it has changed since; None: it was standard input or prepared already."""
    if prepared_folder(run.recipe.data) is not None:
        return None
    found = require_same_text(run.directory, run.recipe, "restore it, or name a SOURCE")
    return found[0] if isinstance(found, tuple) else None


def data_to_compare(
    run: LoadedRun, other: LoadedRun, data: PreparedDataset, sources: tuple[str, ...], report: Report
) -> PreparedDataset:
    """`data`, which `run` is scored on, for `other`: the same documents in the same order. `sources` says where `data`
    is from; none: the run's validation part. Where tokenizers differ, a text that cannot be read again is refused."""
    if other.tokenizer.fingerprint == run.tokenizer.fingerprint:
        return data
    if sources:
        with_columns = replace(other, recipe=replace(other.recipe, data=run.recipe.data))
        return dataset_for_evaluation(with_columns, sources, report)
    if (split := _split_behind(run)) is None:
        problem = f"The tokenizers of {run.directory.path} and {other.directory.path} differ"
        problem += ", and the text is only there as the first one's tokens"
        raise UsageError(problem, "name a SOURCE that both can read")
    source, fingerprint = split.source, digest("validation part", split.fingerprint)
    held_out = Source(source.names, source.kind, lambda: split.only("validation"), lambda: fingerprint)
    return cached_dataset(evaluation_only(held_out), other.tokenizer, report, "validation")


def notes_on_text(run: LoadedRun, other: LoadedRun, sources: tuple[str, ...]) -> tuple[str, ...]:
    """What to beware of where the text is the first run's validation part."""
    if sources or run.recipe.data == other.recipe.data:
        return ()
    return (f"{other.directory.path} was trained on other text, or divided it otherwise: it may know these documents.",)
