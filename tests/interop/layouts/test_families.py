"""What holds for every family of checkpoints, against `transformers`, which others wrote."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfcli.errors import BrokenInputError, UsageError
from tfcli.interop.checkpoint import read_checkpoint
from tfcli.interop.exporting import AUTO_CLASSES
from tfcli.interop.families import KNOWN_FAMILIES, layout_of
from tfcli.interop.families.layout import UnsupportedVariantError, base_class
from tfcli.interop.tensors import canonical_names, parameters_of_checkpoint, settled_section
from tfcli.models.build import build_model

from . import comparison, reference
from .families.listing import FAMILIES
from .family import Family, transformers

every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.layout.name)


def every_row(names: str, rows: Callable[[Family], Iterable[Any]]) -> pytest.MarkDecorator:
    """A case for each row of a table of each family."""
    cases = [
        pytest.param(family, *(row if isinstance(row, tuple) else (row,)), id=f"{family.layout.name}-{number}")
        for family in FAMILIES
        for number, row in enumerate(rows(family))
    ]
    return pytest.mark.parametrize(f"family, {names}", cases)


def test_every_family_is_described() -> None:
    assert [family.layout for family in FAMILIES] == list(KNOWN_FAMILIES)


@every_family
@settings(max_examples=20, derandomize=True, deadline=None)
@given(data=st.data())
def test_same_logits_and_weights(family: Family, data: st.DataObject) -> None:
    """And what is written of a read config reads back the same."""
    theirs = data.draw(family.drawn())
    ours = reference.ours_of(family.layout, theirs)
    batch = data.draw(comparison.batches(family.longest or ours.section.max_seq_len))
    comparison.assert_same_function(ours, theirs, batch)
    if family.in_float64 is not None:
        theirs = family.in_float64(theirs)
        ours = reference.ours_of(family.layout, theirs)
        comparison.assert_same_function(ours, theirs, batch)
    again = comparison.assert_round_trip(family.layout, ours.section, reference.parameters_of(ours))
    assert again == ours.section


@every_family
def test_a_saved_model_is_the_same_function(family: Family, tmp_path: Path) -> None:
    theirs = family.model()
    theirs.save_pretrained(tmp_path)
    checkpoint = read_checkpoint(tmp_path)
    assert layout_of(checkpoint.values, tmp_path) is family.layout
    tensors = canonical_names(family.layout, checkpoint.tensors)
    section = settled_section(family.layout, family.layout.read(checkpoint.config), tensors)
    parameters = parameters_of_checkpoint(family.layout, section, tensors, checkpoint.weights_file)[0]
    ours = reference.filled(section, parameters, torch.float32)
    comparison.assert_same(comparison.outputs(ours), comparison.their_outputs(section, theirs))


@every_family
def test_old_checkpoints_name_tensors_in_other_ways(family: Family) -> None:
    """A bias of logits, which some of them do not have, is then zero."""
    theirs = family.model(**family.old_settings)
    if hasattr(theirs, "final_logits_bias"):
        theirs.final_logits_bias.zero_()
    for tensors in family.old_files(theirs.state_dict()):
        ours = reference.ours_of(family.layout, theirs, tensors=tensors)
        comparison.assert_same(comparison.outputs(ours), comparison.their_outputs(ours.section, theirs))


@every_row("changes", lambda family: family.exports)
def test_a_run_exports_and_is_the_same_function(family: Family, changes: dict[str, Any], tmp_path: Path) -> None:
    ours = family.ours(**changes)
    section, parameters = ours.section, reference.parameters_of(ours)
    comparison.assert_round_trip(family.layout, section, parameters)
    folder = reference.export(tmp_path, family.layout, section, parameters)
    kind = "AutoModel" if section.head == "none" else AUTO_CLASSES[section.architecture]
    theirs, loading = getattr(transformers, kind).from_pretrained(folder, output_loading_info=True)
    # A class without a head may have a pooler, which no run has: `verify` and `export` name it.
    lacks = family.layout.headless_lacks if section.head == "none" else ()
    assert set(loading.pop("missing_keys")) == set(lacks)
    assert not any(loading.values()), loading
    comparison.assert_same(comparison.outputs(ours), comparison.their_outputs(section, theirs.eval()))


@every_row("setting, changes", lambda family: family.not_there())
def test_a_run_of_another_variant_is_refused(family: Family, setting: str, changes: dict[str, Any]) -> None:
    section = family.ours(**changes).section
    with pytest.raises(UnsupportedVariantError) as refusal:
        family.layout.write(section, reference.ROLES)
    assert refusal.value.setting == setting


@every_family
def test_classes_and_special_tokens_are_written(family: Family) -> None:
    """And what is not written means to the library what it means to tfcli."""
    written = family.layout.write(family.run, reference.ROLES)
    assert [written[f"{role}_token_id"] for role in ("pad", "bos", "eos")] == [0, 1, 2]
    assert written["architectures"] == [family.model_class]
    today = getattr(transformers, family.config_class)(**written).to_dict()
    assert reference.read_config(family.layout, today) == reference.read_config(family.layout, written)


@every_row("changes, named", lambda family: family.refused)
def test_settings_that_mean_another_model_are_refused(family: Family, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        reference.read_config(family.layout, family.file(**changes))


@every_row("changes, tensors, named", lambda family: family.broken)
def test_tensors_of_another_model_are_named(
    family: Family, changes: dict[str, Any], tensors: dict[str, Any], named: str
) -> None:
    theirs = family.model(**changes)
    changed = {name: tensor for name, tensor in (theirs.state_dict() | tensors).items() if tensor is not None}
    with pytest.raises(BrokenInputError, match=named):
        reference.ours_of(family.layout, theirs, tensors=changed)


@every_row("kind, changes, names", lambda family: family.left_over)
def test_heads_of_other_tasks_are_left_over(
    family: Family, kind: str, changes: dict[str, Any], names: list[str]
) -> None:
    theirs = getattr(transformers, kind)(family.config(**changes))
    tensors = canonical_names(family.layout, theirs.state_dict())
    section = settled_section(family.layout, reference.section_of(family.layout, theirs), tensors)
    assert parameters_of_checkpoint(family.layout, section, tensors, reference.WEIGHTS)[1] == names


@every_family
def test_heads_of_any_name_are_left_over(family: Family) -> None:
    """Also beside the head of the language model: AntiBERTy has "cls.species" beside "cls.predictions"."""
    theirs = family.model()
    module = family.layout.headless or f"{family.layout.head[0].partition('.')[0]}."
    beside = f"{module.rpartition('.')[0].rpartition('.')[0]}.species".strip(".")
    heads = {f"{name}.weight": torch.zeros(3, 12) for name in ("graft", beside)}
    tensors = canonical_names(family.layout, theirs.state_dict() | heads)
    section = settled_section(family.layout, reference.section_of(family.layout, theirs), tensors)
    left_over = parameters_of_checkpoint(family.layout, section, tensors, reference.WEIGHTS)[1]
    assert left_over == sorted(heads)


WITH_A_BASE_CLASS = [
    family for family in FAMILIES if not family.layout.tied_by_tensors and family.layout.name not in ("bart", "marian")
]
every_base = pytest.mark.parametrize("family", WITH_A_BASE_CLASS, ids=lambda family: family.layout.name)


@every_base
def test_a_base_model_has_no_head(family: Family, tmp_path: Path) -> None:
    """It is not damaged: it gives the vectors of the library, and is exported as its base class."""
    kind = getattr(transformers, base_class(family.model_class))
    config = family.config(tie_word_embeddings=False, pad_token_id=reference.ROLES.pad)
    theirs = reference.lively(kind(config))
    ours = reference.ours_of(family.layout, theirs)
    assert ours.section.head == "none"
    comparison.assert_same(comparison.outputs(ours), comparison.their_outputs(ours.section, theirs))
    comparison.assert_round_trip(family.layout, ours.section, reference.parameters_of(ours))
    folder = reference.export(tmp_path, family.layout, ours.section, reference.parameters_of(ours))
    again = transformers.AutoModel.from_pretrained(folder).eval()
    assert isinstance(again, kind)
    comparison.assert_same(comparison.outputs(ours), comparison.their_outputs(ours.section, again))


@every_row("values, count", lambda family: family.published)
def test_published_models_have_as_many_parameters(family: Family, values: dict[str, Any], count: int) -> None:
    """And their files mean what the library takes them for, though it has changed since they were written."""
    section = reference.read_config(family.layout, values)
    assert section == reference.read_config(
        family.layout, getattr(transformers, family.config_class)(**values).to_dict()
    )
    with torch.device("meta"):
        assert build_model(section).num_parameters() == count
