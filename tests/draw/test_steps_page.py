"""The page of a stepwise picture in a browser: a slider, arrow keys, and everything on paper."""

from pathlib import Path

from rich.text import Text
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.browser import browser, open_page
from tfcli.draw import Stepwise
from tfcli.draw.svg import picture_html


class Counted(Stepwise[int]):
    def parts(self) -> list[Text]:
        return [Text("what all are about"), *(Text(f"part {number} " + "x" * 60) for number in range(self.record))]


def test_the_slider_and_the_arrows_show_a_step_alone_and_paper_all(tmp_path: Path) -> None:
    page = picture_html(Counted(3))
    with browser() as running:
        open_page(running, tmp_path, page)

        def shown() -> list[str]:
            seen = [one for one in running.find_elements(By.CSS_SELECTOR, "svg") if one.is_displayed()]
            return [one.find_element(By.TAG_NAME, "title").get_attribute("textContent")[:6] for one in seen]  # type: ignore[index]

        output, body = running.find_element(By.TAG_NAME, "output"), running.find_element(By.TAG_NAME, "body")
        assert (shown(), output.text) == (["what a", "part 0", "part 1", "part 2"], "all 3 steps")
        body.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        assert (shown(), output.text) == (["what a", "part 1"], "step 2 of 3"), "the heading stays"
        body.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
        assert shown() == ["what a", "part 0", "part 1", "part 2"], "not below all"
        running.find_element(By.TAG_NAME, "input").send_keys(Keys.ARROW_RIGHT)
        assert (shown(), output.text) == (["what a", "part 0"], "step 1 of 3"), "once, not twice, on the slider itself"
        running.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert shown() == ["what a", "part 0", "part 1", "part 2"] and not output.is_displayed()
        running.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        running.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        )
        assert running.execute_script("return document.documentElement.scrollWidth") <= 390


def test_a_picture_of_one_step_has_no_slider(tmp_path: Path) -> None:
    with browser() as running:
        open_page(running, tmp_path, picture_html(Text("all there is")))
        assert not running.find_element(By.TAG_NAME, "nav").is_displayed()
