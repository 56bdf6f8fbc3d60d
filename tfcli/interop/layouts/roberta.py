"""RoBERTa (Liu et al. 2019), XLM-RoBERTa and CamemBERT: BERT with its positions numbered from behind the padding's id,
and a head of its own names that is GELU whatever the layers have."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import Layout, TensorMap, require
from tfcli.interop.layouts import bert
from tfcli.interop.layouts.parts import affine, norm
from tfcli.recipe.model import Activation, ModelSection
from tfcli.records.roles import TokenRoles

_HEADLESS = "lm_head."
_WORDS = "roberta.embeddings.word_embeddings.weight"
_ACTIVATIONS: dict[str, Activation] = {"gelu": "gelu", "gelu_python": "gelu"}


def _read(config: CheckpointConfig) -> ModelSection:
    config.choice("hidden_act", _ACTIVATIONS, "gelu")
    section = bert.read(config)
    offset = int(config.number("pad_token_id", 1)) + 1
    if section.max_seq_len <= offset:
        config.fixed("max_position_embeddings", reason=f"positions are numbered from pad_token_id + 1 = {offset} on")
    config.finish(bert.WITHOUT_EFFECT)
    return replace(section, position_offset=offset, max_seq_len=section.max_seq_len - offset)


def _tensors(section: ModelSection) -> Sequence[TensorMap]:
    maps, bias = bert.body(section, "roberta"), (0.0, (section.vocab_size or 0,))
    if section.head == "none":
        return maps
    maps += [
        *affine(f"{_HEADLESS}dense", "head.transform", size=section.d_model),
        *norm(f"{_HEADLESS}layer_norm", "head.norm", section.d_model),
        TensorMap(f"{_HEADLESS}bias", ("head.bias",), absent=bias),
    ]
    if not section.tie_embeddings:  # then the decoder's bias is the one that is added, and read last
        maps.append(TensorMap(f"{_HEADLESS}decoder.weight", ("head.weight",)))
        maps.append(TensorMap(f"{_HEADLESS}decoder.bias", ("head.bias",), absent=bias))
    return maps


def _copies(section: ModelSection) -> Mapping[str, str]:
    if section.head == "none" or not section.tie_embeddings:
        return {}
    return {f"{_HEADLESS}decoder.weight": _WORDS, f"{_HEADLESS}decoder.bias": f"{_HEADLESS}bias"}


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    bert.check(section, "RoBERTa", own=("position_offset",))
    require(section, "RoBERTa has GELU", activation="gelu")
    offset = roles.pad + 1
    require(section, f"RoBERTa numbers positions from the padding's id + 1 = {offset} on", position_offset=offset)
    values = bert.write(section, roles, "roberta", "Roberta")
    return {**values, "max_position_embeddings": section.max_seq_len + offset}


LAYOUT = Layout(
    name="roberta",
    model_types=("roberta", "xlm-roberta", "camembert"),
    prefix="roberta.",
    read=_read,
    tensors=_tensors,
    write=_write,
    headless=_HEADLESS,
    copies=_copies,
    constants=(r"roberta\.embeddings\.(position_ids|token_type_ids)",),
    heads=(r"roberta\.pooler\..*", r"classifier\..*", r"qa_outputs\..*"),
)
