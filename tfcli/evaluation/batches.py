"""The batches an architecture is trained and scored on."""

from tfcli.data.dataset import PreparedDataset
from tfcli.data.masking import MaskedBatches
from tfcli.data.pairs import PairBatches
from tfcli.data.windows import CausalBatches
from tfcli.errors import UsageError
from tfcli.recipe.recipe import Recipe
from tfcli.records.roles import TokenRoles

Batches = CausalBatches | MaskedBatches | PairBatches


def build_batches(recipe: Recipe, data: PreparedDataset, part: str, roles: TokenRoles) -> Batches:
    """Batches of one part of a prepared dataset, as the recipe's objective wants them.

    Raises:
        UsageError: the dataset holds text where pairs are needed, or pairs where text is.
    """
    objective = recipe.model.objective
    kind = "pairs" if objective == "seq2seq" else "text"
    if data.record().kind != kind:
        raise UsageError(
            f"The prepared dataset {data.record().path} holds {data.record().kind}, "
            f"and an {recipe.model.architecture} needs {kind}",
            "prepare it again with --pairs" if kind == "pairs" else "prepare it again without --pairs",
        )
    context = recipe.train.context or recipe.model.max_seq_len
    common = {"batch_size": recipe.train.batch_size, "context": context, "seed": recipe.train.seed}
    if objective == "seq2seq":
        return PairBatches(data.pairs(part), roles, **common)
    if objective == "mlm":
        return MaskedBatches(
            data.text(part),
            roles,
            vocab_size=data.record().vocab_size,
            mask_probability=recipe.train.mask_probability,
            **common,
        )
    return CausalBatches(data.text(part), roles, **common)
