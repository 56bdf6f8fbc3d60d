"""Remote files (URLs): read as a stream, over HTTP by the standard library, from all other stores by fsspec. That comes
with `datasets`; the library that it needs for a store, such as s3fs, is the user's to install."""

import base64
import io
import logging
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from tfcli.addresses import masked, permit, reachable
from tfcli.errors import TfcliError, UsageError, first_lines

_URL = re.compile(r"[a-z][a-z0-9+.-]*://.", re.ASCII)
_HTTP = ("http", "https")
_LIBRARIES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}
State = tuple[tuple[str, str], ...]  # what changes with a file's content: size, entity tag or checksum, time
_CHANGING = ("size", "etag", "md5hash", "modified", "lastmodified", "last_modified", "mtime", "updated", "created")


def is_remote(name: str) -> bool:
    """Whether a source is a URL, such as https://… or s3://…."""
    return _URL.match(name) is not None


def remote_files(name: str) -> list[str]:
    """The URLs of the files that a URL, a glob of a store, or a folder of one means, in order. UsageError where nothing
    is there, or the protocol or its library is not; TfcliError where the store cannot be reached."""
    if _protocol(name) in _HTTP:
        return [name]
    with _explained(name):
        system, path = _file_system(name)
        is_pattern = any(sign in path for sign in "*?[")
        found = system.glob(path) if is_pattern else system.find(path) if system.isdir(path) else [path]
        if found == [path]:
            return [name]
        urls = [str(system.unstrip_protocol(one)) for one in sorted(found) if system.size(one)]
        permit(urls)
    if not urls:
        raise UsageError(f"No file with anything in it matches '{name}'", "check the address")
    return urls


def remote_state(url: str) -> State:
    """What the store says of a file now; errors as `remote_files`."""
    with _explained(url):
        if _protocol(url) in _HTTP:
            with _response(url) as response:
                known: dict[str, Any] = {"size": response.length, "etag": response.headers["ETag"]}
                known["modified"] = response.headers["Last-Modified"]
        else:
            system, path = _file_system(url)
            system.invalidate_cache()
            known = {key.lower(): value for key, value in system.info(path).items()}
            if known.get("type") == "directory":
                raise FileNotFoundError("it is a folder")
        return tuple((key, str(known[key])) for key in _CHANGING if known.get(key) is not None)


def identity(state: State) -> State | None:
    """The size and the entity tag or checksum, which stand for the content; None: the store says neither."""
    return state if any(key in ("etag", "md5hash") for key, _ in state) else None


def open_remote(url: str) -> BinaryIO:
    """The bytes of a file, as they come; errors as `remote_files`, also of its read()."""
    with _explained(url):
        if _protocol(url) in _HTTP:
            response = _response(url)
            stream = _Stream(url, response, response.length)
        else:
            system, path = _file_system(url)
            stream = _Stream(url, system.open(path, "rb"), None)
    return io.BufferedReader(stream, 1 << 20)


class _Stream(io.RawIOBase):
    """A remote file, whose errors are one sentence. The standard library takes a broken connection for the end."""

    def __init__(self, url: str, file: Any, size: int | None) -> None:
        self._url, self._file, self._left = url, file, size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _explained(self._url):
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any) -> int:
        with _explained(self._url):
            data = self._file.read(len(buffer))
            if self._left is not None:
                self._left -= len(data)
                if self._left and not data:
                    raise ConnectionError(f"the connection ended {self._left:,} bytes before the end")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def _protocol(url: str) -> str:
    return url.partition("://")[0]


def _response(url: str) -> Any:
    parts = urllib.parse.urlsplit(reachable(url))
    credentials, _, host = parts.netloc.rpartition("@")
    address = urllib.parse.urlunsplit(parts._replace(netloc=host))
    request = urllib.request.Request(address, headers={"User-Agent": "tfcli", "Accept-Encoding": "identity"})
    if credentials:
        basic = base64.b64encode(urllib.parse.unquote(credentials).encode()).decode()
        # Another host, to which the answer may lead, does not get them.
        request.add_unredirected_header("Authorization", f"Basic {basic}")
    return urllib.request.urlopen(request, timeout=60.0)  # seconds that the server may be silent


def _file_system(url: str) -> tuple[Any, str]:
    import fsspec  # type: ignore[import-untyped]

    logging.getLogger("fsspec").setLevel(logging.CRITICAL)
    protocol = _protocol(url)
    if protocol not in fsspec.available_protocols():
        raise UsageError(f"Nothing here reads {protocol}://, as in {url}", "name a file, or https://, s3:// or gs://")
    try:
        system, path = fsspec.core.url_to_fs(reachable(url))
    except ImportError as error:
        if (library := _LIBRARIES.get(protocol)) is None:
            raise UsageError(f"Cannot read {url}: {masked(first_lines(error))}", "install that library") from error
        raise UsageError(f"Reading {url} needs the library {library}", f"pip install {library}") from error
    return system, path


@contextmanager
def _explained(url: str) -> Iterator[None]:
    """Turn whatever the libraries raise into one plain sentence."""
    try:
        yield
    except TfcliError:
        raise
    except Exception as error:
        if isinstance(error, FileNotFoundError) or getattr(error, "code", None) in (404, 410):
            raise UsageError(f"There is no file {url}", "check the address") from error
        inner = getattr(error, "reason", None)  # of a URLError, which shows it in brackets
        why = masked(first_lines(inner if isinstance(inner, Exception) else error))
        remedy = "check the address, the network and what you may read there"
        raise TfcliError(f"Cannot fetch {url}: {why}", remedy) from error
