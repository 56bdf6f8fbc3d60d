"""What the sides are given: random ids."""

from tfcli.bench.work import ROLES, GenerationWork


def test_prompts_hold_as_many_tokens_as_they_say_with_what_frames_them():
    work = GenerationWork(batch=3, prompt_tokens=6, new_tokens=4, beam=1, seed=0)
    decoder, pairs = work.prompts("decoder", 50), work.prompts("encoder-decoder", 50)
    assert [len(ids) for ids in decoder] == [6] * 3
    assert [len(ROLES.source(ids)) for ids in pairs] == [6] * 3
    assert {ids[0] for ids in decoder} == {ROLES.bos}
    assert all(2 <= token < 50 for ids in pairs for token in ids)


def test_the_ids_are_those_of_the_seed():
    works = [GenerationWork(2, 6, 4, 1, seed) for seed in (0, 0, 1)]
    first, same, other = (work.prompts("decoder", 50) for work in works)
    assert first == same != other
