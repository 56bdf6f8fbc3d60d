"""A model small enough to print: words are its tokens, its weights are drawn from a seed, nothing is learned."""

import torch

from tfcli.errors import UsageError
from tfcli.inspection.explain.subject import Subject, Words
from tfcli.inspection.passes import record_model
from tfcli.layers.layer import TransformerLayer
from tfcli.layers.positions import NO_SIGNAL
from tfcli.models.build import build_model
from tfcli.models.decoder import Decoder
from tfcli.models.encoder import Encoder
from tfcli.models.stack import Stack
from tfcli.recipe.model import Architecture, AttentionScore, ModelSection, NormPlacement

EXAMPLE = "Lucas will travel"
"""INF721's own, with d_model = 9 and three heads."""

MOST_WORDS = 64
_SPREAD = 2.0
"""Standard deviation of the weights times √D: scores then differ enough for a softmax that prefers something."""


def toy(
    text: str = EXAMPLE,
    *,
    architecture: Architecture = "encoder",
    d_model: int = 9,
    heads: int = 3,
    score: AttentionScore = "scaled_dot",
    norm_placement: NormPlacement = "post",
    seed: int = 0,
) -> Subject:
    """One layer as Vaswani et al. 2017 have it, on the words of a text.

    Raises:
        UsageError: the text has no words or too many, or the heads do not divide d_model.
    """
    words = toy_words(text)
    if d_model % heads:
        raise UsageError(f"--d-model {d_model} is not divisible by --heads {heads}", "choose a multiple")
    vocabulary = _vocabulary(words)
    section = ModelSection(
        architecture=architecture,
        vocab_size=len(vocabulary),
        max_seq_len=max(2, len(words)),
        d_model=d_model,
        num_layers=1,
        num_heads=heads,
        positions="sinusoidal",
        scale_embeddings=False,
        norm="layernorm",
        norm_placement=norm_placement,
        attention_score=score,
        activation="relu",
        initialization="bert",
        init_std=_SPREAD / d_model**0.5,
    )
    label = f"a toy {architecture} with random weights of seed {seed}: d_model {d_model}, heads {heads}"
    return drawn(section, words, vocabulary, label, seed)


def toy_words(text: str) -> tuple[str, ...]:
    """The words of a text, which are the tokens of a toy.

    Raises:
        UsageError: there are none, or too many.
    """
    words = tuple(text.split())
    if not words:
        raise UsageError("The text is empty", "give a few words")
    if len(words) > MOST_WORDS:
        raise UsageError(f"The text has {len(words)} words, and a toy reads at most {MOST_WORDS}", "shorten it")
    return words


def drawn(
    section: ModelSection, words: tuple[str, ...], vocabulary: tuple[str, ...], label: str, seed: int = 0
) -> Subject:
    """The first layer of a model with one stack whose positions are added to the embeddings, weights drawn from a
    seed, reading words."""
    model = build_model(section, seed).eval()
    ids = torch.tensor([[vocabulary.index(word) for word in words]])
    with torch.inference_mode():
        passed = record_model(model, [ids])
    assert isinstance(model, Encoder | Decoder) and isinstance(model.stack, Stack)
    layer, layer_pass = model.stack.layers[0], passed.last.layers[0]
    assert isinstance(layer, TransformerLayer)
    return Subject(
        label=label,
        model=model,
        passed=passed,
        inputs=(ids,),
        layer=layer,
        layer_pass=layer_pass,
        attention=layer.attention,
        attention_pass=layer_pass.attention,
        signal=NO_SIGNAL,
        query_tokens=words,
        key_tokens=words,
        words=Words(vocabulary, ids[0], model.embedding.weight, model.embedding.positions[: len(words)]),
    )


def _vocabulary(words: tuple[str, ...]) -> tuple[str, ...]:
    """Every word once, in the order of the text; a model has two at least."""
    found = tuple(dict.fromkeys(words))
    return found if len(found) > 1 else (*found, "<unk>")
