"""What is explained: the model, its text, and the notation that names its matrices. Numbers are the same in all; ours,
and the model's tensors, have a token a row; a notation whose tokens are columns writes every matrix transposed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from tfcli.errors import UsageError
from tfcli.files import packaged
from tfcli.inspection import passes
from tfcli.inspection.attention import AttentionKind
from tfcli.inspection.attention.choice import require_place
from tfcli.inspection.explain import Matrix, MatrixKind, NotationName
from tfcli.layers.attention import Span
from tfcli.layers.layer import TransformerLayer
from tfcli.layers.multi_head import MultiHeadAttention
from tfcli.layers.positions import NO_SIGNAL, PositionSignal
from tfcli.models.build import build_model
from tfcli.models.transformer import EncoderDecoder, Stack, Transformer
from tfcli.recipe.model import ModelSection
from tfcli.records.arrays import frozen
from tfcli.runs.load import LoadedRun

Words = tuple[str, ...]
Axes = tuple[str, ...]  # by their names in `notations.toml`, or as they are written
VECTORS: Axes = ("tokens", "model")
PAIRS: Axes = ("tokens", "tokens")  # of queries and keys of one text


@dataclass(frozen=True)
class Subject:
    """One layer of a model that has read a text, as ids (`inputs`); of its attentions, `attention` is explained.
    A toy has a `vocabulary`, whose places are its ids; an attention of given matrices an empty one, and of what else
    stands here its shape alone."""

    label: str
    model: Transformer
    passed: passes.ModelPass
    inputs: Sequence[Tensor]
    layer: TransformerLayer
    layer_pass: passes.LayerPass
    attention: MultiHeadAttention
    attention_pass: passes.AttentionPass
    signal: PositionSignal
    query_tokens: Words
    key_tokens: Words
    vocabulary: Words | None = None
    layer_number: int | None = field(default=None, kw_only=True)  # of a run's layer

    @property
    def section(self) -> ModelSection:
        """The model's shape."""
        return self.model.section

    @property
    def has_projections(self) -> bool:
        """Whether queries, keys and values are more than X itself."""
        return self.section.attention_score != "parameter_free"

    @property
    def is_plain(self) -> bool:
        """Whether attention is softmax(XXᵀ)X and nothing else."""
        return not self.has_projections and self.attention.num_heads == 1

    @property
    def is_cross(self) -> bool:
        """Whether keys and values are those of another text."""
        return self.attention.cross

    def require_sublayers_in_turn(self) -> None:
        """Refuse, by a `UsageError`, a layer of one sublayer, of two that read the same, or without residuals."""
        passes.require_residuals(self.section)
        if not self.section.inner_size:
            problem = "model.d_ff = 0 leaves attention alone, and this picture goes through a feed-forward network, too"
            raise UsageError(problem, "see `tfcli explain attention`, or name another run")
        if self.section.parallel_residual:
            raise UsageError(lectures()["notes"]["parallel"], "see `tfcli explain attention`, or name another run")

    @property
    def pairs(self) -> Axes:
        """Of queries and keys."""
        return ("tokens", "source") if self.is_cross else PAIRS

    def heads(self, head: int | None) -> tuple[int, Sequence[int]]:
        """The head shown step by step, the first by default, or a UsageError; and those whose weights are."""
        total, chosen = self.attention.num_heads, head or 0
        require_place("head", head, total)
        return chosen, (chosen,) if self.vocabulary is None else range(total)

    def notation(self, name: NotationName) -> "Notation":
        """A lecture's notation with a symbol for each size there is: a decoder that reads a source has another length
        than it, keys and values may have fewer heads, and CS224n's d/k is not the size of every head."""
        n, attention, passed = notation(name), self.attention, self.attention_pass
        axes, heads = dict(n.axes), n.axes["heads"]
        if self.layer.cross_attention is not None:
            axes["tokens"] = axes["target"]
        for axis, values, other in (("head", passed.query, "d_q"), ("value", passed.value, "d_v")):
            if axes[axis] == "d/k" and values.shape[2] * attention.num_heads != self.section.d_model:
                axes[axis] = other
        of_keys = heads if attention.num_kv_heads == attention.num_heads else f"{heads}_kv"
        for quantity, count, axis in (("query", heads, "head"), ("key", of_keys, "head"), ("value", of_keys, "value")):
            axes[f"joined_{quantity}"] = f"{count}·{bracketed(axes[axis])}"
        axes["joined"] = f"{heads}·{bracketed(axes['value'])}"
        pre = "_pre" if self.section.norm_placement == "pre" else "_post"
        names = n.names | {key.removesuffix(pre): name for key, name in n.names.items() if key.endswith(pre)}
        keys_of = "memory" if self.is_cross else "input"
        return replace(n, axes=axes, names=names, keys_of=keys_of, has_heads=attention.num_heads > 1)


EXAMPLE = "Lucas will travel"  # INF721's own, with d_model = 9 and three heads
MOST_WORDS = 64
_SPREAD = 2.0  # of the weights, times √D: scores then differ enough for a softmax that prefers something
_KEYS = {"heads": "num_heads", "score": "attention_score", "bias": "attention_bias"}


def toy(
    text: str = EXAMPLE, *, value_dim: int | None = None, integers: bool = False, seed: int = 0, **sizes: Any
) -> Subject:
    """One layer as Vaswani et al. 2017 have it, or as `sizes`, keys of `[model]`, say, on the words of a text; of small
    whole numbers with `integers`. A UsageError as of `toy_words`, and of heads without a size that do not divide D."""
    words, sizes = toy_words(text), {**lectures()["toy"], "positions": "learned" if integers else "sinusoidal", **sizes}
    model, heads = sizes["d_model"], sizes.setdefault("heads", 3)
    if not sizes.get("head_dim") and model % heads:
        raise UsageError(f"--d-model {model} is not divisible by --heads {heads}", "choose a multiple, or --head-dim")
    vocabulary = tuple(dict.fromkeys(words))
    vocabulary += ("<unk>",) * (len(vocabulary) == 1)  # a model has two tokens at least
    keys = {_KEYS.get(name, name): value for name, value in sizes.items()} | {"init_std": _SPREAD / model**0.5}
    section = ModelSection(vocab_size=len(vocabulary), max_seq_len=max(2, len(words)), **keys)
    kind, own = "small whole numbers as" if integers else "random", {"d_model": model, "heads": heads}
    own |= {"head_dim": section.head_dim, "value_dim": value_dim}
    shape = ", ".join(f"{name} {size}" for name, size in own.items() if size)
    label = f"a toy {section.architecture} with {kind} weights of seed {seed}: {shape}"
    return drawn(section, words, vocabulary, label, seed, value_dim=value_dim, integers=integers)


def toy_words(text: str) -> tuple[str, ...]:
    """The words of a text, which are the tokens of a toy. A UsageError where there are none, or too many."""
    words = tuple(text.split())
    if not words:
        raise UsageError("The text is empty", "give a few words")
    if len(words) > MOST_WORDS:
        raise UsageError(f"The text has {len(words)} words, and a toy reads at most {MOST_WORDS}", "shorten it")
    return words


def drawn(
    section: ModelSection,
    words: Words,
    vocabulary: Words,
    label: str,
    seed: int = 0,
    *,
    value_dim: int | None = None,
    integers: bool = False,
) -> Subject:
    """The first layer of a model with one stack and added positions, weights drawn from a seed, reading words."""
    model, ids = build_model(section, seed).eval(), torch.tensor([[vocabulary.index(word) for word in words]])
    generator, attention = torch.Generator().manual_seed(seed + 2**32), _stack(model, "encoder").layers[0].attention
    assert isinstance(attention, MultiHeadAttention)
    if value_dim is not None:
        joined, has_bias = section.num_heads * value_dim, section.attention_bias
        attention.value = nn.Linear(section.d_model, joined, bias=has_bias)
        attention.output = nn.Linear(joined, section.d_model, bias=has_bias)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if integers and "norm" not in name:
                weight.random_(0 if name.startswith("embedding") else -1, 2, generator=generator)
            elif ".attention." in name and (value_dim is not None or name.endswith("bias")):
                weight.normal_(std=section.init_std, generator=generator)
            # Processors round random numbers differently. With four decimals all have the same, and --code short ones.
            weight.copy_(weight.double().mul(1e4).round().div(1e4))
    kind: AttentionKind = "decoder_self" if section.architecture == "decoder" else "encoder_self"
    return replace(_read(label, model, [ids], kind, [words, words]), vocabulary=vocabulary)


def of_run(
    run: LoadedRun, text: str, *, target: str | None = None, kind: AttentionKind | None = None, layer: int = 0
) -> Subject:
    """One layer of a run, on what it reads of a text; of an encoder-decoder without `kind`, of the decoder's own. A
    UsageError where there is no such layer or no such attention, or the text is empty or too long."""
    kind = explained_kind(run, kind)
    if not text.strip():
        raise UsageError("The text is empty", "give a few words")
    inputs, label = passes.read_text(run, text, target), f"{run.directory.path}, layer {layer}, {kind}"
    tokens = [tuple(run.tokenizer.labels(ids(kind, inputs))) for ids in (passes.query_ids, passes.key_ids)]
    subject = _read(label, run.model, inputs.tensors(run.device), kind, tokens, layer=layer)
    return replace(subject, layer_number=layer)


def explained_kind(run: LoadedRun, kind: AttentionKind | None) -> AttentionKind:
    """The kind of attention that is chosen; else the decoder's own, or the encoder's where there is no decoder."""
    kinds = passes.chosen_kinds(run, kind)
    return "decoder_self" if "decoder_self" in kinds else kinds[0]


def _read(
    label: str, model: Transformer, inputs: Sequence[Tensor], kind: AttentionKind, tokens: list[Words], layer: int = 0
) -> Subject:
    """A layer of a model that reads ids, and of its attentions that of a kind; `tokens` are its queries and keys."""
    stack = _stack(model, side := "encoder" if kind == "encoder_self" else "decoder")
    require_place("layer", layer, len(stack.layers))
    with torch.inference_mode():
        module, passed = stack.layers[layer], passes.record_model(model, inputs)
    assert isinstance(module, TransformerLayer)
    layer_pass: passes.LayerPass = getattr(passed, side).layers[layer]
    attention = module.cross_attention if kind == "cross" else module.attention
    attention_pass = layer_pass.cross if kind == "cross" else layer_pass.attention
    assert attention is not None and attention_pass is not None
    signal = NO_SIGNAL if kind == "cross" else stack.positions(Span(0, len(tokens[0])))
    of_layer = module, layer_pass, attention, attention_pass, signal
    return Subject(label, model, passed, inputs, *of_layer, *tokens)


def _stack(model: Transformer, side: str) -> Stack:
    stack = getattr(model, side if isinstance(model, EncoderDecoder) else "stack")
    assert isinstance(stack, Stack)
    return stack


_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Notation:
    """One lecture's way of writing, from the tables of `notations.toml`; `turned` stand transposed, all where columns
    are tokens; `keys_of`: what keys and values are projected from; each of several heads has a number."""

    name: NotationName
    axes: Mapping[str, str]
    names: dict[str, str]
    formulas: Mapping[str, str]
    scores: Mapping[str, str]
    slips: Mapping[Literal["attention", "layer", "masking"], Sequence[str]]
    columns_are_tokens: bool
    turned: frozenset[str]
    keys_of: str = "input"
    has_heads: bool = True

    def symbol(self, quantity: str, head: int | None = None) -> str:
        """How a quantity is called, of one head where each has its own: number 1 is head 0. Without a symbol: as is."""
        number = "" if head is None or not self.has_heads else str(head + 1)
        names = self.names.get(quantity, quantity).split("|")
        sub, sup = number.translate(_SUBSCRIPTS), f"⁽{number.translate(_SUPERSCRIPTS)}⁾" if number else ""
        return names[-1 if number else 0].format(sub=sub, sup=sup)

    @property
    def line(self) -> str:
        """Where a token stands."""
        return "column" if self.columns_are_tokens else "row"

    @property
    def root(self) -> str:
        """What scaled scores are divided by."""
        return "√" + bracketed(self.axes["head"])

    def projected(self, formula: str) -> str:
        """A formula with what queries, keys and values are projected from."""
        return self.formulas[formula].format(x=self.symbol("input"), m=self.symbol(self.keys_of))

    def score(self, name: str) -> str:
        """The formula of a score."""
        written = self.scores["dot" if name == "scaled_dot" else name]
        written = written.format(x=self.symbol("input"), m=self.symbol(self.keys_of))
        return f"{written} / {self.root}" if name == "scaled_dot" else written

    def matrix(
        self,
        quantity: str,
        values: Tensor,
        rows: Sequence[str],
        columns: Sequence[str],
        axes: Axes,
        *,
        head: int | None = None,
        kind: MatrixKind = "signed",
        sums: bool = False,
    ) -> Matrix:
        """A quantity as this notation writes it, from how our tensors hold it: (R, C), with a token a row."""
        turned = self.columns_are_tokens or quantity in self.turned
        labels, (first, second) = (tuple(rows), tuple(columns)), (self.axes.get(axis, axis) for axis in axes)
        if turned:
            values, labels, first, second = values.T, labels[::-1], second, first
        numbers = frozen(values.detach().float().cpu())
        along: Literal["rows", "columns"] = "columns" if turned else "rows"
        return Matrix(self.symbol(quantity, head), numbers, *labels, (first, second), kind, along if sums else None)

    def vectors(self, quantity: str, values: Tensor, tokens: Sequence[str], axes: Axes = VECTORS) -> Matrix:
        """A quantity with a vector a token, (T, C), whose dimensions are numbered."""
        return self.matrix(quantity, values, tokens, numbered(values.shape[1]), axes)


def bracketed(symbol: str) -> str:
    """A symbol that may stand below a root or in a product."""
    return f"({symbol})" if "/" in symbol else symbol


def numbered(size: int, first: int = 0) -> tuple[str, ...]:
    """Labels of dimensions."""
    return tuple(map(str, range(first, first + size)))


@cache
def lectures() -> dict[str, Any]:
    """What `notations.toml` holds."""
    return packaged(__file__, "notations.toml")


@cache
def notation(name: NotationName) -> Notation:
    """A lecture's notation by its name."""
    place, tables = get_args(NotationName).index(name), ("axes", "names", "formulas", "scores", "slips")
    columns: dict[str, Any] = {one: {key: way[place] for key, way in lectures()[one].items()} for one in tables}
    turned = frozenset({"w_output"} if name == "cs224n" else ())
    return Notation(name, **columns, columns_are_tokens=name == "udl", turned=turned)
