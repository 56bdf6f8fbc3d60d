"""A batch gives each prompt the texts that the prompt gets alone, whatever happens at the end of the context."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generation.small import FIRST, ROLES, small_model
from tfcli.generation.beam_search import continuations
from tfcli.generation.decoding import Continuation, prefill
from tfcli.models.transformer import Transformer
from tfcli.recipe.recipe import GenerateSection
from tfcli.records.roles import TokenRoles

CONTEXT = 12
ENDLESS = TokenRoles(pad=0, bos=1, eos=99, mask=3, unk=4)
"""The end is no token of the vocabulary, so every text reaches its limit."""

POSITIONS: list[dict[str, Any]] = [
    {"positions": "rotary", "position_scaling_kind": "dynamic", "position_scaling": 2.0},
    {"positions": "rotary", "position_scaling_kind": "yarn", "position_scaling": 2.0},
    {"positions": "rotary"},
    {"positions": "sinusoidal"},
    {"positions": "sinusoidal", "position_merge": "query_key"},
    {"positions": "alibi"},
    {"positions": "t5"},
    {"positions": "none"},
    {"positions": "learned"},
]
VARIANTS: list[dict[str, Any]] = [
    {},
    {"sliding_window": 5},
    {"num_heads": 4, "num_kv_heads": 2, "head_dim": 4},
    {"norm": "rmsnorm"},
]
MODES: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 1.3, "num_samples": 2},
    {"temperature": 1.0, "top_p": 0.9, "repetition_penalty": 1.2},
    {"temperature": 0.0, "beam": 3, "num_samples": 2},
]
TOKENS = st.integers(FIRST, 11)
PROMPTS = st.lists(st.lists(TOKENS, min_size=0, max_size=CONTEXT - 1), min_size=2, max_size=4)
LONG_PROMPTS = st.lists(st.lists(TOKENS, min_size=0, max_size=2 * CONTEXT), min_size=2, max_size=4)
ROLES_OF_A_TEST = st.sampled_from([ROLES, ENDLESS])


def require_alike(together: list[list[Continuation]], apart: list[list[Continuation]]) -> None:
    """Compare texts of several prompts: the same tokens, and log-probabilities that differ by rounding alone."""
    for texts, expected_texts in zip(together, apart, strict=True):
        for text, expected in zip(texts, expected_texts, strict=True):
            assert text.token_ids == expected.token_ids
            assert text.log_probabilities == pytest.approx(expected.log_probabilities, abs=1e-8)


def compare_with_each_alone(
    model: Transformer, prompts: list[list[int]], roles: TokenRoles, chosen: GenerateSection
) -> None:
    together = continuations(model, prompts, roles, chosen)
    apart = []
    for prompt in prompts:
        apart += continuations(model, [prompt], roles, chosen)
    require_alike(together, apart)


@settings(max_examples=80, deadline=None)
@given(
    data=st.data(),
    beyond=st.sampled_from(["slide", "extrapolate", "stop"]),
    positions=st.sampled_from(POSITIONS),
    variant=st.sampled_from(VARIANTS),
    mode=st.sampled_from(MODES),
    new_tokens=st.integers(1, 30),
    roles=ROLES_OF_A_TEST,
    reads_prefix=st.booleans(),
    seed=st.integers(0, 999),
)
def test_a_decoder_continues_a_prompt_as_if_alone(
    data: st.DataObject,
    beyond: Any,
    positions: dict[str, Any],
    variant: dict[str, Any],
    mode: dict[str, Any],
    new_tokens: int,
    roles: TokenRoles,
    reads_prefix: bool,
    seed: int,
) -> None:
    if beyond == "extrapolate" and positions["positions"] == "learned":
        positions = {"positions": "rotary"}
    model = small_model(seed, max_seq_len=CONTEXT, **(variant | positions))
    model.reads_prefix = reads_prefix  # type: ignore[assignment]
    drawn = data.draw(PROMPTS if beyond == "stop" else LONG_PROMPTS)
    prompts = [[roles.bos, *prompt] for prompt in drawn]
    chosen = GenerateSection(beyond_context=beyond, max_new_tokens=new_tokens, seed=seed, **mode)
    compare_with_each_alone(model, prompts, roles, chosen)


@settings(max_examples=30, deadline=None)
@given(
    sources=st.lists(st.lists(TOKENS, min_size=1, max_size=CONTEXT - 1), min_size=2, max_size=4),
    beyond=st.sampled_from(["slide", "extrapolate", "stop"]),
    positions=st.sampled_from(POSITIONS[:-1]),
    mode=st.sampled_from(MODES),
    roles=ROLES_OF_A_TEST,
    seed=st.integers(0, 999),
)
def test_an_encoder_decoder_translates_a_source_as_if_alone(
    sources: list[list[int]],
    beyond: Any,
    positions: dict[str, Any],
    mode: dict[str, Any],
    roles: TokenRoles,
    seed: int,
) -> None:
    model = small_model(seed, architecture="encoder-decoder", max_seq_len=CONTEXT, **positions)
    if roles is ENDLESS:
        roles = replace(ENDLESS, eos=2, suppressed=(2,), endless=True)
    chosen = GenerateSection(beyond_context=beyond, max_new_tokens=25, seed=seed, **mode)
    compare_with_each_alone(model, sources, roles, chosen)


@torch.inference_mode()
def test_a_text_slides_when_it_fills_the_context_itself() -> None:
    """Context 16, read again from the last 12: of prompts with 8 and 2 tokens, the first slides after 8 new ones, the
    second after 14. Its 13th new token still sees all 14 before it, though the columns of the batch were full at 9."""
    model = small_model(4, positions="learned")
    prompts = [[1, 5, 6, 7, 8, 9, 10, 11], [1, 9]]
    chosen = GenerateSection(temperature=0.0, max_new_tokens=24, beyond_context="slide")
    for prompt, [text] in zip(prompts, continuations(model, prompts, ENDLESS, chosen), strict=True):
        read = list(prompt)
        for token, score in zip(text.token_ids, text.log_probabilities, strict=True):
            if len(read) == 17:
                read = read[-12:]
            predicted = model(torch.tensor([read]))[0, -1].log_softmax(-1)
            assert predicted[token].item() == pytest.approx(score, abs=1e-9)
            read.append(token)


@torch.inference_mode()
def test_dynamic_angles_are_those_of_a_texts_own_length() -> None:
    """Context 16: a prompt with 4 tokens next to one with 20 is within the context, so it has the plain angles."""
    dynamic = {"position_scaling_kind": "dynamic", "position_scaling": 4.0}
    model = small_model(1, positions="rotary", **dynamic)
    plain = small_model(1, positions="rotary", max_seq_len=32)
    short = [1, 6, 7, 8]
    long = [1, *range(5, 12), *range(5, 12), *range(5, 10)]
    chosen = GenerateSection(beyond_context="extrapolate", max_new_tokens=8)
    state = prefill(model, [short, long], ROLES, chosen, rows=2)
    torch.testing.assert_close(state.logits[0], plain(torch.tensor([short]))[0, -1], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(state.logits[1], model(torch.tensor([long]))[0, -1], rtol=1e-9, atol=1e-9)
    assert (state.logits[1] - plain(torch.tensor([long]))[0, -1]).abs().max() > 1e-3
