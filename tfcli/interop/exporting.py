"""Export of a run: a folder for `transformers`, with a tokenizer that frames texts as in training, or as it came."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer as Backend

from tfcli.errors import UsageError
from tfcli.files import claimed, replacing_folder, write_json, write_text
from tfcli.generation.sampling import never_generated
from tfcli.interop import Exportable, ExportedRun
from tfcli.interop.families import KNOWN_FAMILIES
from tfcli.interop.families.layout import CheckpointFamily, UnsupportedVariantError, target_tokens, written_tokens
from tfcli.interop.tensors import Parameters, checkpoint_of_parameters, precision_of, same_functions
from tfcli.interop.token_roles import framing_template, prefix_token_ids
from tfcli.interop.tokenizer_files import CHAT_FILE, CHAT_FOLDER
from tfcli.models.build import meta_model
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import ROLE_NAMES, TokenRoles
from tfcli.runs.config import read_header
from tfcli.runs.load import LoadedRun
from tfcli.runs.weights import model_tensors, save_tensors
from tfcli.tokenization.tokenizer_json import copy_backend


def write_tokenizer(folder: Path, run: LoadedRun) -> None:
    """Write tokenizer.json, tokenizer_config.json, special_tokens_map.json, and the chat templates."""
    backend = _backend(run)
    write_text(folder / "tokenizer.json", backend.to_str(pretty=True) + "\n")
    roles = run.config.roles
    ids: dict[str, int | None] = {role: getattr(roles, role) for role in ROLE_NAMES}
    if roles.endless:  # their ids are those of ordinary tokens
        ids |= {"pad": None, "eos": None, "bos": next(iter(roles.text_prefix), None)}
    names = {f"{role}_token": backend.id_to_token(token) for role, token in ids.items() if token is not None}
    if "eos_token" in names:  # CTranslate2 wants a name; GPT-2's, too, knows every byte and says its end
        names.setdefault("unk_token", names["eos_token"])
    if run.architecture == "encoder" and not roles.endless:  # what BERT calls them
        names |= {"cls_token": names["bos_token"], "sep_token": names["eos_token"]}
    write_json(folder / "special_tokens_map.json", names)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": run.config.model.max_seq_len}
    more = {"clean_up_tokenization_spaces": False, "model_input_names": ["input_ids", "attention_mask"]}
    write_json(folder / "tokenizer_config.json", {**settings, **more, **names})
    for name, template in run.tokenizer.chat.templates.items() if run.tokenizer.chat else ():
        file = folder / (CHAT_FILE if name == "default" else f"{CHAT_FOLDER}/{name}.jinja")
        file.parent.mkdir(exist_ok=True)
        write_text(file, template)


def _backend(run: LoadedRun) -> Backend:
    state = json.loads(run.tokenizer.to_json())
    roles = run.config.roles
    for token in state["added_tokens"]:
        # As `Tokenizer.encode_masked` has it: where words carry the space before them, so does the mask.
        token["lstrip"] |= token["id"] == roles.mask and run.tokenizer.words_carry_spaces
    backend = copy_backend(json.dumps(state))
    backend.encode_special_tokens = False
    front = roles.source_start if run.architecture == "encoder-decoder" else roles.text_prefix
    if not run.recipe.is_imported or prefix_token_ids(backend) != front:
        # ``<s> text`` for a decoder, ``<s> text </s>`` for an encoder, ``text </s>`` for a source.
        sides = front, () if run.architecture == "decoder" else roles.end
        before, after = ([str(backend.id_to_token(token)) for token in side] for side in sides)
        backend.post_processor = framing_template(backend, before, after, pair=[*before, "$A", *after, "$B", *after])
    return backend


class Expressed(NamedTuple):
    """A model as a family has it."""

    layout: CheckpointFamily
    config: dict[str, Any]
    section: ModelSection
    parameters: Parameters


_KINDS = {"decoder": "CausalLM", "encoder": "MaskedLM", "encoder-decoder": "Seq2SeqLM"}
AUTO_CLASSES = {architecture: f"AutoModelFor{kind}" for architecture, kind in _KINDS.items()}
_WITH_A_FAMILY = {"decoder": "llama", "encoder": "bert", "encoder-decoder": "portable"}  # a preset that can be exported
_READ_BY_CTRANSLATE2 = ("gpt2", "llama", "qwen2", "qwen3", "gemma", "bart", "t5")
"""By its version 4.8 as by transformers. It leaves out encoders' heads, and its Marians begin from no token."""
_OWN_TOKENIZER = ("qwen2",)  # for which `AutoTokenizer` cuts texts in its own way, whatever the folder's says


def export_run(run: LoadedRun, out: Path) -> ExportedRun:
    """Write a run as config.json, generation_config.json, model.safetensors and the tokenizer's files. A UsageError
    where no family has the run's variant (names the setting in the way of each), or the folder is taken."""
    path = run.directory.path
    with claimed(out):
        found = expressed(run.config.model, model_tensors(run.model), run.config.roles, run.recipe.origin.layout)
        if isinstance(found, str):
            if run.config.model.labels:
                raise UsageError(f"{path} is not exported: {found}", "export a run that predicts tokens")
            remedy = f"train with a preset of a family, as --preset {_WITH_A_FAMILY[run.architecture]} with a --size"
            raise UsageError(f"transformers has no family with the variant of {path}: {found}", remedy)
        layout, config, section, parameters = found
        tensors = checkpoint_of_parameters(layout, section, parameters)
        stored = _stored_precision(run)
        if stored is not None and all(torch.equal(one, one.to(stored).float()) for one in tensors.values()):
            tensors = {name: tensor.to(stored) for name, tensor in tensors.items()}
            config["dtype"] = str(stored).removeprefix("torch.")
        with replacing_folder(out) as temporary:
            write_json(temporary / "config.json", config)
            write_tokenizer(temporary, run)
            if run.architecture != "encoder":
                write_json(temporary / "generation_config.json", _generation(run))
            save_tensors(temporary / "model.safetensors", tensors, {"format": "pt"})
    return ExportedRun(
        path=str(out),
        run=str(run.directory.path),
        layout=layout.name,
        architecture=config["architectures"][0],
        auto_class=AUTO_CLASSES[run.architecture] if run.config.model.head != "none" else "AutoModel",
        parameters=sum(tensor.numel() for tensor in tensors.values()),
        precision=precision_of(tensors),
        files=tuple(sorted(file.name for file in out.iterdir())),
        lacks=layout.headless_lacks if section.head == "none" else (),
    )


def _stored_precision(run: LoadedRun) -> torch.dtype | None:
    """The narrow precision of an imported run's weights, but for those computed in float32; None: none, or several."""
    kinds = set(read_header(run.directory.weights).types.values()) - {"F32"} if run.recipe.is_imported else set()
    return {"BF16": torch.bfloat16, "F16": torch.float16}.get(kinds.pop()) if len(kinds) == 1 else None


def expressed(section: ModelSection, parameters: Parameters, roles: TokenRoles, own: str = "") -> Expressed | str:
    """The model in the first family that has its variant, as it is or written otherwise; or which settings stand in
    the way of which families. Its `own` family, that it was imported from, comes first."""
    if section.labels:
        return "a task head (train.task) is written for no other library"
    if not section.inner_size:
        return "model.d_ff = 0, layers without a feed-forward network, is in no family"
    layouts = sorted(KNOWN_FAMILIES, key=lambda layout: layout.name != own)
    last = [layout for layout in layouts if layout.name in _OWN_TOKENIZER and layout.name != own]
    obstacles: dict[str, UnsupportedVariantError] = {}
    for tried in ([layout for layout in layouts if layout not in last], last):
        # Made again rather than kept: each way is a model, and the first that serves is the last that is made.
        for way, rewritten in same_functions(section, parameters):
            for layout in tried:
                try:
                    return Expressed(layout, layout.write(way, roles) | _no_ends(roles), way, rewritten)
                except UnsupportedVariantError as obstacle:
                    obstacles.setdefault(layout.name, obstacle)
    families: dict[str, list[str]] = {}
    for name, inexpressible in obstacles.items():
        if inexpressible.setting != "architecture":
            families.setdefault(str(inexpressible), []).append(name)
    return "; ".join(f"{setting} is not in {', '.join(names)}" for setting, names in families.items())


def exportable(section: ModelSection, roles: TokenRoles | None = None) -> Exportable:
    """Where a model can go, found as an export does, on shapes alone; without `roles`, its tokenizer is yet to come."""
    found = expressed(section, model_tensors(meta_model(section)), roles or TokenRoles(pad=0, bos=1, eos=2))
    if isinstance(found, str):
        return Exportable(None, (), found)
    family = re.split("For|LMHead|MTModel|Model", found.config["architectures"][0])[0]
    return Exportable(family, ("transformers", *["CTranslate2"] * (found.layout.name in _READ_BY_CTRANSLATE2)), None)


def _no_ends(roles: TokenRoles) -> dict[str, None]:
    """The settings of tokens that a vocabulary without special ones does not have."""
    absent = ["eos_token_id", "pad_token_id", *["bos_token_id"] * (not roles.text_prefix)]
    return dict.fromkeys(absent) if roles.endless else {}


def _generation(run: LoadedRun) -> dict[str, Any]:
    """What `generate` of transformers needs to choose tfcli's tokens; of imported runs the ids they ruled out alone."""
    roles, section = run.config.roles, run.config.model
    assert section.vocab_size is not None
    suppressed = list(roles.suppressed) if run.recipe.is_imported else never_generated(roles, section.vocab_size)
    is_pair = section.architecture == "encoder-decoder"
    settings = target_tokens(roles) if is_pair else written_tokens(roles)
    if hidden := [token for token in suppressed if is_pair and token in roles.target_prefix[1:]]:
        # `suppress_tokens` would rule it out even where it is forced; this list is read before.
        settings["bad_words_ids"] = [[token] for token in hidden]
        suppressed = [token for token in suppressed if token not in hidden]
    return settings | _no_ends(roles) | ({"suppress_tokens": suppressed} if suppressed else {})
