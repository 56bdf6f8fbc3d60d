"""How a model is built: its blocks in order, every matrix with its shape."""

from dataclasses import dataclass
from typing import Literal

BlockKind = Literal["embedding", "positions", "attention", "cross_attention", "feed_forward", "norm", "head"]


@dataclass(frozen=True)
class Matrix:
    """Parameters of one name."""

    name: str
    shape: tuple[int, ...]  # as the formula X W + b reads it, rows in, columns out; a vector has one size
    bias: bool  # with which as many numbers as the last size come to it
    parameters: int


@dataclass(frozen=True)
class Block:
    """A box of the diagram. `notes` say in a formula what it computes, and what has no parameters."""

    kind: BlockKind
    notes: tuple[str, ...]
    matrices: tuple[Matrix, ...]

    @property
    def parameters(self) -> int:
        """Of all its matrices."""
        return sum(matrix.parameters for matrix in self.matrices)


@dataclass(frozen=True)
class Sublayer:
    """A block inside a residual, or without one, with the norm before it or after the sum."""

    block: Block
    norm: Block
    placement: Literal["pre", "post"]
    residual: bool = True


@dataclass(frozen=True)
class StackRecord:
    """Equal layers one after the other: `sublayers` are those of one. `positions` are one table for all of them."""

    side: Literal["encoder", "decoder"]
    num_layers: int
    sublayers: tuple[Sublayer, ...]
    positions: Block | None
    final_norm: Block | None

    @property
    def layer_parameters(self) -> int:
        """Of one layer."""
        return sum(one.block.parameters + one.norm.parameters for one in self.sublayers)


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters of one kind: those of `count` equal modules, a line for each tensor: its name and its shape."""

    name: str
    count: int
    tensors: tuple[tuple[str, tuple[int, ...]], ...]
    parameters: int  # of all of them together


@dataclass(frozen=True)
class ModelRecord:
    """A model as a diagram: an embedding for each stack, the stacks, the head on the last of them. `about` says in
    words, by name, what a case study would: who sees whom, norms, positions, what is trained, what was published."""

    architecture: str
    about: tuple[tuple[str, str], ...]
    vocab_size: int
    max_seq_len: int
    d_model: int
    embeddings: tuple[Block, ...]
    stacks: tuple[StackRecord, ...]
    head: Block
    has_logits: bool  # whether there is a head that predicts tokens
    ties: tuple[str, ...]  # name the matrices that stand in several places and count once
    groups: tuple[ParameterGroup, ...]
    parameters: int  # as the module itself says
