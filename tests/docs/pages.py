"""The pages and what stands in them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.docs.generate import DOCS, ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`(tfcli [^`\n]+)`")
_STAND_INS = re.compile(r"[…|]")

_REDIRECTION = re.compile(r" (?:<|>>?) ")


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    return [code for name, code in _BLOCK.findall(page.read_text(encoding="utf-8")) if name == language]


def commands(page: Path) -> Iterator[list[str]]:
    """Every tfcli command of a page as words, `tfcli` left out: of its sh blocks and its prose."""
    for block in blocks(page, "sh"):
        for part in re.split(r"\n|&&|\|", block):
            words = shlex.split(_REDIRECTION.split(part)[0], comments=True)
            if words[:1] == ["tfcli"]:
                yield words[1:]
    prose = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    for span in _SPAN.findall(prose):
        words = shlex.split(_REDIRECTION.split(span)[0])[1:]
        # A span with arguments is a command to type; a span without names a command in a sentence.
        if len(words) > 2 and not _STAND_INS.search(span):
            yield words


def links(page: Path) -> Iterator[str]:
    """The targets of a page's links within the repository."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            yield target


def headings(page: Path) -> set[str]:
    """A page's headings, as links name them, and the anchors that it sets itself."""
    text = page.read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    names = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
    return names | set(re.findall(r'<a id="([^"]+)">', text))
