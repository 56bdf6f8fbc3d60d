"""``tfcli tokenize``: train a tokenizer, turn text into ids and back, compare tokenizers."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tfcli.console.options import Json, TextSeed, argument, command
from tfcli.console.settings import READING_HELP, reading_settings
from tfcli.console.stdin import read_arguments, read_lines
from tfcli.console.terminal import Terminal, is_terminal
from tfcli.data.command import OnBadRecord, Sources
from tfcli.errors import UsageError
from tfcli.outputs import reading, require_output, write_output
from tfcli.records.roles import ROLE_NAMES

if TYPE_CHECKING:
    from tfcli.tokenization.tokenizer import Tokenizer

_MOST_DIGITS = 18  # of an id; Python refuses to read thousands
tokenize_app = typer.Typer()

_Algorithm = Literal["bpe", "wordpiece", "unigram", "word", "char"]
_ALGORITHM = "bpe (byte-level: spells any text), wordpiece, unigram, word, char."
_TOKEN = "A special token of your own, as <|user|>; repeatable."
_FROM = "Extend its vocabulary: the old ids stay."
_ROLE = "The special token that is pad, bos, eos, mask or unk, as eos=[SEP]; repeatable."
_BYTES, _SAMPLE = "unigram: what has no piece is spelled in bytes.", "Of a longer text, learn from so many bytes."
_SPELLED = "Read the spelling of a special token in a text as that token."
_TEXTS = "Texts; -: the whole of stdin is one text."
_IDS = "The ids of one text; -: each line of stdin is one."
_READING = typer.Option("--set", metavar="KEY=VALUE", help=READING_HELP)
_TOKENIZER = "A tokenizer.json, a run, or a folder that import reads."
TokenizerPath = Annotated[Path, argument(metavar="TOKENIZER|RUN", help=_TOKENIZER)]


@tokenize_app.command("train")
@command
def train(
    terminal: Terminal,
    sources: Sources,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The tokenizer.json to write.")],
    algorithm: Annotated[_Algorithm | None, typer.Option(metavar="NAME", help=_ALGORITHM, show_default="bpe")] = None,
    vocab_size: Annotated[int | None, typer.Option(help="The most ids it may have.", show_default="2048")] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="The source is pairs; both sides are used.")] = False,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Turn text into lower case first.")] = False,
    special_token: Annotated[list[str] | None, typer.Option(metavar="TOKEN", help=_TOKEN)] = None,
    on_bad_record: OnBadRecord = None,
    old: Annotated[str | None, typer.Option("--from", metavar="RUN|FILE|hf:NAME", help=_FROM)] = None,
    role: Annotated[list[str] | None, typer.Option(metavar="ROLE=TOKEN", help=_ROLE)] = None,
    byte_fallback: Annotated[bool, typer.Option("--byte-fallback", help=_BYTES)] = False,
    sample_bytes: Annotated[int | None, typer.Option(help=_SAMPLE, show_default="1000000000")] = None,
    assignments: Annotated[list[str] | None, _READING] = None,
    seed: TextSeed = None,
    json: Json = False,
) -> None:
    """Train a tokenizer on text, and write it as one tokenizer.json.

    The same text and settings give the same file, byte for byte.

    Examples:

      tfcli tokenize train builtin:stories --out tokenizer.json
      tfcli tokenize train 'books/*.txt' --algorithm wordpiece --out books.json
      tfcli tokenize train law.txt --from runs/decoder-1 --vocab-size 4096 --out law.json
    """
    from tfcli.console.reporting import reporting
    from tfcli.corpora.open import open_source
    from tfcli.draw.numbers import percent
    from tfcli.recipe.loading import build_recipe
    from tfcli.records.runs import StageStarted
    from tfcli.tokenization.extend import extend_tokenizer
    from tfcli.tokenization.train import reported_texts, train_tokenizer

    require_output(out, "--out")
    given: dict[str, Any] = {"algorithm": algorithm, "vocab_size": vocab_size, "lowercase": lowercase}
    given |= {"special_tokens": special_token, "byte_fallback": byte_fallback, "sample_bytes": sample_bytes}
    given |= map(_role, role or ())
    extended = None if old is None else _to_extend(old, given)
    section = build_recipe({"tokenizer": given}).tokenizer
    read = reading_settings(assignments or [])
    if on_bad_record is not None:
        read["on_bad_record"] = on_bad_record
    with reporting(terminal, json=json) as reporter:
        source = open_source(sources, "pairs" if pairs else "text", seed=seed or 0, **read)
        begun = "" if extended is None else f", from the {extended.vocab_size} ids of {old}"
        reporter(StageStarted("tokenizer", f"{section.algorithm} on {', '.join(sources)}{begun}"))
        learn = train_tokenizer if extended is None else partial(extend_tokenizer, extended)
        tokenizer, report = learn(lambda: reported_texts(source.documents(), reporter), section)
        write_output(out, "--out", tokenizer.to_json())
        if report.stretches_learned < 1:
            learned = f"Learned from {percent(report.stretches_learned)} of the long stretches without white space"
            terminal.note(f"{learned}, as many as fit into memory, and from all other words.")
        reporter.result(replace(report, skipped=source.skipped()))
        for line in source.skipped().lines() if not json else ():
            terminal.note(line)


@tokenize_app.command("encode")
@command
def encode(
    terminal: Terminal,
    tokenizer: TokenizerPath,
    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT|-", help=_TEXTS, show_default="-")] = None,
    special_tokens: Annotated[bool, typer.Option("--special-tokens", help=_SPELLED)] = False,
    json: Json = False,
) -> None:
    """Show how text is cut into tokens.

    Into a file or pipe go the ids alone, one text a line.

    Examples:

      tfcli tokenize encode tokenizer.json "I swam across the river."
      tfcli tokenize encode tokenizer.json - < book.txt
    """
    from tfcli.draw.tables import to_json
    from tfcli.interop.tokenizer_files import any_tokenizer
    from tfcli.tokenization.view import EncodingView

    loaded = any_tokenizer(tokenizer)
    for text in read_arguments(texts, "text"):
        encoding = loaded.encoding(text, special=special_tokens)
        if json:
            terminal.json(to_json(encoding))
        elif is_terminal():
            terminal.show(EncodingView(encoding))
        else:
            terminal.text(" ".join(map(str, encoding.token_ids)))
        if encoding.unknown:
            terminal.note(f"{encoding.unknown} of {len(encoding.token_ids)} tokens are unknown to this tokenizer.")


@tokenize_app.command("decode")
@command
def decode(
    terminal: Terminal,
    tokenizer: TokenizerPath,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID|-", help=_IDS, show_default="-")] = None,
    json: Json = False,
) -> None:
    """Turn token ids back into text.

    A terminal shows control characters as escapes.

    Examples:

      tfcli tokenize decode tokenizer.json 52 318 77
      tfcli tokenize encode tokenizer.json "two words" | tfcli tokenize decode tokenizer.json -
    """
    from tfcli.interop.tokenizer_files import any_tokenizer

    loaded = any_tokenizer(tokenizer)
    for line in [" ".join(ids)] if ids and ids != ["-"] else read_lines():
        numbers = [_id(word) for word in line.split()]
        text = loaded.decode(numbers)
        if json:
            terminal.json({"token_ids": numbers, "text": text})
        else:
            terminal.text(text)


@tokenize_app.command("compare")
@command
def compare(
    terminal: Terminal,
    tokenizers: Annotated[list[Path], argument(metavar="TOKENIZER|RUN", help="A tokenizer.json or a run, each.")],
    on: Annotated[str, typer.Option(metavar="SOURCE", help="The text: a file, a glob, -, builtin:NAME or hf:NAME.")],
    seed: TextSeed = None,
    json: Json = False,
) -> None:
    """Compare tokenizers on one text.

    How much text a token carries, which words stay whole, what is lost, how much
    of the vocabulary occurs, and how fast they are.

    Examples:

      tfcli tokenize compare tokenizer.json runs/decoder-1 --on book.txt
      tfcli tokenize compare runs/decoder-1 runs/encoder-1 --on 'books/*.txt' --json
    """
    from tfcli.corpora.open import open_source
    from tfcli.interop.tokenizer_files import any_tokenizer
    from tfcli.tokenization import quality, view

    loaded = [(str(path), any_tokenizer(path)) for path in tokenizers]
    source = open_source(on, "text", seed=seed or 0)
    with terminal.progress() as tell:
        compared = quality.compare_tokenizers(loaded, on, source.documents, tell)
    terminal.result(compared, view.TokenizerComparisonView, json=json)


def _to_extend(name: str, given: dict[str, Any]) -> "Tokenizer":
    """The tokenizer that is extended; what it decides itself may not be asked for otherwise."""
    from tfcli.interop import importing, tokenizer_files

    path = importing.fetch(name) if importing.is_hub_name(name) else Path(name)
    if path.is_file():
        reading(path)
    loaded = tokenizer_files.any_tokenizer(path)
    if (asked := given["algorithm"]) not in (None, loaded.algorithm):
        raise UsageError(f"--from {name} is a {loaded.algorithm} tokenizer, not {asked}", "leave out --algorithm")
    if given["lowercase"] or given["byte_fallback"] or given.keys() & set(ROLE_NAMES):
        raise UsageError(f"--from {name} keeps its pipeline and its special tokens", "give --special-token alone")
    if given["vocab_size"] is None:
        problem = f"--from {name} has {loaded.vocab_size} ids, and how many there are to be is not said"
        raise UsageError(problem, f"give --vocab-size, as {loaded.vocab_size + 1000}")
    given["algorithm"] = loaded.algorithm
    return loaded


def _role(text: str) -> tuple[str, str]:
    role, equals, token = text.partition("=")
    if not equals or role not in ROLE_NAMES:
        raise UsageError(f"--role {text!r} names no role", f"write {' or '.join(ROLE_NAMES)}, and =TOKEN")
    return role, token


def _id(word: str) -> int:
    if not word.isdecimal() or len(word) > _MOST_DIGITS:
        shown = word if len(word) <= _MOST_DIGITS else f"{word[:_MOST_DIGITS]}…"
        raise UsageError(f"{shown!r} is no token id", "give whole numbers, such as 52 318 77")
    return int(word)
