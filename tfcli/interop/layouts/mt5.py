"""mT5 (Xue et al. 2021): T5 1.1 with a large vocabulary, and logits that are never scaled."""

from typing import Any

from tfcli.interop.config import CheckpointConfig
from tfcli.interop.layout import require
from tfcli.interop.layouts import t5
from tfcli.recipe.model import ModelSection
from tfcli.records.roles import TokenRoles


def _read(config: CheckpointConfig) -> ModelSection:
    section = t5.read(config, "gated-gelu", scale=False)
    config.finish((*t5.WITHOUT_EFFECT, "tokenizer_class"))
    return section


def _write(section: ModelSection, roles: TokenRoles) -> dict[str, Any]:
    require(section, "mT5 does not scale logits", scale_logits=False)
    values = t5.write(section, roles, "mT5")
    del values["scale_decoder_outputs"]
    return {**values, "model_type": "mt5", "architectures": ["MT5ForConditionalGeneration"]}


LAYOUT = t5.layout("mt5", _read, _write)
