"""Command lines that cannot be meant: unknown words, values out of range, control characters, bytes that are no text.

From cli.md's ranges, recipes.md's values and README.md's exit codes.
"""

from tests.hostile.harness import TINY, Case, Place, case, check, every

LONG_NAME = "n" * 10_000

CASES = [
    case(
        "a number below its range",
        "generate mine Tom --beam -3",
        2,
        r"--beam '-3'.*greater than or equal to 1; see `tfcli generate --help`",
        sample=True,
    ),
    case(
        "a command that is an escape sequence",
        ["\x1b[31mnosuch\x07"],
        2,
        r"No such command '\\x1b\[31mnosuch\\x07'; see `tfcli --help`",
        sample=True,
    ),
    case("a command of ten thousand letters", [LONG_NAME], 2, r"No such command 'n{80}…'; see `tfcli --help`"),
    case("an option of ten thousand letters", ["train", f"--{LONG_NAME}"], 2, r"No such option: -*n{70,80}…; see"),
    case("a command in bytes that are no UTF-8", ["tr\udcffain"], 2, r"No such command 'tr\\udcffain'; "),
    case("a value in bytes that are no UTF-8", ["train", "--size", "ti\udcff"], 2, r"ti\\udcff.*; "),
    case("a setting in bytes that are no UTF-8", ["train", "--set", "name='\udcff'"], 2, r"\\udcff.*UTF-8.*; "),
    case("an option that steers from right to left", ["train", "--size", "\u202eynit"], 2, r"\\u202eynit"),
    case("an empty command", [""], 2, r"''.*; see `tfcli --help`"),
    case("an empty size", ["train", "--size", ""], 2, r"--size ''.*'tiny'"),
    case("an empty run", ["generate", "", "Tom"], 2, r"RUN|run.*''.*; "),
    case("an empty folder to write to", ["train", "--out", "", *TINY.split()], 2, r"--out.*(''|empty).*; "),
    case("an empty recipe", ["run", ""], 2, r"''|empty.*; "),
    case("a seed below nothing", "train --seed -1", 2, r"--seed '-1'.*greater than or equal to 0"),
    case("a seed of half a number", "train --seed 1.5", 2, r"--seed '1\.5'.*integer"),
    case("a seed beyond 63 bits", f"train --seed {2**63} --dry-run", 2, r"seed.*9223372036854775808.*; "),
    case("a seed of 5,000 digits", ["train", "--seed", "9" * 5000], 2, r"--seed '9{80}…'.*; "),
    case("threads without end", "train --threads 1025 --dry-run", 2, r"--threads '1025'.*1024"),
    case("threads in words", "evaluate decoder --threads many", 2, r"--threads 'many'.*integer"),
    case("a device that nobody has", "generate decoder Tom --device tpu", 2, r"--device 'tpu'.*'auto'.*'cpu'"),
    case("a device that is not here", "generate decoder Tom --device cuda", 2, r"[Cc][Uu][Dd][Aa].*; "),
    case(
        "a colour that is none",
        "recipes list --color blue",
        2,
        r"--color 'blue'.*'auto'.*'always'.*'never'",
    ),
    case("a precision that is none", "generate decoder Tom --precision int3", 2, r"--precision 'int3'.*'int8'"),
    case("minutes below nothing", "plan --minutes -5", 2, r"--minutes.*-5.*; "),
    case("minutes that are no number", "plan --minutes nan", 2, r"--minutes.*[nN]a[nN].*; "),
    case("minutes without end", "plan --minutes inf", 2, r"--minutes.*inf.*; "),
    case("no minutes", "plan --minutes 0", 2, r"--minutes.*0.*; "),
    case("processes below one", "train --nproc 0", 2, r"--nproc '0'.*greater than or equal to 1"),
    case("processes by the million", f"train --nproc 1000000 {TINY}", 2, r"1000000.*; ", timeout=30),
    case(
        "more processes than rows of a batch",
        f"train --nproc 3 --data text.txt --out run {TINY}",
        2,
        r"3 processes.*train\.batch_size = 2; ",
    ),
    case("a tracker that is none", "train --log mlflow", 2, r"--log 'mlflow'.*'tensorboard'"),
    case(
        "both a resumed and a new run", "train --resume decoder --data text.txt", 2, r"--resume.*no other settings.*; "
    ),
    case(
        "resumed and begun from another", "train --resume decoder --init decoder", 2, r"--resume.*no other settings.*; "
    ),
    case("resumed and shown only", "train --resume decoder --dry-run", 2, r"--resume.*no other settings.*; "),
    case("resumed under another name", "train --resume decoder --out other", 2, r"--resume.*no other settings.*; "),
    case("an architecture that is none", "train --arch transformer --dry-run", 2, r"'transformer'.*'?decoder"),
    case(
        "an architecture that the preset is not",
        "train --preset bert --arch decoder --dry-run",
        2,
        r"model\.token_types = 2.*; .*encoder",
    ),
    case("a preset that is none", "train --preset gtp2 --dry-run", 2, r"'gtp2'.*gpt2"),
    case("a vocabulary of no ids", "tokenize train text.txt --vocab-size 0 --out t.json", 2, r"vocab.size.*0.*; "),
    case(
        "a vocabulary below nothing", "tokenize train text.txt --vocab-size -7 --out t.json", 2, r"vocab.size.*-7.*; "
    ),
    case(
        "a vocabulary beyond its bound",
        "tokenize train text.txt --vocab-size 2000001 --out t.json",
        2,
        r"vocab.size.*2000001.*2000000",
    ),
    case(
        "a vocabulary of 400 digits",
        ["tokenize", "train", "text.txt", "--vocab-size", "9" * 400, "--out", "t.json"],
        2,
        r"vocab.size.*9{80}….*; ",
        needs=("text.txt",),
    ),
    case("an algorithm that is none", "tokenize train text.txt --algorithm bqe --out t.json", 2, r"'bqe'.*bpe"),
    case("a format that is none", "export decoder --format onnx --out exported", 2, r"--format 'onnx'.*'hf'"),
    case(
        "a split that is none",
        "prepare text.txt --tokenizer tokenizer.json --split half --out data",
        2,
        r"--split 'half'.*'hash'",
    ),
    case(
        "a validation file where none is read",
        "prepare text.txt --tokenizer tokenizer.json --split hash --validation text.txt --out data",
        2,
        r"validation.*; ",
    ),
    case(
        "no validation file where one is read",
        "prepare text.txt --tokenizer tokenizer.json --split file --out data",
        2,
        r"validation.*; ",
    ),
    case(
        "a run where files are wanted",
        "prepare decoder --tokenizer tokenizer.json --out data",
        2,
        r"decoder.*folder.*; ",
    ),
    case("one run to compare", "runs compare decoder", 2, r"One run.*; name two"),
    case("a run compared with itself", "runs compare decoder ./decoder", 2, r"named twice; "),
    case("a column of numbers that is none", "runs list --sort size", 2, r"--sort 'size'.*'age'"),
    case("a folder of runs that is not there", "runs list nowhere", 2, r"nowhere.*; "),
    case("a folder of runs that is a file", "runs list text.txt", 2, r"text\.txt.*(file|folder).*; "),
    case("a recipe of another folder", "recipes show ../../etc/passwd", 2, r"passwd.*; "),
    case(
        "an option given without its value",
        "prepare text.txt --tokenizer",
        2,
        r"'--tokenizer' requires an argument; see",
    ),
    case("windows of nothing", "bench data --context 0", 2, r"--context '0'.*1"),
    case("rounds below nothing", "bench data --rounds -1", 2, r"--rounds '-1'.*1"),
    case("no step to measure", "bench train --steps 0", 2, r"--steps '0'.*1"),
    case(
        "more beams than the vocabulary",
        "bench generate --size tiny --beam 100000000 --rounds 1",
        2,
        r"beam.*100000000.*; ",
    ),
    case(
        "a service that measures nothing", "bench generate --against pytorch", 2, r"--against 'pytorch'.*'transformers'"
    ),
    case(
        "a NUL in a path of a recipe",
        "run nul.toml",
        2,
        r"a\\x00b\.txt.*; ",
        lambda here: (here / "nul.toml").write_text('[data]\nsource = "a\\u0000b.txt"\n'),
    ),
]


@every(CASES)
def test_command_line(hostile: Case, place: Place):
    check(place, hostile)
