"""Against repetition: by hand, and by what never happens in a text."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generation.small import ROLES, small_model
from tfcli.generation.decoding import collect, prompt_tokens
from tfcli.generation.sampling import forbid_repeated_ngrams, penalise_repetition
from tfcli.recipe.recipe import GenerateSection


def test_a_penalty_makes_held_tokens_less_likely_whatever_their_sign():
    logits = torch.tensor([[2.0, -1.0, 0.0, 3.0], [2.0, -1.0, 0.0, 3.0]])
    penalised = penalise_repetition(logits, [[0, 1, 1], [3]], 2.0)
    assert penalised.tolist() == [[1.0, -2.0, 0.0, 3.0], [2.0, -1.0, 0.0, 1.5]]
    assert logits[0, 0] == 2.0, "the model's own prediction is still needed"


def test_what_would_end_a_known_sequence_is_ruled_out():
    """1 2 was followed by 3 and by 4; n = 1 rules out what the text holds; a text shorter than n rules out nothing."""
    free = torch.zeros(1, 6)
    assert (forbid_repeated_ngrams(free, [[1, 2, 3, 1, 2, 4, 1, 2]], 3) == -torch.inf).nonzero()[:, 1].tolist() == [
        3,
        4,
    ]
    assert (forbid_repeated_ngrams(free, [[5, 0]], 1) == -torch.inf).nonzero()[:, 1].tolist() == [0, 5]
    assert torch.equal(forbid_repeated_ngrams(free, [[5]], 3), free)


def test_a_text_that_could_not_go_on_repeats_itself():
    logits = torch.tensor([[0.0, -torch.inf, 1.0]])
    assert torch.equal(forbid_repeated_ngrams(logits, [[0, 2]], 1), logits)


@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 3), seed=st.integers(0, 50), temperature=st.sampled_from([0.0, 1.0]))
def test_no_sequence_comes_twice_not_even_one_of_the_prompt(n: int, seed: int, temperature: float):
    prompt = [1, 7, 9, 8]
    chosen = GenerateSection(no_repeat_ngram=n, temperature=temperature, seed=seed, max_new_tokens=10)
    [text] = collect(prompt_tokens(small_model(seed), [prompt], ROLES, chosen), 1)
    whole = [*prompt, *text.token_ids]
    grams = [tuple(whole[at : at + n]) for at in range(len(whole) - n + 1)]
    may_go_on = n > 1 or len(set(whole)) < 12 - 3
    assert len(set(grams)) == len(grams) or not may_go_on
