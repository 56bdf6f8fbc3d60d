"""Where results may go, and what they may never replace: README.md's exit codes, runs.md, inspection.md."""

from pathlib import Path

from tests.hostile.harness import TINY, Case, Place, case, check, every, fifo, folder, link, locked, write

DRAW = "inspect positions --length 4 --d-model 4 --svg"
LEARN = "tokenize train text.txt --out"
PREPARE = "prepare text.txt --tokenizer tokenizer.json --out"
TRAIN = f"train --data text.txt {TINY} --out"

CASES = [
    case(
        "a picture in a folder",
        f"{DRAW} folder",
        2,
        r"'folder' is a folder; name a file",
        folder("folder"),
        sample=True,
    ),
    case("a picture below a file", f"{DRAW} text.txt/a.svg", 2, r"text\.txt is a file.*; "),
    case("a picture into a pipe", f"{DRAW} pipe.svg", 2, r"pipe\.svg.*; ", fifo("pipe.svg"), timeout=20),
    case("a picture into a device", f"{DRAW} full.svg", 2, r"full\.svg.*; ", link("full.svg", "/dev/full")),
    case(
        "a picture in a locked folder",
        f"{DRAW} shut/a.svg",
        2,
        r"shut.*not writable; ",
        folder("shut"),
        locked("shut"),
        sample=True,
    ),
    case(
        "a picture in a locked folder that is not there yet",
        f"{DRAW} shut/below/a.svg",
        2,
        r"shut.*not writable; ",
        folder("shut"),
        locked("shut"),
    ),
    case(
        "a picture over a locked file's folder",
        f"{DRAW} shut/a.svg",
        2,
        r"shut.*not writable; ",
        write("shut/a.svg", "mine"),
        locked("shut"),
    ),
    case("a picture without a name", [*DRAW.split(), ""], 2, r"--svg|''|empty"),
    case("a picture with a name of 300 letters", f"{DRAW} {'n' * 300}.svg", 2, r"n{80}.*(long|name).*; "),
    case("a picture with a name that is no UTF-8", [*DRAW.split(), "a\udcff.svg"], 2, r"\\udcff.*UTF-8.*; "),
    case(
        "a picture over a run's weights",
        "inspect attention decoder Tom --svg decoder/model.safetensors",
        2,
        r"decoder/model\.safetensors.*; ",
    ),
    case(
        "a picture over a run's recipe by a detour",
        "inspect attention decoder Tom --svg decoder/../decoder/recipe.toml",
        2,
        r"recipe\.toml.*; ",
    ),
    case(
        "a picture over weights behind a link",
        "inspect attention decoder Tom --svg a.svg",
        2,
        r"(a\.svg|model\.safetensors).*; ",
        link("a.svg", "decoder/model.safetensors"),
    ),
    case(
        "a picture and a page in one file",
        "inspect positions --length 4 --d-model 4 --svg a.svg --html ./a.svg",
        2,
        r"a\.svg.*; |--html.*; ",
    ),
    case(
        "a page over a dataset's manifest",
        "inspect attention decoder Tom --html prepared/manifest.json",
        2,
        r"prepared/manifest\.json.*; ",
    ),
    case(
        "numbers over a checkpoint",
        "inspect attention decoder Tom --npz decoder/checkpoints/step-000080/state.json",
        2,
        r"state\.json.*; ",
    ),
    case("curves over the metrics", "runs show decoder --csv decoder/metrics.jsonl", 2, r"metrics\.jsonl.*; "),
    case(
        "curves over the tokenizer", "runs show decoder --svg decoder/tokenizer.json", 2, r"decoder/tokenizer\.json.*; "
    ),
    case("a plan over its text", "plan text.txt --minutes 1 --out text.txt", 2, r"text\.txt.*; ", timeout=90),
    case(
        "a tokenizer in a locked folder",
        f"{LEARN} shut/t.json",
        2,
        r"shut.*not writable; ",
        folder("shut"),
        locked("shut"),
    ),
    case("a tokenizer in the place of a folder", f"{LEARN} folder", 2, r"'folder' is a folder; ", folder("folder")),
    case("a tokenizer in a device", f"{LEARN} /dev/full", 2, r"/dev/full.*; "),
    case(
        "a dataset in a locked folder",
        f"{PREPARE} shut/data",
        2,
        r"shut.*not writable; ",
        folder("shut"),
        locked("shut"),
    ),
    case("a dataset in the working folder", f"{PREPARE} .", 2, r"(\.|folder).*; .*--out|choose another"),
    case(
        "a dataset without a name",
        ["prepare", "text.txt", "--tokenizer", "tokenizer.json", "--out", ""],
        2,
        r"--out|''|empty",
    ),
    case("a dataset behind a link to nowhere", f"{PREPARE} data", 2, r"data.*; ", link("data", "gone")),
    case("a dataset over the text it reads", f"{PREPARE} text.txt", 2, r"text\.txt is a file.*; "),
    case("a run in a locked folder", f"{TRAIN} shut/run", 2, r"shut.*not writable; ", folder("shut"), locked("shut")),
    case("a run in the working folder", f"{TRAIN} .", 2, r"'?\.'?.*holds no run.*; choose another --out"),
    case(
        "a run in a folder with something in it",
        f"{TRAIN} folder",
        2,
        r"folder.*holds no run.*; choose another --out",
        write("folder/notes.md", "mine"),
    ),
    case(
        "a run in a folder with something hidden in it",
        f"{TRAIN} folder",
        2,
        r"folder.*holds no run.*; choose another --out",
        write("folder/.notes", "mine"),
    ),
    case("a run in a pipe", f"{TRAIN} pipe", 2, r"pipe.*; choose another", fifo("pipe"), timeout=30),
    case("a run in a device", f"{TRAIN} /dev/null", 2, r"/dev/null.*; choose another"),
    case("a run below a device", f"{TRAIN} /dev/null/run", 2, r"/dev/null.*; choose another"),
    case("a run behind a link to nowhere", f"{TRAIN} run", 2, r"run.*; choose another", link("run", "gone")),
    case("a run with a name of 300 letters", f"{TRAIN} {'n' * 300}", 2, r"n{80}.*(long|name).*; "),
    case(
        "a run with a path of 5,000 letters",
        f"{TRAIN} {'/'.join(['n' * 100] * 50)}",
        2,
        r"(long|name).*; ",
        unlimited=True,
    ),
    case(
        "a folder that looks like ours and is not",
        f"{TRAIN} run",
        2,
        r"run.*; ",
        write("run/recipe.toml", "name = 'mine'\n"),
        write("run/thesis.txt", "years of work"),
    ),
    case(
        "a cache that is a file",
        f"{TRAIN} run",
        2,
        r"(TFCLI_CACHE|text\.txt).*; ",
        environment={"TFCLI_CACHE": "text.txt"},
    ),
    case(
        "a cache that is locked",
        f"{TRAIN} run",
        2,
        r"(TFCLI_CACHE|shut).*not writable.*; ",
        folder("shut"),
        locked("shut"),
        environment={"TFCLI_CACHE": "shut"},
    ),
    case(
        "a cache in a device",
        f"{TRAIN} run",
        2,
        r"(TFCLI_CACHE|/dev/null).*; ",
        environment={"TFCLI_CACHE": "/dev/null"},
    ),
    case(
        "a cache of somebody's who is not here",
        f"{TRAIN} run",
        2,
        r"(TFCLI_CACHE|~nobody-such).*; ",
        environment={"TFCLI_CACHE": "~nobody-such/cache"},
    ),
    case(
        "no room for temporary files",
        "tokenize train - --out t.json",
        0,
        "",
        folder("shut"),
        locked("shut"),
        stdin=b"one two\n",
        environment={"TMPDIR": "shut"},
        leaves=("t.json",),
    ),
    case(
        "a page that names a run in HTML",
        "inspect attention <b>run Tom --html page.html",
        0,
        "",
        lambda here: (here / "decoder").rename(here / "<b>run"),
        needs=("decoder",),
        leaves=("page.html",),
    ),
]


@every(CASES)
def test_outputs(hostile: Case, place: Place):
    check(place, hostile)


def test_no_page_or_picture_holds_what_a_name_or_a_text_says_as_markup(place: Place):
    """A text, a target and a run's name go into SVG and HTML as text."""
    place.bring(["decoder"])
    (place.here / "decoder").rename(place.here / "<img src=x onerror=alert(1)>")
    text = "</script><script>alert"
    words = ["inspect", "attention", "<img src=x onerror=alert(1)>", text, "--svg", "a.svg", "--html", "a.html"]
    check(place, Case("markup", words, 0, "", leaves=("a.svg", "a.html"), unlimited=True))
    for name in ("a.svg", "a.html"):
        drawn = (place.here / name).read_text()
        assert "<img src=x" not in drawn, name
        assert "<script>alert" not in drawn, name
        assert "http://" not in drawn.replace("http://www.w3.org/", ""), name
        assert "https://" not in drawn, name


def test_a_run_tells_nothing_of_the_machine_in_markup(place: Place):
    """README.md of a run: names of files are text there, and paths are not those of this machine."""
    place.bring(["text.txt"])
    hostile = "<b>book [a](x.y).txt"
    (place.here / "text.txt").rename(place.here / hostile)
    check(place, Case("readme", ["train", "--data", hostile, *TINY.split(), "--out", "run"], 0, "", leaves=("run*",)))
    page = Path(place.here / "run/README.md").read_text()
    assert "<b>book" not in page
    assert "[a](x.y)" not in page
    assert str(place.here) not in page
