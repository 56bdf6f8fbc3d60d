"""The families of checkpoints that tfcli reads and writes, and how to tell which one lies there."""

from collections.abc import Mapping
from typing import Any

from tfcli.errors import UsageError, shortened
from tfcli.interop.layout import Layout
from tfcli.interop.layouts import (
    bart,
    bert,
    distilbert,
    eurobert,
    gemma,
    gpt2,
    gpt_neox,
    granite,
    llama,
    marian,
    mistral,
    mt5,
    openai_gpt,
    opt,
    qwen2,
    qwen3,
    roberta,
    t5,
)

_DECODERS = (gpt2, openai_gpt, llama, mistral, qwen2, qwen3, granite, gpt_neox, opt, gemma)
_OTHERS = (bert, roberta, distilbert, eurobert, bart, marian, t5, mt5)
LAYOUTS: tuple[Layout, ...] = tuple(module.LAYOUT for module in (*_DECODERS, *_OTHERS))
"""In the order in which export tries them: the best known first."""


def layout_of(values: Mapping[str, Any], where: object) -> Layout:
    """The family that a config.json belongs to.

    Configs from before 2019's end have no `model_type`: those are told by a setting that only one family has.

    Raises:
        UsageError: it is of no family that tfcli reads; lists those it does.
    """
    name = values.get("model_type")
    if name is None:
        name = next((family for key, family in _TELLING.items() if key in values), None)
    for layout in LAYOUTS:
        if name in layout.model_types:
            return layout
    known = ", ".join(name for layout in LAYOUTS for name in layout.model_types)
    what = (
        "says no model_type" if name is None else f"is of model_type {shortened(repr(name))}, which tfcli does not read"
    )
    raise UsageError(f"{where} {what}", f"choose one of {known}")


_TELLING = {"n_embd": "gpt2", "type_vocab_size": "bert", "d_kv": "t5", "static_position_embeddings": "marian"}
