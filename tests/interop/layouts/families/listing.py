"""Every family, in the order of `tfcli.interop.families`."""

from tests.interop.layouts.families import (
    bart,
    bert,
    distilbert,
    eurobert,
    gemma,
    gpt2,
    gpt_neox,
    llama,
    marian,
    mt5,
    openai_gpt,
    opt,
    roberta,
    t5,
)
from tests.interop.layouts.family import Family

FAMILIES: tuple[Family, ...] = (
    gpt2.FAMILY,
    openai_gpt.FAMILY,
    *llama.FAMILIES,
    gpt_neox.FAMILY,
    opt.FAMILY,
    gemma.FAMILY,
    bert.FAMILY,
    roberta.FAMILY,
    distilbert.FAMILY,
    eurobert.FAMILY,
    bart.FAMILY,
    marian.FAMILY,
    t5.FAMILY,
    mt5.FAMILY,
)
