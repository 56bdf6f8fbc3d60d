"""Files in and out: roles, fingerprints, and what is no tokenizer."""

import json
from pathlib import Path
from typing import Any

import pytest

from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.records.roles import TokenRoles
from tfcli.tokenization.load import load_tokenizer
from tfcli.tokenization.roles import find_roles
from tfcli.tokenization.tokenizer import Tokenizer

TEXT = "The cat sat on\n\nthe mat, <s> é."


def test_a_saved_tokenizer_loads_as_it_was(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        loaded = load_tokenizer(path)
        assert (loaded.roles, loaded.vocab_size, loaded.algorithm, loaded.fingerprint) == (
            (tokenizer.roles, tokenizer.vocab_size, tokenizer.algorithm, tokenizer.fingerprint)
        )
        assert loaded.encode(TEXT) == tokenizer.encode(TEXT)
        assert loaded.to_json() == tokenizer.to_json()


def changed(tokenizer: Tokenizer, folder: Path, **parts: Any) -> Tokenizer:
    file = folder / "changed.json"
    file.write_text(json.dumps(json.loads(tokenizer.to_json()) | parts, indent=7))
    return load_tokenizer(file)


def test_the_fingerprint_is_of_what_the_tokenizer_does(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    bpe = trained["bpe"]
    truncation = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    again = changed(bpe, tmp_path, truncation=truncation)
    assert again.fingerprint == bpe.fingerprint
    assert again.encode(TEXT) == bpe.encode(TEXT)
    model = json.loads(bpe.to_json())["model"]
    model["merges"][-2:] = model["merges"][:-3:-1]
    assert changed(bpe, tmp_path, model=model).fingerprint != bpe.fingerprint
    assert changed(bpe, tmp_path, normalizer={"type": "Lowercase"}).fingerprint != bpe.fingerprint


@pytest.mark.parametrize(
    ("tokens", "roles"),
    [
        (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], TokenRoles(pad=0, bos=2, eos=3, mask=4, unk=1)),
        (["<s>", "<pad>", "</s>", "<unk>", "<mask>"], TokenRoles(pad=1, bos=0, eos=2, mask=4, unk=3)),
        (["!", "<|endoftext|>"], TokenRoles(pad=1, bos=1, eos=1)),
        (["<pad>", "</s>", "<unk>"], TokenRoles(pad=0, bos=0, eos=1, unk=2)),
    ],
    ids=["bert", "roberta", "gpt2", "t5"],
)
def test_roles_go_by_well_known_names(tokens: list[str], roles: TokenRoles) -> None:
    assert find_roles({token: n for n, token in enumerate(tokens)}.get, "It") == roles


@pytest.mark.parametrize(
    ("content", "kind", "sentence"),
    [
        (None, UsageError, "no file"),
        ("not json", BrokenInputError, "not valid JSON"),
        ('{"d_model": 64}', UsageError, "no tokenizer"),
        ('{"model": {"type": "BPE"}, "version": 3}', BrokenInputError, "cannot be read|no tokenizer"),
        ("{}", UsageError, "no tokenizer"),
    ],
)
def test_what_is_no_tokenizer_is_refused(
    tmp_path: Path, content: str | None, kind: type[TfcliError], sentence: str
) -> None:
    file = tmp_path / "t.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(kind, match=sentence) as caught:
        load_tokenizer(file)
    assert type(caught.value) is kind
    assert str(file) in str(caught.value)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no tokenizer\.json"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_without_special_tokens_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "plain.json"
    model = {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}
    file.write_text(json.dumps({"version": "1.0", "model": model, "added_tokens": []}))
    with pytest.raises(UsageError, match=r"no special token that can serve as pad, bos or eos.*add <pad>"):
        load_tokenizer(file)
