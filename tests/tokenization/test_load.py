"""Files in and out: roles, fingerprints, and what is no tokenizer."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel

from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.records.roles import TokenRoles, find_roles
from tfcli.tokenization.tokenizer import Tokenizer, fingerprint, load_tokenizer

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
        (["!", "<|endoftext|>"], TokenRoles(pad=1, bos=1, eos=1, text_start=(1,))),
        (["<pad>", "</s>", "<unk>"], TokenRoles(pad=0, bos=0, eos=1, unk=2)),
    ],
    ids=["bert", "roberta", "gpt2", "t5"],
)
def test_roles_go_by_well_known_names(tokens: list[str], roles: TokenRoles) -> None:
    assert find_roles({token: n for n, token in enumerate(tokens)}.get, "It") == roles


@pytest.mark.parametrize("record", ["config.json", "manifest.json"])
def test_roles_that_are_recorded_beside_a_tokenizer_are_its_roles(
    trained: dict[str, Tokenizer], tmp_path: Path, record: str
) -> None:
    roles = TokenRoles(pad=3, bos=2, eos=1, source_start=(2,), target_start=(1, 2))
    trained["bpe"].with_roles(roles).save(tmp_path / "tokenizer.json")
    (tmp_path / record).write_text(json.dumps({"format_version": 1, "roles": asdict(roles)}))
    assert load_tokenizer(tmp_path).roles == load_tokenizer(tmp_path / "tokenizer.json").roles == roles
    # A tokenizer of another name is not the one that the record is about.
    trained["bpe"].save(tmp_path / "other.json")
    assert load_tokenizer(tmp_path / "other.json").roles == trained["bpe"].roles


@pytest.mark.parametrize(
    "record", [{"model_type": "gpt2"}, {"roles": {"admin": 1}}, {"format_version": 1}, [1]], ids=str
)
def test_other_programs_records_say_nothing_about_roles(
    trained: dict[str, Tokenizer], tmp_path: Path, record: Any
) -> None:
    trained["bpe"].save(tmp_path / "tokenizer.json")
    (tmp_path / "config.json").write_text(json.dumps(record))
    assert load_tokenizer(tmp_path).roles == trained["bpe"].roles


@pytest.mark.parametrize(
    ("roles", "part"),
    [
        ({"pad": 0, "bos": 1}, "config.json is damaged at roles.eos"),
        ({"pad": 0, "bos": 1, "eos": "end"}, "config.json is damaged at roles.eos"),
        ({"pad": 0, "bos": 1, "eos": 2, "target_start": [1, None]}, "config.json is damaged at roles.target_start.1"),
        ({"pad": 0, "bos": 1, "eos": 9999}, "no token id 9999"),
        ({"pad": 0, "bos": 1, "eos": 2, "source_start": [-1]}, "no token id -1"),
        ({"pad": 0, "bos": 1, "eos": 2, "target_start": []}, "begins targets with no token"),
    ],
)
def test_damaged_roles_are_refused(
    trained: dict[str, Tokenizer], tmp_path: Path, roles: dict[str, Any], part: str
) -> None:
    trained["bpe"].save(tmp_path / "tokenizer.json")
    (tmp_path / "config.json").write_text(json.dumps({"format_version": 1, "roles": roles}))
    with pytest.raises(BrokenInputError, match=part):
        load_tokenizer(tmp_path)


def test_known_roles_go_before_names() -> None:
    tokens = {"<pad>": 0, "<s>": 1, "</s>": 2, "x": 3}
    assert find_roles(tokens.get, "It", {"eos": 3, "unk": 3}) == TokenRoles(pad=0, bos=1, eos=3, unk=3)
    # Neither padding nor a beginning: the end, which is known, serves as both.
    assert find_roles({"x": 3}.get, "It", {"eos": 3}) == TokenRoles(pad=3, bos=3, eos=3, text_start=(3,))


def test_the_fingerprint_knows_what_is_put_around_texts(trained: dict[str, Tokenizer]) -> None:
    bpe = trained["bpe"]
    same = [
        bpe.roles,
        replace(bpe.roles, pad=2, mask=None, known=99),
        replace(bpe.roles, target_start=(bpe.roles.bos,)),
    ]
    assert {bpe.with_roles(roles).fingerprint for roles in same} == {bpe.fingerprint}
    others = [
        replace(bpe.roles, eos=3),
        replace(bpe.roles, bos=3),
        replace(bpe.roles, source_start=(1,)),
        replace(bpe.roles, target_start=(2, 1)),
    ]
    assert len({bpe.with_roles(roles).fingerprint for roles in others} | {bpe.fingerprint}) == 5


@pytest.mark.parametrize(
    ("content", "kind", "sentence"),
    [
        (None, UsageError, "no file"),
        ("not json", BrokenInputError, "not valid JSON"),
        ('{"d_model": 64}', UsageError, "no tokenizer"),
        ('{"model": {"type": "BPE"}, "version": 3}', BrokenInputError, "cannot be read|no tokenizer"),
        ("{}", UsageError, "no tokenizer"),
        ('{"model":' * 50_000, BrokenInputError, "nested too deeply"),
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


def test_a_dataset_that_lost_its_tokenizer_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format_version": 1}')
    with pytest.raises(BrokenInputError, match=r"has lost its tokenizer\.json; restore the file, or remove its folder"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_without_special_tokens_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "plain.json"
    model = {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "a"}
    file.write_text(json.dumps({"version": "1.0", "model": model, "added_tokens": []}))
    with pytest.raises(UsageError, match=r"no special token that can serve as pad, bos or eos.*add <pad>"):
        load_tokenizer(file)


def test_a_token_with_a_role_is_special_whatever_its_file_says(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    """No text becomes it by its spelling, and it is compared as its file has it, now as by those who wrote it."""
    state = json.loads(trained["bpe"].to_json())
    for token in state["added_tokens"]:
        token["special"] = False
    tokenizer = changed(trained["bpe"], tmp_path, added_tokens=state["added_tokens"])
    assert tokenizer.roles.eos not in tokenizer.encode("a </s> b")
    tokenizer.save(tmp_path / "again.json")
    again = load_tokenizer(tmp_path / "again.json")
    as_it_came = Backend.from_str(json.dumps(json.loads(trained["bpe"].to_json()) | state))
    assert again.fingerprint == tokenizer.fingerprint == fingerprint(json.loads(as_it_came.to_str()))
    assert again.with_roles(again.roles).fingerprint == again.fingerprint


def test_ids_that_no_token_has_are_told_for_a_model(tmp_path: Path):
    """Six tokens with the ids 0, 1, 2, 4, 5 and 6, in a model of nine rows."""
    vocabulary = {"<pad>": 0, "<s>": 1, "</s>": 2, "a": 4, "b": 5, "<unk>": 6}
    backend = Backend(WordLevel(vocabulary, unk_token="<unk>"))
    backend.add_special_tokens(["<pad>", "<s>", "</s>"])
    backend.save(str(tmp_path / "gaps.json"))
    tokenizer = load_tokenizer(tmp_path / "gaps.json")
    assert tokenizer.of_model(9).roles.without_token(9) == [3, 7, 8]
    assert tokenizer.of_model(7).roles.without_token(7) == [3]
    assert tokenizer.of_model(9).labels([3]) == [""]
    assert tokenizer.of_model(9).fingerprint == tokenizer.fingerprint
