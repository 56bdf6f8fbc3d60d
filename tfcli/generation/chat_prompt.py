"""A prompt in a chat template: which special tokens are the template's own, and which spellings are the user's text.

A template is a program that may rewrite what the user says ("</S>" in lower case is "</s>"). So the conversation is
rendered again with marks around the user's text, and where they come out, the text is the user's.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain

from tfcli.errors import UsageError
from tfcli.tokenization.chat import ChatTemplates
from tfcli.tokenization.tokenizer import Tokenizer

Messages = list[dict[str, str]]
_Region = tuple[int, int]  # of a text: the first character, and the one after the last
# Blanks stay outside the marks, where a template trims them; the first letter too, where it becomes a capital.
_WHOLE_TEXT = re.compile(r"\S(?:.*\S)?", re.DOTALL)
_AFTER_FIRST_LETTER = re.compile(r"(?<=\S)\S(?:.*\S)?", re.DOTALL)
# Unicode guarantees that these are no characters, so few texts hold any of them.
_NONCHARACTERS = [chr(code) for code in chain(range(0xFDD0, 0xFDF0), (0x1FFFE, 0x1FFFF, 0x2FFFE, 0x2FFFF))]


def chat_ids(tokenizer: Tokenizer, messages: Messages, *, special_tokens: bool = False) -> list[int]:
    """The ids of a conversation in the tokenizer's chat template, up to the model's answer.

    Args:
        tokenizer: One that has a chat template.
        messages: With "role" and "content" each.
        special_tokens: Whether special tokens that the messages spell become such tokens.

    Raises:
        UsageError: The template refuses the conversation, or it cannot be known which special tokens are its own.
        BrokenInputError: The template is damaged, or takes too long.
    """
    assert tokenizer.chat is not None
    now = datetime.now()
    text = tokenizer.chat.text(messages, now)
    names = sorted(tokenizer.special_names, key=len, reverse=True)
    if special_tokens or not names:
        return tokenizer.encode_special(text)
    spelling = re.compile("|".join(map(re.escape, names)))
    regions = _user_regions(tokenizer.chat, messages, text, spelling, now)

    ids = list[int]()
    start = 0
    for found in _inside(spelling, text, regions):
        ids += tokenizer.encode_special(text[start : found.start()])
        ids += tokenizer.encode(found[0])
        start = found.end()
    return ids + tokenizer.encode_special(text[start:])


def _inside(spelling: re.Pattern[str], text: str, regions: Sequence[_Region]) -> Iterator[re.Match[str]]:
    """The spellings of special tokens that a region has a part of."""
    for found in spelling.finditer(text):
        if any(found.start() < end and start < found.end() for start, end in regions):
            yield found


def _user_regions(
    chat: ChatTemplates, messages: Messages, text: str, spelling: re.Pattern[str], now: datetime
) -> list[_Region]:
    """Where a rendered text is the user's; a UsageError if no marks come out as they went in."""
    said = "".join(message["content"] for message in messages)
    marks = [mark for mark in _NONCHARACTERS if mark not in text and mark not in said]
    if len(marks) < 2:
        raise UsageError("The prompt has nearly every noncharacter of Unicode", "leave some of U+FDD0 to U+FDEF out")
    opening, closing = marks[:2]

    def render(change: Callable[[str], str]) -> str:
        changed = [message | {"content": change(message["content"])} for message in messages]
        return chat.text(changed, now)

    def regions_around(part: re.Pattern[str], count: int = 0) -> list[_Region] | None:
        marked = render(lambda content: part.sub(rf"{opening}\g<0>{closing}", content, count=count))
        return _regions(marked, opening, closing, text)

    for part in (_WHOLE_TEXT, _AFTER_FIRST_LETTER):
        regions = regions_around(part, count=1)
        if regions is not None:
            return regions

    # A template that looks at the ends of a text: there only spellings are marked, if it makes none itself.
    regions = regions_around(spelling)
    own = spelling.findall(render(lambda content: "a" if content.strip() else content))
    if regions is not None:
        users = {found.span() for found in _inside(spelling, text, regions)}
        others = [found[0] for found in spelling.finditer(text) if found.span() not in users]
        if others == own:
            return regions
    problem = "The chat template rewrites the prompt, and its special tokens cannot be told from those that this spells"
    raise UsageError(problem, "leave special tokens out of the prompt, or add --special-tokens to have them read")


def _regions(marked: str, opening: str, closing: str, text: str) -> list[_Region] | None:
    """What is between marks, as places of the text without marks; None if that is another text, or a mark is lost."""
    regions = list[_Region]()
    plain, start = "", None
    for piece in re.split(f"([{opening}{closing}])", marked):
        if piece == opening and start is None:
            start = len(plain)
        elif piece == closing and start is not None:
            regions.append((start, len(plain)))
            start = None
        elif piece in (opening, closing):
            return None
        else:
            plain += piece
    return regions if start is None and plain == text else None
