"""Hostile tokenizer.json files: refused in a sentence, before memory or time is gone; those of the families are not."""

import ast
import base64
import json
import os
import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tfcli
from tests.cli.commands import process
from tests.cli.commands import tfcli as command
from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.tokenization import sandbox, tokenizer_json
from tfcli.tokenization.tokenizer import Tokenizer, load_tokenizer
from tfcli.tokenization.tokenizer_json import suspicious_patterns, validate_tokenizer

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
OF_FAMILIES = {
    "gpt2": GPT2,
    "llama3": LLAMA3,
    "qwen2": LLAMA3.replace("{1,3}", ""),
    "deepseek": r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿ]+",
    "falcon": "[0-9][0-9][0-9]",
    "escaped": r"<(?=/s>)|<(?=extra_id_0>)|\[(?=MASK\])|\ (?=x)",
}


def word_level(**parts: Any) -> dict[str, Any]:
    """A small tokenizer.json, with parts of one's own."""
    tokens = ["<pad>", "<s>", "</s>", "<unk>", "a", "b"]
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    state = {
        "version": "1.0",
        "added_tokens": [added(token_id, token, special=True) for token, token_id in list(vocabulary.items())[:3]],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    }
    return {**state, **parts}


def added(token_id: Any, content: Any, **settings: Any) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"id": token_id, "content": content, **plain, **settings}


def with_id(token_id: Any) -> dict[str, Any]:
    state = word_level()
    state["model"]["vocab"]["far"] = token_id
    return state


def model(**values: Any) -> dict[str, Any]:
    return word_level(model={**word_level()["model"], **values})


def unigram(score: Any) -> dict[str, Any]:
    pieces = [["<pad>", 0.0], ["<s>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], ["a", score]]
    return word_level(model={"type": "Unigram", "vocab": pieces, "unk_id": 3, "byte_fallback": False})


def split(expression: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}


def replace(pattern: str, content: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def many(component: dict[str, Any], times: int, key: str = "normalizers") -> dict[str, Any]:
    return {"type": "Sequence", key: [component] * times}


def nested(times: int) -> dict[str, Any]:
    component: dict[str, Any] = {"type": "Lowercase"}
    for _ in range(times):
        component = many(component, 1)
    return component


def charsmap(content: bytes) -> dict[str, Any]:
    encoded = base64.b64encode(content).decode()
    return word_level(normalizer={"type": "Precompiled", "precompiled_charsmap": encoded})


def template(**values: Any) -> dict[str, Any]:
    sequence = {"Sequence": {"id": "A", "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [sequence], "pair": [sequence] * 2, "special_tokens": {}, **values}


def node(*, offset: int, leaf: bool = False) -> bytes:
    return (offset << 10 | leaf << 8).to_bytes(4, "little")


RUBBISH = random.Random(1).randbytes(4096)
HOSTILE = {
    "id of 2^31 - 2": (with_id(2**31 - 2), "the vocabulary gives 'far' the id 2147483646, which a vocabulary of"),
    "id beyond 32 bits": (with_id(2**32), "gives 'far' the id 4294967296"),
    "negative id": (with_id(-1), "gives 'far' the id -1"),
    "float id": (with_id(7.0), "gives 'far' the id 7.0"),
    "id of letters": (with_id("x" * 5000), "gives 'far' the id 'x*…, which"),
    "true as an id": (with_id(True), "gives 'far' the id True"),
    "one id twice": (with_id(5), "two tokens of the vocabulary have one id"),
    "added id": (word_level(added_tokens=[added(2**31 - 2, "x")]), "added_tokens gives 'x' the id 2147483646"),
    "added tokens that are none": (word_level(added_tokens={"x": 1}), "added_tokens is no list"),
    "unknown model": (model(type="Evil"), "there is no model 'Evil'"),
    "vocabulary that is a list": (model(vocab=[1, 2]), "1 is no piece with its score"),
    "score that is no number": (unigram(float("nan")), r"\['a', nan\] is no piece"),
    "endless score": (unigram(float("inf")), r"\['a', inf\] is no piece"),
    "long words": (
        model(type="WordPiece", max_input_chars_per_word=10**12),
        "word is 1000000000000, and 100000 at most",
    ),
    "long prefix": (model(type="BPE", merges=[], continuing_subword_prefix="#" * 10**6), "has 1,000,000 characters"),
    "no vocabulary": (model(type="BPE", vocab={}, merges=[], unk_token=None), "its vocabulary is empty"),
    "merge of unknown parts": (model(type="BPE", merges=[["a", "z"]]), "Token `z` out of vocabulary"),
    "backtracking cut": (word_level(pre_tokenizer=split("(a+)+$")), "retry-limit"),
    "backtracking alternatives": (word_level(pre_tokenizer=split("(b|bb)+$")), "retry-limit"),
    "backtracking words": (word_level(pre_tokenizer=split("(?:(?:xy)*(?:xy)*)*z")), "retry-limit"),
    "backtracking digits": (word_level(pre_tokenizer=split(r"(\d+)*!$")), "retry-limit"),
    "backtracking groups": (word_level(pre_tokenizer=split("(?:a|a)" * 30 + "[^a]")), "retry-limit"),
    "many groups": (word_level(pre_tokenizer=split("(?:a|a)" * 23 + "[^a]")), "more than 5 seconds"),
    "loop after loop": (word_level(pre_tokenizer=split("a*a*[^a]")), "more than 5 seconds"),
    "backtracking in a sequence": (
        word_level(pre_tokenizer=many(split("(a|aa)+$"), 2, "pretokenizers")),
        "retry-limit",
    ),
    "backtracking replacement": (word_level(normalizer=replace("(a+)+$", "b", "Regex")), "retry-limit"),
    "backtracking decoder": (word_level(decoder=replace("(a+)+$", "b", "Regex")), "retry-limit"),
    "expression that is none": (word_level(pre_tokenizer=split("(")), "end pattern with unmatched parenthesis"),
    "doubled 40 times": (word_level(normalizer=many(replace("a", "aa"), 40)), "makes 131,072 characters of 2,048"),
    "doubled by expressions": (
        word_level(normalizer=many(replace(".", "..", "Regex"), 40)),
        "makes 131,072 characters",
    ),
    "doubled by nothing": (word_level(normalizer=many(replace("", "x"), 40)), "characters of 2,048"),
    "doubled by empty matches": (word_level(normalizer=many(replace("x*", "y", "Regex"), 40)), "characters of 2,048"),
    "doubled by bytes": (word_level(normalizer=many({"type": "ByteLevel"}, 30)), "characters of 2,04"),
    "doubled when decoded": (word_level(decoder=many(replace("b", "bb"), 40, "decoders")), "characters of 2,05"),
    "doubled added token": (
        word_level(added_tokens=[added(6, "a" * 50, normalized=True)], normalizer=many(replace("a", "aa"), 30)),
        "makes 131,072 characters",
    ),
    "long replacement": (word_level(normalizer=replace("a", "b" * 10**6)), "content of Replace has 1,000,000"),
    "long beginning": (word_level(normalizer={"type": "Prepend", "prepend": "a" * 10**6}), "prepend of Prepend has"),
    "long pattern": (word_level(pre_tokenizer=split("a" * 10**5)), "pattern of Split has 100,000 characters"),
    "pattern that is none": (word_level(normalizer=replace("a", "b", "Magic")), "Replace has the pattern"),
    "deep": (word_level(normalizer=nested(100)), "normalizer is nested too deeply"),
    "many": (word_level(normalizer=many({"type": "Lowercase"}, 10**5)), "more than 100 components"),
    "unknown component": (word_level(decoder={"type": "Evil"}), "decoder has an unknown component 'Evil'"),
    "component that is none": (word_level(decoder=[1]), r"decoder has an unknown component \[1\]"),
    "rubbish as a map": (charsmap(RUBBISH), "its length is not that of a map"),
    "map of 4 GB": (charsmap(b"\xff\xff\xff\xff" + RUBBISH), "its length is not that of a map"),
    "rubbish in a map": (charsmap((1024).to_bytes(4, "little") + RUBBISH[:1024]), "points"),
    "map that points far": (charsmap((1024).to_bytes(4, "little") + node(offset=256) * 256), "behind its end"),
    "map that points at no text": (
        charsmap((1024).to_bytes(4, "little") + node(offset=1, leaf=True) + b"\xff" * 1020 + b"ab\0"),
        "points at no text",
    ),
    "long text of a map": (charsmap((1024).to_bytes(4, "little") + bytes(1024) + b"a" * 1000), "more than 256 bytes"),
    "map that is no base64": (
        word_level(normalizer={"type": "Precompiled", "precompiled_charsmap": "!!!"}),
        "no base64",
    ),
    "a million tokens around": (
        word_level(post_processor=template(single=[{"SpecialToken": {"id": "<s>", "type_id": 0}}] * 10**5)),
        "more than 64 tokens around a text",
    ),
    "a million ids around": (
        word_level(post_processor=template(special_tokens={"<s>": {"id": "<s>", "ids": [1] * 10**5, "tokens": []}})),
        "more than 64 tokens around a text",
    ),
    "unknown token around": (
        word_level(post_processor=template(single=[{"SpecialToken": {"id": "no", "type_id": 0}}])),
        "is no tokenizer that can be read",
    ),
}


@pytest.mark.parametrize(("state", "sentence"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_tokenizer_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], state: dict[str, Any], sentence: str
) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(state))
    began = time.process_time()
    with pytest.raises(BrokenInputError, match=sentence) as caught:
        load_tokenizer(file)
    assert len(str(caught.value)) < 500 + len(str(file))
    assert time.process_time() - began < 2
    assert capfd.readouterr() == ("", ""), "the library's own report does not come through"


def test_padding_and_truncation_of_a_file_are_left_out(tmp_path: Path) -> None:
    padding = {"strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None}
    padding |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"}
    truncation = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 5}
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(word_level(padding=padding, truncation=truncation)))
    assert load_tokenizer(file).encode("a") == [4]


@pytest.mark.parametrize("expression", OF_FAMILIES.values(), ids=OF_FAMILIES)
def test_what_the_families_have_needs_no_trial(expression: str) -> None:
    assert not suspicious_patterns(word_level(pre_tokenizer=split(expression)))


def test_nor_does_what_is_made_here(tokenizer: Tokenizer) -> None:
    state = json.loads(tokenizer.to_json())
    validate_tokenizer(state)
    assert not suspicious_patterns(state)


@pytest.mark.parametrize(
    "component",
    [
        replace(" ", "▁"),
        replace("``", '"'),
        replace(" {2,}", "▁", "Regex"),
        replace(r"\s+", " ", "Regex"),
        replace("a*", "", "Regex"),
        {"type": "NFKC"},
        {"type": "Prepend", "prepend": "▁"},
    ],
    ids=str,
)
def test_usual_normalizers_need_no_trial(component: dict[str, Any]) -> None:
    assert not suspicious_patterns(word_level(normalizer=many(component, 3)))


def test_an_unusual_expression_that_is_harmless_is_tried_and_taken(tmp_path: Path, monkeypatch: Any) -> None:
    tried: list[Any] = []
    real = sandbox.try_out
    monkeypatch.setattr(tokenizer_json, "try_out", lambda *given: (tried.append(given[1]), real(*given)))
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(word_level(pre_tokenizer=split(r"(?:[ab]\d)+|\w"))))
    assert load_tokenizer(file).encode("ab") == [4, 5]
    assert tried == [[r"(?:[ab]\d)+|\w", ""]]
    file.write_text(json.dumps(word_level(normalizer=replace("c", "ab"), pre_tokenizer=split(r"\w"))))
    assert load_tokenizer(file).encode("c") == [4, 5]
    assert len(tried) == 2


def test_a_charsmap_as_sentencepiece_writes_it_is_sound() -> None:
    """ "ab" becomes "c": 'a' leads from the root to a node, 'b' to a leaf whose text begins at 0."""
    nodes = [0] * 512
    nodes[0] = 256 << 10  # the children of the root lie in the second block
    nodes[256 ^ ord("a")] = ord("a")  # those of 'a' in its own block, at 256 ^ 'a' ^ 'b'
    nodes[256 ^ ord("a") ^ ord("b")] = ord("b") | 1 << 8 | 7 << 10
    nodes[256 ^ ord("a") ^ ord("b") ^ 7] = 1 << 31
    content = b"".join(one.to_bytes(4, "little") for one in nodes)
    validate_tokenizer(charsmap(len(content).to_bytes(4, "little") + content + b"c\0"))


@example(content=b"a\0", nodes=[2**32 - 1, *[0] * 255])  # a root that says it is a leaf
@given(content=st.binary(max_size=64), nodes=st.lists(st.integers(0, 2**32 - 1), min_size=256, max_size=256))
def test_no_map_is_read_beyond_its_ends(content: bytes, nodes: list[int]) -> None:
    """Whatever passes is applied by the library without a panic."""
    from tokenizers import normalizers

    state = charsmap((1024).to_bytes(4, "little") + b"".join(n.to_bytes(4, "little") for n in nodes) + content)
    try:
        validate_tokenizer(state)
    except ValueError:
        return
    encoded = base64.b64decode(state["normalizer"]["precompiled_charsmap"])
    normalizers.Precompiled(encoded).normalize_str("abc é 日本 \x00ﬁ" + "".join(map(chr, range(256))))


LIBRARY = re.compile(r"(^|\.)(Tokenizer|Backend)\.from_(file|str|buffer|pretrained)$")
NUMPY = ("np.load", "np.memmap", "np.fromfile", "numpy.load")


def calls() -> Iterator[tuple[str, str]]:
    """Every method that is called in the package, with what it is of, and which file it stands in."""
    package = Path(tfcli.__file__).parent
    for path in package.rglob("*.py"):
        for found in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute):
                yield f"{ast.unparse(found.func.value)}.{found.func.attr}", path.relative_to(package).as_posix()


def test_there_is_one_way_to_a_tokenizer_and_one_to_an_array() -> None:
    called = list(calls())
    readers = {file for name, file in called if LIBRARY.search(name)}
    other_side = "bench/data_sides.py"  # the library alone, which a benchmark compares with
    assert readers == {"tokenization/tokenizer_json.py", "tokenization/sandbox.py", other_side}
    assert {file for name, file in called if name in NUMPY} == {"data/shards.py", "inspection/explain/own.py"}


@pytest.mark.parametrize("how", ["encode", "prepare", "recipe"])
def test_every_command_refuses_it(tmp_path: Path, how: str) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(HOSTILE["backtracking cut"][0]))
    (tmp_path / "text.txt").write_text("a b\n" * 50)
    commands: dict[str, list[Any]] = {
        "encode": ["tokenize", "encode", file, "aaa"],
        "prepare": ["prepare", tmp_path / "text.txt", "--tokenizer", file, "--out", tmp_path / "out"],
        "recipe": [
            *("train", "--data", tmp_path / "text.txt", "--size", "tiny", "--out", tmp_path / "out"),
            *("--set", f"tokenizer.path={file}"),
        ],
    }
    done = command(*commands[how])
    assert done.exit_code == 1, done.output
    *before, sentence = done.stderr.splitlines()  # a recipe tells its stages
    assert sentence.startswith(f"tfcli: {file} is no tokenizer that can be read (Onig: Regex search error: retry-limit")
    assert not any("panicked" in line or "Traceback" in line for line in before)
    assert not (tmp_path / "out").exists()


def test_a_text_that_is_too_hard_is_one_sentence(tmp_path: Path) -> None:
    """The expression passes the trial, whose texts do not have twenty-odd letters of this kind and another behind."""
    state = word_level(pre_tokenizer=split(r"(\p{Greek}+)+$"))
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(state))
    child = process("tokenize", "encode", file, "α" * 60 + "!")
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (1, "")
    assert err.count("\n") == 1
    assert "does not get through this text (Onig: Regex search error: retry-limit-in-match over)" in err


def test_two_threads_leave_the_terminal_as_it_was() -> None:
    inside, ends = threading.Barrier(2, timeout=0.2), threading.Event()

    def encode() -> None:
        with tokenizer_json.no_native_stderr():
            with suppress(threading.BrokenBarrierError):
                inside.wait()  # for the other, who must not be in here at the same time
            ends.wait(0.2)

    before = os.fstat(2).st_ino
    threads = [threading.Thread(target=encode) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert os.fstat(2).st_ino == before


def test_a_trial_that_cannot_be_held_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sandbox.child
    monkeypatch.setattr(sandbox, "child", lambda _, **pipes: real("tfcli.nowhere", **pipes))
    with pytest.raises(TfcliError, match=r"A tokenizer could not be tried: .*No module named tfcli\.nowhere"):
        sandbox.try_out(word_level(), ["a"], {})


def test_long_words_are_the_file_s_choice(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    settings = {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100_000}
    file.write_text(json.dumps(model(type="WordPiece", **settings)))
    assert load_tokenizer(file).encode("a") == [4]


def test_checks_change_nothing() -> None:
    state = word_level(normalizer=many(replace("a", "b"), 2))
    before = deepcopy(state)
    validate_tokenizer(state)
    suspicious_patterns(state)
    assert state == before


@pytest.mark.parametrize("content", ["[1]", '{"model": []}', '{"model": null}'])
def test_what_is_no_tokenizer_at_all_is_the_wrong_file(tmp_path: Path, content: str) -> None:
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(UsageError, match="is JSON but no tokenizer"):
        load_tokenizer(tmp_path / "t.json")
