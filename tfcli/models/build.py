"""Building a model from its recipe section: initialised, unfilled, or of shapes alone."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import init
from torch.overrides import TorchFunctionMode

from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.models.transformer import Decoder, Encoder, EncoderDecoder, Transformer
from tfcli.recipe.model import Initialization, ModelSection

Draw = Callable[[str, Tensor, ModelSection, torch.Generator], None]  # fills a parameter of that name in place
_TOKEN_EMBEDDINGS = ("embedding.weight", "target_embedding.weight")


def initialize(model: nn.Module, section: ModelSection, generator: torch.Generator) -> None:
    """Gains 1, biases 0, and everything else as `model.initialization` says."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif "norm." in name:
                parameter.fill_(1.0)
            else:
                _DRAWS[section.initialization](name, parameter, section, generator)
        if section.initialization == "copying" and section.attention_score != "parameter_free":
            for module in model.modules():
                if isinstance(module, MultiHeadAttention):
                    _pass_on(module, (2 / section.num_layers) ** 0.5, generator)


def _gpt2(name: str, parameter: Tensor, section: ModelSection, generator: torch.Generator) -> None:
    """N(0, init_std²); what adds to the residual stream gets init_std / √(2L), so that its variance does not grow with
    depth (Radford et al. 2019, section 2.3). Embeddings that are scaled by √D start with a standard deviation of 1/√D:
    a token then weighs as much as its position, and more than what the first layers add to it. With "copying", T5's
    biases begin as large as scores become, or they would take hundreds of steps to grow (docs/decisions/0019)."""
    std = section.init_std
    if section.initialization == "copying" and name.endswith("relative_bias.weight"):
        std = 2.0
    elif name in _TOKEN_EMBEDDINGS and section.embedding_scale != 1:
        std = section.d_model**-0.5
    elif name.endswith("output.weight"):
        std = section.init_std / (2 * section.num_layers) ** 0.5
    parameter.normal_(0.0, std, generator=generator)


def _bert(name: str, parameter: Tensor, section: ModelSection, generator: torch.Generator) -> None:
    """N(0, init_std²), nothing beyond two standard deviations (Devlin et al. 2019, their code)."""
    std = section.init_std
    nn.init.trunc_normal_(parameter, 0.0, std, -2 * std, 2 * std, generator=generator)


def _vaswani2017(name: str, parameter: Tensor, section: ModelSection, generator: torch.Generator) -> None:
    """Matrices uniform as Glorot and Bengio 2010 (equation 16), embeddings N(0, 1/D), which √D then scales to 1: the
    paper leaves it open, this is what its authors' tensor2tensor does."""
    if name in _TOKEN_EMBEDDINGS or name.endswith(("positions", "table", "token_types")):
        parameter.normal_(0.0, section.d_model**-0.5, generator=generator)
    else:
        nn.init.xavier_uniform_(parameter, generator=generator)


def _t5(name: str, parameter: Tensor, section: ModelSection, generator: torch.Generator) -> None:
    """N(0, 1/fan-in); queries 1/√Dh smaller, as scores are unscaled; embeddings N(0, 1) (Raffel et al. 2020, code)."""
    if name in _TOKEN_EMBEDDINGS or (name == "head.weight" and not section.labels):
        std = 1.0
    elif name.endswith("query.weight"):
        std = (section.d_model * section.size_per_head) ** -0.5
    elif name.endswith("relative_bias.weight"):
        std = section.d_model**-0.5
    else:
        std = parameter.shape[-1] ** -0.5
    parameter.normal_(0.0, std, generator=generator)


_DRAWS: dict[Initialization, Draw] = {"copying": _gpt2, "gpt2": _gpt2, "bert": _bert, "vaswani2017": _vaswani2017}
_DRAWS["t5"] = _t5


def _pass_on(attention: MultiHeadAttention, gain: float, generator: torch.Generator) -> None:
    """W^v orthogonal and W^o = gain · (W^v)ᵀ: together the heads add to a token what they attend to, unturned, which
    spares a small model the long plateau before it learns to copy from its context (after Trockman and Kolter 2023)."""
    assert isinstance(attention.value, nn.Linear) and isinstance(attention.output, nn.Linear)
    nn.init.orthogonal_(attention.value.weight, generator=generator)
    group = attention.num_heads // attention.num_kv_heads
    values = attention.value.weight.unflatten(0, (attention.num_kv_heads, attention.head_dim))
    attention.output.weight.copy_(gain / group * values.repeat_interleave(group, dim=0).flatten(0, 1).T)


ARCHITECTURES: Mapping[str, type[Transformer]]
ARCHITECTURES = {"decoder": Decoder, "encoder": Encoder, "encoder-decoder": EncoderDecoder}


def build_model(section: ModelSection, seed: int = 0) -> Transformer:
    """A freshly initialised model on the CPU. The same section and seed give the same weights."""
    model = ARCHITECTURES[section.architecture](section)
    initialize(model, section, torch.Generator().manual_seed(seed))
    return model


def uninitialized_model(section: ModelSection) -> Transformer:
    """A model on the CPU that is about to be filled: its weights are never written, and take no memory until then."""
    with _Unwritten():
        return ARCHITECTURES[section.architecture](section)


class _Unwritten(TorchFunctionMode):
    """Leaves out what PyTorch's own layers draw when they are made."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        return named["tensor"] if func in (init.kaiming_uniform_, init.uniform_) else func(*args, **named)


def meta_model(section: ModelSection) -> Transformer:
    """A model of shapes without numbers: any size at no cost."""
    with torch.device("meta"):
        return ARCHITECTURES[section.architecture](section)
