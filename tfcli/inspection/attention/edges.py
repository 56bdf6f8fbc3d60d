"""The strongest weights of a head."""

import numpy as np

from tfcli.records.attention import AttentionEdge, AttentionEdges, AttentionRecord


def strongest_edges(record: AttentionRecord, layer: int, head: int, count: int) -> AttentionEdges:
    """The `count` largest weights of one head; of equal ones, the earlier query and key first.

    What is masked is no edge. Nothing else is left out: a query that may look at one key alone
    gives it weight 1, and is marked.
    """
    weights = record.weights[layer, head]
    open_ = ~record.hidden(layer, head)
    order = np.argsort(np.where(open_, -weights, np.inf), axis=None, kind="stable")[: min(count, int(open_.sum()))]
    rows, columns = np.unravel_index(order, weights.shape)
    alone = open_.sum(axis=1) == 1
    edges = tuple(
        AttentionEdge(
            query=record.rows[row],
            key=record.columns[column],
            query_token=record.query_tokens[row],
            key_token=record.key_tokens[column],
            weight=float(weights[row, column]),
            only=bool(alone[row]) and len(record.columns) > 1,
        )
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    )
    total = float(weights.sum(dtype=np.float64))
    share = sum(edge.weight for edge in edges) / total if total else 0.0
    return AttentionEdges(record.kind, record.place(layer, head), edges, int(open_.sum()), int((~open_).sum()), share)
