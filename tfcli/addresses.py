"""Network addresses of texts: which of them may be contacted, and the secrets in them, which are kept nowhere.

A run, and the recipe in it, may come from somebody else. An address is contacted only if this user has
named it: on a command line, in a recipe that a command ran, or in Python. Such addresses are remembered
outside every run and outside the cache, one file each, in `$XDG_STATE_HOME/tfcli/addresses` (else
`~/.local/state/tfcli/addresses`). Pruning or removing the cache does not forget them.

Secrets of an address (a password, the signature of a presigned URL) are known to this process alone. All
that is written or shown has `***` in their place.
"""

import os
import re
import shlex
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from tfcli.errors import Remark, TfcliError, UsageError
from tfcli.files import digest, write_text

MASK = "***"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*://"
# Two addresses in one name are joined by a comma (parallel files) or by :: (an archive of fsspec).
_NEXT = rf"(?!(?:,|::){_SCHEME})"
_IN_NAME = re.compile(rf"{_SCHEME}(?:{_NEXT}.)+", re.DOTALL)
# A path has made one slash of two.
_IN_TEXT = re.compile(rf"{_SCHEME}?(?:{_NEXT}[^\s\"'<>`])+")
_LOCAL = ("local://", "memory://")
# `\\?\C:\text.txt` and `\\.\device` are on this machine.
_WINDOWS_SHARE = re.compile(r"\\\\(?![?.]\\(?!UNC\\))")

_USER = re.compile(r"://?(?P<user>[^/?#@:]*)(?P<password>:[^/?#]*)?@")
# A password with an unescaped / ? or # makes no valid address, and is still a secret.
_LOOSE_USER = re.compile(r"://?(?P<user>[^/?#@:]*)(?P<password>:(?!\d*(?:[/?#]|$)).*)@", re.DOTALL)
_PARAMETER = re.compile(r"[?&;#](?P<key>[^=&;#]*)(?:=(?P<value>[^&;#]*))?")
_INNER_KEY = re.compile(r"\?([^=?]*)=")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SIGNATURES = {"sig", "sign", "signature"}
_SECRET_WORDS = _SIGNATURES | {
    *("auth", "authentication", "authorization", "bearer", "cred", "creds", "credential", "credentials", "expiration"),
    *("expire", "expires", "expiry", "hmac", "jwt", "oauth", "pass", "passphrase", "policy", "pw", "session", "sid"),
    *("ticket", "xauth"),
}
_SECRET_ENDINGS = ("key", "passwd", "password", "pwd", "secret", "sessionid", "signature", "token")
_LONG_WORD = re.compile("[A-Za-z0-9]{16,}")
_HEX = re.compile("[0-9A-Fa-f]{32,}")
_LACKS_SECRET = re.compile(r"[:/]\*{3}@|[=?&;#]\*{3}(?=[&;#,]|::|$)")
# Shorter ones are also ordinary words of a message, in which they are replaced.
_SHORTEST_PASSWORD = 4
_SHORTEST_VALUE = 12

_whole: dict[str, str] = {}
"""Addresses of this process with their secrets, by what they are called without."""
_permitted: set[str] = set()
_secrets: set[str] = set()


class AddressNeeded(UsageError):  # noqa: N818 (a UsageError)
    """An address that only this user may give: one that is not known, or whose secret is not.

    Attributes:
        address: The address without its secret.
        names: The sources to name instead of the text that was to be read.
        settings: Words of a command line that set the same text in a recipe.
        command: The command that gives the address; empty where it is not known here.
    """

    def __init__(
        self,
        address: str,
        *,
        lacks_secret: bool,
        recipe: str = "",
        names: Sequence[str] = (),
        settings: Sequence[str] = (),
        command: Sequence[str] = (),
    ) -> None:
        self.address = address
        self.lacks_secret = lacks_secret
        self.recipe = recipe
        self.names = tuple(names)
        self.settings = tuple(settings)
        self.command = tuple(command)
        if lacks_secret:
            problem = f"The address {address} lacks its secret, which tfcli does not keep"
            advice = f"give it with the secret in the place of {MASK}"
        else:
            problem = f"You have not typed the address {address} on this machine, and tfcli contacts no other"
            if recipe:
                problem = f"{recipe} names the address {address}, which you have not typed on this machine"
            advice = "type it if you trust it"
        super().__init__(problem, f"{advice}: `{shlex.join(command)}`" if command else advice)

    def with_details(self, **details: Any) -> "AddressNeeded":
        """The same error with other attributes."""
        known = {name: getattr(self, name) for name in ("lacks_secret", "recipe", "names", "settings", "command")}
        return AddressNeeded(self.address, **(known | details))


def is_network(name: str) -> bool:
    """Whether reading this source contacts another machine: a URL, a dataset of the hub, a Windows share."""
    name = name.removeprefix("file://")
    if name.startswith("hf:") or _WINDOWS_SHARE.match(name):
        return True
    if os.name == "nt" and name.startswith("//"):
        return True
    is_address = re.match(f"{_SCHEME}.", name) is not None
    return is_address and ("::" in name or not name.startswith(_LOCAL))


def typed(name: str) -> str:
    """Note that this user has named a source, which may be read from now on; the source without its secrets.

    A UsageError where the secrets alone tell it from another one of this command.
    """
    hidden_name = hidden(name)
    for part in _parts(name):
        hidden_part = hidden(part)
        if is_network(part):
            if hidden_part != part and _whole.setdefault(hidden_part, part) != part:
                if hidden_part in _permitted:
                    problem = f"Two addresses are both {hidden_part} without their secrets"
                    raise UsageError(problem, "fetch one of them, and name the file")
                _whole[hidden_part] = part  # a run that has kept one of before
            _permitted.add(hidden_part)
            _remember(hidden_part)
    return hidden_name


def typed_in(assignment: str) -> str:
    """As `typed`, for every source in what is written as a TOML value, or for the whole of a bare word."""
    key, equals, value = assignment.partition("=")
    if not re.search("[\"']", value):
        return f"{key}{equals}{typed(value.strip())}" if is_network(value.strip()) else assignment
    return re.sub(r"\"[^\"]*\"|'[^']*'", lambda text: text[0][0] + typed(text[0][1:-1]) + text[0][-1], assignment)


def hidden(name: str) -> str:
    """A source without the secrets of its addresses, which this process keeps to read it."""
    hidden_name = name
    if "://" not in name:
        return name
    for part in _parts(name):
        for address in _IN_NAME.findall(part):
            for start, end in _secret_places(address):
                _note_secret(address[start:end], is_value=address[start - 1] in "=?&;#")
        hidden_part = _IN_NAME.sub(lambda found: _without_secrets(found[0]), part)
        if hidden_part != part:
            _whole.setdefault(hidden_part, part)
        if part == name:
            hidden_name = hidden_part
    return hidden_name


def masked(text: str) -> str:
    """A text to be shown, with the mark in the place of every secret of an address in it."""
    shown = text
    if ":/" in text:
        for hidden_name, name in _whole.items():
            shown = shown.replace(name, hidden_name)
        shown = _IN_TEXT.sub(lambda found: _without_secrets(found[0]), shown)
    for secret in sorted(_secrets, key=len, reverse=True):
        shown = shown.replace(secret, MASK)
    return shown


def revealed(text: str) -> str:
    """A text with the secrets in it again, for another process of this user; never to be kept or shown."""
    for hidden_name, name in _whole.items():
        text = text.replace(hidden_name, name)
    return text


def require_known(name: str) -> None:
    """Refuse an address that this user has never named, before anything is asked of it."""
    if is_network(name):
        address = hidden(name)
        if address not in _permitted and not _is_remembered(address):
            raise AddressNeeded(address, lacks_secret=False)


def reachable(name: str) -> str:
    """What to contact for a source: the only way from a name to the network.

    Raises:
        AddressNeeded: This user has never named it, or its secret is not known here.
    """
    require_known(name)
    address = hidden(name)
    if address not in _whole and _LACKS_SECRET.search(address):
        raise AddressNeeded(address, lacks_secret=True)
    return _whole.get(address, address)


def permit(names: Iterable[str]) -> None:
    """Let this process read what an address that may be read stands for, such as the files of a glob."""
    _permitted.update(names)


def shared() -> dict[str, Any]:
    """What another process of this command has to know (`share`)."""
    return {"whole": _whole.copy(), "permitted": sorted(_permitted)}


def share(known: dict[str, Any]) -> None:
    """Take over what the process that began this one knows."""
    _whole.update(known["whole"])
    _permitted.update(known["permitted"])
    for address in known["whole"].values():
        hidden(address)


def forget() -> None:
    """Forget the addresses and the secrets of an earlier command of this process; the files stay."""
    _whole.clear()
    _permitted.clear()
    _secrets.clear()


def _parts(name: str) -> Iterator[str]:
    """The name, and where it joins two addresses by a comma, each of them."""
    yield name
    parts = re.split(rf",(?={_SCHEME}|hf:)", name)
    if len(parts) > 1:
        yield from parts


def _without_secrets(address: str) -> str:
    for start, end in sorted(_secret_places(address), reverse=True):
        address = address[:start] + MASK + address[end:]
    return address


def _secret_places(address: str) -> list[tuple[int, int]]:
    """Where in an address a secret begins and ends: by what a value is called, and by what it looks like."""
    places = []
    colon = address.index(":/")
    user = _USER.search(address) or _LOOSE_USER.match(address[colon:])
    offset = 0 if user is None or user.re is _USER else colon
    if user is not None:
        start, end = user.span("password")
        if start >= 0:
            places.append((offset + start + 1, offset + end))
        elif user["user"] and address.lower().startswith("http"):  # a token; stores have a name there
            places.append(user.span("user"))
    begin = max((end for _, end in places), default=0)
    parameters = list(_PARAMETER.finditer(address, begin))
    is_presigned = any(_words(parameter["key"]) & _SIGNATURES for parameter in parameters)
    for parameter in parameters:
        key, value = parameter["key"], parameter["value"]
        if value is None:
            if _is_random(key):
                places.append(parameter.span("key"))
        elif value and (is_presigned or _is_secret(key, value)):
            places.append(parameter.span("value"))
    return places


def _is_secret(key: str, value: str) -> bool:
    """Whether a value of a query is one that nobody else may read."""
    words = _words(key)
    for inner_key in _INNER_KEY.findall(value):
        words |= _words(inner_key)
    is_called_so = bool(words & _SECRET_WORDS) or any(word.endswith(_SECRET_ENDINGS) for word in words)
    return is_called_so or _is_random(value)


def _words(key: str) -> set[str]:
    """The words of a key in lower case: access_token, accessToken, X-Amz-Signature."""
    return {word.lower() for word in _WORD.findall(unquote(key))}


def _is_random(value: str) -> bool:
    """Whether a value looks drawn, as tokens do and names do not."""
    plain = unquote(value)
    if _HEX.search(plain.replace("-", "")):
        return True
    for word in _LONG_WORD.findall(plain):
        kinds = (str.islower, str.isupper, str.isdigit)
        if all(any(map(kind, word)) for kind in kinds):
            return True
    return False


def _note_secret(secret: str, *, is_value: bool) -> None:
    """Keep a secret out of the messages of libraries, however they write it."""
    shortest = _SHORTEST_VALUE if is_value else _SHORTEST_PASSWORD
    spellings = {secret, unquote(secret), quote(secret), quote(secret, safe="")}
    _secrets.update(spelling for spelling in spellings if len(spelling) >= shortest)


def _folder() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "tfcli" / "addresses"


def _is_remembered(address: str) -> bool:
    try:
        return (_folder() / digest(address)).read_text(encoding="utf-8") == address
    except (OSError, RuntimeError, ValueError):  # there is no such file, no home folder, or no text in it
        return False


def _remember(address: str) -> None:
    """Write the file of an address. Each has its own, so that commands side by side do not wait for each other."""
    if _is_remembered(address):
        return
    try:
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_text(folder / digest(address), address)
    except (OSError, RuntimeError, TfcliError) as error:
        reason = error.problem if isinstance(error, TfcliError) else getattr(error, "strerror", None) or error
        problem = f"The address {address} cannot be remembered ({reason})"
        warnings.warn(f"{problem}: to resume a run that reads it, you type it again.", Remark, stacklevel=2)
