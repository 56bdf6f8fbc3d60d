"""SVG and HTML: well-formed, the same every time, nothing fetched, every token harmless."""

import json
import re
import xml.etree.ElementTree as ElementTree

from tfcli.records.arrays import frozen
from tfcli.records.attention import AttentionRecord
from tfcli.render.attention.html import attention_html
from tfcli.render.attention.svg import attention_svg

NASTY = ("</script><script>alert(1)</script>", "<!-- & ' \"", "\x1b[0m\u2028")
RECORD = AttentionRecord("decoder_self", NASTY, NASTY, frozen([[[[1, 0, 0], [0.25, 0.75, 0], [0.125, 0.5, 0.375]]]]))
SVG = "{http://www.w3.org/2000/svg}"


def test_svg_has_a_rectangle_and_a_number_for_every_weight_that_is_not_zero() -> None:
    root = ElementTree.fromstring(attention_svg(RECORD, 0, 0))
    numbers = [text.text for text in root.iter(f"{SVG}text") if text.get("text-anchor") == "middle"]
    assert numbers == ["1.0", ".25", ".75", ".12", ".50", ".38"]
    assert len(list(root.iter(f"{SVG}circle"))) == 3
    assert [text.text for text in root.iter(f"{SVG}text") if text.get("text-anchor") == "end"][1] == "<!--·&·'·\""


def test_svg_is_the_same_every_time_and_fetches_nothing() -> None:
    svg = attention_svg(RECORD, 0, 0)
    assert svg == attention_svg(RECORD, 0, 0)
    assert re.findall(r"https?://[^'\"]*", svg) == ["http://www.w3.org/2000/svg"]


def test_html_carries_the_weights_and_ends_its_data_only_once() -> None:
    page = attention_html([RECORD])
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data
    loaded = json.loads(data.group(1))
    assert loaded["records"][0]["weights"] == [[[[1, 0, 0], [0.25, 0.75, 0], [0.125, 0.5, 0.375]]]]
    assert loaded["records"][0]["keys"][0] == NASTY[0]
    assert page.count("</script>") == 2
    assert "alert(1)</script>" not in page


def test_a_weight_of_the_page_is_0_only_where_it_is_exactly_0() -> None:
    """0.00001 and 1e-30 round to 0.0000, which the page calls masked: they are written as 0.0001."""
    record = AttentionRecord("decoder_self", ("a",) * 4, ("a",) * 4, frozen([[[[0.99999, 0.00001, 1e-30, 0]] * 4]]))
    data = re.search(r'id="data">(.*?)</script>', attention_html([record]), re.DOTALL)
    assert data
    assert json.loads(data.group(1))["records"][0]["weights"][0][0][0] == [1, 0.0001, 0.0001, 0]


def test_html_fetches_nothing() -> None:
    page = attention_html([RECORD])
    assert "http://" not in page
    assert "https://" not in page
    assert "default-src 'none'" in page
