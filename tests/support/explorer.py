"""The explorer without a terminal: readings by hand, keys from a list, the screen as text."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import pytest
from textual.app import App
from textual.pilot import Pilot

from tfcli.explorer.app import Explorer, Read
from tfcli.explorer.scene import ReadText
from tfcli.inspection.attention import AttentionKind, AttentionRecord
from tfcli.inspection.embeddings import Word
from tfcli.inspection.heads import HeadExample, HeadStatistics, RoleShare


def record(
    kind: AttentionKind, queries: tuple[str, ...], keys: tuple[str, ...], seed: int = 0, nexts: tuple[str, ...] = ()
) -> AttentionRecord:
    """Two layers of three heads with random weights; those of a decoder are masked. The last of `nexts` is a guess."""
    scores = np.random.default_rng(seed).normal(0, 2, (2, 3, len(queries), len(keys))).astype(np.float32)
    shown = np.where(np.tri(len(queries), len(keys), dtype=bool) | (kind != "decoder_self"), scores, -np.inf)
    weights = np.exp(shown - shown.max(-1, keepdims=True))
    weights = (weights / weights.sum(-1, keepdims=True)).astype(np.float32)
    told = {"next_tokens": nexts, "next_predicted": bool(nexts)}
    words = (tuple(Word(token.strip(), (at,)) for at, token in enumerate(side)) for side in (queries, keys))
    query_words, key_words = words
    return AttentionRecord(
        *(kind, queries, keys, weights),
        focus=(1, 2),
        scores=scores,
        query_words=query_words,
        key_words=key_words,
        **told,
    )


def statistics(kind: AttentionKind) -> tuple[HeadStatistics, ...]:
    """The same numbers for every head of `record`."""
    shares = {"first token": 0.1, "itself": 0.2, "previous token": 0.6}
    roles = tuple(RoleShare(role, share, None, None, 0.05, 5, 1.0) for role, share in shares.items())
    example = HeadExample("Tom swam", None, (4, 8), (0, 3), 0.75, "Tom swam", None)
    figures = (0.5, 0.4, 0.75, 1.5, 0.0, 0.0, None, None)
    return tuple(
        HeadStatistics(kind, layer, head, "previous token", (), roles[-1], None, roles, *figures, (), (), example)
        for layer in range(2)
        for head in range(3)
    )


def decoder_reading(*tokens: str) -> ReadText:
    """A decoder's."""
    kind: AttentionKind = "decoder_self"
    tokens = tokens or ("<s>", "Tom", " swam", " to", " the", " bank")
    return ReadText("".join(tokens[1:]), None, (record(kind, tokens, tokens),), statistics(kind))


def translation_reading() -> ReadText:
    """An encoder-decoder's, with its own translation."""
    source, target = ("O", "gato", "dorme", "</s>"), ("<s>", "The", "cat", "sleeps")
    records = (
        record("encoder_self", source, source, 1),
        record("decoder_self", target, target, 2, (*target[1:], ".")),
        record("cross", target, source, 3, (*target[1:], ".")),
    )
    return ReadText("O gato dorme", None, records, statistics("cross"))


def explorer(reading: ReadText, read: Read | None = None, color_system: str | None = "truecolor") -> Explorer:
    """An explorer of a reading; without `read`, every text reads the same."""
    return Explorer(read or (lambda text, target: reading), reading, "runs/tiny-1", "best", color_system)


Step = Sequence[str] | Callable[[Pilot[Any]], Awaitable[None]]


def watch(app: Explorer, *steps: Step, size: tuple[int, int] = (120, 30)) -> list[str]:
    """Run the app; press some keys, or do what a function of the pilot does, and look at the screen; and again."""

    async def run() -> list[str]:
        screens = []
        async with app.run_test(size=size) as pilot:
            for step in steps:
                if callable(step):
                    await step(pilot)
                else:
                    await pilot.press(*step)
                await app.workers.wait_for_complete()
                await pilot.pause()
                screens.append(screen(app))
        return screens

    return asyncio.run(run())


def play(app: Explorer, *keys: str, size: tuple[int, int] = (120, 30)) -> str:
    """Press keys; the screen that is there in the end."""
    return watch(app, keys, size=size)[-1]


def screen(app: App[Any]) -> str:
    """The screen as text, without trailing blanks."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


def explore_headless(monkeypatch: pytest.MonkeyPatch, *keys: str) -> None:
    """From now on `tfcli explore` finds a terminal, in which somebody presses these keys and then q."""

    async def press(pilot: Pilot[Any]) -> None:
        await pilot.press(*keys, "q")

    run = Explorer.run
    monkeypatch.setattr("tfcli.explorer.command.is_terminal", lambda stream=None: True)
    monkeypatch.setattr(Explorer, "run", lambda self: run(self, headless=True, size=(80, 24), auto_pilot=press))
