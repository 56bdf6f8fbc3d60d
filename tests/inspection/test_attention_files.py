"""SVG and HTML: well-formed, the same every time, nothing fetched, every token harmless."""

import json
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np

from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.attention.choice import cropped
from tfcli.inspection.attention.matrix_view import weights_matrix
from tfcli.inspection.attention.page_view import attention_html, matrices_svg
from tfcli.records.arrays import frozen

NASTY = ("</script><script>alert(1)</script>", "<!-- & ' \"", "\x1b[0m\u2028")
RECORD = AttentionRecord("decoder_self", NASTY, NASTY, frozen([[[[1, 0, 0], [0.25, 0.75, 0], [0.125, 0.5, 0.375]]]]))
SVG = "{http://www.w3.org/2000/svg}"


def test_svg_has_a_rectangle_and_a_number_for_every_weight_that_is_not_zero() -> None:
    root = ElementTree.fromstring(matrices_svg([weights_matrix(RECORD)]))
    numbers = [text.text for text in root.iter(f"{SVG}text") if text.get("text-anchor") == "middle"]
    assert numbers == ["1.0", ".25", ".75", ".12", ".50", ".38"]
    assert len(list(root.iter(f"{SVG}path"))) == 3
    assert [text.text for text in root.iter(f"{SVG}text") if text.get("text-anchor") == "end"][1] == "<!--·&·'·\""


def test_svg_is_the_same_every_time_and_fetches_nothing() -> None:
    svg = matrices_svg([weights_matrix(RECORD)])
    assert svg == matrices_svg([weights_matrix(RECORD)])
    assert re.findall(r"https?://[^'\"]*", svg) == ["http://www.w3.org/2000/svg"]


def test_html_carries_the_weights_and_ends_its_data_only_once() -> None:
    page = attention_html([RECORD])
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data
    loaded = json.loads(data.group(1))
    assert loaded["records"][0]["weights"] == [[[[1, None, None], [0.25, 0.75, None], [0.125, 0.5, 0.375]]]]
    assert loaded["records"][0]["keys"][0] == NASTY[0]
    assert page.count("</script>") == 2
    assert "alert(1)</script>" not in page


def data_of(page: str) -> dict[str, Any]:
    return json.loads(page.partition('id="data">')[2].partition("</script>")[0])  # type: ignore[no-any-return]


def test_the_mask_says_what_a_page_hides_and_a_weight_may_round_to_0() -> None:
    """0.00001 is 0.0000 in four decimals; row 0 may see two keys, row 1 three, row 2 all, of whatever weight."""
    mask = np.tri(3, 4, 1, dtype=bool)
    weights = frozen([[[[0.99999, 0.00001, 0, 0]] * 3]])
    record = AttentionRecord("decoder_self", ("a",) * 3, ("a",) * 4, weights, mask=frozen(mask, np.bool_))
    [found] = data_of(attention_html([record]))["records"]
    assert found["weights"] == [[[[1, 0, None, None], [1, 0, 0, None], [1, 0, 0, 0]]]]


def test_the_page_has_positions_and_measured_sums_of_a_part_of_a_text() -> None:
    """Of rows (¼, ¾, 0) and (⅛, ½, ⅜), the keys from 1 on hold ¾ and ⅞."""
    [found] = data_of(attention_html([cropped(RECORD, "1:", "1:")]))["records"]
    assert (found["rows"], found["columns"]) == ([1, 2], [1, 2])
    assert found["sums"] == [[[0.75, 0.88]]]
    assert found["note"] == [["rows sum to 0.75 … 0.88 in the columns shown"]]
    [whole] = data_of(attention_html([RECORD]))["records"]
    assert (whole["rows"], whole["note"]) == ([0, 1, 2], [["each row sums to 1"]])


def test_html_fetches_nothing() -> None:
    page = attention_html([RECORD])
    assert "http://" not in page
    assert "https://" not in page
    assert "default-src 'none'" in page
