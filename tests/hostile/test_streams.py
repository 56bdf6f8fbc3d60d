"""stdin that is closed, empty or bytes; stdout that is full, closed or left: results go to stdout (README.md)."""

from tests.hostile.harness import Case, Place, case, check, every

REPORTS = {
    "help": "--help",
    "the version": "--version",
    "help of a command": "generate --help",
    "recipes": "recipes list",
    "a recipe": "recipes show quickstart",
    "runs": "runs list . --json",
    "a run": "runs show decoder",
    "ids": "tokenize encode tokenizer.json 'Tom swam'",
    "a text": "generate decoder Tom --max-new-tokens 2",
    "scores": "evaluate decoder --json",
    "a table": "inspect positions --length 8 --d-model 8",
    "an explanation": "explain attention 'Lucas will travel'",
    "vectors": "embed encoder 'Tom swam' --json",
}
SAMPLE = ("recipes", "the version")

CASES = [
    *(
        case(
            f"{name} into a full disk",
            command,
            1,
            r"(No space left|full|stdout|output).*; ",
            stdout="full",
            needs=("untied",) if name == "runs" else (),
            sample=name in SAMPLE,
        )
        for name, command in REPORTS.items()
    ),
    *(
        case(
            f"{name} for a reader that has left",
            command,
            0,
            r"\A\Z",
            stdout="left",
            needs=("untied",) if name == "runs" else (),
        )
        for name, command in REPORTS.items()
        if name in ("help", "the version", "recipes", "a recipe", "runs", "ids", "a table")
    ),
    case(
        "a long table for a reader of one line",
        "inspect positions --length 4000 --d-model 64 --csv",
        0,
        r"\A\Z",
        stdout="one line",
    ),
    case("help for a reader of one line", "inspect attention --help", 0, r"\A\Z", stdout="one line"),
    case("recipes for nobody", "recipes list", 0, r"\A\Z", stdout="closed"),
    case("a text for nobody", "generate decoder Tom --max-new-tokens 2", 0, r"\A\Z", stdout="closed"),
    case(
        "prompts from a closed stdin",
        "generate decoder - --max-new-tokens 2",
        0,
        r"\A\Z",
        prints=r"\A\Z",
        stdin="closed",
    ),
    case("no prompt on stdin", "generate decoder - --max-new-tokens 2", 0, r"\A\Z", prints=r"\A\Z"),
    case(
        "ids from a closed stdin",
        "tokenize decode tokenizer.json -",
        2,
        r"(?i)(stdin|standard input).*; ",
        stdin="closed",
    ),
    case("vectors of nothing on stdin", "embed encoder", 0, "", prints=r"\A\s*\Z"),
    case("a look at nothing on stdin", "inspect tokens decoder -", 0, "", prints="<s>"),
    case("a walk without a terminal", "explore decoder", 2, r"terminal.*; ", stdin="closed"),
]


@every(CASES)
def test_streams(hostile: Case, place: Place):
    check(place, hostile)
