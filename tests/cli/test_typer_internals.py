"""What typer does not promise: taken away, commands still work and mistakes still end in a sentence."""

import subprocess
import sys

import typer

from tests.cli.commands import tfcli
from tfcli.console.usage import Mistake


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    code += f"\nsys.argv = ['tfcli', *{arguments}]\nfrom tfcli.cli.main import main\nmain()\n"
    return subprocess.run([sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True)


def test_without_its_class_of_groups_every_command_is_there():
    """Typer needs the class itself, so it is hidden from tfcli alone."""
    hidden = (
        "import builtins, typer.core\nreal = builtins.__import__\n"
        "def without(name, globals=None, locals=None, fromlist=(), level=0):\n"
        "    if name == 'typer.core' and globals['__name__'].startswith('tfcli'):\n"
        "        raise ImportError(name)\n"
        "    return real(name, globals, locals, fromlist, level)\n"
        "builtins.__import__ = without\n"
    )
    done = run(hidden, "recipes", "list")
    assert (done.returncode, done.stderr) == (0, "")
    assert "quickstart" in done.stdout
    done = run(hidden, "inspect", "--help")
    assert "attention" in done.stdout
    assert run(hidden, "trian").returncode == 2


def test_an_error_without_anything_but_its_message_is_one_sentence():
    class Bare(typer.TyperException):
        def __init__(self) -> None:
            super().__init__("Something is wrong.")

    found = Mistake(Bare())
    assert (found.message, found.option, found.parameter, found.parameters) == ("Something is wrong", "", None, [])
    assert found.commands == []


def test_an_unknown_option_whose_error_names_nothing_is_still_refused(monkeypatch):
    def silent(error: typer.TyperException) -> Mistake:
        found = Mistake(error)
        found.option, found.parameters = "", []
        return found

    monkeypatch.setattr("tfcli.console.usage.Mistake", silent)
    result = tfcli("train", "--siz", "tiny")
    assert result.exit_code == 2
    assert result.stderr.startswith("tfcli: No such option: --siz")
    assert result.stderr.endswith("; see `tfcli train --help`.\n")
