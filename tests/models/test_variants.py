"""Every combination of settings is refused in words or works: drawn at random over all settings."""

from collections.abc import Callable
from itertools import pairwise

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tfcli.errors import UsageError
from tfcli.generation.kv_cache import DecodingCache
from tfcli.models.build import build_model
from tfcli.models.transformer import Transformer
from tfcli.recipe.model import ModelSection

from .small import VOCAB, ids, lively
from .strategies import sections, settings_of_any_kind

TARGET, SOURCE = 6, 7
PADDED = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])
LEFT = PADDED.flip(1)
EMPTY = torch.tensor([[True] * 7, [False] * 7])


def read(built: Transformer, tokens: Tensor, padding: Tensor | None = None, source: Tensor | None = None, **options):
    """The logits; of a model without a head, the last vectors."""
    call: Callable[..., Tensor] = built.hidden if built.section.head == "none" else built
    if built.section.architecture == "encoder-decoder":
        return call(ids(length=SOURCE, seed=9) if source is None else source, tokens, padding, **options)
    return call(tokens, padding, **options)


def batch(section: ModelSection) -> Tensor:
    return ids(length=TARGET if section.architecture == "encoder-decoder" else SOURCE)


def equal(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-9, rtol=1e-8)


many = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@settings(many, max_examples=500)
@given(settings_of_any_kind())
def test_any_settings_are_refused_in_words_or_build_a_model_that_reads(drawn):
    """A refusal names the settings with what was given, says what to do, and is one line."""
    refusal = None
    try:
        section = ModelSection(**drawn)
    except UsageError as error:
        refusal = str(error)
    if refusal is not None:
        assert "model." in refusal
        assert "\n" not in refusal and refusal.endswith(".")
        return
    output = read(build_model(section), batch(section))
    assert output.shape[-1] == (section.d_model if section.head == "none" else VOCAB)
    assert output.isfinite().all()


@settings(many, max_examples=120)
@given(sections())
def test_both_attention_paths_give_the_same_output_and_the_same_gradients(section: ModelSection):
    """Not padded, padded behind, in front (where a causal query in the padding sees nothing at all), and with a text
    that is nothing but padding. Every parameter has a gradient, and every one is finite."""
    built, tokens = lively(section), batch(section)
    parameters = list(built.parameters())
    for padding in (None, PADDED, LEFT, EMPTY):
        fused = read(built, tokens, padding)
        weights: dict[str, list[Tensor]] = {}
        explicit = read(built, tokens, padding, weights=weights)
        equal(fused, explicit)
        assert fused.isfinite().all()
        gradients = [torch.autograd.grad(output.tanh().sum(), parameters) for output in (fused, explicit)]
        for of_fused, of_explicit in zip(*gradients, strict=True):
            assert of_fused.isfinite().all()
            torch.testing.assert_close(of_fused, of_explicit, atol=1e-7, rtol=1e-6)
        for layer in (layer for layers in weights.values() for layer in layers):
            sums = layer.sum(-1)
            assert (((sums - 1).abs() < 1e-9) | (sums == 0)).all(), "a distribution, or a row that sees nothing"
            assert padding is not None or (sums > 0).all()


@settings(many, max_examples=80)
@given(sections(), st.sampled_from([None, torch.bfloat16]))
def test_a_training_step_works_as_it_is_initialised(section: ModelSection, precision: torch.dtype | None):
    """With dropout, in float32 and under bfloat16 autocast: finite, and no parameter left without a gradient."""
    torch.manual_seed(0)
    built = build_model(section).train()
    with torch.autocast("cpu", precision, enabled=precision is not None):
        output = read(built, batch(section), PADDED)
        output.float().pow(2).mean().backward()
    assert output.isfinite().all()
    for name, parameter in built.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name


@settings(many, max_examples=80)
@given(sections())
def test_padding_changes_nothing(section: ModelSection):
    """Four tokens alone give what they give before three more that are marked as padding, whichever these are."""
    built = lively(section)
    mask = torch.tensor([[True] * 4 + [False] * 3])
    tokens = ids(1, SOURCE, seed=3)
    with torch.no_grad():
        if section.architecture == "encoder-decoder":
            target = ids(1, TARGET)
            equal(read(built, target, mask, tokens), read(built, target, None, tokens[:, :4]))
        else:
            equal(read(built, tokens, mask)[:, :4], read(built, tokens[:, :4]))


generating = st.sampled_from(["decoder", "encoder-decoder"]).flatmap(lambda name: sections(architecture=name))


@settings(many, max_examples=80)
@given(generating, st.booleans())
def test_nothing_comes_from_the_future(section: ModelSection, explicit: bool):
    built, tokens = lively(section), ids(length=TARGET)

    def logits(tokens: Tensor) -> Tensor:
        return read(built, tokens, weights={} if explicit else None)

    moved = False
    with torch.no_grad():
        before = logits(tokens)
        for position in range(1, TARGET):
            changed = tokens.clone()
            changed[:, position:] = (changed[:, position:] + 1) % VOCAB
            after = logits(changed)
            torch.testing.assert_close(after[:, :position], before[:, :position], atol=0, rtol=0)
            moved |= not torch.equal(after[:, position:], before[:, position:])
    assert moved or not section.residuals, "what it reads counts"


@settings(many, max_examples=120)
@given(generating, st.sets(st.integers(1, TARGET - 1)), st.booleans())
def test_reading_piece_by_piece_gives_what_reading_at_once_gives(section: ModelSection, cuts: set[int], explicit: bool):
    built, tokens, source = lively(section), ids(length=TARGET), ids(length=SOURCE, seed=9)
    cache = DecodingCache(built, 2, TARGET)
    with torch.no_grad():
        if section.architecture == "encoder-decoder":
            memory = built.encode(source, PADDED)
            expected = built(source, tokens, PADDED)

            def step(piece: Tensor) -> Tensor:
                hidden = built.decode(piece, memory, PADDED, cache=cache, weights={} if explicit else None)
                return built.head(hidden)
        else:
            expected = built(tokens)

            def step(piece: Tensor) -> Tensor:
                return built(piece, cache=cache, weights={} if explicit else None)

        pieces = [step(tokens[:, start:end]) for start, end in pairwise([0, *sorted(cuts), TARGET])]
    equal(torch.cat(pieces, dim=1), expected)


@settings(many, max_examples=50)
@given(sections())
def test_what_is_saved_is_all_there_is(section: ModelSection):
    """A second model that loads the first one's parameters answers alike: nothing that counts is left unsaved."""
    first, second = lively(section), build_model(section, seed=7).double().eval()
    second.load_state_dict(first.state_dict())
    tokens = batch(section)
    with torch.no_grad():
        torch.testing.assert_close(read(second, tokens), read(first, tokens), atol=0, rtol=0)
    assert not any(isinstance(part, nn.Dropout) for part in first.modules()), "rates are read from the recipe"
