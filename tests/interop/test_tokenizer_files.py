"""Tokenizers of other libraries: every form of file, the roles of their special tokens, and what is broken."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Backend

from tests.support.checkpoints import edit_json
from tfcli.errors import BrokenInputError, TfcliError, UsageError
from tfcli.interop.tokenizer_files import any_tokenizer, read_roles, read_tokenizer
from tfcli.records.roles import TokenRoles
from tfcli.tokenization.tokenizer import Tokenizer, load_tokenizer

STORIES = Path(__file__).parents[3] / "shared/weights/stories260K"
TEXT = "The cat can't sit\n\n  on the mat, é 日本 ΞX."
CORPUS = ["The cat sat on the mat.", "Don't stop: the cats can't sit!"] * 20
BART = {"model_type": "bart", "is_encoder_decoder": True}
BERT_VOCABULARY = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "can", "'", "t", "e"]
BERT_VOCABULARY += ["日", ".", ",", "on", "The", "é"]


def write(folder: Path, **files: Any) -> Path:
    """Files by their stems: JSON, but text where it is text."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if isinstance(content, str):
            (folder / f"{name}.txt").write_text(content, encoding="utf-8")
        else:
            (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def learned(specials: list[str]) -> tuple[dict[str, int], str]:
    """vocab.json and merges.txt of a byte-level vocabulary."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS, trainer)
    merges = json.loads(backend.to_str())["model"]["merges"]
    return backend.get_vocab(), "#version: 0.2\n" + "".join(f"{left} {right}\n" for left, right in merges)


def gpt2(folder: Path, **files: Any) -> Path:
    vocabulary, merges = learned([])
    vocabulary["<|endoftext|>"] = len(vocabulary)
    return write(folder, vocab=vocabulary, merges=merges, **files)


def bart(folder: Path, **files: Any) -> Path:
    vocabulary, merges = learned(["<s>", "<pad>", "</s>", "<unk>"])
    vocabulary["<mask>"] = len(vocabulary)
    return write(folder, vocab=vocabulary, merges=merges, **files)


def bert(folder: Path, **files: Any) -> Path:
    return write(folder, vocab="\n".join(BERT_VOCABULARY) + "\n", **files)


def saved(folder: Path, backend: Backend, **files: Any) -> Path:
    return write(folder, tokenizer=json.loads(backend.to_str()), **files)


def t5() -> Backend:
    """As T5's own: padding, end and unknown first, ▁ for the space, a normalizer compiled by SentencePiece."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), ("▁the", -2.5), ("▁cat", -3.0), ("s", -3.0)]
    pieces += [(character, -6.0) for character in "<>/acehnprtux_id0"]
    backend = Backend(models.Unigram(pieces, unk_id=2, byte_fallback=False))
    # A double array of 256 empty nodes: no character is replaced by another.
    charsmap = (1024).to_bytes(4, "little") + bytes(1024)
    normalizer = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    state = json.loads(backend.to_str()) | {"normalizer": normalizer}
    backend = Backend.from_str(json.dumps(state))
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    backend.decoder = decoders.Metaspace()
    backend.add_special_tokens(["<pad>", "</s>", "<unk>", "<extra_id_0>"])
    backend.post_processor = processors.TemplateProcessing(single=["$A", "</s>"], special_tokens=[("</s>", 1)])
    return backend


def llama() -> Backend:
    """As Llama's own: byte pairs with a byte for what is unknown, and a ▁ before every text."""
    pieces = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁",
        "t",
        "h",
        "e",
        "▁t",
        "▁th",
        "▁the",
    ]
    merges = [("▁", "t"), ("▁t", "h"), ("▁th", "e")]
    vocabulary = {piece: token_id for token_id, piece in enumerate(pieces)}
    backend = Backend(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    backend.add_special_tokens(["<unk>", "<s>", "</s>"])
    backend.post_processor = processors.TemplateProcessing(single=["<s>", "$A"], special_tokens=[("<s>", 1)])
    return backend


def streamed(tokenizer: Tokenizer, ids: list[int], after: list[int]) -> str:
    stream = tokenizer.stream(after)
    return "".join(stream.push(token_id) for token_id in ids) + stream.finish()


def refusal(kind: type[TfcliError], folder: Path, *parts: str, **values: Any) -> str:
    with pytest.raises(kind) as caught:
        read_tokenizer(folder, values)
    sentence = str(caught.value)
    assert type(caught.value) is kind
    assert sentence.endswith(".") and "\n" not in sentence
    for part in parts:
        assert part in sentence, sentence
    return sentence


def theirs(folder: Path, family: str) -> Any:
    from transformers import AutoTokenizer

    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    return AutoTokenizer.from_pretrained(str(folder))


def test_byte_level_files_of_gpt2(tmp_path: Path) -> None:
    tokenizer = read_tokenizer(gpt2(tmp_path), {"model_type": "gpt2", "eos_token_id": 50256})
    end = tokenizer.vocab_size - 1  # 50256 is no id of so small a vocabulary: the name decides
    assert tokenizer.roles == TokenRoles(pad=end, bos=end, eos=end, text_start=())
    other = theirs(tmp_path, "gpt2")
    assert tokenizer.encode(TEXT) == other(TEXT)["input_ids"]
    assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT
    assert tokenizer.decode([*tokenizer.encode("The cat"), end]) == "The cat"
    assert end not in tokenizer.encode("<|endoftext|>")
    assert tokenizer.labels(tokenizer.encode(" cat"))[-1].endswith("cat")


def test_byte_level_files_of_bart(tmp_path: Path) -> None:
    tokenizer = read_tokenizer(bart(tmp_path), BART)
    mask = tokenizer.vocab_size - 1
    assert tokenizer.roles == TokenRoles(0 + 1, 0, 2, mask, 3, source_start=(0,), target_start=(2, 0))
    other = theirs(tmp_path, "bart")
    assert [0, *tokenizer.encode(TEXT), 2] == other(TEXT)["input_ids"]
    assert tokenizer.encode_masked("The <mask> sat").count(mask) == 1


def test_wordpiece_files_of_bert(tmp_path: Path) -> None:
    tokenizer = read_tokenizer(bert(tmp_path), {"pad_token_id": 0})  # an old config, without model_type
    assert tokenizer.roles == TokenRoles(pad=0, bos=3, eos=4, mask=5, unk=2)
    # Lower case, accents off, Chinese characters apart.
    assert tokenizer.encode("The cats can't, é日日.") == [6, 7, 8, 9, 10, 11, 15, 12, 13, 13, 14]
    assert tokenizer.encode("[CLS] [MASK]") == [2] * 6
    other = theirs(tmp_path, "bert")
    for text in (TEXT, "The cats can't, é日日."):
        assert [3, *tokenizer.encode(text), 4] == other(text)["input_ids"]
        # The library leaves unknown tokens out with the special ones; here they are shown as "�".
        known = [token for token in other(text)["input_ids"] if token != tokenizer.roles.unk]
        decoded = tokenizer.decode(tokenizer.encode(text))
        assert decoded.replace(" �", "").replace("�", "") == other.decode(known, skip_special_tokens=True)
        assert decoded.count("�") == tokenizer.encode(text).count(tokenizer.roles.unk)


def test_wordpiece_settings(tmp_path: Path) -> None:
    settings = {"do_lower_case": False, "tokenize_chinese_chars": False}
    tokenizer = read_tokenizer(bert(tmp_path, tokenizer_config=settings), {})
    assert tokenizer.encode("The the é 日 日日") == [17, 6, 18, 13, 2]
    names = {"unk_token": "the", "cls_token": {"content": "cat", "special": True}, "sep_token": "on"}
    tokenizer = read_tokenizer(bert(tmp_path / "named", special_tokens_map=names), {})
    assert (tokenizer.roles.unk, tokenizer.roles.bos, tokenizer.roles.eos) == (6, 7, 16)


@pytest.mark.parametrize("bos", ["<|endoftext|>", "</s>"])
@pytest.mark.parametrize("asked", [True, False])
def test_older_files_say_beside_the_vocabulary_what_begins_a_text(tmp_path: Path, bos: str, asked: bool) -> None:
    """As OPT does: its texts begin with the token that ends them. Beside a tokenizer.json nobody reads it."""
    settings = {"add_bos_token": asked, "bos_token": bos, "eos_token": bos, "tokenizer_class": "GPT2Tokenizer"}
    folder = gpt2(tmp_path, tokenizer_config=settings, added_tokens={"</s>": 290})
    size = len(json.loads((folder / "vocab.json").read_text()))
    (folder / "added_tokens.json").write_text(json.dumps({"</s>": size}))
    tokenizer, other = read_tokenizer(folder, {}), theirs(tmp_path, "gpt2")
    assert [*tokenizer.roles.text_prefix, *tokenizer.encode(TEXT)] == other(TEXT)["input_ids"]
    assert tokenizer.roles.is_shared == asked
    other.save_pretrained(tmp_path / "again")
    edit_json(tmp_path / "again/tokenizer_config.json", add_bos_token=not asked)
    assert read_tokenizer(tmp_path / "again", {}).roles.is_shared == asked


def test_added_tokens_are_behind_the_vocabulary(tmp_path: Path) -> None:
    end = len(BERT_VOCABULARY)
    added = {"newer": end + 1, "new": end}
    tokenizer = read_tokenizer(bert(tmp_path, added_tokens=added), {})
    assert tokenizer.vocab_size == end + 2
    assert tokenizer.encode("the new cat newer") == [6, end, 7, end + 1]
    refusal(BrokenInputError, bert(tmp_path / "gap", added_tokens={"new": 99}), "added_tokens.json", "'new'", "99")
    # A special one among them is special; one that is named and has no id at all gets none.
    names = {"bos_token": "<begin>", "pad_token": "<fill>"}
    folder = gpt2(tmp_path / "gpt2", added_tokens={"<fill>": 290}, special_tokens_map=names)
    size = len(json.loads((folder / "vocab.json").read_text()))
    (folder / "added_tokens.json").write_text(json.dumps({"<fill>": size}))
    tokenizer = read_tokenizer(folder, {})
    assert tokenizer.roles == TokenRoles(pad=size, bos=size, eos=size - 1, text_start=())
    assert tokenizer.decode([*tokenizer.encode("The"), size]) == "The"


def test_tokenizer_json_comes_first(tmp_path: Path) -> None:
    tokenizer = read_tokenizer(bert(saved(tmp_path, llama())), {})
    assert tokenizer.algorithm == "bpe"


def test_unigram_of_t5(tmp_path: Path) -> None:
    tokenizer = read_tokenizer(saved(tmp_path, t5()), {"model_type": "t5", "pad_token_id": 0, "eos_token_id": 1})
    assert tokenizer.roles == TokenRoles(pad=0, bos=0, eos=1, unk=2, source_start=(), target_start=(0,))
    assert tokenizer.encode("the cats") == [4, 5, 6]
    assert tokenizer.labels([4, 5, 6]) == [" the", " cat", "s"]
    assert tokenizer.decode([0, 4, 5, 6, 1]) == "the cats"
    assert streamed(tokenizer, [4, 5, 6], [0]) == "the cats"
    # A unigram model holds special tokens as pieces of their own; their spelling stays text all the same.
    for spelled in ("</s>", "the</s>cat", "<pad>", "<extra_id_0></s>"):
        ids = tokenizer.encode(spelled)
        assert not {0, 1, 24} & set(ids) and tokenizer.decode(ids).replace(" ", "") == spelled, spelled


def test_what_keeps_spellings_apart_is_put_in_once(tmp_path: Path) -> None:
    tokenizer = read_tokenizer(saved(tmp_path, t5()), {"model_type": "t5"})
    tokenizer.save(tmp_path / "again.json")
    again = load_tokenizer(tmp_path / "again.json")
    assert again.to_json() == tokenizer.to_json()
    assert again.fingerprint == tokenizer.fingerprint
    assert again.encode("the</s>") == tokenizer.encode("the</s>")


def test_byte_fallback_of_llama(tmp_path: Path) -> None:
    values = {"model_type": "llama", "bos_token_id": 1, "eos_token_id": [2, 7, 9], "pad_token_id": -1}
    tokenizer = read_tokenizer(saved(tmp_path, llama()), values)
    assert tokenizer.roles == TokenRoles(pad=2, bos=1, eos=2, unk=0)
    ids = tokenizer.encode("the é\n the</s>")
    assert not {0, 1, 2} & set(ids)
    assert tokenizer.decode([1, *ids, 2]) == "the é\n the</s>"
    # é is the bytes C3 A9, which stand at 3 + byte.
    assert tokenizer.encode("é")[-2:] == [3 + 0xC3, 3 + 0xA9]
    assert tokenizer.labels([265, 3 + 0xC3, 3 + 0x0A, 3 + 0x41, 1]) == [" the", "⟨C3⟩", "\n", "A", "<s>"]
    for cut in range(len(ids)):
        assert tokenizer.decode(ids[:cut]) + streamed(tokenizer, ids[cut:], [1, *ids[:cut]]) == "the é\n the</s>" or (
            "�" in tokenizer.decode(ids[:cut])  # a cut through a character
        )


@pytest.mark.skipif(not STORIES.is_dir(), reason="the stories260K checkpoint is not here")
def test_stories260k() -> None:
    expected = json.loads((STORIES / "expected.json").read_text())
    tokenizer = read_tokenizer(STORIES, json.loads((STORIES / "config.json").read_text()))
    prompt, ids, text = expected["prompt_ids"], expected["greedy_ids"], expected["greedy_text"]
    assert [tokenizer.roles.bos, *tokenizer.encode(expected["prompt"])] == prompt
    assert tokenizer.decode(ids) == text
    assert expected["prompt"] + streamed(tokenizer, ids[len(prompt) :], prompt) == text
    assert streamed(tokenizer, ids, []) == text


def test_marian_with_a_tokenizer_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, vocab={"</s>": 0})
    (tmp_path / "source.spm").write_bytes(b"x")
    values = {"model_type": "marian", "eos_token_id": 1, "pad_token_id": 0, "decoder_start_token_id": 0}
    refusal(UsageError, tmp_path, "how marian numbers its pieces", **values)
    own = saved(tmp_path / "own", t5())
    tokenizer = read_roles(load_tokenizer(own), tmp_path, values)
    assert tokenizer.roles == TokenRoles(pad=0, bos=0, eos=1, unk=2, source_start=(), target_start=(0,))


@pytest.mark.parametrize(
    ("values", "target"),
    [
        ({"decoder_start_token_id": 2, "forced_bos_token_id": 0}, (2, 0)),
        ({"decoder_start_token_id": 2}, (2, 0)),
        ({"decoder_start_token_id": 2, "forced_bos_token_id": None}, (2, 0)),
        ({}, (2, 0)),
        ({"decoder_start_token_id": 1, "forced_bos_token_id": 3}, (1, 3)),
    ],
    ids=["both", "old", "null", "neither", "others"],
)
def test_how_targets_begin_in_bart(tmp_path: Path, values: dict[str, Any], target: tuple[int, ...]) -> None:
    tokenizer = read_tokenizer(bart(tmp_path), BART | values)
    assert (tokenizer.roles.source_start, tokenizer.roles.target_prefix) == ((0,), target)


def test_where_ids_come_from(tmp_path: Path) -> None:
    """In config.json, in generation_config.json, by name in tokenizer_config.json, in special_tokens_map.json."""
    backend = llama()
    backend.add_special_tokens(["<a>", "<b>", "<c>", "<d>"])
    ids = {name: backend.token_to_id(f"<{name}>") for name in "abcd"}
    folder = saved(
        tmp_path,
        backend,
        generation_config={"eos_token_id": ids["b"], "pad_token_id": ids["b"]},
        tokenizer_config={"eos_token": "<c>", "pad_token": "<c>", "bos_token": {"content": "<c>"}, "unk_token": None},
        special_tokens_map={"eos_token": "<d>", "pad_token": "<d>", "bos_token": "<d>", "mask_token": "<d>"},
    )
    roles = read_tokenizer(folder, {"eos_token_id": ids["a"], "pad_token_id": None}).roles
    # The tokenizer puts <s> in front, whatever the files name; and each file may name what ends a text.
    told = {"text_start": (1,), "more_ends": (ids["b"],)}
    assert roles == TokenRoles(pad=ids["b"], bos=ids["c"], eos=ids["a"], mask=ids["d"], unk=0, **told)


def test_ids_of_ordinary_words_are_no_roles(tmp_path: Path) -> None:
    """A config copied from another model: its ids are letters here, or nothing."""
    values = {"bos_token_id": 260, "eos_token_id": 50256, "pad_token_id": 261}
    assert read_tokenizer(saved(tmp_path, llama()), values).roles == TokenRoles(pad=2, bos=1, eos=2, unk=0)


@pytest.mark.parametrize("value", ["2", 2.0, True, {"id": 2}, ["</s>"]], ids=repr)
def test_an_id_that_is_none(tmp_path: Path, value: Any) -> None:
    sentence = refusal(BrokenInputError, saved(tmp_path, llama()), "config.json", repr(value), eos_token_id=value)
    assert "has eos_token_id" in sentence


def test_no_token_to_end_a_text(tmp_path: Path) -> None:
    """A text then ends nowhere; an encoder-decoder, whose sides need an end, is refused."""
    folder = saved(tmp_path, Backend(models.WordLevel({"a": 0, "b": 1}, unk_token="a")))
    roles = read_tokenizer(folder, {}).roles
    assert (roles.endless, roles.text_prefix, roles.end, roles.ends, roles.ids()) == (True, (), (), frozenset(), [])
    begun = Backend(models.WordLevel({"a": 0, "<pad>": 1, "<s>": 2}, unk_token="a"))
    begun.post_processor = processors.TemplateProcessing(single=["<s>", "$A"], special_tokens=[("<s>", 2)])
    roles = read_tokenizer(saved(tmp_path / "begun", begun), {}).roles
    assert (roles.endless, roles.text_prefix, roles.ends, roles.ids()) == (True, (2,), frozenset(), [2])
    reason = "tokenizer.json has no special token that can serve as pad, bos or eos"
    refusal(UsageError, folder, reason, model_type="t5")


def test_what_is_no_tokenizer(tmp_path: Path) -> None:
    refusal(UsageError, tmp_path, "holds no tokenizer", "--tokenizer FILE")
    for name in ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model"):
        file = write(tmp_path / name) / name
        file.write_bytes(b"x")
        refusal(UsageError, file.parent, f"{name} is a SentencePiece file", "--tokenizer FILE")


def broken(**parts: Any) -> dict[str, Any]:
    return json.loads(t5().to_str()) | parts


def charsmap(content: bytes) -> dict[str, str]:
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(content).decode()}


@pytest.mark.parametrize(
    "state",
    [
        broken(model={"type": "Unigram", "unk_id": 99, "vocab": [["a", 0.0]]}),
        broken(model={"type": "Unigram", "unk_id": None, "vocab": [["a", 0.0]], "byte_fallback": False}),
        broken(model={"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "#", "vocab": {"a": 0}}),
        broken(model={"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}),
        broken(model={"type": "BPE", "vocab": {"a": -1}, "merges": []}),
        broken(model={"type": "Magic"}),
        broken(normalizer=charsmap(b"nothing")),
        broken(normalizer=charsmap(b"\x08\0\0\0" + b"\xff" * 8)),
        broken(post_processor={"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "?", "type_id": 0}}]}),
        broken(pre_tokenizer={"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False}),
        broken(added_tokens=[{"id": "zero"}]),
    ],
    ids=["unk", "no-unk", "wordpiece", "merges", "id", "kind", "map", "map-cut", "template", "regex", "added"],
)
def test_a_broken_tokenizer_is_one_sentence(tmp_path: Path, state: dict[str, Any], capfd: Any) -> None:
    """Some of these make the library panic, with a report of its own that must not reach the terminal."""
    refusal(BrokenInputError, write(tmp_path, tokenizer=state), "tokenizer.json is no tokenizer that can be read")
    assert capfd.readouterr() == ("", "")


def test_json_that_is_nested_too_deeply(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model":' * 100_000 + "1" + "}" * 100_000)
    refusal(BrokenInputError, tmp_path, "tokenizer.json is nested too deeply")
    bert(tmp_path / "bert")
    (tmp_path / "bert/tokenizer_config.json").write_text("[" * 100_000)
    refusal(BrokenInputError, tmp_path / "bert", "tokenizer_config.json is nested too deeply")


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt", "merges.txt", "tokenizer_config.json"])
def test_files_that_are_too_large_are_not_read(tmp_path: Path, name: str) -> None:
    folder = gpt2(tmp_path) if name == "merges.txt" else bert(tmp_path)
    with (folder / name).open("wb") as file:
        file.truncate(1 << 40)  # holes: it takes no room
    refusal(BrokenInputError, folder, f"{name} has 1,099,511,627,776 bytes")


def test_broken_byte_level_files(tmp_path: Path) -> None:
    _, merges = learned([])
    cases: dict[str, tuple[Any, Any, str]] = {
        "words": ({"a": "0"}, merges, "vocab.json gives 'a' the id '0'"),
        "list": (["a"], merges, "vocab.json holds a list"),
        "huge": ({"a": 1 << 40}, merges, "vocab.json gives 'a'"),
        "three": ({"a": 0, "b": 1}, "a b c\n", "merges.txt has 'a b c' in line 1"),
        "unknown": ({"a": 0, "b": 1}, "#version: 0.2\na b\n", "merges.txt is no tokenizer"),
    }
    for name, (vocabulary, lines, part) in cases.items():
        refusal(BrokenInputError, write(tmp_path / name, vocab=vocabulary, merges=lines), part)
    (gpt2(tmp_path / "bytes") / "merges.txt").write_bytes(b"a b\n\xff c\n")
    refusal(BrokenInputError, tmp_path / "bytes", "merges.txt is not UTF-8 text (byte 4)")


def test_broken_wordpiece_files(tmp_path: Path) -> None:
    refusal(BrokenInputError, write(tmp_path / "empty", vocab=""), "vocab.txt lacks the token '[UNK]'")
    short = read_tokenizer(write(tmp_path / "short", vocab="[UNK]\n[CLS]\n"), {}).roles
    assert (short.text_prefix, short.end) == ((), ())  # without [SEP] the tokenizer puts nothing around a text
    folder = bert(tmp_path / "names", special_tokens_map={"cls_token": 7})
    refusal(BrokenInputError, folder, "special_tokens_map.json has cls_token = 7")


def test_an_id_far_from_the_others_is_refused(tmp_path: Path) -> None:
    """The library would make room for all that are between."""
    state = json.loads(llama().to_str())
    state["model"]["vocab"]["far"] = 1000  # of 270: some vocabularies have gaps
    assert read_tokenizer(write(tmp_path, tokenizer=state), {}).vocab_size == 1001
    state["model"]["vocab"]["far"] = 4_000_000_000
    refusal(BrokenInputError, write(tmp_path, tokenizer=state), "gives 'far' the id 4000000000, which a vocabulary of")


def test_only_spellings_of_special_tokens_are_cut() -> None:
    backend = t5()
    plain = backend.encode("the cats < / s > the", add_special_tokens=False).ids
    tokenizer = Tokenizer(backend)
    assert tokenizer.encode("the cats < / s > the") == plain
    own = Backend(models.WordLevel({"</s>": 0, "a": 1}, unk_token="a"))
    own.pre_tokenizer = pre_tokenizers.Split(Regex(r"\w+|\W"), "isolated")
    own.add_special_tokens([AddedToken("</s>", special=True)])
    before = own.to_str()
    assert json.loads(Tokenizer(own).to_json()) == json.loads(before), "a pipeline that needs no help is left alone"


def test_entries_that_no_text_is_cut_into() -> None:
    """A merge that is missing, and capitals behind a normalizer that takes them away."""
    pieces = ["a", "b", "c", "ab", "abc", "bc", "</s>"]
    backend = Backend(models.BPE({piece: n for n, piece in enumerate(pieces)}, [("a", "b"), ("b", "c")]))
    backend.add_special_tokens(["</s>"])
    tokenizer = Tokenizer(backend)
    assert tokenizer.labels(tokenizer.never_made()) == ["abc"]
    backend = Backend(models.WordPiece({"[UNK]": 0, "[SEP]": 1, "cat": 2, "Cat": 3, "##s": 4}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.add_special_tokens(["[UNK]", "[SEP]"])
    assert Tokenizer(backend).never_made() == [3]


def test_a_folder_that_import_reads_is_a_tokenizer(tmp_path: Path) -> None:
    for folder in (gpt2(tmp_path / "gpt2"), bert(tmp_path / "bert")):
        expected = read_tokenizer(folder, {})
        assert any_tokenizer(folder).encode("the cat") == expected.encode("the cat")
    with pytest.raises(UsageError, match=r"holds no tokenizer\.json"):
        any_tokenizer(tmp_path)
