"""Recipes and settings that mean nothing, too much, or two things at once: recipes.md, and `--set` in cli.md."""

from tests.hostile.harness import Case, Place, case, check, every, fifo, folder, link, locked, write

DRY = "train --recipe r.toml --dry-run"
SET = "train --dry-run --set"


def _recipe(name: str, text: str | bytes, code: int, says: str, command: str = DRY, **settings: object) -> Case:
    return case(name, command, code, says, write("r.toml", text), **settings)


def _set(name: str, setting: str, says: str, *more: str) -> Case:
    return case(name, ["train", "--dry-run", "--set", setting, *more], 2, says)


CASES = [
    _recipe("a table that never closes", "[train\n", 2, r"r\.toml is not valid TOML.*line 1.*; ", sample=True),
    _recipe("a key twice", "[train]\nsteps = 1\nsteps = 2\n", 2, r"r\.toml.*line 3.*; "),
    _recipe("a section twice", "[train]\nsteps = 1\n[train]\nseed = 2\n", 2, r"r\.toml.*line 3.*; "),
    _recipe("a section that is a value", "train = 3\n", 2, r"train = 3 is a whole section; "),
    _recipe("a value that is a section", "[train.steps]\na = 1\n", 2, r"train\.steps.*; "),
    _recipe("a list of sections", "[[train]]\nsteps = 3\n", 2, r"train.*; "),
    _recipe("an unknown section", "[trian]\nsteps = 3\n", 2, r"'trian\.steps'.*'train\.steps'"),
    _recipe("an unknown key", "[model]\nd_modell = 3\n", 2, r"'model\.d_modell'.*'model\.d_model'"),
    _recipe("an unknown key of 10,000 letters", f"[model]\n{'k' * 10000} = 3\n", 2, r"model\.k{60,80}….*; "),
    _recipe("an unknown key of escape sequences", '"\\u001b[31mred" = 1\n', 2, r"\\x1b\[31mred.*; "),
    _recipe("an unknown key that reads backwards", '["\\u202etrain"]\nsteps = 1\n', 2, r"\\u202etrain.*; "),
    _recipe(
        "a value that reads backwards",
        '[model]\nnorm = "\\u202emronsmr"\n',
        2,
        r"model\.norm = .*\\u202emronsmr.*layernorm",
    ),
    _recipe("text for a number", '[train]\nsteps = "many"\n', 2, r'train\.steps = "many".*whole number'),
    _recipe(
        "text of 10,000 letters for a number",
        f'[train]\nsteps = "{"m" * 10000}"\n',
        2,
        r'train\.steps = "m{70,80}….*whole number',
    ),
    _recipe("a fraction for a whole number", "[train]\nsteps = 2.5\n", 2, r"train\.steps = 2\.5.*whole"),
    _recipe("a truth for a number", "[train]\nsteps = true\n", 2, r"train\.steps = true.*; "),
    _recipe("a number for a truth", "[model]\ntie_embeddings = 1\n", 2, r"model\.tie_embeddings = 1.*; "),
    _recipe("a date for a number", "[train]\nsteps = 2026-11-22\n", 2, r"train\.steps = .*2026-11-22.*; "),
    _recipe("a list for a text", '[model]\nnorm = ["rmsnorm"]\n', 2, r"model\.norm = .*; "),
    _recipe("numbers for columns", "[data]\ncolumns = [1, 2]\n", 2, r"data\.columns.*; "),
    _recipe("no source in a list", "[data]\nsource = []\n", 2, r"data\.source.*(\[\]|empty).*; "),
    _recipe("a source without a name", '[data]\nsource = ""\n', 2, r'data\.source.*(""|empty|\'\').*; '),
    _recipe("sources of which one has no name", '[data]\nsource = ["builtin:stories", ""]\n', 2, r"data\.source.*; "),
    _recipe("a name that climbs", 'name = "../../up"\n', 2, r"name = .*\.\./\.\./up.*; "),
    _recipe("a name that is a path", 'name = "/tmp/elsewhere"\n', 2, r"name = .*/tmp/elsewhere.*; "),
    _recipe("a name of dots", 'name = ".."\n', 2, r"name = .*\.\..*; "),
    _recipe(
        "a name of escape sequences",
        'name = "\\u001b[2Jgone"\n',
        2,
        r"name = .*\\x1b\[2Jgone|name = .*\\u001b\[2Jgone.*; ",
    ),
    _recipe("a name with a line break", 'name = "a\\nb"\n', 2, r"name = .*a\\nb.*; "),
    _recipe("a name of 300 letters", f'name = "{"n" * 300}"\n', 2, r"name = .*n{70,80}….*100"),
    _recipe("no name", 'name = ""\n', 2, r"name = .*; "),
    _recipe("a NUL in the file", b"[train]\nsteps = 1\x00\n", 2, r"r\.toml.*; "),
    _recipe("bytes that are no UTF-8", b'[data]\nsource = "caf\xe9"\n', 2, r"(?i)r\.toml.*utf-8.*; "),
    _recipe(
        "sections nested 3,000 deep", "[" + ".".join("a" * 3000) + "]\nb = 1\n", 2, r"r\.toml.*; |'a\..*; ", timeout=20
    ),
    _recipe("lists nested 100,000 deep", "a = " + "[" * 100_000 + "]" * 100_000, 2, r"r\.toml.*; ", timeout=20),
    _recipe(
        "one key of 50,000 parts",
        "[train]\n" + ".".join("a" * 50_000) + " = 1\n",
        2,
        r"r\.toml.*; |train\.a.*; ",
        timeout=20,
    ),
    _recipe(
        "a number of 5,000 digits", f"[train]\nsteps = {'9' * 5000}\n", 2, r"(train\.steps = 9{70,80}…|r\.toml).*; "
    ),
    _recipe(
        "a learning rate that is no number",
        "[train]\nlearning_rate = nan\n",
        2,
        r"train\.learning_rate = (nan|NaN).*; ",
    ),
    _recipe(
        "a learning rate without end", "[train]\nlearning_rate = inf\n", 2, r"train\.learning_rate = (inf|Infinity).*; "
    ),
    _recipe(
        "a megabyte of unknown keys", "[model]\n" + "".join(f"k{n} = {n}\n" for n in range(80_000)), 2, r"model\.k0.*; "
    ),
    _recipe("nothing to check against", "[train]\nsteps = 2\n", 2, r"\[?check.*; ", "run r.toml --check --out run"),
    _recipe("a limit that cannot be", "[check]\nmax_loss = -1\n", 2, r"check\.max_loss = -1.*; "),
    _recipe(
        "a validation file under another split",
        '[data]\nsplit = "hash"\nvalidation = "v.txt"\n',
        2,
        r"data\.(split|validation).*; ",
    ),
    case("a recipe that is not there", "run mine.toml", 2, r"'?mine\.toml.*; "),
    case("a recipe that is a folder", "run r.toml", 2, r"r\.toml.*; ", folder("r.toml")),
    case("a recipe that is a pipe", "run r.toml", 2, r"r\.toml.*; ", fifo("r.toml"), timeout=20),
    case("a recipe that is a device", "run r.toml", 2, r"r\.toml.*; ", link("r.toml", "/dev/zero"), timeout=20),
    case(
        "a recipe that may not be read",
        "run r.toml",
        2,
        r"r\.toml.*([Pp]ermission|readable|may not).*; ",
        write("r.toml", ""),
        locked("r.toml", 0),
    ),
    case("a recipe that is a run's weights", "run decoder/model.safetensors", 2, r"model\.safetensors.*; "),
    case("a shipped recipe misspelt", "run shakespear-char", 2, r"'shakespear-char'.*'shakespeare-char'"),
    _set("a setting without a value", "train.steps=", r"train\.steps.*; "),
    _set("a value without a setting", "=3", r"=3.*key=value.*; "),
    _set("a setting of a section", "train=3", r"train.*3.*; "),
    _set("a setting of an unknown key", "train.stepz=3", r"'train\.stepz'.*'train\.steps'"),
    _set("a setting of two lines", "train.steps=3\ntrain.batch_size=1000000000000", r"train\.steps.*; "),
    _set("a setting that opens a section", "train.steps=3\n[model]\nd_model=7", r"train\.steps.*; "),
    _set("a setting with half a list", 'data.columns=["pt"', r"data\.columns.*pt.*not a list; "),
    _set("a setting of 10,000 digits", f"train.steps={'9' * 10_000}", r"train\.steps.*9{60,80}….*; "),
    _set("a setting of 10,000 parts", f"{'.'.join('a' * 10_000)}=1", r"a\.a\.a.*; "),
    _set("a setting of an escape sequence", 'name="\x1b[31m"', r"name.*\\x1b|name.*\\u001b"),
    _set("a learning rate below nothing", "train.learning_rate=-1", r"train\.learning_rate = -1.*more than 0"),
    _set("dropout of all", "model.dropout=1", r"model\.dropout = 1.*less than 1"),
    _set("heads that do not divide", "model.num_heads=3", r"(num_heads|d_model).*3.*; "),
    _set("shared heads that do not divide", "model.num_kv_heads=3", r"num_kv_heads.*3.*; "),
    _set("a context beyond its bound", "model.max_seq_len=16777217", r"model\.max_seq_len = 16777217.*16777216"),
    case(
        "a model beyond any memory",
        "train --data text.txt --out run --set model.d_model=16777216 --set model.num_heads=1",
        2,
        r"memory.*; ",
    ),
    _set("a training context beyond the model's", "train.context=4096", r"train\.context = 4096.*max_seq_len.*; "),
    _set(
        "layers of a decoder that a decoder has not",
        "model.num_decoder_layers=2",
        r"num_decoder_layers.*encoder-decoder.*; ",
    ),
    _set("a moving average that never moves", "train.ema_decay=1", r"train\.ema_decay = 1.*less than 1"),
    _set("a tokenizer that is not there", "tokenizer.path=nowhere.json", r"nowhere\.json.*; "),
    _set("a run to begin with that is not there", "train.init=nowhere", r"nowhere.*; "),
    case(
        "a batch of a million million",
        "train --data text.txt --out run --size tiny --set train.batch_size=1000000000000",
        2,
        r"train\.batch_size.*1000000000000.*; |memory.*; ",
        timeout=20,
    ),
    case(
        "fewer tokens a batch than a window",
        "train --data text.txt --out run --size tiny --set train.batch_tokens=4",
        2,
        r"train\.batch_tokens = 4.*; ",
    ),
]


@every(CASES)
def test_recipes(hostile: Case, place: Place):
    check(place, hostile)
