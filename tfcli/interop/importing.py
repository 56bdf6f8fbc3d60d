"""Import of a Hugging Face checkpoint: it becomes an ordinary run directory."""

import hashlib
import logging
import os
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from fnmatch import fnmatch
from functools import partial
from operator import index
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from tfcli.corpora.hub import HUB_PREFIX
from tfcli.errors import BrokenInputError, TfcliError, UsageError, first_lines, shortened
from tfcli.files import digest, replacing_folder, write_text
from tfcli.interop import ImportedRun
from tfcli.interop import checkpoint as checkpoints
from tfcli.interop.families import layout_of
from tfcli.interop.tensors import canonical_names, multiplied, parameters_of_checkpoint, precision_of, settled_section
from tfcli.interop.tokenizer_files import CHAT_FOLDER, read_chat, read_roles, read_tokenizer
from tfcli.recipe.loading import as_name, build_recipe, to_toml
from tfcli.recipe.model import ModelSection
from tfcli.recipe.recipe import GenerateSection, OriginSection, Recipe
from tfcli.runs.card import imported_card
from tfcli.runs.config import RunConfig, write_config
from tfcli.runs.directory import RunDirectory, claimed_run
from tfcli.runs.weights import save_tensors
from tfcli.tokenization.chat import ChatTemplates
from tfcli.tokenization.tokenizer import Tokenizer, load_tokenizer
from tfcli.tokenization.tokenizer_json import copy_backend

TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json"),
    *("merges.txt", "vocab.txt", "chat_template.jinja", "tokenizer.model", "spiece.model", "source.spm"),
)
_NAME = re.compile(r"hf:(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>(?!.*\.\.)\w[\w./-]*))?", re.ASCII)


def is_hub_name(source: str) -> bool:
    """Whether a checkpoint is named on the hub, not by its folder."""
    return source.startswith(HUB_PREFIX)


def fetch(name: str) -> Path:
    """The folder with the files of a checkpoint that tfcli reads: fetched, or from the cache without the hub. `name` is
    `hf:owner/name`, or `hf:owner/name@revision` (a branch, a tag or a commit). A UsageError where it is malformed,
    there is no such model or revision, access to it must be asked for, or it has no weights that tfcli reads; a
    TfcliError where the hub cannot be reached, and the cache does not have it."""
    match = _NAME.fullmatch(name)
    if not match:
        raise UsageError(f"{name!r} is no model name", "write hf:owner/name or hf:owner/name@revision")
    repository, revision = match["name"], match["revision"]
    import huggingface_hub as library
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()  # what goes wrong is said by our errors
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
    download = partial(library.snapshot_download, repository, revision=revision)
    try:
        info = library.HfApi().model_info(repository, revision=revision)
    except Exception as error:
        explained = _explained(error, name)
        if isinstance(explained, UsageError):  # the hub has answered no
            raise explained from error
        try:  # an earlier fetch; whether it is whole shows when it is read
            return Path(download(local_files_only=True, allow_patterns=[checkpoints.CONFIG_NAME]))
        except Exception:  # the first error says more
            raise explained from error
    wanted = needed([file.rfilename for file in info.siblings or []], name)
    try:
        return Path(download(allow_patterns=wanted))  # by name, not by commit: the cache then knows what it stood for
    except Exception as error:
        raise _explained(error, name) from error


def needed(files: Sequence[str], name: str) -> list[str]:
    """Those of a model's files that tfcli reads: config, tokenizer, and weights in one form alone."""
    if checkpoints.CONFIG_NAME not in files:
        raise UsageError(f"{name} has no {checkpoints.CONFIG_NAME}", "name a model in the transformers layout")
    weights = checkpoints.weights_name(files, name)
    shards = re.sub(r"(\.\w+)\.index\.json", r"-*\1", weights)
    wanted = {checkpoints.CONFIG_NAME, "generation_config.json", *TOKENIZER_FILES, weights, shards}
    at_the_top = {file for file in files if "/" not in file and any(fnmatch(file, one) for one in wanted)}
    return [file for file in files if file in at_the_top or fnmatch(file, f"{CHAT_FOLDER}/*.jinja")]


def _explained(error: Exception, name: str) -> TfcliError:
    """Whatever the library raises while it fetches `name`, in one plain sentence."""
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    accept = "accept its terms on huggingface.co, then run 'hf auth login'"
    log_in = "check the name on huggingface.co, or run 'hf auth login' where it is private"
    for kind, problem, remedy in (
        (GatedRepoError, f"Access to {name} must be asked for", accept),
        (RevisionNotFoundError, f"{name} names a revision that is not there", "check it on huggingface.co"),
        (HFValidationError, f"{name} is no model name ({first_lines(error)})", "write hf:owner/name"),
        (RepositoryNotFoundError, f"There is no model {name} that you may read", log_in),
    ):
        if isinstance(error, kind):
            return UsageError(problem, remedy)
    problem = f"Cannot fetch {name} ({first_lines(error)})"
    return TfcliError(problem, "check the network, or download the model and name its folder")


class _Model(NamedTuple):
    """A checkpoint as tfcli sees it; `left_over` are the tensors that its model does not need."""

    family: str
    section: ModelSection
    parameters: dict[str, Tensor]
    left_over: list[str]


def import_run(
    source: str,
    out: Path | None = None,
    tokenizer_file: Path | None = None,
    ignored: Sequence[str] = (),
    bos: str | None = None,
) -> ImportedRun:
    """Read a checkpoint and write it as a run: weights as stored, its tokenizer, its origin. UsageError: there is none,
    a setting is not tfcli's, or the folder is taken; BrokenInputError: a file is damaged, or tensors, config and
    tokenizer contradict each other. The `source` is a folder, or hf:owner/name[@revision]; without `out`, the run is
    `runs/<name>-<n>`. A `tokenizer_file` replaces the checkpoint's own, config.json is read without the `ignored`
    settings, as "rope_parameters.factor", and every text begins with `bos`, or "none"; None: the tokenizer's own."""
    name = _name_of(source)
    with claimed_run(out, name) as run:
        folder = fetch(source) if is_hub_name(source) else Path(source)
        if RunDirectory(folder).holds_run():
            raise UsageError(f"{source} is a run already", "use it as it is")
        checkpoint = _without(checkpoints.read_checkpoint(folder), ignored)
        model = _read_model(checkpoint)
        tokenizer = _read_tokenizer(checkpoint, model.section, tokenizer_file)
        if bos is not None:
            tokenizer = _begun_with(tokenizer, bos, model.section.architecture)
        weights = _fingerprint(model.parameters)
        origin = OriginSection(source, model.family, ignored=tuple(ignored), bos=bos, weights=weights)
        settings = GenerateSection(max_new_tokens=min(GenerateSection.max_new_tokens, model.section.max_seq_len - 1))
        recipe = Recipe(name=name, model=model.section, generate=settings, origin=origin)
        _write(run, recipe, model, tokenizer, read_chat(checkpoint.folder))
    return _record(run, model, tokenizer, source)


def _without(checkpoint: checkpoints.Checkpoint, ignored: Sequence[str]) -> checkpoints.Checkpoint:
    """The checkpoint as if its config.json did not have these settings."""
    values, file = deepcopy(checkpoint.values), checkpoint.config.file
    for name in ignored:
        outer, _, inner = name.partition(".")
        nested = name not in values and isinstance(values.get(outer), dict)
        if (values[outer] if nested else values).pop(inner if nested else name, None) is None:
            raise UsageError(f"{file} has no setting {shortened(repr(name))} to ignore", "name one that it has")
    return replace(checkpoint, config=checkpoints.CheckpointConfig(values, file), values=values)


def _name_of(source: str) -> str:
    """The model's or the folder's own name."""
    if is_hub_name(source):
        return as_name(source.partition("@")[0].rpartition("/")[2])
    return as_name(Path(os.path.abspath(source)).name) or "imported"  # noqa: PTH100 (resolve fails over a loop of links)


def _read_model(checkpoint: checkpoints.Checkpoint) -> _Model:
    file = checkpoint.config.file
    layout = layout_of(checkpoint.values, file)
    tensors = canonical_names(layout, checkpoint.tensors)
    try:
        section = settled_section(layout, layout.read(checkpoint.config), tensors, checkpoint.tensors)
        section = build_recipe({"model": asdict(section)}).model  # a run with another could not be loaded
    except UsageError as error:
        if str(file) in error.problem:  # which the rules of a recipe do not name
            raise
        problem = f"{file} makes a model that tfcli does not have: {error.problem}"
        raise UsageError(problem, "choose another checkpoint") from error
    where, names = checkpoint.weights_file, checkpoint.tensors
    parameters, left_over = parameters_of_checkpoint(layout, section, tensors, where, names)
    section, parameters = multiplied(section, parameters, layout.factors(checkpoint.values, section))
    return _Model(layout.name, section, parameters, left_over)


def _read_tokenizer(checkpoint: checkpoints.Checkpoint, section: ModelSection, file: Path | None) -> Tokenizer:
    folder, values, rows = checkpoint.folder, checkpoint.values, section.vocab_size
    tokenizer = read_roles(load_tokenizer(file), folder, values) if file else read_tokenizer(folder, values)
    assert rows is not None
    if tokenizer.vocab_size > rows:
        named = f"{file or checkpoint.folder} has a tokenizer of {tokenizer.vocab_size} ids"
        problem = f"{named}, and the embedding of {checkpoint.weights_file} has {rows} rows"
        raise UsageError(problem, "give the tokenizer it was trained with: --tokenizer FILE")
    return tokenizer.with_roles(replace(tokenizer.roles, suppressed=_suppressed(checkpoint, rows))).of_model(rows)


def _suppressed(checkpoint: checkpoints.Checkpoint, rows: int) -> tuple[int, ...]:
    """The ids that the checkpoint rules out in generation: `suppress_tokens`, and `bad_words_ids` of one token."""
    file = checkpoint.folder / "generation_config.json"
    found: list[int] = []
    for where, values in ((file, checkpoints.read_optional(file)), (checkpoint.config.file, checkpoint.values)):
        listed, words = values.get("suppress_tokens") or [], values.get("bad_words_ids") or []
        try:
            found += map(index, [*listed, *(word[0] for word in words if len(word) == 1)])
        except (TypeError, KeyError) as error:
            problem = f"{where} has suppress_tokens or bad_words_ids that are no lists of ids"
            raise BrokenInputError(problem, "restore the file") from error
    return tuple(dict.fromkeys(token for token in found if 0 <= token < rows))


def _begun_with(tokenizer: Tokenizer, bos: str, architecture: str) -> Tokenizer:
    """The same tokenizer, its texts begun with another token, or with none."""
    if architecture == "encoder-decoder":
        problem = "--bos is for a decoder or an encoder, and this is an encoder-decoder"
        raise UsageError(problem, "leave it out: its files say it")
    if bos == "none":
        return tokenizer.with_roles(replace(tokenizer.roles, text_start=()))
    token = tokenizer.token_id(bos)
    declared = copy_backend(tokenizer.to_json()).get_added_tokens_decoder()
    if token is None or (token in tokenizer.ordinary_ids and token not in declared):  # no text could hold it any more
        problem = f"--bos {shortened(repr(bos))} is no special token of the checkpoint"
        raise UsageError(problem, "name one of its special tokens, or none")
    start = (token,) if tokenizer.roles.endless or token == tokenizer.roles.eos else None
    return tokenizer.with_roles(replace(tokenizer.roles, bos=token, text_start=start))


def _write(run: RunDirectory, recipe: Recipe, model: _Model, tokenizer: Tokenizer, chat: ChatTemplates | None) -> None:
    """The folder appears whole, or not at all."""
    run_id = digest(recipe.origin.source, recipe.origin.weights, tokenizer.fingerprint)
    with replacing_folder(run.path) as temporary:
        inside = RunDirectory(temporary)
        tokenizer.save(inside.tokenizer)
        if chat is not None:
            chat.save(temporary)
        write_config(inside.config, RunConfig(model.section, tokenizer.roles, tokenizer.fingerprint, run_id))
        save_tensors(inside.weights, model.parameters, {"run_id": run_id})
        write_text(inside.readme, _card(recipe, model, tokenizer))
        write_text(inside.recipe, to_toml(recipe))


def _card(recipe: Recipe, model: _Model, tokenizer: Tokenizer) -> str:
    """With a text that fits: one that all vocabularies of letters spell, else a token of this one."""
    section, unknown, mask = model.section, tokenizer.roles.unk, tokenizer.roles.mask
    texts = ("One day", "day", *map(tokenizer.decode, ([token] for token in sorted(tokenizer.ordinary_ids))))
    room = range(1, max(2, section.max_seq_len // 2))
    fitting = (text for text in texts if unknown not in (ids := tokenizer.encode(text)) and len(ids) in room)
    names = tokenizer.labels([] if mask is None else [mask])
    return imported_card(recipe, model.left_over, next(fitting, texts[0]), names[0] if names else None)


def _record(run: RunDirectory, model: _Model, tokenizer: Tokenizer, source: str) -> ImportedRun:
    section, roles = model.section, tokenizer.roles
    assert section.vocab_size is not None
    pairs = section.architecture == "encoder-decoder"
    return ImportedRun(
        path=str(run.path),
        source=source,
        layout=model.family,
        architecture=section.architecture,
        parameters=sum(tensor.numel() for tensor in model.parameters.values()),
        precision=precision_of(model.parameters),
        vocab_size=section.vocab_size,
        tokens=tokenizer.vocab_size,
        context=section.max_seq_len,
        begins=tuple(tokenizer.labels(roles.target_prefix if pairs else roles.text_prefix)),
        ends=tuple(tokenizer.labels((*roles.end, *roles.more_ends))),
        pads="" if roles.endless and roles.pad not in tokenizer.special_ids else tokenizer.labels([roles.pad])[0],
        never=tuple(tokenizer.labels(tokenizer.never_made())),
        left_over=tuple(model.left_over),
        has_head=section.head != "none",
    )


def _fingerprint(parameters: Mapping[str, Tensor]) -> str:
    """16 hex digits of the tensors, whatever files they came in."""
    data = ((name, one.contiguous().view(-1).view(torch.uint8).numpy().data) for name, one in parameters.items())
    return digest(sorted((name, hashlib.sha256(content).hexdigest()) for name, content in data))
