"""The tree of a search agrees with what the search found, and with the model."""

import pytest

from tests.generation.small import ROLES, small_model
from tfcli.generation.beam_search import prompt_beams
from tfcli.generation.generate import beam_tree
from tfcli.recipe.recipe import GenerateSection
from tfcli.records.generation import BeamNode, BeamTree, Generated


def labels(ids: list[int]) -> list[str]:
    return [f"<{token}>" for token in ids]


def searched(seed: int, prefix: tuple[int, ...] = (), **section: float) -> BeamTree:
    settings = GenerateSection(max_new_tokens=8, **section)  # type: ignore[arg-type]
    model, nodes = small_model(seed, architecture="encoder-decoder"), list[tuple[int, BeamNode]]()
    found = prompt_beams(
        model, [[5, 6], [7]], ROLES, settings, prefix=prefix, observe=lambda number, node: nodes.append((number, node))
    )
    texts = [Generated("", "", text.token_ids, text.score, text.log_probabilities, "end") for text in found[1]]
    return beam_tree("7", [node for number, node in nodes if number == 1], texts, labels, settings)


def ids(tree: BeamTree, number: int) -> tuple[int, ...]:
    node = tree.nodes[number]
    return (*(() if node.parent is None else ids(tree, node.parent)), node.token_id)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("prefix", [(), (6, 9)])
def test_the_chosen_way_is_the_best_text(seed: int, prefix: tuple[int, ...]):
    tree = searched(seed, prefix, beam=4, num_samples=2)
    chosen = [n for n, node in enumerate(tree.nodes) if node.chosen]
    assert [tree.nodes[n].token_id for n in chosen] == list(tree.texts[0].token_ids)
    assert ids(tree, chosen[-1]) == tree.texts[0].token_ids
    assert tree.nodes[chosen[-1]].fate == "ended"
    assert [tree.nodes[n].log_probability for n in chosen] == list(tree.texts[0].log_probabilities)
    assert tree.nodes[chosen[-1]].score == pytest.approx(tree.texts[0].score)
    ended = {ids(tree, n) for n, node in enumerate(tree.nodes) if node.fate == "ended"}
    assert {text.token_ids for text in tree.texts} <= ended


@pytest.mark.parametrize("seed", range(4))
def test_every_step_keeps_the_best_of_what_it_looked_at(seed: int):
    tree = searched(seed, beam=3, length_penalty=0.6)
    for step in range(1 + max(node.step for node in tree.nodes)):
        looked_at = [node for node in tree.nodes if node.step == step]
        kept = [node for node in looked_at if node.fate != "pruned"]
        pruned = [node for node in looked_at if node.fate == "pruned"]
        assert len(kept) == len(pruned) == 3
        assert min(node.score for node in kept) >= max(node.score for node in pruned)
        for node in looked_at:
            before = 0.0 if node.parent is None else tree.nodes[node.parent].score
            assert node.score == pytest.approx(before + node.log_probability)
            assert node.ranking == pytest.approx(node.score / ((6 + step) / 6) ** 0.6)
            assert node.token == f"<{node.token_id}>"
            assert node.parent is None or tree.nodes[node.parent].fate == "kept"
            assert (node.fate == "ended") == (node.fate != "pruned" and (node.token_id == ROLES.eos or step == 7))


def test_penalties_are_in_the_ranking_and_not_in_the_score():
    tree = searched(1, beam=2, repetition_penalty=3.0, length_penalty=0)
    assert any(node.ranking != pytest.approx(node.score) for node in tree.nodes)
    free = searched(1, beam=2, length_penalty=0)
    assert all(node.ranking == pytest.approx(node.score) for node in free.nodes)
