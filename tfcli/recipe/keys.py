"""The keys of a recipe: what each accepts, its default and unit, what it means and where the idea is from."""

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt, Unit

from tfcli.errors import UsageError, near, shortened
from tfcli.recipe.recipe import SECTIONS, Recipe, known_keys

SYNONYMS = {
    "data.source": "data dataset dataset_name data_dir data_path train_data train_file corpus source input text "
    "target=a.de,a.en tgt=a.de,a.en",
    "data.validation": "valid val val_data valid_data validation_file eval_data dev dev_data",
    "data.validation_fraction": "val_fraction val_split val_split_fraction val_size valid_fraction validation_split "
    "eval_fraction test_size",
    "data.max_documents": "max_train_samples max_samples max_examples num_documents",
    "data.columns": "text_column column text_key",
    "tokenizer.vocab_size": "vocab n_vocab vocabulary vocabulary_size src_vocab_size tgt_vocab_size num_merges",
    "tokenizer.algorithm": "tokenizer_type bpe=bpe subword_type",
    "tokenizer.path": "tokenizer tokenizer_dir tokenizer_name tokenizer_file tokenizer_path",
    "tokenizer.min_frequency": "min_freq",
    "tokenizer.lowercase": "do_lower_case lower uncased",
    "model.architecture": "arch model_type",
    "model.max_seq_len": "context context_length context_size ctx n_ctx ctx_len block_size seq_len seq_length "
    "sequence_length max_seq_length max_sequence_length n_positions max_positions max_position_embeddings "
    "max_length max_len max_source_length tokens_per_sample",
    "model.d_model": "n_embd n_embed emb_dim embed_dim embedding_dim embedding_size hidden_size hidden_dim hidden "
    "width dim model_dim dmodel rnn_size word_vec_size encoder_embed_dim decoder_embed_dim",
    "model.num_layers": "layers n_layer n_layers nlayer nlayers layer depth num_hidden_layers num_layer enc_layers "
    "encoder_layers num_encoder_layers num_blocks n_blocks",
    "model.num_decoder_layers": "dec_layers decoder_layers",
    "model.num_heads": "heads n_head n_heads nhead nheads num_attention_heads attention_heads "
    "encoder_attention_heads decoder_attention_heads",
    "model.num_kv_heads": "n_kv_head n_kv_heads num_key_value_heads kv_heads n_query_groups num_query_groups",
    "model.head_dim": "head_size d_head d_kv d_k",
    "model.d_ff": "dim_feedforward ffn_dim ff_dim dff ffn_hidden intermediate_size n_inner mlp_dim transformer_ff "
    "encoder_ffn_dim decoder_ffn_dim encoder_ffn_embed_dim decoder_ffn_embed_dim",
    "model.positions": "position_encoding positional_encoding pos_encoding position_embedding_type pos_emb "
    "rope=rotary alibi=alibi",
    "model.position_base": "rope_theta rope_base rotary_base",
    "model.position_scaling": "rope_scaling=FACTOR rope_condense_ratio",
    "model.norm": "norm_type norm_class normalization rmsnorm=rmsnorm layernorm=layernorm",
    "model.norm_placement": "prenorm=pre pre_norm=pre norm_first=pre postnorm=post encoder_normalize_before=pre",
    "model.norm_eps": "layer_norm_eps layer_norm_epsilon rms_norm_eps",
    "model.activation": "hidden_act activation_function activation_fn act_fn swiglu=swiglu",
    "model.attention_bias": "bias qkv_bias attn_bias",
    "model.feed_forward_bias": "mlp_bias ffn_bias",
    "model.attention_softcap": "attn_logit_softcapping attention_logit_softcapping",
    "model.query_key_norm": "qk_norm norm_qk",
    "model.sliding_window": "sliding_window_size attention_window window_size",
    "model.tie_embeddings": "tie_word_embeddings tie_weights weight_tying share_decoder_embeddings "
    "share_decoder_input_output_embed",
    "model.share_embeddings": "share_all_embeddings",
    "model.dropout": "hidden_dropout hidden_dropout_prob resid_pdrop dropout_rate p_dropout drop_rate",
    "model.embedding_dropout": "embd_pdrop",
    "model.attention_dropout": "attn_pdrop attention_probs_dropout_prob attn_dropout",
    "model.initialization": "init_method param_init_method weight_init",
    "model.init_std": "initializer_range",
    "train.steps": "step iters iterations max_iters max_iter max_steps num_steps n_steps train_steps "
    "num_train_steps training_steps max_update max_updates total_steps",
    "train.epochs": "epoch n_epochs num_epochs num_train_epochs train_epochs max_epoch max_epochs",
    "train.batch_size": "batch bs bsz batchsize micro_batch_size train_batch_size per_device_train_batch_size "
    "device_batch_size max_sentences",
    "train.batch_tokens": "tokens_per_batch max_tokens",
    "train.grad_accumulation": "accum accumulation grad_accum grad_acc accumulate gradient_accumulation "
    "gradient_accumulation_steps grad_accum_steps accumulate_grad_batches accum_count update_freq "
    "global_batch_size=MICRO-BATCHES",
    "train.learning_rate": "lr learnrate max_lr peak_lr base_lr initial_lr",
    "train.final_learning_rate": "min_lr=SHARE lr_min=SHARE final_lr=SHARE end_lr=SHARE stop_min_lr=SHARE "
    "min_lr_ratio final_lr_ratio",
    "train.schedule": "scheduler lr_schedule lr_scheduler lr_scheduler_type decay_method",
    "train.schedule_steps": "lr_decay_iters lr_decay_steps decay_steps",
    "train.warmup_steps": "warmup warmup_iters warmup_updates num_warmup_steps lr_warmup_steps "
    "warmup_ratio=STEPS warmup_fraction=STEPS warmup_epochs=STEPS",
    "train.optimizer": "optim opt muon=muon adamw=adamw",
    "train.muon_learning_rate": "muon_lr matrix_lr",
    "train.weight_decay": "wd decay",
    "train.beta1": "adam_beta1",
    "train.beta2": "adam_beta2",
    "train.adam_eps": "eps epsilon adam_epsilon",
    "train.clip_norm": "clip grad_clip gradient_clip gradient_clipping gradient_clip_val max_norm max_grad_norm "
    "grad_norm_clip",
    "train.ema_decay": "ema",
    "train.label_smoothing": "label_smoothing_factor smoothing",
    "train.mask_probability": "mlm_probability mlm_prob mask_prob mask_ratio masking_probability",
    "train.evaluate_every": "eval_interval eval_every eval_steps eval_freq eval_frequency validate_every "
    "validation_interval val_interval val_check_interval valid_steps validate_interval_updates",
    "train.evaluate_tokens": "eval_iters=TOKENS eval_batches=TOKENS max_eval_samples=TOKENS",
    "train.patience": "early_stopping early_stopping_patience early_stop",
    "train.save_every": "save_interval save_steps save_freq save_checkpoint_steps save_interval_updates "
    "checkpoint_every checkpoint_interval ckpt_interval",
    "train.keep_checkpoints": "save_total_limit keep_checkpoint keep_last keep_last_n keep_interval_updates",
    "train.average_checkpoints": "checkpoint_averaging average_models",
    "train.log_every": "log_interval logging_steps log_steps log_freq report_every",
    "train.seed": "seed random_seed manual_seed rng_seed random_state",
    "train.device": "cpu=cpu cuda=cuda gpu=cuda mps=mps no_cuda=cpu use_cpu=cpu accelerator",
    "train.threads": "num_threads n_threads cpu_threads",
    "train.precision": "dtype torch_dtype model_dtype amp=bfloat16 bf16=bfloat16 fp16=bfloat16 half=bfloat16 "
    "fp32=float32 mixed_precision",
    "train.compile": "torch_compile=on",
    "train.activation_checkpointing": "gradient_checkpointing grad_checkpoint checkpoint_activations",
    "train.parallel": "fsdp=fsdp ddp=ddp",
    "generate.max_new_tokens": "max_tokens max_length max_len max_gen_len max_gen_tokens num_tokens n_tokens n_predict "
    "num_predict gen_length max_len_b",
    "generate.temperature": "temp sampling_temperature greedy=0",
    "generate.top_k": "topk k sampling_topk",
    "generate.top_p": "topp p nucleus sampling_topp",
    "generate.repetition_penalty": "repeat_penalty",
    "generate.no_repeat_ngram": "no_repeat_ngram_size block_ngram_repeat",
    "generate.stop": "stop_sequence stop_sequences stop_strings stop_words",
    "generate.system": "system_prompt",
    "generate.beam": "beams num_beams n_beams beam_size beam_width",
    "generate.beam_groups": "num_beam_groups",
    "generate.diversity": "diversity_penalty",
    "generate.length_penalty": "lenpen",
    "generate.num_samples": "n num_return_sequences n_samples num_sequences nbest n_best samples",
    "generate.prompts": "prompt start",
    "generate.batch_size": "bs batch",
    "--out": "o output output_dir out_dir output_path save_dir save_path save_model run_dir checkpoint_dir",
    "--preset": "model model_name",
    "--init": "init_from init_from_run pretrained pretrained_model model_name_or_path finetune finetune_from "
    "initial_checkpoint_dir train_from load_from",
    "--resume": "resume_from resume_from_checkpoint resume_training restore restore_file continue",
    "--recipe": "recipe config config_file conf cfg",
    "--log": "report_to=tensorboard logger logger_name wandb=wandb wandb_log=wandb tensorboard=tensorboard",
    "--nproc": "nproc_per_node gpus num_gpus n_gpu n_gpus ngpu devices num_devices world_size num_processes",
    "--checkpoint": "ckpt load_step",
    "--prompts": "prompt_file prompts_file input_file",
    "--interactive": "repl",
    "RUN": "run model model_path model_dir model_name_or_path checkpoint_dir",
}
"""The names that other programs give to a key of a recipe or to an option. Behind "=" stands the value to write, where
it is not the one that is written there; capitals say in what to count a number of your own."""


class Meant(NamedTuple):
    """What a word from elsewhere is called here: a key or an option, and its value, "" for the one that was given."""

    name: str
    value: str = ""

    @property
    def field(self) -> str:
        """Without the section."""
        return self.name.rpartition(".")[2]


@functools.cache
def _meanings() -> dict[str, list[Meant]]:
    found: dict[str, list[Meant]] = {}
    for name, words in SYNONYMS.items():
        for word, _, value in (word.partition("=") for word in words.split()):
            found.setdefault(word, []).append(Meant(name, value))
    for section, kind in SECTIONS.items():
        for field in fields(kind):
            meant = found.setdefault(field.name, [])
            meant += [Meant(key) for key in [f"{section}.{field.name}"] if Meant(key) not in meant]
    return found


def known_words(section: str = "") -> list[str]:
    """Every word that has a meaning (in this section): synonyms, and keys without their section."""
    return [word for word, meant in _meanings().items() if any(one.name.startswith(section) for one in meant)]


def meanings(word: str) -> list[Meant]:
    """What a word can mean in a recipe or as an option; meanings in the section that it names come first."""
    plain = word.lstrip("-").replace("-", "_").lower()
    section, _, last = plain.rpartition(".")
    return sorted(_meanings().get(last, []), key=lambda meant: not meant.name.startswith(f"{section}."))


def key_meant(name: str) -> tuple[str, Meant | None]:
    """What was meant by a name that is no key, with words to say it: the key that another program calls so, else a key
    of the same section that is spelled nearly so, else none."""
    for meant in meanings(name):
        if meant.name in known_keys() or meant.name.startswith("--"):
            return "it is called", meant
    section, dot, last = name.rpartition(".")
    if not dot and (top := near(name, [key for key in known_keys() if "." not in key])):
        return "did you mean", Meant(top[0])
    inside = [f"{one}." for one in ([section] if section in SECTIONS else near(section, SECTIONS))]
    if not dot or inside:
        for word in near(last, known_words(*inside)):
            for meant in meanings(".".join((*(one[:-1] for one in inside), word))):
                if meant.name in known_keys():
                    return "did you mean", meant
    return "find it with", None


_SIGNS = {Ge: ("≥", "ge"), Gt: (">", "gt"), Le: ("≤", "le"), Lt: ("<", "lt")}
_KINDS = {str: "string", int: "whole number", float: "number", tuple: "list of strings"}
_PAPER = re.compile(
    r"[A-Z]\w+(?: and [A-Z]\w+| et al\.| Team)? (?:19|20)\d\d(?:, (?:section |equation )?[A-Z]?\.?\d(?:[\d.]*\d)?)?"
)


@dataclass(frozen=True)
class RecipeKey:
    """One setting, as ``section.field``."""

    name: str
    """With its section."""
    default: Any
    """None: the key is left out, and its meaning says what then holds."""
    kinds: tuple[str, ...]
    """What it accepts beside its choices, in words with bounds and unit."""
    choices: tuple[str, ...]
    """Its names for values, where it has some."""
    unit: str
    """Of a number, where it has one."""
    meaning: str
    """The docstring under the field."""
    sources: tuple[str, ...]
    """Papers that the idea is from, with the section or equation."""
    synonyms: tuple[str, ...]
    """Its names elsewhere."""

    @property
    def spelled_default(self) -> str:
        """As TOML has it; nothing where it is left out or empty."""
        if self.default in (None, "", ()):
            return ""
        return str(self.default).lower() if isinstance(self.default, bool) else str(self.default)


def recipe_keys() -> list[RecipeKey]:
    """Every key, in the order of the sections: what is read from their fields and the docstrings under them."""
    kinds = {"": Recipe, **SECTIONS}
    return [key for section, kind in kinds.items() for key in _keys_of(section, kind)]


def find_keys(word: str) -> list[RecipeKey]:
    """The keys that a word names, here or elsewhere, then those that have it in their name, then in their meaning.

    Raises:
        UsageError: there is none; names a word that is spelled nearly so.
    """
    called = [meant.name for meant in meanings(word)]
    part = re.sub(r"\W|_", " ", word.lower()).strip()
    ranked: list[tuple[int, RecipeKey]] = []
    for key in recipe_keys():
        texts = (key.name, " ".join(key.synonyms), key.meaning)
        has = [re.search(rf"\b{part}", re.sub(r"\W|_", " ", text.lower())) for text in texts]
        if key.name in called or word == key.name:
            ranked.append((0, key))
        elif part and any(has):
            ranked.append((1 if has[0] else 2, key))
    if not ranked:
        guess = near(word, [key.name for key in recipe_keys()] + known_words())
        remedy = f"did you mean {guess[0]}" if guess else "see them all with `tfcli recipes keys`"
        raise UsageError(f"No recipe key has {shortened(word)!r} in its name or meaning", remedy)
    return [key for _, key in sorted(ranked, key=lambda pair: pair[0])]


def _keys_of(section: str, kind: type) -> Iterator[RecipeKey]:
    hints, meanings_of = get_type_hints(kind, include_extras=True), field_docstrings(kind)
    for field in fields(kind):
        if field.name in SECTIONS and not section:
            continue
        name = f"{section}.{field.name}" if section else field.name
        accepted = list(_accepted(hints[field.name]))
        meaning = re.sub(r"\bNone: ", "Left out: ", meanings_of[field.name])  # TOML has no None
        yield RecipeKey(
            name=name,
            default=field.default,
            kinds=tuple(words for words, _, _ in accepted if words),
            choices=tuple(choice for _, choices, _ in accepted for choice in choices),
            unit=next((unit for _, _, unit in accepted if unit), ""),
            meaning=meaning,
            sources=tuple(dict.fromkeys(_PAPER.findall(meaning))),
            synonyms=tuple(word.partition("=")[0] for word in SYNONYMS.get(name, "").split()),
        )


def field_docstrings(section: type) -> dict[str, str]:
    """The string under each field of a dataclass, on one line."""
    [body] = ast.parse(inspect.getsource(section)).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, after in pairwise(body.body):
        match field, after:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found


def _accepted(kind: Any) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """What a type hint accepts: a kind of value in words, or choices; and the unit."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        for argument in arguments:
            yield from _accepted(argument)
    elif origin is Literal:
        yield "", arguments, ""
    elif kind is bool:
        yield "", ("true", "false"), ""
    elif origin is Annotated:
        [(words, _, _)] = _accepted(arguments[0])
        unit = next((limit.unit for limit in arguments[1:] if isinstance(limit, Unit)), "")
        bounds = [_bound(limit) for limit in arguments[1:] if type(limit) in _SIGNS]
        yield f"{words} {', '.join(bounds)}".rstrip() + (f" ({unit})" if unit else ""), (), unit
    elif kind is not NoneType:
        yield _KINDS[origin or kind], (), ""


def _bound(limit: Any) -> str:
    sign, name = _SIGNS[type(limit)]
    bound = getattr(limit, name)
    return f"{sign} {'2⁶³' if bound == 2**63 else bound}"
