"""Prompts, texts and scores: generation.md, evaluation.md, verify.md and `tfcli embed`."""

from tests.hostile.harness import Case, Place, case, check, cut, every, folder, link, locked, write

SAY = "generate decoder Tom --max-new-tokens 2"
MASK = "generate encoder 'Tom <mask>'"

CASES = [
    case("tokens below one", "generate mine Tom --max-new-tokens 0", 2, r"--max-new-tokens '0'.*1", sample=True),
    case("samples by the million", f"{SAY} --num-samples 1000000", 2, r"num_samples = 1000000.*10000"),
    case("a batch by the million", f"{SAY} --batch-size 1000000", 2, r"batch_size = 1000000.*10000"),
    case("beams by the thousand", f"{SAY} --beam 1001", 2, r"beam = 1001.*1000"),
    case(
        "a temperature of 400 digits", ["generate", "decoder", "Tom", "--temperature", "9" * 400], 2, r"temperature.*; "
    ),
    case("a temperature in words", f"{SAY} --temperature warm", 2, r"--temperature 'warm'.*number"),
    case("a min-p of no number", f"{SAY} --min-p nan", 2, r"min_p = NaN.*finite"),
    case("a penalty without end", f"{SAY} --repetition-penalty inf", 2, r"repetition_penalty = Infinity.*finite"),
    case("a penalty below nothing", f"{SAY} --beam 2 --length-penalty -1", 2, r"length_penalty = -1.*at least 0"),
    case("a seed beyond 63 bits", f"{SAY} --seed {2**63}", 2, r"seed.*9223372036854775808.*; "),
    case("grams of half a token", f"{SAY} --no-repeat-ngram 1.5", 2, r"--no-repeat-ngram '1\.5'.*integer"),
    case("a stop text of 10,000 letters", [*SAY.split(), "--stop", "s" * 10_000], 0, "", needs=("decoder",), raw=True),
    case("top-k at temperature 0", f"{SAY} --temperature 0 --top-k 3", 2, r"--top-k.*; "),
    case("positions beyond a learned table", f"{MASK} --beyond-context extrapolate", 2, r"--beyond-context.*; "),
    case(
        "a text of control characters",
        ["generate", "decoder", "\x1b]0;owned\x07\x9b31m\x00"[:-1], "--max-new-tokens", "2", "--json"],
        0,
        "",
        prints=r"\\u001b",
        needs=("decoder",),
    ),
    case(
        "a text that reads backwards",
        ["inspect", "tokens", "decoder", "\u202eabc\u2066"],
        0,
        "",
        prints=r"\\u202e",
        needs=("decoder",),
    ),
    case("a text of emoji that join", ["inspect", "tokens", "decoder", "👩‍👩‍👧‍👦 é"], 0, "", needs=("decoder",)),
    case(
        "a prompt of a million letters",
        "generate decoder - --max-new-tokens 2",
        1,
        r"context of 32.*; ",
        stdin=b"word " * 200_000,
    ),
    case(
        "a line longer than a million bytes",
        "generate decoder - --max-new-tokens 2",
        1,
        r"(?i)line 1 .*stdin.*(1,?048,?576|long|million).*; ",
        stdin=b"x" * (2**20 + 9),
    ),
    case(
        "prompts of which the second is no UTF-8",
        "generate decoder - --max-new-tokens 2 --quiet",
        1,
        r"Line 2 on stdin is not valid UTF-8.*0xff.*; ",
        stdin=b"Tom\n\xff\n",
        prints="Tom|.",
        raw=True,
    ),
    case("prompts that are blank", "generate decoder - --max-new-tokens 2", 0, "", prints=r"\A\Z", stdin=b"\n  \n\n"),
    case(
        "prompts from a device without end",
        "generate decoder --prompts p.txt --max-new-tokens 2",
        1,
        r"Line 1 of p\.txt.*; ",
        link("p.txt", "/dev/zero"),
        timeout=20,
    ),
    case(
        "prompts that may not be read",
        "generate decoder --prompts p.txt",
        2,
        r"p\.txt.*([Pp]ermission|readable|may not).*; ",
        write("p.txt", "Tom"),
        locked("p.txt", 0),
    ),
    case(
        "prompts nested deep",
        "generate decoder --prompts p.jsonl",
        1,
        r"Line 1 of p\.jsonl.*; ",
        write("p.jsonl", '{"prompt": ' + "[" * 50_000 + "]" * 50_000 + "}\n"),
    ),
    case(
        "a prompt that is a number",
        "generate decoder --prompts p.jsonl",
        1,
        r"Line 2 of p\.jsonl.*; ",
        write("p.jsonl", '{"prompt": "Tom"}\n{"prompt": 7}\n'),
    ),
    case(
        "a prompt too long among others",
        "generate decoder --prompts p.txt --max-new-tokens 2",
        2,
        r"Line 2 of p\.txt.*32.*; ",
        write("p.txt", "Tom\n" + "word " * 90 + "\nTom\n"),
    ),
    case("a text in the place of a mask", "generate encoder 'Tom swam'", 2, r"<mask>.*; "),
    case(
        "more masks than the context", ["generate", "encoder", "<mask>" * 90], 2, r"context.*32.*; ", needs=("encoder",)
    ),
    case(
        "a sentence of blanks to translate", ["generate", "translator", "   "], 2, r"empty.*; ", needs=("translator",)
    ),
    case("asked for prompts by nobody", "generate decoder --interactive --max-new-tokens 2", 0, "", stdin=b""),
    case("a stride of more than the context", "evaluate decoder --stride 1000", 2, r"--stride.*1000.*; "),
    case("a stride of an encoder", "evaluate encoder --stride 4", 2, r"--stride.*; "),
    case("a decoder without masks", "evaluate decoder --pseudo", 2, r"--pseudo.*; "),
    case("beams that translate nothing", "evaluate decoder --beam 3", 2, r"--beam.*; "),
    case("outputs of what translates nothing", "evaluate decoder --outputs out.txt", 2, r"--outputs.*; "),
    case(
        "outputs and references in one file",
        "evaluate translator --outputs o.txt --references ./o.txt",
        2,
        r"o\.txt.*; ",
    ),
    case(
        "outputs over the weights",
        "evaluate translator --outputs translator/model.safetensors",
        2,
        r"translator/model\.safetensors.*; ",
    ),
    case(
        "outputs over the text that is scored",
        "evaluate translator pairs.tsv --outputs pairs.tsv",
        2,
        r"pairs\.tsv.*; ",
    ),
    case("compared with another objective", "evaluate decoder --compare encoder", 2, r"(objective|encoder).*; "),
    case("scored on an empty text", "evaluate decoder none.txt", 2, r"none\.txt is empty; ", write("none.txt", "")),
    case("scored on pairs", "evaluate decoder pairs.tsv", 2, r"pairs\.tsv.*columns.*; |pairs\.tsv.*pt.*en.*; "),
    case("scored on lines without a translation", "evaluate translator text.txt", 2, r"text\.txt.*; "),
    case(
        "proved on half the weights", "verify decoder", 1, r"model\.safetensors.*; ", cut("decoder/model.safetensors")
    ),
    case("proved on no run", "verify text.txt", 2, r"text\.txt.*; "),
    case("vectors of nothing", ["embed", "decoder", ""], 0, "", prints="1 token", needs=("decoder",)),
    case("vectors of a layer that is not there", "embed encoder 'Tom swam' --layer 9", 2, r"layer 9.*; "),
    case(
        "vectors into the run",
        "embed encoder 'Tom swam' --npz encoder/model.safetensors",
        2,
        r"encoder/model\.safetensors.*; ",
    ),
    case(
        "vectors into a folder", "embed encoder 'Tom swam' --npz folder", 2, r"'folder' is a folder; ", folder("folder")
    ),
    case("vectors of a text too long", ["embed", "encoder", "word " * 100], 2, r"context.*32.*; ", needs=("encoder",)),
]


@every(CASES)
def test_generation(hostile: Case, place: Place):
    check(place, hostile)
