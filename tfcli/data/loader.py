"""The data loader: the batches that an architecture is trained and scored on; windows and pairs collate their own rows.

A batch follows from the seed and its number, and is made when it is asked for; training on a GPU has some prefetched.
"""

from tfcli.corpora.source import Part
from tfcli.data.causal_lm import CausalBatches
from tfcli.data.dataset import PreparedDataset
from tfcli.data.masked_lm import MaskedBatches
from tfcli.data.seq2seq import PairBatches
from tfcli.recipe.recipe import Recipe
from tfcli.records.roles import TokenRoles

Batches = CausalBatches | MaskedBatches | PairBatches


def build_batches(recipe: Recipe, data: PreparedDataset, part: Part, roles: TokenRoles, sample: int = 0) -> Batches:
    """Batches of one part of a prepared dataset, as the recipe's objective wants them.

    Args:
        sample: tokens of an evenly spread part of it that is to be scored; 0: all.

    Raises:
        UsageError: the dataset holds text where pairs are needed, or pairs where text is; or a
            training pair alone is larger than `train.batch_tokens`.
    """
    objective = recipe.model.objective
    context = recipe.context
    tokens = recipe.train.batch_tokens
    if tokens is not None and part == "validation":
        # What was trained on may all be shorter than what is scored: nothing is refused here.
        tokens = max(tokens, context * (2 if objective == "seq2seq" else 1))
    common = {"batch_size": recipe.train.rows, "context": context, "seed": recipe.train.seed, "sample": sample}
    if objective == "seq2seq":
        return PairBatches(data.pairs(part), roles, batch_tokens=tokens, **common)
    documents = recipe.train.windows == "documents"
    if objective == "mlm":
        return MaskedBatches(
            data.text(part),
            roles,
            batch_tokens=tokens,
            vocab_size=data.record().vocab_size,
            mask_probability=recipe.train.mask_probability,
            documents=documents,
            **common,
        )
    return CausalBatches(data.text(part), roles, batch_tokens=tokens, documents=documents, **common)
