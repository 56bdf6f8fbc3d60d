"""What came in from another library, and what went out to it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ImportedRun:
    """A checkpoint that has become a run."""

    path: str
    source: str
    layout: str  # the family of the checkpoint: gpt2, bert, llama, …
    architecture: str
    parameters: int
    precision: str  # that the weights are stored in: "bfloat16", or "bfloat16 and float32"
    vocab_size: int  # rows of the embedding; the tokenizer may know fewer ids
    tokens: int  # ids that the tokenizer knows
    context: int
    begins: tuple[str, ...]  # the tokens before every text; of an encoder-decoder, before every target
    ends: tuple[str, ...]  # any of them ends a text; the first stands behind a document
    pads: str  # empty: no token does
    never: tuple[str, ...]  # entries of the vocabulary that no text is cut into
    left_over: tuple[str, ...]  # tensors that the model does not need, as heads for other tasks
    has_head: bool  # whether the run predicts tokens


@dataclass(frozen=True)
class ExportedRun:
    """A run that has become a folder that `transformers` loads."""

    path: str
    run: str
    layout: str
    architecture: str  # the class that loads it: LlamaForCausalLM, BertForMaskedLM, …
    auto_class: str  # AutoModelForCausalLM, AutoModelForMaskedLM or AutoModelForSeq2SeqLM
    parameters: int
    precision: str
    files: tuple[str, ...]
    lacks: tuple[str, ...] = ()  # tensors that the class has and the run does not; `transformers` draws them at random


@dataclass(frozen=True)
class Exportable:
    """Where a model can be exported to, trained or not."""

    family: str | None  # of transformers: Llama, BERT, T5, …; None: none has its variant
    readers: tuple[str, ...]  # the programs that read it
    in_the_way: str | None  # which settings are not in which families, where none has them all

    def __str__(self) -> str:
        return f"{self.family} ({', '.join(self.readers)})" if self.family else f"nothing: {self.in_the_way}"
