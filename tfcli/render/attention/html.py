"""Every kind, layer and head of a text's attention as one page that needs no network."""

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfcli.records.attention import AttentionRecord
from tfcli.render.attention.words import KIND_NAMES, head_sums, labels
from tfcli.render.colors import VIRIDIS, WEIGHTS, hexadecimal

_DECIMALS = 4
_PAGE = Path(__file__).with_name("page.html")
"""Its style and its script, with `__DATA__` where the weights go and `__HASH__` where the one script that may run is
named."""


def attention_html(records: Sequence[AttentionRecord], *, layer: int = 0, head: int = 0) -> str:
    """A self-contained page: choose kind, layer and head; pointing at a token or a cell shows its weights.

    It opens on the last record, at its focus. Weights are rounded to four decimals. Tokens are data, written
    into the page by the script as text only.

    Args:
        layer, head: numbers of the first layer and head of every record, where they were narrowed.
    """
    last = records[-1]
    palettes = {"cividis": WEIGHTS, "viridis": VIRIDIS}
    data = {
        "records": [{**_record(record), "layer": layer, "head": head} for record in records],
        "palettes": {name: [hexadecimal(color) for color in chosen.table] for name, chosen in palettes.items()},
        "focus": [len(records) - 1, last.focus[0] - layer, last.focus[1] - head],
    }
    # "</script>" or "<!--" inside a token must not end the data block.
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e")
    page = _PAGE.read_text(encoding="utf-8")
    script = page.partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return page.replace("__HASH__", f"sha256-{digest}").replace("__DATA__", text)


def _record(record: AttentionRecord) -> dict[str, Any]:
    """`rows` and `columns` are positions; `sums` are of each row, for those of rounded weights are off."""
    layers, heads = map(range, record.weights.shape[:2])
    return {
        "kind": KIND_NAMES[record.kind],
        "queries": labels(record.query_tokens),
        "keys": labels(record.key_tokens),
        "names": record.names,
        "rows": record.rows,
        "columns": record.columns,
        "weights": [[_rounded(record.visible_weights(layer, head)) for head in heads] for layer in layers],
        "sums": np.round(record.weights.sum(axis=-1, dtype=np.float64), 2).tolist(),
        "note": [[head_sums(record, layer, head) for head in heads] for layer in layers],
    }


def _rounded(weights: NDArray[np.float32]) -> list[list[float | None]]:
    """With four decimals; None where a query may not look, for what is merely small may round to 0."""
    rounded = np.round(weights.astype(np.float64), _DECIMALS).astype(object)
    rounded[np.isnan(weights)] = None
    return rounded.tolist()
