"""The pairs of texts that patching is proved on: one word decides, and what else differs does not."""

import re
from itertools import islice

from tests.inspection.known_causes import banks, nouns
from tfcli.corpora.stories import SENSES, bank_sentences, stories
from tfcli.recipe.data import TokenizerSection
from tfcli.tokenization.train import train_tokenizer


def test_one_word_of_a_wish_decides_and_two_or_more_others_differ():
    """The grammar itself reads both texts, and the one in which the others alone are exchanged."""
    read = list(islice(stories(), 2000))
    tokenizer, _ = train_tokenizer(lambda: iter(read), TokenizerSection(algorithm="word", vocab_size=1000))
    seen = {one.sentence.removesuffix(".") for story in read for one in bank_sentences(story)}
    found = list(islice(banks(tokenizer, 0, masked=False), 100))
    for cause in found:
        one, other = [SENSES[word] for word in cause.deciding]
        senses = [list(bank_sentences(text))[-1].sense for text in (cause.clean, cause.corrupt, cause.fillers)]
        assert senses == [one, other, one] and one != other and not set.intersection(*map(set, cause.right))
        words = [text.split() for text in (cause.clean, cause.corrupt, cause.fillers)]
        differing = [pair for pair in zip(*words[:2], strict=True) if len({*pair}) > 1]
        assert {pair for pair in zip(*words[1:], strict=True) if len({*pair}) > 1} == {
            (f"{cause.deciding[1]},", f"{cause.deciding[0]},")
        }
        assert len(differing) == cause.exchanged + 1 > 2
        assert len({len(tokenizer.encode(text)) for text in (cause.clean, cause.corrupt, cause.fillers)}) == 1
        assert cause.clean.rpartition(". ")[2] not in seen
    assert {cause.exchanged for cause in found} == set(range(2, 9))


def test_one_noun_is_asked_for_and_what_else_differs_is_translated_behind_it():
    found = list(islice(nouns(0), 60))
    for cause in found:
        clean, corrupt, fillers = (re.findall(r"\w+", text) for text in (cause.clean, cause.corrupt, cause.fillers))
        [place] = [n for n, (a, b) in enumerate(zip(corrupt, fillers, strict=True)) if a != b]
        assert (fillers[place], corrupt[place]) == cause.deciding and clean[place] == fillers[place]
        assert sum(a != b for a, b in zip(clean, corrupt, strict=True)) == cause.exchanged + 1 > 2
        assert cause.right[0].isdisjoint(cause.right[1])
    said = {cause.target.split()[-1].lower() for cause in found if cause.target}
    assert said <= {"the"} and len({cause.target.split()[0] for cause in found if cause.target}) > 3
    assert any(cause.clean.startswith("Em ") for cause in found), "in English the month comes last"
    assert any(cause.clean.startswith("Quando ") for cause in found)
