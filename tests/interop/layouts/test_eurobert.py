"""What is special to EuroBERT: the mask token, and the files of its first release."""

from . import reference
from .families.eurobert import FAMILY


def test_the_mask_is_written() -> None:
    written = FAMILY.layout.write(FAMILY.run, reference.ROLES)
    assert written["mask_token_id"] == reference.ROLES.mask == 3


def test_a_file_of_the_first_release_reads_the_same() -> None:
    """Its code came with the checkpoint, and named some settings in other ways."""
    old = FAMILY.small | {"mask_token": "<|mask|>", "clf_pooling": "late", "hidden_dropout": 0.0, "rope_theta": 250_000}
    new = FAMILY.small | {"rope_parameters": {"rope_type": "default", "rope_theta": 250_000.0}}
    assert reference.read_config(FAMILY.layout, old) == reference.read_config(FAMILY.layout, new)
