"""What the sides are given: random ids, and lengths as those of sentences."""

from statistics import mean, median

from tfcli.bench.work import ROLES, GenerationWork


def test_prompts_hold_as_many_tokens_as_they_say_with_what_frames_them():
    work = GenerationWork(batch=3, prompt_tokens=6, new_tokens=4, beam=1, sentences=None, seed=0)
    decoder, pairs = work.prompts("decoder", 50, 16), work.prompts("encoder-decoder", 50, 16)
    assert [len(ids) for ids in decoder] == [6] * 3
    assert [len(ROLES.source(ids)) for ids in pairs] == [6] * 3
    assert {ids[0] for ids in decoder} == {ROLES.bos}
    assert all(2 <= token < 50 for ids in pairs for token in ids)
    assert work.texts == 3


def test_the_ids_are_those_of_the_seed():
    works = [GenerationWork(2, 6, 4, 1, None, seed) for seed in (0, 0, 1)]
    first, same, other = (work.prompts("decoder", 50, 16) for work in works)
    assert first == same != other


def test_lengths_of_sentences_are_log_normal_and_fit_into_the_context():
    """Median 20; mean 20 · exp(0.6² / 2) = 23.9; a tenth is longer than 20 · exp(0.6 · 1.2816) = 43."""
    work = GenerationWork(batch=4, prompt_tokens=6, new_tokens=4, beam=1, sentences=4000, seed=0)
    lengths = sorted(len(ids) for ids in work.prompts("encoder-decoder", 50, 512))
    assert (work.texts, len(lengths)) == (4000, 4000)
    assert 19 <= median(lengths) <= 21
    assert 23 <= mean(lengths) <= 25
    assert 41 <= lengths[3600] <= 45
    short = [len(ROLES.source(ids)) for ids in work.prompts("encoder-decoder", 50, 12)]
    assert max(short) == 12
