"""What came in from another library, and what went out to it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ImportedRun:
    """A checkpoint that has become a run."""

    path: str
    source: str
    layout: str
    """The family of the checkpoint: gpt2, bert, llama, …"""
    architecture: str
    parameters: int
    precision: str
    """That the weights are stored in: "bfloat16", or "bfloat16 and float32"."""
    vocab_size: int
    """Rows of the embedding; the tokenizer may know fewer ids."""
    tokens: int
    """Ids that the tokenizer knows."""
    context: int
    begins: tuple[str, ...]
    """The tokens before every text; of an encoder-decoder, before every target."""
    ends: tuple[str, ...]
    """Any of them ends a text; the first stands behind a document."""
    pads: str
    """Nothing: no token does."""
    never: tuple[str, ...]
    """Entries of the vocabulary that no text is cut into."""
    left_over: tuple[str, ...]
    """Tensors that the model does not need, as heads for other tasks."""
    has_head: bool
    """Whether the run predicts tokens."""


@dataclass(frozen=True)
class ExportedRun:
    """A run that has become a folder that `transformers` loads."""

    path: str
    run: str
    layout: str
    architecture: str
    """The class that loads it: LlamaForCausalLM, BertForMaskedLM, …"""
    auto_class: str
    """AutoModelForCausalLM, AutoModelForMaskedLM or AutoModelForSeq2SeqLM."""
    parameters: int
    precision: str
    files: tuple[str, ...]
    lacks: tuple[str, ...] = ()
    """Tensors that the class has and the run does not; `transformers` draws them at random."""


@dataclass(frozen=True)
class Exportable:
    """Where a model can be exported to, trained or not."""

    family: str | None
    """Of transformers: Llama, BERT, T5, …; None: none has its variant."""
    readers: tuple[str, ...]
    """The programs that read it."""
    in_the_way: str | None
    """Which settings are not in which families, where none has them all."""

    def __str__(self) -> str:
        return f"{self.family} ({', '.join(self.readers)})" if self.family else f"nothing: {self.in_the_way}"
