"""Every setting of every family: none is ignored, and one that is left out means what the library takes it for."""

from collections.abc import Collection
from typing import Any

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError

from tfcli.errors import UsageError
from tfcli.interop.checkpoint import WITHOUT_EFFECT, CheckpointConfig
from tfcli.recipe.model import ModelSection

from . import comparison, reference
from .families.listing import FAMILIES
from .family import Family, transformers

NAMES = ["relu", "gelu", "gated-gelu", "float64", "x"]
"""Values for settings that are names."""

OF_LOADING = {
    *("_attn_implementation", "attn_implementation", "_attn_implementation_autoset", "dtype", "torch_dtype"),
    *("return_dict", "id2label", "label2id"),
}
"""How a model is loaded and in what form it answers: settings that do not take any value."""


class Listening(CheckpointConfig):
    """Notes which settings the family says to be without effect."""

    def finish(self, without_effect: Collection[str] = ()) -> None:
        self.without_effect = {*WITHOUT_EFFECT, *without_effect}
        super().finish(without_effect)


def read(family: Family, values: dict[str, Any]) -> tuple[ModelSection, set[str]]:
    config = Listening(values, reference.CONFIG)
    return family.layout.read(config), config.without_effect


def others(value: Any) -> list[Any]:
    """Values that a setting might have instead of this one."""
    match value:
        case bool():
            found: list[Any] = [not value]
        case int():
            found = [2 * value, value + 1]
        case float():
            found = [2 * value, value + 0.25]
        case str():
            found = NAMES
        case list():
            found = [[*value, "x"]]
        case dict():
            found = [{**value, "x": 1}]
        case _:
            found = [True, 3, 0.5, "x", [1]]
    return [other for other in found if other != value]


every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.layout.name)
cases = pytest.mark.parametrize(
    ("family", "variant"),
    [
        pytest.param(family, variant, id=f"{family.layout.name}-{number}")
        for family in FAMILIES
        for number, variant in enumerate(family.variants)
    ],
)


@cases
def test_no_setting_is_ignored(family: Family, variant: dict[str, Any]) -> None:
    """Another value means another section, is refused, or is known to change nothing."""
    values = family.config(**variant).to_dict()
    section, _ = read(family, values)
    ignored = []
    for name, value in values.items():
        for other in others(value):
            try:
                changed, without_effect = read(family, {**values, name: other})
            except UsageError:
                continue
            factors = [dict(family.layout.factors(told, section)) for told in (values, {**values, name: other})]
            is_same = changed == section and factors[0] == factors[1] and name not in without_effect
            if is_same and family.config(**variant | {name: other}).to_dict() != values:  # to the library neither
                ignored.append((name, other))
    assert ignored == []


@every_family
def test_a_setting_that_nobody_knows_is_refused_by_name(family: Family) -> None:
    with pytest.raises(UsageError, match="unheard_of = 0"):
        reference.read_config(family.layout, family.file(unheard_of=0))


@cases
def test_a_setting_left_out_means_what_the_library_takes_it_for(family: Family, variant: dict[str, Any]) -> None:
    """Or it is refused: the model cannot be built without."""
    values = family.config(**variant).to_dict()
    different = []
    for name in values:
        rest = {key: value for key, value in values.items() if key != name}
        try:
            section, _ = read(family, rest)
        except UsageError:
            continue
        today = getattr(transformers, family.config_class)(**rest).to_dict()
        if section != read(family, today)[0]:
            different.append(name)
    assert different == []


@every_family
def test_a_file_that_says_little_means_what_the_library_takes_it_for(family: Family) -> None:
    today = getattr(transformers, family.config_class)(**family.small).to_dict()
    assert read(family, dict(family.small))[0] == read(family, today)[0]


@cases
def test_settings_without_effect_change_no_logits(family: Family, variant: dict[str, Any]) -> None:
    """Neither those of today's library nor those that only old files have."""
    values = family.config(**variant).to_dict()
    section, without_effect = read(family, values)
    theirs = family.make(family, family.config(**variant), 0)
    wanted = comparison.their_outputs(section, theirs)
    for name in without_effect - OF_LOADING:
        for other in others(values[name]) if name in values else (True,):
            try:
                config = family.config(**variant | {name: other})
                if read(family, config.to_dict())[0] != section:
                    continue  # Here it has an effect, which tfcli knows.
            except (StrictDataclassError, UsageError):
                continue
            again = type(theirs)(config).eval()
            again.load_state_dict(theirs.state_dict())
            answer = comparison.their_outputs(section, again)
            assert torch.allclose(answer, wanted, rtol=1e-5, atol=1e-5), (name, other)
