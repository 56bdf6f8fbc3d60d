"""The [evaluate] section of a recipe: how a trained model is scored."""

from dataclasses import dataclass
from typing import Literal

from tfcli.recipe import Section

BleuTokenize = Literal["auto", "13a", "zh", "char", "ja-mecab", "ko-mecab", "flores200"]


@dataclass(frozen=True)
class EvaluateSection(Section):
    """How `tfcli run` and `tfcli evaluate` score a model."""

    bleu_tokenize: BleuTokenize = "auto"
    """How sacrebleu cuts texts into words for BLEU. auto: by the script of the references; zh for
    Chinese, char for Japanese, Thai, Lao, Khmer, Burmese, Tibetan and other scripts without spaces
    between words, else 13a (for Korean, too). ja-mecab and ko-mecab need a package (sacrebleu[ja],
    sacrebleu[ko]), and flores200 a model that sacrebleu has downloaded before."""
