"""Attention as rows of CSV."""

from collections.abc import Iterator, Sequence

import numpy as np

from tfcli.records.attention import AttentionRecord
from tfcli.render.table_csv import Table

_COLUMNS = ("kind", "layer", "head", "query", "key", "query_token", "key_token", "weight")


def attention_table(records: Sequence[AttentionRecord], first: tuple[int, int] = (0, 0)) -> Table:
    """A row a weight, masked ones (0) too; its score behind it where scores are kept.

    Args:
        first: the layer and the head that the first entries of `weights` are.
    """
    with_scores = records[0].scores is not None
    return Table((*_COLUMNS, "score") if with_scores else _COLUMNS, _rows(records, first))


def _rows(records: Sequence[AttentionRecord], first: tuple[int, int]) -> Iterator[tuple[object, ...]]:
    for record in records:
        rows, columns = record.rows, record.columns
        for index, value in np.ndenumerate(record.weights):
            layer, head, query, key = index
            where = (record.names[layer], "") if record.names else (layer + first[0], head + first[1])
            names = (record.query_tokens[query], record.key_tokens[key])
            # As text, a float32 has as many digits as name it exactly.
            score = () if record.scores is None else (str(record.scores[index]),)
            yield (record.kind, *where, rows[query], columns[key], *names, str(value), *score)
