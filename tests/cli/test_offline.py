"""Nothing talks to the network unasked: ordinary commands beside a proxy that counts who asks it."""

import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

COMMANDS = """
tokenize train a.txt --vocab-size 300 --out t.json
prepare a.txt --tokenizer t.json --out of-txt
prepare a.jsonl --tokenizer t.json --out of-jsonl
prepare a.csv --tokenizer t.json --out of-csv
prepare a.parquet --tokenizer t.json --out of-parquet
prepare a.arrow --tokenizer t.json --out of-arrow
train --data a.parquet --out run --size tiny --set train.steps=2 --set model.max_seq_len=16
generate run Hello --max-new-tokens 2
evaluate run a.arrow
evaluate translator
inspect attention run Hello
export run --out exported
import exported --out imported
"""

# What a proxy is not asked for, such as a name of a host, is seen by Python itself.
PROGRAM = """
import sys
asked = []
def hear(event, details):
    if event in ("socket.getaddrinfo", "socket.gethostbyname") or event == "socket.connect" and details[1][0] != 1:
        asked.append((event, str(details[1:])))
sys.addaudithook(hear)
from tests.cli.commands import tfcli
for command in sys.argv[1].strip().splitlines():
    result = tfcli(*command.split())
    assert result.exit_code == 0, (command, result.stderr)
    assert not asked, (command, asked)
"""


class _Asked(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.server.asked.append(self.request.recv(200))  # type: ignore[attr-defined]


@pytest.fixture
def proxy() -> Iterator[socketserver.ThreadingTCPServer]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Asked) as server:
        server.asked = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_files_are_read_and_models_trained_without_the_network(
    tmp_path: Path, trained: Callable[[str], Path], proxy: socketserver.ThreadingTCPServer
):
    """`datasets` counted a download on the hub for every `.parquet` and `.arrow` file, four times."""
    texts = [f"Hello, this is text number {number}." for number in range(120)]
    (tmp_path / "a.txt").write_text("\n".join(texts))
    (tmp_path / "a.csv").write_text("text\n" + "\n".join(f'"{text}"' for text in texts))
    (tmp_path / "a.jsonl").write_text("\n".join(f'{{"text": "{text}"}}' for text in texts))
    table = pyarrow.table({"text": texts})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    with pyarrow.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:
        writer.write(table)
    (tmp_path / "translator").symlink_to(trained("encoder-decoder"))

    address = f"http://127.0.0.1:{proxy.server_address[1]}"
    through = {f"{scheme}_PROXY": address for scheme in ("HTTP", "HTTPS", "ALL")}
    silent = ("OFFLINE", "TELEMETRY", "DOWNLOAD_COUNTS", "NO_PROXY", "no_proxy")
    kept = {name: value for name, value in os.environ.items() if not name.endswith(silent)}
    environment = {**kept, **through, **{name.lower(): value for name, value in through.items()}}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, COMMANDS],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert proxy.asked == []  # type: ignore[attr-defined]
