"""Tokenizers that are broken, built to hurt, or not the run's own; and what goes through them: tokenizers.md."""

import json
from typing import Any

from tests.hostile.harness import Case, Place, case, check, copy, cut, edit, every, fifo, folder, gone, link, write

ENCODE = "tokenize encode tokenizer.json 'Tom swam across the river'"
FILE = "tokenizer.json"


def _model(name: str, code: int, says: str, change: Any, command: str = ENCODE, **settings: Any) -> Case:
    return case(name, command, code, says, edit(FILE, change), **settings)


def _put(*path: Any) -> Any:
    *keys, last, value = path

    def change(content: Any) -> None:
        place = content
        for key in keys:
            place = place[key]
        place[last] = value

    return change


BACKTRACKING = {"type": "Split", "pattern": {"Regex": "(a+)+(b+)+$|(x+x+)+y"}, "behavior": "Isolated", "invert": False}
DOUBLING = {"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}] * 40}

CASES = [
    case("an empty file", ENCODE, 1, r"tokenizer\.json.*; ", write(FILE, "")),
    case("half a file", ENCODE, 1, r"tokenizer\.json.*; ", cut(FILE), sample=True),
    case("a file of bytes", ENCODE, 1, r"tokenizer\.json.*; ", write(FILE, bytes(range(256)) * 9)),
    case("a list", ENCODE, 2, r"tokenizer\.json.*; ", write(FILE, "[]")),
    case("nothing in it", ENCODE, 2, r"tokenizer\.json.*; ", write(FILE, "{}")),
    case(
        "nested 100,000 deep",
        ENCODE,
        1,
        r"tokenizer\.json.*; ",
        write(FILE, '{"model": ' + "[" * 100_000 + "]" * 100_000 + "}"),
    ),
    case("not there", "tokenize encode nowhere.json Tom", 2, r"nowhere\.json.*; ", sample=True),
    case("a folder that holds none", "tokenize encode folder Tom", 2, r"folder.*tokenizer\.json.*; ", folder("folder")),
    case("a pipe", "tokenize encode pipe.json Tom", 2, r"pipe\.json.*; ", fifo("pipe.json"), timeout=20),
    case("a device", "tokenize encode zero.json Tom", 2, r"zero\.json.*; ", link("zero.json", "/dev/zero"), timeout=20),
    case(
        "a SentencePiece file",
        "tokenize encode spiece.model Tom",
        1,
        r"spiece\.model.*; ",
        write("spiece.model", b"\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02"),
    ),
    _model("a model of no known type", 1, r"tokenizer\.json.*; ", _put("model", "type", "Quantum")),
    _model("a vocabulary that is a list", 1, r"tokenizer\.json.*; ", _put("model", "vocab", ["a", "b"])),
    _model("an empty vocabulary", 1, r"tokenizer\.json.*; ", _put("model", {"type": "BPE", "vocab": {}, "merges": []})),
    _model("an id that is a text", 1, r"tokenizer\.json.*; ", lambda c: c["model"]["vocab"].update({"x1": "one"})),
    _model("an id below nothing", 1, r"tokenizer\.json.*; ", lambda c: c["model"]["vocab"].update({"x1": -1})),
    _model("an id of two tokens", 1, r"tokenizer\.json.*; ", lambda c: c["model"]["vocab"].update({"x1": 7})),
    _model(
        "an id far beyond the others",
        1,
        r"tokenizer\.json.*(2147483646|id).*; ",
        lambda c: c["model"]["vocab"].update({"x1": 2**31 - 2}),
        timeout=20,
    ),
    _model("merges of what is not there", 1, r"tokenizer\.json.*; ", _put("model", "merges", [["qqqq", "zzzz"]])),
    _model(
        "an added token with an id beyond",
        1,
        r"tokenizer\.json.*; ",
        lambda c: c["added_tokens"].append({**c["added_tokens"][0], "id": 2**31 - 3, "content": "<far>"}),
        timeout=20,
    ),
    _model(
        "a normalizer of no known type",
        1,
        r"tokenizer\.json.*; ",
        _put("normalizer", {"type": "Exec", "command": "id"}),
    ),
    _model(
        "a character map of rubbish",
        1,
        r"tokenizer\.json.*; ",
        _put("normalizer", {"type": "Precompiled", "precompiled_charsmap": "/////w=="}),
    ),
    _model(
        "an expression that is none",
        1,
        r"tokenizer\.json.*; ",
        _put("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(["}, "behavior": "Isolated", "invert": False}),
    ),
    _model(
        "an expression that backtracks",
        1,
        r"tokenizer\.json.*; ",
        _put("pre_tokenizer", BACKTRACKING),
        ["tokenize", "encode", FILE, "a" * 5000 + "c" + "x" * 5000],
        timeout=30,
    ),  # type: ignore[arg-type]
    _model(
        "a normalizer that doubles forty times",
        1,
        r"tokenizer\.json.*; ",
        _put("normalizer", DOUBLING),
        "tokenize encode tokenizer.json aaaa",
        timeout=30,
    ),
    case(
        "no special tokens",
        "prepare text.txt --tokenizer tokenizer.json --out data",
        2,
        r"(tokenizer\.json|token).*(<s>|begin|special).*; ",
        edit(FILE, lambda c: [_without(c, token) for token in ("<s>", "</s>")] and None),
    ),
    case(
        "an encoder without a mask",
        "train --arch encoder --data text.txt --out run --set tokenizer.path=tokenizer.json --size tiny",
        2,
        r"mask.*; ",
        edit(FILE, lambda c: _without(c, "<mask>")),
    ),
    case(
        "a run that lost its tokenizer",
        "tokenize encode decoder Tom",
        2,
        r"tokenizer\.json.*; ",
        gone("decoder/tokenizer.json"),
    ),
    case(
        "a run with another's tokenizer",
        "generate decoder Tom",
        1,
        r"tokenizer.*; .*restore",
        copy("translator/tokenizer.json", "decoder/tokenizer.json"),
        needs=("translator",),
    ),
    case(
        "a run with a changed token",
        "generate decoder Tom",
        1,
        r"tokenizer.*; .*restore",
        lambda here: _rename(here / "decoder/tokenizer.json"),
    ),
    case("an id that is none", "tokenize decode tokenizer.json 4 -1", 2, r"-1.*; "),
    case("an id beyond the vocabulary", "tokenize decode tokenizer.json 4 100000", 2, r"100000.*; use ids from 0"),
    case("a fraction for an id", "tokenize decode tokenizer.json 4.5", 2, r"'4\.5'.*; .*whole"),
    case("ids that are words on stdin", "tokenize decode tokenizer.json -", 2, r"'two'.*; ", stdin=b"4 two\n"),
    case("ids that are bytes on stdin", "tokenize decode tokenizer.json -", 1, r"UTF-8.*; ", stdin=b"4 \xff\n"),
    case(
        "a text that is no UTF-8 on stdin",
        "tokenize encode tokenizer.json -",
        1,
        r"(?i)(stdin|standard input).*0xff.*; ",
        stdin=b"Tom \xff\n",
    ),
    case(
        "a text that is no UTF-8",
        ["tokenize", "encode", FILE, "T\udcffm"],
        2,
        r"'T\\udcffm' is not valid UTF-8.*; ",
        needs=(FILE,),
    ),
    case(
        "an escape sequence among the letters",
        ["tokenize", "encode", "other.json", "a \x1b[31m\x07 b", "--json"],
        0,
        r"",
        prints=r"\\u001b|\\x1b|unk|�|\{",
        needs=("other.json",),
    ),
    case("one tokenizer compared with nothing", "tokenize compare --on text.txt", 2, r"Missing argument.*; "),
    case("compared with what is none", "tokenize compare tokenizer.json text.txt --on text.txt", 1, r"text\.txt.*; "),
    case("trained over its text", "tokenize train text.txt --out text.txt", 2, r"text\.txt.*; "),
    case("trained over a run's own", "tokenize train text.txt --out decoder/tokenizer.json", 2, r"decoder.*; "),
    case("trained over a dataset's own", "tokenize train text.txt --out prepared/tokenizer.json", 2, r"prepared.*; "),
    case(
        "trained over a link to its text",
        "tokenize train text.txt --out t.json",
        2,
        r"t\.json|text\.txt.*; ",
        link("t.json", "text.txt"),
    ),
]


def _without(content: Any, token: str) -> None:
    content["added_tokens"] = [added for added in content["added_tokens"] if added["content"] != token]
    content["model"]["vocab"].pop(token, None)


def _change(path: Any, change: Any) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def _rename(path: Any) -> None:
    def change(content: Any) -> None:
        vocabulary = content["model"]["vocab"]
        last = max(vocabulary, key=vocabulary.get)
        vocabulary["ζ"] = vocabulary.pop(last)

    _change(path, change)


@every(CASES)
def test_tokenizers(hostile: Case, place: Place):
    check(place, hostile)
