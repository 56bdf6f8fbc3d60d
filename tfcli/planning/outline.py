"""What a recipe would train, before anything is begun."""

from tfcli.inspection.parameter_groups import parameter_groups
from tfcli.interop.exporting import exportable
from tfcli.models.build import weightless
from tfcli.models.flops import training_flops
from tfcli.recipe.recipe import Recipe
from tfcli.records.planning import TrainingOutline
from tfcli.records.roles import TokenRoles
from tfcli.training.memory import predict_memory
from tfcli.training.synthetic import sequences_per_batch


def outline(recipe: Recipe, *, vocab_size_is_most: bool, roles: TokenRoles | None = None) -> TrainingOutline:
    """Shapes, parameters, operations and memory of a training of full batches.

    Args:
        recipe: decided for the machine, with `model.vocab_size` set.
        vocab_size_is_most: whether the tokenizer is yet to be trained, and may come out smaller.
        roles: of the tokenizer that is there already.
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
        batch_size=train.rows,
        batch_tokens=train.batch_tokens,
        equal_tokens=not (train.batch_tokens or train.batch_size or train.windows == "stream"),
        steps=None if train.epochs else train.steps,
        epochs=train.epochs,
        tokens=None if train.epochs else tokens * train.steps,
        flops_per_step=flops,
        flops_per_token=round(flops / tokens),
        device=train.device,
        precision=train.precision,
        attention=train.attention,
        compile=train.compile,
        threads=train.threads,
        memory=predict_memory(recipe),
        exportable=exportable(model, roles),
    )
