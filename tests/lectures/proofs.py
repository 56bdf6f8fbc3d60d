"""The proof of each idea of the lectures: a test, and a change of the program that the test catches."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

_PROOFS = Path(__file__).with_name("proofs.toml")


@dataclass(frozen=True)
class Mutation:
    """A change of one line that makes the program wrong.

    Attributes:
        file: The file to change, relative to the repository.
        old: Text that occurs exactly once in the file.
        new: Text that replaces it.
    """

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Proof:
    """How one idea of a lecture is checked.

    Attributes:
        id: The id of the idea, such as B10.
        test: The test that checks the idea, as pytest names it.
        mutation: A change of the program by which the test fails.
    """

    id: str
    test: str
    mutation: Mutation


def load_proofs() -> dict[str, Proof]:
    """The proofs in `proofs.toml`, by the id of their idea."""
    entries = tomllib.loads(_PROOFS.read_text(encoding="utf-8"))
    proofs = {}
    for idea_id, entry in entries.items():
        mutation = Mutation(**entry["mutation"])
        proofs[idea_id] = Proof(id=idea_id, test=entry["test"], mutation=mutation)
    return proofs


PROOFS = load_proofs()
