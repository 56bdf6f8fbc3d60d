"""Addresses: which parts of them are secret, and which names are those of other machines."""

import pytest

from tfcli import addresses
from tfcli.addresses import AddressNeeded
from tfcli.errors import UsageError


@pytest.fixture(autouse=True)
def nothing_typed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    addresses.forget()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("https://h/x?X-Amz-Date=2026&X-Amz-Signature=a", "https://h/x?X-Amz-Date=***&X-Amz-Signature=***"),
        ("https://h/x?se=1&sp=r&sig=a", "https://h/x?se=***&sp=***&sig=***"),
        ("https://h/x?Expires=1&Signature=a&Key-Pair-Id=b", "https://h/x?Expires=***&Signature=***&Key-Pair-Id=***"),
        ("https://h/x?access_token=a&file=b.txt#part=1", "https://h/x?access_token=***&file=b.txt#part=1"),
        ("https://h/x?accessToken=a", "https://h/x?accessToken=***"),
        ("https://h/x?rlkey=a&dl=0", "https://h/x?rlkey=***&dl=0"),
        ("https://h/x?s%69g=a", "https://h/x?s%69g=***"),
        ("https://h/x?k=eyJhbGciOiJIUzI1NiIsInR5", "https://h/x?k=***"),
        ("https://h/x?eyJhbGciOiJIUzI1NiIsInR5", "https://h/x?***"),
        ("https://h/x;jsessionid=a?b=c", "https://h/x;jsessionid=***"),
        ("https://h/x?a=1?token=b", "https://h/x?a=***"),
        ("https://user:password@h/x", "https://user:***@h/x"),
        ("https://user:pass/wo?rd@h/x", "https://user:***@h/x"),
        ("https://token@h/x", "https://***@h/x"),
        ("HTTPS://h/x?token=a b", "HTTPS://h/x?token=***"),
        ("https://h/a.de?sig=1,https://h/a.en?sig=2", "https://h/a.de?sig=***,https://h/a.en?sig=***"),
        ("zip://a.txt::https://h/z.zip?sig=1", "zip://a.txt::https://h/z.zip?sig=***"),
    ],
)
def test_secrets_are_hidden_once_and_for_all(name, shown):
    assert addresses.hidden(name) == shown
    assert addresses.hidden(shown) == shown
    assert addresses.masked(f"Cannot fetch {name}") == f"Cannot fetch {shown}"
    assert addresses.typed(name) == shown
    assert addresses.reachable(shown) == name
    addresses.forget()
    with pytest.raises(AddressNeeded, match=r"lacks its secret"):
        addresses.reachable(shown)


@pytest.mark.parametrize(
    "name",
    [
        "https://h/x.txt?download=true",
        "https://h/x?author=me&keyword=turing&design=1",
        "https://h/x?persistentId=doi:10.7910/DVN/AB12CD",
        "https://h:8080/@user/x",
        "https://h/package@1.2/x.txt",
        "s3://user@bucket/x",
        "http://[::1]:80/x",
        "hf:owner/name:config@train",
    ],
)
def test_what_is_harmless_stays(name):
    assert addresses.typed(name) == name
    addresses.forget()  # as another command would
    assert addresses.reachable(name) == name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/etc/passwd", False),
        ("a.de,a.en", False),
        (r"C:\text.txt", False),
        (r"\\?\C:\text.txt", False),
        (r"\\host\share\text.txt", True),
        (r"\\?\UNC\host\share\text.txt", True),
        ("file:///text.txt", False),
        ("file://https://h/x", True),
        ("memory://x", False),
        ("memory://x::http://h/x", True),
        ("builtin:stories", False),
        ("-", False),
        ("hf:owner/name", True),
        ("s3://bucket/*.txt", True),
    ],
)
def test_names_of_other_machines(name, expected):
    assert addresses.is_network(name) is expected
    if expected:
        with pytest.raises(AddressNeeded, match="have not typed the address"):
            addresses.reachable(name)
    else:
        assert addresses.reachable(name) == name


def test_an_address_is_remembered_without_its_secret(tmp_path):
    addresses.typed("https://user:password@h/x?token=abcdef")
    kept = [file.read_text() for file in tmp_path.rglob("*") if file.is_file()]
    assert kept == ["https://user:***@h/x?token=***"]


def test_two_addresses_that_only_secrets_tell_apart_are_refused():
    addresses.typed("https://h/x?token=a")
    addresses.typed("https://h/x?token=a")
    with pytest.raises(UsageError, match=r"Two addresses are both https://h/x\?token=\*\*\* without"):
        addresses.typed("https://h/x?token=b")


def test_a_memory_that_cannot_be_written_is_a_remark(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match=r"cannot be remembered \(Not a directory\)"):
        addresses.typed("https://h/x")
    assert addresses.reachable("https://h/x") == "https://h/x"


def test_an_address_that_was_read_as_a_path_is_masked():
    assert addresses.masked("no run 'http:/u:pw@h/x?token=a'") == "no run 'http:/u:***@h/x?token=***'"
    assert addresses.masked("C:/x?a=b and 3:/4, x:y@z") == "C:/x?a=b and 3:/4, x:y@z"


def test_sources_in_an_assignment():
    assert addresses.typed_in("data.source=https://h/x?token=a") == "data.source=https://h/x?token=***"
    several = 'data.sources=[{source = "https://h/x?token=b", weight = 1}]'
    addresses.forget()
    assert addresses.typed_in(several) == several.replace("=b", "=***")
    assert addresses.reachable("https://h/x?token=***") == "https://h/x?token=b"
    assert addresses.typed_in("data.split=tail") == "data.split=tail"
