"""Model families that tfcli imports and exports, a file each for those of a layout; and which one a config.json is."""

from collections.abc import Mapping
from typing import Any

from tfcli.errors import UsageError, shortened
from tfcli.interop.families import bart, bert, gpt, t5
from tfcli.interop.families.layout import CheckpointFamily
from tfcli.interop.families.llama import EUROBERT, GEMMA, GRANITE, LLAMA, MISTRAL, QWEN2, QWEN3

_DECODERS = (gpt.GPT2, gpt.OPENAI_GPT, LLAMA, MISTRAL, QWEN2, QWEN3, GRANITE, gpt.GPT_NEOX, gpt.OPT, GEMMA)
KNOWN_FAMILIES = (*_DECODERS, bert.BERT, bert.ROBERTA, bert.DISTILBERT, EUROBERT, bart.BART, bart.MARIAN, t5.T5, t5.MT5)
"""In the order in which export tries them: the best known first."""


def layout_of(values: Mapping[str, Any], where: object) -> CheckpointFamily:
    """The family that a config.json belongs to; UsageError where tfcli does not read it, with those it does. Configs
    from before 2019's end have no `model_type`: those are told by a setting that only one family has."""
    name = values.get("model_type")
    if name is None:
        name = next((family for key, family in _TELLING.items() if key in values), None)
    for layout in KNOWN_FAMILIES:
        if name in (layout.name, *layout.also_named):
            return layout
    known = ", ".join(name for layout in KNOWN_FAMILIES for name in (layout.name, *layout.also_named))
    said = f"is of model_type {shortened(repr(name))}, which tfcli does not read"
    raise UsageError(f"{where} {'says no model_type' if name is None else said}", f"choose one of {known}")


_TELLING = {"n_embd": "gpt2", "type_vocab_size": "bert", "d_kv": "t5", "static_position_embeddings": "marian"}
