"""A model's diagram from its modules, whose tensors have shapes and no numbers: any size at no cost.
Shape legend: D model, H heads, Hkv key-value heads, Dh size of a head, F feed-forward, N context."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from torch import Tensor, nn

from tfcli.files import packaged
from tfcli.inspection.model import Block, BlockKind, Matrix, ModelRecord, ParameterGroup, StackRecord, Sublayer
from tfcli.layers.embedding import TokenEmbedding
from tfcli.layers.layer import FeedForward, Residual, TransformerLayer
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.models.build import meta_model
from tfcli.models.head import Head, TransformHead
from tfcli.models.transformer import Stack, Transformer, part_of_parameter
from tfcli.recipe.model import ModelSection


def parameter_groups(model: Transformer) -> Iterator[ParameterGroup]:
    """The parameters by what they belong to, equal parts of all layers together; a tied matrix counts once."""
    parts: dict[tuple[str, str], list[tuple[str, tuple[int, ...]]]] = {}
    for name, parameter in model.named_parameters():
        instance, kind, tensor = _placed(name)
        parts.setdefault((instance, kind), []).append((tensor, tuple(parameter.shape)))
    counted = Counter((kind, tuple(tensors)) for (_, kind), tensors in parts.items())
    for (kind, tensors), count in counted.items():
        yield ParameterGroup(kind, count, tensors, count * sum(math.prod(shape) for _, shape in tensors))


def _placed(name: str) -> tuple[str, str, str]:
    """Which part of which module a parameter belongs to: ("stack.layers.0", "stack attention", "query.weight")."""
    before, within, rest = name.partition(".layers.")
    if not within:
        module, _, tensor = name.rpartition(".")
        return module, module.replace("_", " ").replace(".", " "), tensor
    number, module, tensor = rest.split(".", 2)
    side, part = "" if before == "stack" else f"{before} ", part_of_parameter(name)
    if part == "norms":
        tensor = f"{module.removesuffix('_residual').replace('_', '-')} {tensor}"
    return f"{before}.{number}", f"{side}{part.replace('_', '-')}", tensor


_WORDS: dict[str, dict[str, str]] = packaged(__file__, "words.toml")
_ADDED, _TOLD = _WORDS["added"], _WORDS["told"]


def model_diagram(section: ModelSection, published: str = "") -> ModelRecord:
    """Every box and matrix of a model with a vocabulary, a tied one once; `published`: what its authors count."""
    assert section.vocab_size is not None
    model, drawn = meta_model(section), _Drawn(section)
    return ModelRecord(
        architecture=section.architecture,
        about=tuple(_about(section, published)),
        **{name: getattr(section, name) for name in ("vocab_size", "max_seq_len", "d_model")},
        embeddings=tuple(drawn.embedding(one) for one in model.children() if isinstance(one, TokenEmbedding)),
        stacks=tuple(drawn.stack(one, name) for name, one in model.named_children() if isinstance(one, Stack)),
        head=drawn.head(model.head),
        has_logits=section.head != "none",
        ties=tuple(_ties(model, section)),
        groups=tuple(parameter_groups(model)),
        parameters=model.num_parameters(),
    )


def _about(s: ModelSection, published: str) -> Iterator[tuple[str, str]]:
    layers = f"{s.num_layers} + {s.decoder_layers}" if s.architecture == "encoder-decoder" else f"{s.num_layers}"
    yield "stack", f"{layers} layers; {_WORDS['sees'][s.architecture]}"
    where = "before each sublayer (pre-norm) and after the last layer"
    yield "norms", f"{s.norm}, per token, {'after each sum (post-norm)' if s.norm_placement == 'post' else where}"
    kind = f"learned, {s.max_seq_len:,} of them" if s.positions == "learned" else s.positions
    yield "positions", _TOLD.get(s.positions, f"{kind}: {_ADDED[s.position_merge]}")
    yield "trained", _WORDS["trained"][s.objective] if s.predicts_tokens else "no tokens are predicted"
    if published:
        yield "published", published


class _Drawn:
    """Boxes of a model's modules. Remembers which parameters have been listed, so that none is twice."""

    def __init__(self, section: ModelSection) -> None:
        self.section = section
        self._listed: set[int] = set()

    def embedding(self, module: TokenEmbedding) -> Block:
        s = self.section
        tokens = tuple(self._own("E tokens", module.weight))
        positions = self._own("P positions", module.positions if module.has_positions else None)
        others = (positions, self._own("segments", module.token_types), self._norm(module.norm, "norm "))
        scale = f"√{s.d_model} · " if module.scale != 1 else ""
        added = " + P[position]" if module.has_positions and not s.concatenated_size else ""
        notes = [f"X = {scale}E[token]{added}"]
        notes += [] if tokens else ["E: that of the source's embeddings"]
        notes += [f"{s.positions} positions, {_ADDED[s.position_merge]}"] if module.has_positions else []
        return _block("embedding", notes, tokens, *others)

    def stack(self, module: Stack, name: str) -> StackRecord:
        first, last = module.layers[0], module.final_norm
        assert isinstance(first, TransformerLayer)
        sublayers = (
            (first.attention, first.attention_residual),
            (first.cross_attention, first.cross_attention_residual),
            (first.feed_forward if self.section.inner_size else None, first.feed_forward_residual),
        )
        return StackRecord(
            side=self.section.architecture if name == "stack" else name,  # type: ignore[arg-type]
            num_layers=len(module.layers),
            sublayers=tuple(self._sublayer(one, residual) for one, residual in sublayers if one and residual),
            positions=self._positions(module.positions),
            final_norm=None if isinstance(last, nn.Identity) else _block("norm", (), self._norm(last)),
        )

    def head(self, module: nn.Module) -> Block:
        if not isinstance(module, Head):
            return Block("head", ("no head: the vectors themselves",), ())
        transform: tuple[Iterator[Matrix], ...] = ()
        if isinstance(module, TransformHead):
            transform = self._linear("W transform", module.transform), self._norm(module.norm, "norm ")
        own = tuple(self._own("U", module.weight, turned=True))
        scale = f" / √{self.section.d_model}" if module.scale != 1 else ""
        logits = f"logits = {'h U' if own else 'h Eᵀ'}{scale}{' + b' * (module.bias is not None)}"
        return _block("head", [logits], *transform, own, self._own("bias", module.bias))

    def _sublayer(self, module: MultiHeadAttention | FeedForward, residual: Residual) -> Sublayer:
        block = self._attention(module) if isinstance(module, MultiHeadAttention) else self._feed_forward(module)
        return Sublayer(block, _block("norm", (), self._norm(residual.norm)), residual.placement, residual.adds)

    def _attention(self, module: MultiHeadAttention) -> Block:
        linear = (("W^q", module.query), ("W^k", module.key), ("W^v", module.value), ("W^o", module.output))
        norms = (self._norm(module.query_norm, "norm of Q, "), self._norm(module.key_norm, "norm of K, "))
        projections, v = (self._linear(name, of) for name, of in linear), self._own("v", module.score.weight)
        notes = _attention_notes(self.section, module)
        return _block("cross_attention" if module.cross else "attention", notes, *projections, v, *norms)

    def _feed_forward(self, module: FeedForward) -> Block:
        activation = self.section.activation
        beside = ["beside attention: reads what it reads"] * self.section.parallel_residual
        inner = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh"}.get(activation)
        formula = f"{activation}: ({inner}(X W) ⊙ X V) W₂" if inner else f"{activation}(X W₁) W₂"
        named = (("W gate", module.gate), ("V" if inner else "W₁", module.up), ("W₂", module.output))
        return _block("feed_forward", [formula, *beside], *(self._linear(name, linear) for name, linear in named))

    def _positions(self, module: nn.Module) -> Block | None:
        s = self.section
        if s.positions == "t5":
            table = self._own("bias", module.get_parameter("relative_bias.weight"))
            return _block("positions", ("t5: a number a bucket of distances and head,", "for all layers"), table)
        if s.positions in ("sinusoidal", "learned") and s.position_merge == "query_key":
            table = self._own("P positions", getattr(module, "table"))  # noqa: B009 (a Tensor or a Module)
            return _block("positions", (f"{s.positions} positions, added to what", "Q and K come from"), table)
        return None

    def _norm(self, module: nn.Module | None, prefix: str = "") -> Iterator[Matrix]:
        yield from self._own(f"{prefix}gain", getattr(module, "weight", None))
        yield from self._own(f"{prefix}bias", getattr(module, "bias", None))

    def _linear(self, name: str, module: nn.Module | None) -> Iterator[Matrix]:
        """A product's matrix with its bias, as X W + b reads it: PyTorch stores Wᵀ."""
        if isinstance(module, nn.Linear):
            self._listed.update(map(id, module.parameters()))
            sizes, count = (module.in_features, module.out_features), sum(p.numel() for p in module.parameters())
            yield Matrix(name, sizes, module.bias is not None, count)

    def _own(self, name: str, parameter: Tensor | None, *, turned: bool = False) -> Iterator[Matrix]:
        """A parameter that has not been listed yet; tables of sines are none."""
        if isinstance(parameter, nn.Parameter) and id(parameter) not in self._listed:
            self._listed.add(id(parameter))
            shape = tuple(parameter.shape)
            yield Matrix(name, shape[::-1] if turned else shape, False, parameter.numel())


def _block(kind: BlockKind, notes: Iterable[str], *matrices: Iterable[Matrix]) -> Block:
    return Block(kind, tuple(notes), tuple(chain.from_iterable(matrices)))


def _attention_notes(section: ModelSection, module: MultiHeadAttention) -> Iterator[str]:
    shared = f", {module.num_kv_heads} of K and V" if module.num_kv_heads != module.num_heads else ""
    yield f"{module.num_heads} heads of {module.head_dim}{shared}"
    score, values = _WORDS["scores"][section.attention_score].split("; ")
    yield f"softmax({score.format(module.head_dim)}) {values}"
    if module.cross:
        yield "Q from below, K and V from the encoder"
    if module.causal:
        yield "masked: the future is hidden"
    if module.window is not None:
        yield f"window: the {module.window if module.causal else 2 * module.window - 1} nearest tokens alone"
    if section.attention_softcap is not None:
        yield f"scores within ± {section.attention_softcap:g}"
    if not module.cross and section.positions in ("rotary", "alibi"):
        yield _TOLD[section.positions]


def _ties(model: Transformer, section: ModelSection) -> Iterator[str]:
    """Which matrices stand in several places."""
    once = dict(model.named_parameters())
    places = {"target_embedding.weight": "of the target's embeddings", "head.weight": "of the head"}
    if named := [places[name] for name, _ in model.named_parameters(remove_duplicate=False) if name not in once]:
        apart = section.architecture == "encoder-decoder" and not section.share_embeddings
        yield f"E of the {'target' if apart else 'embeddings'} is also the matrix {' and '.join(named)}: counted once."
