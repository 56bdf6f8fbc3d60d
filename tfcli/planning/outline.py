"""What a recipe would train, before anything is begun."""

import math
from collections import Counter
from collections.abc import Iterator

from tfcli.models.build import weightless
from tfcli.models.flops import training_flops
from tfcli.models.transformer import Transformer
from tfcli.recipe.recipe import Recipe
from tfcli.records.planning import ParameterGroup, TrainingOutline
from tfcli.training.memory import predict_memory
from tfcli.training.synthetic import sequences_per_batch

_PARTS = {
    "attention": "attention",
    "attention_residual": "norms",
    "cross_attention": "cross-attention",
    "cross_attention_residual": "norms",
    "feed_forward": "feed-forward",
    "feed_forward_residual": "norms",
}
"""What the parts of a layer are called here."""

Tensors = tuple[tuple[str, tuple[int, ...]], ...]


def outline(recipe: Recipe, *, vocab_size_is_most: bool) -> TrainingOutline:
    """Shapes, parameters, operations and memory of a training of full batches.

    Args:
        recipe: decided for the machine, with `model.vocab_size` set.
        vocab_size_is_most: whether the tokenizer is yet to be trained, and may come out smaller.
    """
    model, train = recipe.model, recipe.train
    assert model.vocab_size is not None
    built = weightless(model)
    context = train.context or model.max_seq_len
    sequences = sequences_per_batch(recipe) * train.grad_accumulation
    labelled = round(train.mask_probability * sequences * context) if model.objective == "mlm" else None
    flops = training_flops(model, sequences, context, labelled=labelled)
    tokens = sequences * context * (2 if model.objective == "seq2seq" else 1)
    return TrainingOutline(
        architecture=model.architecture,
        groups=tuple(parameter_groups(built)),
        parameters=built.num_parameters(),
        vocab_size=model.vocab_size,
        vocab_size_is_most=vocab_size_is_most,
        sequences=sequences,
        context=context,
        steps=train.steps,
        tokens=tokens * train.steps,
        flops_per_step=flops,
        flops_per_token=round(flops / tokens),
        device=train.device,
        precision=train.precision,
        attention=train.attention,
        compile=train.compile,
        threads=train.threads,
        memory=predict_memory(recipe),
    )


def parameter_groups(model: Transformer) -> Iterator[ParameterGroup]:
    """The parameters by what they belong to; equal parts of all layers are one group. A tied matrix counts once, where
    it is met first."""
    parts: dict[tuple[str, str], list[tuple[str, tuple[int, ...]]]] = {}
    for name, parameter in model.named_parameters():
        instance, kind, tensor = _placed(name)
        parts.setdefault((instance, kind), []).append((tensor, tuple(parameter.shape)))
    counted = Counter((kind, tuple(tensors)) for (_, kind), tensors in parts.items())
    for (kind, tensors), count in counted.items():
        yield ParameterGroup(kind, count, tensors, count * sum(math.prod(shape) for _, shape in tensors))


def _placed(name: str) -> tuple[str, str, str]:
    """Which part of which module a parameter belongs to: ("stack.layers.0", "stack attention", "query.weight")."""
    before, within, rest = name.partition(".layers.")
    if not within:
        module, _, tensor = name.rpartition(".")
        return module, module.replace("_", " ").replace(".", " "), tensor
    number, part, tensor = rest.split(".", 2)
    side = "" if before == "stack" else f"{before} "
    if _PARTS[part] == "norms":
        tensor = f"{part.removesuffix('_residual').replace('_', '-')} {tensor}"
    return f"{before}.{number}", f"{side}{_PARTS[part]}", tensor
