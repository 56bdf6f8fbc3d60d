"""Every family, in the order of `tfcli.interop.families`."""

from tests.interop.layouts.families import bart, bert, eurobert, gpt2, llama, marian, t5
from tests.interop.layouts.family import Family

FAMILIES: tuple[Family, ...] = (
    gpt2.FAMILY,
    *llama.FAMILIES,
    bert.FAMILY,
    eurobert.FAMILY,
    bart.FAMILY,
    marian.FAMILY,
    t5.FAMILY,
)
