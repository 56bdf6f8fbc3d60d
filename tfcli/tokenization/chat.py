"""Chat templates: a conversation as the text that a model was trained on. A template is a program (Jinja) that came
with a checkpoint. It runs in a sandbox, in a child process with limits, as ``python -m tfcli.tokenization.chat``: a
conversation a line in, a text or what is wrong with it a line out, as JSON."""

import atexit
import json
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from threading import Timer
from typing import Any, NoReturn

from tfcli.errors import BrokenInputError, UsageError, shortened
from tfcli.files import read_versioned, validated, write_json
from tfcli.machine import DEVNULL, PIPE, Popen, child, of_unix

FILE_NAME = "chat_template.json"
_FORMAT_VERSION = 1
_RESTORE = "restore the file from a copy of the run"
_SECONDS, _BYTES, _LONGEST = 2, 1 << 30, 1 << 22
_PATIENCE = 60  # seconds on the clock, in which a busy machine surely has spent those of the processor
_renderers: dict[int, "Popen[str]"] = {}  # the child process, while there is one


@dataclass(frozen=True)
class ChatTemplates:
    """A checkpoint's templates by name, the usual one as "default", and what else they read, as "bos_token"."""

    templates: dict[str, str]
    tokens: dict[str, str]

    def save(self, folder: Path) -> None:
        """Write them into a run."""
        write_json(folder / FILE_NAME, {"format_version": _FORMAT_VERSION, **vars(self)})

    def text(self, messages: list[dict[str, str]], now: datetime | None = None) -> str:
        """A conversation in the usual template, up to the model's answer.

        Args:
            messages: With "role" and "content" each.
            now: The time that a template may write down; the clock's by default.

        Raises:
            UsageError: There is no usual template, or it refuses the conversation.
            BrokenInputError: It is damaged, or takes over 2 seconds, 1 GB or 4 million characters.
        """
        if "default" not in self.templates:
            problem = f"Of the chat templates ({', '.join(sorted(self.templates))}) none is the usual one"
            raise UsageError(problem, "leave --chat out, and write the prompt as the model expects it")
        values = {**self.tokens, "messages": messages, "tools": None, "documents": None, "add_generation_prompt": True}
        question = {"template": self.templates["default"], "values": values, "now": (now or datetime.now()).isoformat()}
        answer = _answer(json.dumps(question))
        if "refused" in answer:
            problem = f"The chat template refuses the conversation: {shortened(answer['refused'])}"
            raise UsageError(problem, "write it as the model expects it: --system is not for every model")
        if "text" not in answer:
            problem = f"The chat template fails: {shortened(answer['failed'])}"
            raise BrokenInputError(problem, "leave --chat out, or correct the template")
        return str(answer["text"])


def read_chat_templates(folder: Path) -> ChatTemplates | None:
    """Those of a run; None where it has none. BrokenInputError where the file is damaged or of a later version."""
    path = folder / FILE_NAME
    if not path.is_file():
        return None
    return validated(ChatTemplates, read_versioned(path, _FORMAT_VERSION, remedy=_RESTORE)[1], path, _RESTORE)


def _answer(question: str) -> dict[str, str]:
    process = _renderer()
    assert process.stdin is not None and process.stdout is not None
    timer = Timer(_PATIENCE, process.kill)
    timer.start()
    line = ""
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(question + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
    except BaseException:  # the answer that is still to come is not the next question's
        process.kill()
        raise
    finally:
        timer.cancel()
    if not line:
        process.wait()
        return {"failed": f"it takes more than {_SECONDS} seconds or {_BYTES >> 30} GB of memory"}
    return json.loads(line)


def _renderer() -> "Popen[str]":
    """The child process, started anew where a template has ended it."""
    if 0 not in _renderers or _renderers[0].poll() is not None:
        running = ExitStack()
        _renderers[0] = running.enter_context(child("tfcli.tokenization.chat", stdin=PIPE, stdout=PIPE, stderr=DEVNULL))
        atexit.register(running.close)
    return _renderers[0]


@lru_cache(maxsize=1)
def _compiled(template: str) -> Any:
    """As `transformers` has it: blocks leave no blank lines, loops can be left, and a few functions are there."""
    from jinja2 import ext, nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(ext.Extension):
        """``{% generation %}`` marks what a model has written; nothing else comes of it."""

        tags = {"generation"}  # noqa: RUF012 (read by jinja, never changed)

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True)).set_lineno(line)

    extensions = [Generation, ext.loopcontrols]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    environment.filters["tojson"] = partial(json.dumps, ensure_ascii=False)
    environment.globals["raise_exception"] = _raise
    return environment.from_string(template)


class _RefusedError(Exception):
    """A template's own."""


def _raise(message: object) -> NoReturn:
    raise _RefusedError(str(message))


def limit_process(seconds: int, memory: int) -> None:
    """Bound this process: seconds of the processor from now on, and bytes of memory altogether."""
    if (resource := of_unix("resource")) is None:  # Windows has the clock alone for a limit
        return
    spent = resource.getrusage(resource.RUSAGE_SELF)
    until = int(spent.ru_utime + spent.ru_stime) + 1 + seconds
    for what, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, until), (resource.RLIMIT_CORE, 0)):
        with suppress(OSError, ValueError):  # macOS does not limit memory
            resource.setrlimit(what, (most, resource.getrlimit(what)[1]))


def _rendered(template: str, values: dict[str, Any], now: str) -> dict[str, str]:
    values["strftime_now"] = datetime.fromisoformat(now).strftime
    try:
        parts, length = [], 0
        for part in _compiled(template).generate(values):
            parts.append(part)
            if (length := length + len(part)) > _LONGEST:
                return {"failed": f"it makes more than {_LONGEST:,} characters"}
        return {"text": "".join(parts)}
    except _RefusedError as error:
        return {"refused": " ".join(str(error).split())}
    except MemoryError:  # which ends this process
        raise
    except Exception as error:
        line = f" in line {error.lineno}" if hasattr(error, "lineno") else ""
        return {"failed": " ".join(f"{str(error).rstrip('.')}{line}".split()) or type(error).__name__}


if __name__ == "__main__":
    for asked in sys.stdin:
        limit_process(_SECONDS, _BYTES)
        sys.stdout.write(json.dumps(_rendered(**json.loads(asked))) + "\n")
        sys.stdout.flush()
