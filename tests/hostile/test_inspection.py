"""Looking inside with what is not there, too large or a contradiction: inspection.md and the ranges of cli.md."""

from tests.hostile.harness import Case, Place, case, check, cut, every, write

LOOK = "inspect attention decoder 'Tom swam'"

CASES = [
    case("a layer that is not there", f"{LOOK} --layer 7", 2, r"no layer 7.*; choose 0 to 1"),
    case("a head below nothing", f"{LOOK} --head -1", 2, r"--head -1 is not a head; .*--head 1\.0"),
    case("rows that are no range", f"{LOOK} --rows middle", 2, r"--rows.*middle.*; "),
    case("rows that are not there", f"{LOOK} --rows 50:60", 2, r"--rows.*50:60.*; "),
    case("rows from behind to before", f"{LOOK} --rows 3:1", 2, r"--rows.*3:1.*; "),
    case(
        "rows of 400 digits",
        [*LOOK.replace("'", "").split()[:3], "Tom swam", "--rows", f"0:{'9' * 400}"],
        2,
        r"--rows.*9{50,80}….*; ",
        needs=("decoder",),
    ),
    case("an average of nothing known", f"{LOOK} --average heads", 2, r"--average.*'?heads'?.*layer.*all"),
    case(
        "a rollout into another stack",
        "inspect attention translator 'o gato' --kind cross --rollout",
        2,
        r"Rollout.*cross-attention.*; ",
    ),
    case("a rollout of one head", f"{LOOK} --rollout --head 0.0", 2, r"--rollout.*; leave --head"),
    case(
        "a head against one that is not there",
        f"{LOOK} --layer 0 --head 0 --against-head 9.9",
        2,
        r"no layer 9.*; choose 0 to 1",
    ),
    case(
        "a head against what is none",
        f"{LOOK} --layer 0 --head 0 --against-head first",
        2,
        r"--against-head.*first.*; ",
    ),
    case(
        "a text against one of other length",
        f"{LOOK} --against-text 'Tom swam across the river'",
        2,
        r"9 tokens.*26 tokens.*; ",
    ),
    case(
        "a run against one of other tokens", f"{LOOK} --against-run translator", 2, r"translator reads other tokens.*; "
    ),
    case(
        "a run against one that is damaged",
        f"{LOOK} --against-run untied",
        1,
        r"untied/model\.safetensors.*; ",
        cut("untied/model.safetensors"),
    ),
    case("a head of a target that there is not", f"{LOOK} --target 'the cat'", 2, r"--target.*; "),
    case("a bank in a run that has not read stories", "inspect heads translator --find bank", 2, r"stories.*; "),
    case("an alignment of one language", "inspect heads decoder --find alignment", 2, r"alignment.*; "),
    case(
        "found what is not to be found",
        "inspect heads decoder --find river",
        2,
        r"--find.*'?river'?.*bank.*alignment",
    ),
    case("found on a text", f"{LOOK} --find bank", 2, r"--find.*; "),
    case("no text", "inspect attention decoder", 2, r"(text|TEXT).*; "),
    case("a text of no letters", "inspect attention decoder ''", 0, "", prints="<s>|<1>|1 queries"),
    case(
        "a text longer than the context",
        ["inspect", "attention", "decoder", "word " * 100],
        2,
        r"32.*; ",
        needs=("decoder",),
    ),
    case(
        "a text that is no UTF-8 on stdin",
        "inspect attention decoder -",
        1,
        r"(?i)(stdin|standard input).*0xff.*; ",
        stdin=b"Tom \xff",
    ),
    case("an evolution of one checkpoint", f"{LOOK} --evolution", 2, r"keep_checkpoints.*|checkpoint.*; "),
    case("a picture as numbers and as JSON", f"{LOOK} --csv --json", 2, r"--csv.*--json.*; |--json.*--csv.*; "),
    case("candidates of no token", "inspect predictions decoder Tom --top-k 0", 2, r"--top-k '0'.*1"),
    case("more candidates than tokens", "inspect predictions decoder Tom --top-k 100000", 0, "", prints="100.0|%"),
    case("a position that is not there", "inspect lens decoder Tom --position 900", 2, r"position 900.*; "),
    case("neighbours of what is no token", "inspect neighbours decoder '\x1b[31m'", 2, r"\\x1b.*; "),
    case("an encoding that is none", "inspect positions --encoding spiral", 2, r"'spiral'.*'sinusoidal'", sample=True),
    case("an encoding that needs a run", "inspect positions --encoding learned", 2, r"learned.*; name a run"),
    case("a base of nothing", "inspect positions --base 0", 2, r"--base 0.*; "),
    case("a base below one", "inspect positions --base -3", 2, r"--base -3.*; "),
    case("a shift below one", "inspect positions --shift 0", 2, r"--shift '0'.*1"),
    case("dimensions that have no half", "inspect positions --encoding rotary --d-model 7", 2, r"7 is odd; "),
    case(
        "a cost of a text without end", "inspect cost --size tiny --length 99999999999", 2, r"--length.*99999999999.*; "
    ),
    case("a cost of no shape", "inspect cost --preset nothing", 2, r"'nothing'.*; "),
    case("scores of no queries", "inspect scaling --queries 0", 2, r"--queries '0'.*2"),
    case(
        "a model of a damaged run", "inspect model decoder", 1, r"config\.json.*; ", write("decoder/config.json", "{")
    ),
    case("a training of no run", "inspect training nowhere", 2, r"'?nowhere'?.*; "),
    case(
        "order without a run or a shape", "inspect equivariance decoder --arch encoder", 2, r"decoder.*; leave --arch"
    ),
    case(
        "a toy of a vector too large", "explain attention 'Lucas will travel' --d-model 513", 2, r"--d-model '513'.*512"
    ),
    case(
        "a toy whose heads do not divide",
        "explain attention 'Lucas will travel' --d-model 9 --heads 2",
        2,
        r"(heads|d_model|--d-model).*9.*; ",
    ),
    case("a toy of a text without end", ["explain", "attention", "word " * 2000], 2, r"words.*; shorten"),
    case("a notation that is none", "explain attention --notation klingon", 2, r"--notation 'klingon'.*'bishop'"),
    case(
        "a toy and a run at once", "explain attention Tom --run decoder --d-model 8", 2, r"decoder.*; leave --d-model"
    ),
    case("a layer of a toy", "explain layer Tom --layer 3", 2, r"--layer.*; "),
    case("beams beyond their bound", "explain decoding --beam 1001", 2, r"--beam '1001'.*1000"),
    case(
        "a draw at a temperature without end",
        "explain decoding --temperature inf",
        2,
        r"temperature.*(inf|Infinity).*; ",
    ),
    case("a draw of no number", "explain decoding --top-p nan", 2, r"--top-p.*[nN]a[nN].*; "),
    case(
        "words that steer a toy's table",
        ["explain", "attention", "Lucas \x1b[31mwill\x07 travel"],
        0,
        "",
        prints=r"\\x1b\[31mwill",
    ),
]


@every(CASES)
def test_inspection(hostile: Case, place: Place):
    check(place, hostile)
