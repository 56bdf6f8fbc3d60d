"""Checkpoint folders as `transformers` saves them: a small model of each family, with a tokenizer of its kind."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

Form = Literal["safetensors", "shards", "bin"]

TEXT = ["The cat sat on the mat and the dog ran to the river.", "Tom swam across: don't stop, the cats can't sit!"] * 9
UNUSED_ROWS = 3
"""Rows of the embedding that no token has: published vocabularies are padded to a round number."""

_SMALL = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
_LLAMA = {**_SMALL, "num_key_value_heads": 2, "max_position_embeddings": 40, "bos_token_id": 1, "eos_token_id": 2}
_SIDES = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "max_position_embeddings": 40,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
}


def _byte_level(specials: list[str]) -> Tokenizer:
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(TEXT, trainer)
    return backend


def _gpt2() -> tuple[Tokenizer, dict[str, str]]:
    end = "<|endoftext|>"
    return _byte_level([end]), {"bos": end, "eos": end, "unk": end}


def _bart() -> tuple[Tokenizer, dict[str, str]]:
    backend = _byte_level(["<s>", "<pad>", "</s>", "<unk>"])
    backend.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return backend, {"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}


def _llama() -> tuple[Tokenizer, dict[str, str]]:
    """Byte pairs with a byte for what is unknown, and a ▁ before every text."""
    specials = ["<unk>", "<s>", "</s>"]
    pieces = [*specials, *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "t", "h", "e", "▁t", "▁th", "▁the"]
    vocabulary = {piece: token_id for token_id, piece in enumerate(pieces)}
    merges = [("▁", "t"), ("▁t", "h"), ("▁th", "e")]
    backend = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    backend.decoder = decoders.Sequence(steps)
    backend.add_special_tokens(specials)
    backend.post_processor = processors.TemplateProcessing(single=["<s>", "$A"], special_tokens=[("<s>", 1)])
    return backend, {"bos": "<s>", "eos": "</s>", "unk": "<unk>"}


def _bert() -> tuple[Tokenizer, dict[str, str]]:
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = [*specials, "the", "cat", "##s", "sat", "on", "mat", *letters, *(f"##{letter}" for letter in letters[:18])]
    vocabulary = {piece: token_id for token_id, piece in enumerate(pieces)}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.add_special_tokens(specials)
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return backend, {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}


def _unigram(specials: list[str], unknown: int, last: list[str]) -> Tokenizer:
    """Pieces with ▁ for the space; a source ends with </s> and begins with nothing."""
    letters = sorted({letter for text in TEXT for letter in text if letter != " "})
    pieces = [(name, 0.0) for name in specials] + [("▁", -2.0), ("▁the", -2.5), ("▁cat", -3.0)]
    pieces += [(letter, -6.0) for letter in letters] + [(name, 0.0) for name in last]
    backend = Tokenizer(models.Unigram(pieces, unk_id=unknown, byte_fallback=False))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    backend.add_special_tokens([*specials, *last])
    end = backend.token_to_id("</s>")
    backend.post_processor = processors.TemplateProcessing(single=["$A", "</s>"], special_tokens=[("</s>", end)])
    return backend


def _marian() -> tuple[Tokenizer, dict[str, str]]:
    return _unigram(["</s>", "<unk>"], 1, ["<pad>"]), {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}


def _t5() -> tuple[Tokenizer, dict[str, str]]:
    return _unigram(["<pad>", "</s>", "<unk>"], 2, []), {"pad": "<pad>", "eos": "</s>", "unk": "<unk>"}


_FAMILIES: dict[str, tuple[str, Callable[[], tuple[Tokenizer, dict[str, str]]], dict[str, Any]]] = {
    "gpt2": (
        "GPT2LMHeadModel",
        _gpt2,
        {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 40, "bos_token_id": 0, "eos_token_id": 0},
    ),
    "llama": ("LlamaForCausalLM", _llama, _LLAMA),
    "mistral": ("MistralForCausalLM", _llama, {**_LLAMA, "sliding_window": 5}),
    "qwen2": ("Qwen2ForCausalLM", _llama, _LLAMA),
    "qwen3": ("Qwen3ForCausalLM", _llama, {**_LLAMA, "head_dim": 6}),
    "granite": ("GraniteForCausalLM", _llama, {**_LLAMA, "embedding_multiplier": 4.0, "attention_multiplier": 0.5}),
    "gemma": ("GemmaForCausalLM", _llama, {**_LLAMA, "head_dim": 6, "hidden_act": "gelu_pytorch_tanh"}),
    "bert": ("BertForMaskedLM", _bert, {**_SMALL, "max_position_embeddings": 40}),
    "eurobert": (
        "EuroBertForMaskedLM",
        _bert,
        {**_LLAMA, "bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0, "mask_token_id": 4},
    ),
    "bart": ("BartForConditionalGeneration", _bart, {**_SIDES, "forced_bos_token_id": 0, "forced_eos_token_id": None}),
    "marian": ("MarianMTModel", _marian, {**_SIDES, "eos_token_id": 0, "forced_eos_token_id": None}),
    "t5": (
        "T5ForConditionalGeneration",
        _t5,
        {
            "d_model": 16,
            "d_kv": 5,
            "d_ff": 24,
            "num_layers": 2,
            "num_decoder_layers": 1,
            "num_heads": 3,
            "decoder_start_token_id": 0,
        },
    ),
}
FAMILIES = tuple(_FAMILIES)
"""One family of every kind that tfcli reads."""


def _enliven(model: torch.nn.Module) -> None:
    """Weights large enough that every part of the function shows; fixed tables of positions stay."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.requires_grad and parameter.ndim == 1:
                parameter.add_(0.3 * noise)
            elif parameter.requires_grad:
                parameter.copy_(noise / parameter.shape[-1] ** 0.5)


def save_checkpoint(folder: Path, family: str, form: Form = "safetensors", **settings: Any) -> Path:
    """Save a model of a family, with lively weights, and its tokenizer.

    Args:
        settings: of config.json, in the place of the small model's own.
    """
    transformers = pytest.importorskip("transformers", reason="the dev extra brings transformers")
    model_class, tokenizer, small = _FAMILIES[family]
    backend, names = tokenizer()
    size = backend.get_vocab_size()
    if family == "marian":
        settings = {"pad_token_id": size - 1, "decoder_start_token_id": size - 1, **settings}
    kind = getattr(transformers, model_class)
    config = kind.config_class(**{**small, "vocab_size": size + UNUSED_ROWS, **settings})
    model = kind(config)
    _enliven(model)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, **{f"{name}_token": token for name, token in names.items()}
    )
    fast.save_pretrained(folder)
    model.save_pretrained(folder, max_shard_size="8KB" if form == "shards" else "1GB")
    if form == "bin":
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    return folder


def edit_json(file: Path, **values: Any) -> None:
    """Set values of a JSON object in a file; None removes one."""
    content = json.loads(file.read_text(encoding="utf-8")) | values
    file.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))
