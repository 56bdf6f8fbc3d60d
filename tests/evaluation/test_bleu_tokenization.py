"""The tokenization of BLEU: chosen by script, the same numbers as sacrebleu's, and nothing downloaded."""

import sys
from pathlib import Path

import pytest
import sacrebleu

from tfcli.errors import UsageError
from tfcli.evaluation import bleu_tokenization
from tfcli.evaluation.bleu_tokenization import bleu_tokenize_for, require_bleu_tokenize
from tfcli.evaluation.translation import translation_statistics

JAPANESE = ["猫がマットの上に座った。", "彼女は川の岸へ行った。", "とても寒かった。"]
JAPANESE_OUTPUT = ["猫がマットの下に座った。", "彼は川の岸へ行った。", "とても寒かった。"]
CHINESE = ["猫坐在垫子上。", "她去了河边。", "天气很冷。"]
CHINESE_OUTPUT = ["猫坐在垫子下。", "他去了河边。", "天气很冷。"]
THAI = ["แมวนั่งอยู่บนเสื่อ", "เธอไปที่ริมแม่น้ำ", "อากาศหนาวมาก"]


@pytest.mark.parametrize(
    ("references", "tokenize"),
    [
        (["The cat sat on the mat.", "It was cold."], "13a"),
        (["O gato sentou-se no tapete.", "Estava frio."], "13a"),
        (["Кошка сидела на коврике."], "13a"),
        (["जल्दी करो, बिल्ली चटाई पर बैठी है।"], "13a"),
        (["القطة جلست على الحصيرة."], "13a"),
        (["고양이가 매트 위에 앉았다."], "13a"),
        (CHINESE, "zh"),
        (["貓坐在墊子上。"], "zh"),
        (JAPANESE, "char"),
        (["ﾈｺｶﾞｽﾜｯﾀ"], "char"),
        (THAI, "char"),
        (["ແມວນັ່ງຢູ່ເທິງເສື່ອ"], "char"),
        (["ឆ្មាអង្គុយលើកន្ទេល"], "char"),
        (["ကြောင်သည်ဖျာပေါ်တွင်ထိုင်သည်"], "char"),
        (["ཞི་མི་གདན་སྟེང་ལ་བསྡད་འདུག"], "char"),
        ([""], "13a"),
        (["12 + 34 = 46"], "13a"),
    ],
)
def test_the_script_of_the_references_decides(references: list[str], tokenize: str):
    assert bleu_tokenize_for(references) == tokenize


def test_mixed_scripts_go_with_the_larger_part():
    """One letter of a script without spaces weighs as much as one word of another."""
    assert bleu_tokenize_for(["使用 Python 的 transformers 库训练模型。"]) == "zh", "9 letters, 2 words"
    assert bleu_tokenize_for(["The word 猫 means cat in Japanese."]) == "13a", "1 letter, 6 words"
    assert bleu_tokenize_for(["Python の関数を定義する。"]) == "char"
    assert bleu_tokenize_for([*CHINESE, "日本の店。"]) == "zh", "a kana among many Chinese characters"
    assert bleu_tokenize_for(["한국어와 中國 문자"]) == "13a", "two letters and three words are no majority"


@pytest.mark.parametrize(
    ("outputs", "references", "tokenize"),
    [(JAPANESE_OUTPUT, JAPANESE, "char"), (CHINESE_OUTPUT, CHINESE, "zh"), (THAI[::-1], THAI, "char")],
)
def test_the_score_is_sacrebleu_s_with_that_tokenization(outputs: list[str], references: list[str], tokenize: str):
    counts = translation_statistics(outputs, references)
    expected = sacrebleu.corpus_bleu(outputs, [references], tokenize=tokenize).score
    assert counts.scores()["bleu"] == pytest.approx(expected)
    assert counts.bleu_tokenize == tokenize
    assert f"tok:{tokenize}" in counts.signature
    assert sacrebleu.corpus_bleu(outputs, [references], tokenize="13a").score < expected


def test_one_character_by_hand():
    """ "abcde" against "abcdf" in characters: 4 of 5, 3 of 4, 2 of 3 and 1 of 2 match, so 0.2^¼, as in words."""
    counts = translation_statistics(["ขคงจฉ"], ["ขคงจช"])
    assert counts.scores()["bleu"] == pytest.approx(100 * 0.2**0.25)


@pytest.mark.parametrize("tokenize", ["13a", "zh", "char"])
def test_what_is_asked_for_is_taken(tokenize: bleu_tokenization.BleuTokenize):
    counts = translation_statistics(CHINESE_OUTPUT, CHINESE, tokenize)
    expected = sacrebleu.corpus_bleu(CHINESE_OUTPUT, [CHINESE], tokenize=tokenize).score
    assert counts.scores()["bleu"] == pytest.approx(expected)
    assert f"tok:{tokenize}" in counts.signature


@pytest.mark.parametrize(
    ("tokenize", "package", "remedy"),
    [("ja-mecab", "MeCab", "sacrebleu[ja]"), ("ko-mecab", "mecab_ko", "sacrebleu[ko]")],
)
def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, tokenize: bleu_tokenization.BleuTokenize, package: str, remedy: str
):
    monkeypatch.setattr(bleu_tokenization, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        require_bleu_tokenize(tokenize)
    assert package in caught.value.problem
    assert f"pip install '{remedy}'" in caught.value.remedy


def test_a_missing_model_is_not_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    pytest.importorskip("sentencepiece")
    monkeypatch.setattr("sacrebleu.utils.SACREBLEU_DIR", str(tmp_path))

    def download(*arguments: object) -> None:
        raise AssertionError("something is downloaded")

    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.download_file", download)
    with pytest.raises(UsageError, match="flores200' needs a model"):
        translation_statistics(CHINESE_OUTPUT, CHINESE, "flores200")
    assert not list(tmp_path.iterdir())


def test_auto_does_not_depend_on_what_is_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bleu_tokenization, "find_spec", lambda name: sys.__spec__)
    assert bleu_tokenize_for(JAPANESE) == "char"
