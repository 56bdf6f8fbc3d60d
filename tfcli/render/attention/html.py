"""Every kind, layer and head of a text's attention as one page that needs no network."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfcli.records.attention import AttentionRecord
from tfcli.render.attention.svg import hexadecimal
from tfcli.render.attention.words import KIND_NAMES, labels
from tfcli.render.colors import VIRIDIS, WEIGHTS

_DECIMALS = 4
_PAGE = Path(__file__).with_name("page.html")
"""Its style and its script, with `__DATA__` where the weights go."""


def attention_html(records: Sequence[AttentionRecord], *, layer: int = 0, head: int = 0) -> str:
    """A self-contained page: choose kind, layer and head; pointing at a token or a cell shows its weights.

    It opens on the last record, at its focus. Weights are rounded to four decimals, and one that is not 0 never becomes
    0. Tokens are data, written into the page by the script as text only.

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
    return _PAGE.read_text(encoding="utf-8").replace("__DATA__", text)


def _record(record: AttentionRecord) -> dict[str, Any]:
    return {
        "kind": KIND_NAMES[record.kind],
        "queries": labels(record.query_tokens),
        "keys": labels(record.key_tokens),
        "weights": _rounded(record.weights).tolist(),
    }


def _rounded(weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """The page shows 0 as "exactly 0, masked", so what is merely small stays above it."""
    exact = weights.astype(np.float64)
    return np.where(exact == 0.0, 0.0, np.maximum(np.round(exact, _DECIMALS), 10.0**-_DECIMALS))
