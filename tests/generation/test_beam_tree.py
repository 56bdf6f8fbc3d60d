"""Beam searches drawn on fixed consoles."""

import io
import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.support.consoles import printed
from tfcli.generation.view import BeamTreeView
from tfcli.records.generation import BeamNode, BeamTree, Generated


def node(
    step: int, parent: int | None, token: str, p: float, score: float, fate: str = "kept", *, chosen: bool = False
) -> BeamNode:
    ranking = score / 2
    return BeamNode(step, parent, 0, token, p, score, ranking, fate, chosen)  # type: ignore[arg-type]


def tree(*nodes: BeamNode, text: str = "the cat.", prompt: str = "o gato.") -> BeamTree:
    return BeamTree(prompt, 2, 0.6, nodes, (Generated(prompt, text, (), -1.0, (), "end"),))


SMALL = tree(
    node(0, None, " the", -0.5, -0.5, chosen=True),  # 0
    node(0, None, " a", -1.0, -1.0),  # 1
    node(0, None, " an", -3.0, -3.0, "pruned"),  # 2
    node(1, 0, " cat", -0.25, -0.75, chosen=True),  # 3
    node(1, 1, " cat", -0.25, -1.25),  # 4
    node(1, 1, " dog", -2.0, -3.0, "pruned"),  # 5
    node(2, 3, "</s>", -0.5, -1.25, "ended", chosen=True),  # 6
    node(2, 4, "</s>", -1.0, -2.25, "ended"),  # 7
    node(2, 3, " sat", -9.0, -9.75, "pruned"),  # 8
)


def test_the_chosen_text_is_the_trunk_and_what_was_beside_it_hangs_off_it():
    assert printed(BeamTreeView(SMALL), 80).splitlines() == [
        "Beam search · beam 2 · length penalty 0.6",
        "3 steps; 9 extensions looked at: 4 kept, 2 ended, 3 pruned",
        "step     ln p  ○ o gato.                                    Σ ln p  fate",
        "   1    -1.00  ├─ ·a ·cat </s>                               -2.25  ✓ 2. -1.12",
        "   1           ├─ ·an -3.00                                         ✂ at once",
        "   1    -0.50  ● ·the                                        -0.50",
        "   2    -0.25  ● ·cat                                        -0.75",
        "   3           ├─ ·sat -9.00                                        ✂ at once",
        "   3    -0.50  ● </s>                                        -1.25  ✓ 1. -0.62",
        "● chosen   ✓ ended: rank, ln p over length penalty   ✂ pruned: at which step",
        "1. the cat.",
    ]


def test_a_branch_hangs_below_the_token_that_it_leaves():
    """ "a b" goes on to "c" and "d", which nothing has come of when the search is over, and "a" to "e", all of whose
    extensions were pruned at the third step."""
    drawn = tree(
        node(0, None, "x", -0.1, -0.1, chosen=True),
        node(0, None, "a", -1.0, -1.0),
        node(1, 0, "y", -0.1, -0.2, chosen=True),
        node(1, 1, "b", -1.0, -2.0),
        node(1, 1, "e", -1.5, -2.5),
        node(2, 2, "</s>", -0.1, -0.3, "ended", chosen=True),
        node(2, 3, "c", -1.0, -3.0),
        node(2, 3, "d", -2.0, -4.0),
        node(2, 4, "f", -9.0, -11.5, "pruned"),
    )
    assert [line.rstrip() for line in printed(BeamTreeView(drawn), 80).splitlines()[3:6]] == [
        "   1    -1.00  ├─ a b c                                      -3.00  given up",
        "   3           │    │ └─ d -2.00                                    given up",
        "   2           │    └─ e -1.50                                      ✂ at 3",
    ]


def test_what_leaves_a_branch_that_is_too_long_is_still_named():
    """The branch of 20 tokens is cut at the end of its line; what leaves it there stands below its end."""
    tokens = [node(0, None, "x", -0.1, -0.1, "ended", chosen=True), node(0, None, "long", -1.0, -1.0)]
    tokens += [node(step, step, f"token{step}", -1.0, -1.0 - step) for step in range(1, 20)]
    tokens += [node(19, 19, "other", -2.0, -21.0, "ended")]
    assert printed(BeamTreeView(tree(*tokens)), 80).splitlines()[3:5] == [
        "   1    -1.00  ├─ long token1 token2 token3 token4 token…   -21.00  ✓ 2. -10.50",
        "  20           │                     └─ token19 -1.00               given up",
    ]


def test_control_characters_of_tokens_prompts_and_texts_stay_out():
    bad = tree(
        *(replace(one, token="\x1b[2J\r" + one.token) for one in SMALL.nodes), text="\x1b]0;x\x07", prompt="\x9b31m\n"
    )
    text = printed(BeamTreeView(bad), 80)
    assert "\\x1b[2J" in text
    assert not set(text) & set("\x1b\r\x07\x9b")


def test_what_is_chosen_ended_and_pruned_is_told_without_unicode():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
    Console(file=stream, width=80, _environ={}).print(BeamTreeView(SMALL))
    stream.seek(0)
    lines = stream.read().splitlines()
    assert [line[15:20].strip() for line in lines[3:9]] == ["|- ?a", "|- ?a", "* ?th", "* ?ca", "|- ?s", "* </s"]
    assert lines[3].endswith("+ 2. -1.12")
    assert "x at once" in lines[4]


def test_the_chosen_way_is_bold_and_what_was_pruned_at_once_is_struck():
    text = printed(BeamTreeView(SMALL), 80, "truecolor")
    assert "\x1b[1m● ·the" in text
    assert "\x1b[2;9m·an -3.00\x1b[0m" in text


def grown(seed: int, beam: int, steps: int) -> BeamTree:
    """A search over random log-probabilities."""
    draw, nodes = random.Random(seed), []
    live: list[tuple[int | None, float]] = [(None, 0.0)]
    for step in range(steps):
        found = [(s - draw.expovariate(1), p, draw.choice(["a", " the", "日本", "x" * 30])) for p, s in live * beam]
        live = []
        for place, (score, parent, token) in enumerate(sorted(found, reverse=True, key=lambda one: one[0])[: 2 * beam]):
            over = step == steps - 1 or draw.random() < 0.1
            fate = "pruned" if place >= beam else "ended" if over else "kept"
            before = 0.0 if parent is None else nodes[parent].score
            nodes.append(node(step, parent, token, score - before, score, fate))
            if fate == "kept":
                live.append((len(nodes) - 1, score))
        if not live:
            break
    best: int | None = max((n for n, one in enumerate(nodes) if one.fate == "ended"), key=lambda n: nodes[n].ranking)
    while best is not None:
        nodes[best] = replace(nodes[best], chosen=True)
        best = nodes[best].parent
    return tree(*nodes)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 9999), st.integers(1, 6), st.integers(1, 20), st.sampled_from([60, 80, 140]))
def test_every_search_fits_the_terminal_and_shows_every_text_that_ended(seed: int, beam: int, steps: int, width: int):
    search = grown(seed, beam, steps)
    text = printed(BeamTreeView(search), width)
    assert max(map(cell_len, text.splitlines())) <= width
    ended = sum(one.fate == "ended" for one in search.nodes)
    assert text.count("✓ ") == ended + 1, "and once in the legend"
    chosen = sum(one.chosen for one in search.nodes)
    assert text.count("● ") == chosen + 1
