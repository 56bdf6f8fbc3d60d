"""The page of every head, as a reader with a mouse has it: in a real browser, offline."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import Select

from tests.inspection.test_attention_files import NASTY
from tests.support.browser import browser, open_page
from tfcli.draw.colors import WEIGHTS as WEIGHTS_MAP
from tfcli.draw.svg import captioned, picture_html
from tfcli.draw.themes import Theme
from tfcli.inspection.attention import AttentionRecord
from tfcli.inspection.attention.choice import cropped
from tfcli.inspection.attention.matrix_view import weights_matrix
from tfcli.inspection.attention.page_view import attention_html, matrices_svg
from tfcli.inspection.attention.view import AttentionView
from tfcli.inspection.positions.compute import positions_table
from tfcli.inspection.positions.view import PositionsView
from tfcli.records.arrays import frozen

TOKENS = ("<s>", "Tom", NASTY[0])
# Two layers of two heads on three tokens; each row sums to 1, and every head has other numbers.
WEIGHTS = [
    [[[1, 0, 0], [0.25, 0.75, 0], [0.125, 0.5, 0.375]], [[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]]],
    [[[1, 0, 0], [1, 0, 0], [0.0625, 0.9375, 0]], [[1, 0, 0], [0, 1, 0], [0, 0.125, 0.875]]],
]


@pytest.fixture(scope="module")
def chrome() -> Iterator[Chrome]:
    with browser() as running:
        yield running


@pytest.fixture
def page(chrome: Chrome, tmp_path: Path) -> Chrome:
    record = AttentionRecord("decoder_self", TOKENS, TOKENS, frozen(WEIGHTS), (1, 0))
    cross = AttentionRecord("cross", TOKENS, ("a", "b"), frozen([[[[0.25, 0.75]] * 3] * 2] * 2), (0, 0))
    open_page(chrome, tmp_path, attention_html([cross, record]))
    return chrome


def point_at(page: Chrome, side: str, number: int) -> None:
    ActionChains(page).move_to_element(page.find_elements(By.CSS_SELECTOR, f"#{side} span")[number]).perform()


def under(page: Chrome, side: str) -> list[str]:
    """What is written under the tokens of a side."""
    return [small.text for small in page.find_elements(By.CSS_SELECTOR, f"#{side} small")]


def text(page: Chrome, name: str) -> str:
    return page.find_element(By.ID, name).text


def test_it_opens_on_the_telling_head_and_pointing_at_a_query_shows_its_weights(page: Chrome) -> None:
    assert text(page, "title") == "decoder self-attention · layer 1, head 0"
    point_at(page, "queries", 2)
    assert under(page, "keys") == ["0.063", "0.938", "–"], "the row of layer 1, head 0"
    assert "query 2" in text(page, "hint")
    point_at(page, "keys", 1)
    assert under(page, "queries") == ["–", "–", "0.938"], "the column of a key"


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (0, 1), (1, 1)])
def test_any_layer_and_head_can_be_chosen_by_its_thumbnail(page: Chrome, layer: int, head: int) -> None:
    page.find_element(By.CSS_SELECTOR, f'button[data-place="{layer}.{head}"]').click()
    point_at(page, "queries", 2)
    expected = [f"{value + 1e-9:.3f}" if value else "–" for value in WEIGHTS[layer][head][2]]
    assert under(page, "keys") == expected
    assert text(page, "title").endswith(f"layer {layer}, head {head}")


def test_selections_and_arrow_keys_choose_too(page: Chrome) -> None:
    Select(page.find_element(By.ID, "kind")).select_by_visible_text("cross-attention")
    point_at(page, "queries", 0)
    assert under(page, "keys") == ["0.250", "0.750"]
    Select(page.find_element(By.ID, "kind")).select_by_visible_text("decoder self-attention")
    Select(page.find_element(By.ID, "layer")).select_by_visible_text("1")
    Select(page.find_element(By.ID, "head")).select_by_visible_text("1")
    page.find_element(By.TAG_NAME, "h1").click()
    ActionChains(page).send_keys(Keys.ARROW_UP).perform()
    assert text(page, "title").endswith("layer 0, head 1")


def test_colours_go_from_0_to_1_until_the_reader_lets_them_end_at_the_largest(chrome: Chrome, tmp_path: Path) -> None:
    """Four levels of a quarter: 0.25 is a quarter up the scale, and its end where it is the largest weight."""
    weights = frozen([[np.full((4, 4), 0.25)]])
    open_page(
        chrome, tmp_path, attention_html([AttentionRecord("encoder_self", tuple("abcd"), tuple("abcd"), weights)])
    )

    def painted() -> list[str]:
        colors = [chrome.find_element(By.CSS_SELECTOR, name) for name in ("#table td", "#keys span")]
        return [color.value_of_css_property("background-color") for color in colors]

    quarter, end = ("rgba({}, {}, {}, 1)".format(*WEIGHTS_MAP.table[level]) for level in (8, 32))
    assert painted() == [quarter, quarter] and text(chrome, "top") == "1"
    Select(chrome.find_element(By.ID, "range")).select_by_visible_text("0 to the largest")
    assert painted() == [end, end] and text(chrome, "top") == "0.25"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_theme_does_not_ask_the_reader(theme: Theme, scheme: str, wide: Chrome, tmp_path: Path) -> None:
    record = AttentionRecord("decoder_self", TOKENS, TOKENS, frozen(WEIGHTS), (1, 0))
    view = PositionsView(positions_table("sinusoidal", 4, 8))
    at_width(wide, 800, scheme)
    for page in (attention_html([record], theme=theme), picture_html(view, theme=theme)):
        open_page(wide, tmp_path, page)
        root = wide.find_element(By.TAG_NAME, "html")
        assert root.value_of_css_property("color-scheme") == theme
        paper = wide.find_element(By.TAG_NAME, "body").value_of_css_property("background-color")
        assert (paper == "rgba(18, 18, 18, 1)") == (theme == "dark")


@pytest.mark.parametrize("theme", ["auto", "light", "dark"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_svg_of_attention_has_a_theme_too(theme: Theme, scheme: str, wide: Chrome, tmp_path: Path) -> None:
    """As a document of its own, where no page is around it."""
    record = AttentionRecord("decoder_self", TOKENS, TOKENS, frozen(WEIGHTS), (1, 0))
    at_width(wide, 800, scheme)
    file = tmp_path / "a.svg"
    file.write_text(matrices_svg([weights_matrix(record)], theme=theme), encoding="utf-8")
    wide.get(file.as_uri())
    is_dark = scheme == "dark" if theme == "auto" else theme == "dark"
    fills = [wide.find_element(By.CSS_SELECTOR, name).value_of_css_property("fill") for name in ("rect", "text")]
    assert fills == (
        ["rgb(18, 18, 18)", "rgb(230, 230, 230)"] if is_dark else ["rgb(255, 255, 255)", "rgb(26, 26, 26)"]
    )


@pytest.mark.parametrize(
    "mark", ["", "data-jp-theme-light='true'", "data-jp-theme-light='false'", "class='vscode-dark'"]
)
def test_a_notebook_s_picture_is_dark_where_the_notebook_is(mark: str, wide: Chrome, tmp_path: Path) -> None:
    """Whatever the system's own colours are; and rules for it reach nothing else on the page."""
    record = AttentionRecord("decoder_self", TOKENS, TOKENS, frozen(WEIGHTS), (1, 0))
    picture = AttentionView(record)  # which gives the record its picture
    assert picture.record is record
    at_width(wide, 800, "dark")
    other = "<svg id='other'><rect width='9' height='9' fill='#1a1a1a'/></svg>"
    open_page(wide, tmp_path, f"<html><body {mark}>{record._repr_html_()}{other}</body></html>")  # type: ignore[attr-defined]
    ground, elsewhere = (
        wide.find_element(By.CSS_SELECTOR, name).value_of_css_property("fill")
        for name in (".tfcli rect", "#other rect")
    )
    is_dark = "false" in mark or "vscode" in mark
    assert ground == ("rgb(18, 18, 18)" if is_dark else "rgb(255, 255, 255)")
    assert elsewhere == "rgb(26, 26, 26)"


def test_heads_taken_together_have_their_name(chrome: Chrome, tmp_path: Path) -> None:
    mean = np.mean(np.array(WEIGHTS, np.float32), axis=1, keepdims=True)
    names = ("layer 0, mean of 2 heads", "layer 1, mean of 2 heads")
    record = AttentionRecord("decoder_self", TOKENS, TOKENS, frozen(mean), (1, 0), names=names)
    open_page(chrome, tmp_path, attention_html([record]))
    assert text(chrome, "title") == "decoder self-attention · layer 1, mean of 2 heads"


def test_a_click_keeps_a_token_in_sight_while_heads_change(page: Chrome) -> None:
    page.find_elements(By.CSS_SELECTOR, "#queries span")[1].click()
    page.find_element(By.CSS_SELECTOR, 'button[data-place="0.0"]').click()
    assert under(page, "keys") == ["0.250", "0.750", "–"]


def test_no_script_runs_but_the_page_s_own(chrome: Chrome, tmp_path: Path) -> None:
    """The policy names it by its hash: what somebody writes into the page does nothing."""
    record = AttentionRecord("decoder_self", TOKENS, TOKENS, frozen(WEIGHTS), (1, 0))
    page = attention_html([record])
    assert "unsafe-inline'; script-src 'sha256-" in page.replace("\n", "")
    file = tmp_path / "page.html"
    strange = "<script>document.title = 'strange'</script><img src=x onerror=\"document.title = 'strange'\">"
    file.write_text(page.replace("</body>", f"{strange}</body>"), encoding="utf-8")
    chrome.get(file.as_uri())
    assert text(chrome, "title") == "decoder self-attention · layer 1, head 0", "its own has run"
    assert chrome.title == "Attention weights"
    assert len([entry for entry in chrome.get_log("browser") if "script-src" in entry["message"]]) == 2


def test_a_token_is_text_and_nothing_else(page: Chrome) -> None:
    shown = page.find_elements(By.CSS_SELECTOR, "#queries span")[2].text
    assert shown.startswith("</script><script>alert(1)</script>")


def test_numbers_stand_in_the_table_and_large_texts_become_a_map(chrome: Chrome, tmp_path: Path) -> None:
    """Row t of 61 looks at key t alone: the map is a diagonal, its middle is row 30, and names stand at its sides."""
    tokens = tuple(f"t{number}" for number in range(61))
    record = AttentionRecord("encoder_self", tokens, tokens, frozen([[np.eye(61)]]))
    open_page(chrome, tmp_path, attention_html([record]))
    canvas, line = chrome.find_element(By.ID, "map"), chrome.find_element(By.ID, "line")
    assert line.rect["y"] == pytest.approx(canvas.rect["y"] + canvas.rect["height"] / 61 * 60, abs=1), "the last row's"
    assert line.rect["width"] == canvas.rect["width"]
    down, across = (chrome.find_elements(By.CSS_SELECTOR, f"#{side} span") for side in ("down", "across"))
    assert [name.text for name in down] == [name.text for name in across] == list(tokens)
    assert down[60].rect["y"] == pytest.approx(line.rect["y"], abs=1)
    assert across[60].rect["x"] == pytest.approx(canvas.rect["x"] + canvas.rect["width"] / 61 * 60, abs=1)
    chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    ActionChains(chrome).move_to_element(canvas).perform()
    assert text(chrome, "hint") == "query 30 “t30” looks at key 30 “t30” with 1.0000"


def test_a_page_of_any_other_picture_loads_too(chrome: Chrome, tmp_path: Path) -> None:
    open_page(chrome, tmp_path, picture_html(PositionsView(positions_table("sinusoidal", 4, 8))))
    assert chrome.title == "Positions · sinusoidal · interleaved · base 10000"
    assert len(chrome.find_elements(By.TAG_NAME, "rect")) > 32, "a rectangle a number, and the scale's"


def test_a_part_of_a_text_says_what_its_rows_sum_to_and_where_its_tokens_stand(chrome: Chrome, tmp_path: Path) -> None:
    """Without their first key, the rows (½, ½, 0) and (¼, ¼, ½) of layer 0, head 1 hold ½ and ¾."""
    mask = frozen(np.tri(3), np.bool_)
    record = AttentionRecord("decoder_self", ("a", "b", "c"), ("a", "b", "c"), frozen(WEIGHTS), (0, 1), mask=mask)
    open_page(chrome, tmp_path, attention_html([cropped(record, "1:", "1:")]))
    body = chrome.find_element(By.TAG_NAME, "body").text
    assert "In the table, rows sum to 0.50 … 0.75 in the columns shown." in body
    point_at(chrome, "queries", 1)
    assert text(chrome, "hint") == "query 2 “c”: its weights over the keys, which sum to 0.75"
    keys = chrome.find_elements(By.CSS_SELECTOR, "#keys span")
    assert [key.text.split("\n")[0] for key in keys] == ["b 1", "c 2"]


def test_a_weight_of_0_that_is_not_masked_is_a_number(chrome: Chrome, tmp_path: Path) -> None:
    """In layer 1, head 1, row 2 gives key 0 exactly 0, and the mask hides key 2 from row 1 alone."""
    mask = frozen(np.tri(3), np.bool_)
    record = AttentionRecord("decoder_self", ("a", "b", "c"), ("a", "b", "c"), frozen(WEIGHTS), (1, 1), mask=mask)
    open_page(chrome, tmp_path, attention_html([record]))
    rows = [[cell.text for cell in row.find_elements(By.TAG_NAME, "td")] for row in table_rows(chrome)]
    assert rows == [["1.00", "–", "–"], [".00", "1.00", "–"], [".00", ".13", ".88"]]
    point_at(chrome, "queries", 2)
    assert under(chrome, "keys") == ["0.000", "0.125", "0.875"]
    ActionChains(chrome).move_to_element(table_rows(chrome)[0].find_elements(By.TAG_NAME, "td")[2]).perform()
    assert text(chrome, "hint") == "query 0 “a” may not look at key 2 “c”: exactly 0"


def table_rows(page: Chrome) -> list[WebElement]:
    return page.find_elements(By.CSS_SELECTOR, "#table tbody tr")


def test_a_row_is_shown_before_anything_is_pointed_at_and_again_behind_it(page: Chrome, tmp_path: Path) -> None:
    """That of the last word, a special token being none; a click on another keeps that one, from its first time on."""
    assert text(page, "hint").startswith("query 1 “Tom”"), "what begins with < may be a special token"
    tokens = ("<s>", "Tom", "ran", ".", "</s>")
    record = AttentionRecord("encoder_self", tokens, tokens, frozen([[np.full((5, 5), 0.2)]]))
    open_page(page, tmp_path, attention_html([record]))
    assert text(page, "hint") == "query 2 “ran”: its weights over the keys, which sum to 1.00"
    assert under(page, "keys") == ["0.200"] * 5
    point_at(page, "queries", 0)
    ActionChains(page).move_to_element(page.find_element(By.TAG_NAME, "h1")).perform()
    assert text(page, "hint").startswith("query 2")
    page.find_elements(By.CSS_SELECTOR, "#keys span")[1].click()
    ActionChains(page).move_to_element(page.find_element(By.TAG_NAME, "h1")).perform()
    assert text(page, "hint") == "key 1 “Tom”: the weight that each query gives it"


def at_width(page: Chrome, width: int, scheme: str) -> None:
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    )
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )


@pytest.fixture
def wide(chrome: Chrome) -> Iterator[Chrome]:
    """A browser whose width and colours are put back."""
    yield chrome
    chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_as_light_as_its_reader_wants_it_and_as_narrow_as_a_telephone(
    scheme: str, wide: Chrome, tmp_path: Path
) -> None:
    tokens = tuple(f"token{number}" for number in range(40))
    record = AttentionRecord("decoder_self", tokens, tokens, frozen([[np.tri(40) / 40] * 12]))
    view = PositionsView(positions_table("sinusoidal", 4, 64))
    for page in (captioned(attention_html([record]), "tfcli " + "x" * 200), captioned(picture_html(view), "tfcli")):
        for width in (390, 800, 1400):
            at_width(wide, width, scheme)
            open_page(wide, tmp_path, page)
            sizes = wide.execute_script(
                "const page = document.documentElement; return [page.scrollWidth, page.clientWidth]"
            )
            assert sizes[0] <= sizes[1] <= width
            shown = [one.rect["width"] for one in wide.find_elements(By.CSS_SELECTOR, "main svg") if one.is_displayed()]
            assert [one <= width for one in shown] in ([], [True]), "one for the screen, whole"
        paper = wide.find_element(By.TAG_NAME, "body").value_of_css_property("background-color")
        dark = {"rgba(18, 18, 18, 1)": True, "rgba(255, 255, 255, 1)": False, "rgba(0, 0, 0, 0)": False}[paper]
        assert dark == (scheme == "dark")


def test_row_names_stay_in_sight(wide: Chrome, tmp_path: Path) -> None:
    tokens = tuple(f"token{number}" for number in range(40))
    record = AttentionRecord("encoder_self", tokens, tokens, frozen([[np.full((40, 40), 1 / 40)]]))
    at_width(wide, 390, "light")
    open_page(wide, tmp_path, attention_html([record]))
    wide.execute_script("const box = document.getElementById('scroll'); box.scrollTo(900, 500)")
    box = wide.find_element(By.ID, "scroll").rect
    name = table_rows(wide)[20].find_element(By.TAG_NAME, "th").rect
    assert name["x"] == pytest.approx(box["x"], abs=1)
    column = wide.find_elements(By.CSS_SELECTOR, "#table thead th")[30].rect
    assert column["y"] == pytest.approx(box["y"], abs=1)
