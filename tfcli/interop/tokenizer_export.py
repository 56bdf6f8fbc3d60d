"""Export of a tokenizer, as `AutoTokenizer` of transformers loads it.

It frames texts as the run was trained on them; the tokenizer of an imported run frames them as it came.
"""

import json
from pathlib import Path

from tokenizers import Tokenizer as Backend

from tfcli.files import write_json, write_text
from tfcli.interop.token_roles import framing_template, put_in_front
from tfcli.interop.tokenizer_files import CHAT_FILE, CHAT_FOLDER
from tfcli.runs.load import LoadedRun
from tfcli.tokenization.backend import copied

_ROLES = ("pad", "bos", "eos", "mask", "unk")


def write_tokenizer(folder: Path, run: LoadedRun) -> None:
    """Write tokenizer.json, tokenizer_config.json, special_tokens_map.json, and the chat templates."""
    backend = _backend(run)
    write_text(folder / "tokenizer.json", backend.to_str(pretty=True) + "\n")
    roles = run.config.roles
    ids: dict[str, int | None] = {role: getattr(roles, role) for role in _ROLES}
    if roles.endless:  # their ids are those of ordinary tokens
        ids |= {"pad": None, "eos": None, "bos": next(iter(roles.text_prefix), None)}
    names = {f"{role}_token": backend.id_to_token(token) for role, token in ids.items() if token is not None}
    if "eos_token" in names:  # CTranslate2 wants a name; GPT-2's, too, knows every byte and says its end
        names.setdefault("unk_token", names["eos_token"])
    if run.architecture == "encoder" and not roles.endless:  # what BERT calls them
        names |= {"cls_token": names["bos_token"], "sep_token": names["eos_token"]}
    write_json(folder / "special_tokens_map.json", names)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": run.config.model.max_seq_len,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    write_json(folder / "tokenizer_config.json", {**settings, **names})
    for name, template in run.tokenizer.chat.templates.items() if run.tokenizer.chat else ():
        file = folder / (CHAT_FILE if name == "default" else f"{CHAT_FOLDER}/{name}.jinja")
        file.parent.mkdir(exist_ok=True)
        write_text(file, template)


def _backend(run: LoadedRun) -> Backend:
    state = json.loads(run.tokenizer.to_json())
    for token in state["added_tokens"]:
        # As `Tokenizer.encode_masked` has it: where words carry the space before them, so does the mask.
        if token["id"] == run.config.roles.mask and run.tokenizer.words_carry_spaces:
            token["lstrip"] = True
    backend = copied(json.dumps(state))
    backend.encode_special_tokens = False
    roles = run.config.roles
    front = roles.source_start if run.architecture == "encoder-decoder" else roles.text_prefix
    if not run.recipe.is_imported or put_in_front(backend) != front:
        # ``<s> text`` for a decoder, ``<s> text </s>`` for an encoder, ``text </s>`` for a source.
        sides = front, () if run.architecture == "decoder" else roles.end
        before, after = ([str(backend.id_to_token(token)) for token in side] for side in sides)
        pair = [*before, "$A", *after, "$B", *after]
        backend.post_processor = framing_template(backend, before, after, pair=pair)
    return backend
