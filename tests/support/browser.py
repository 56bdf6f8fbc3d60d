"""A real browser without a window; tests that need it are skipped where there is none."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium import webdriver

_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1200,1400"),
)


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """A headless Chromium that can reach nothing but files."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*_FLAGS, "--host-resolver-rules=MAP * ~NOTFOUND"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield running
    finally:
        running.quit()


def open_page(running: webdriver.Chrome, folder: Path, page: str) -> None:
    """Show a page from a file; it must load without a word in the browser's log."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    running.get(file.as_uri())
    assert running.get_log("browser") == []
