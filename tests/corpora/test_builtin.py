"""The built-in sources: deterministic in the seed, as long as asked for, of one kind."""

from itertools import islice

import pytest

from tests.corpora.helpers import read, refusal, write
from tfcli.corpora import Pair, pt_en, stories
from tfcli.corpora.open import open_source
from tfcli.errors import UsageError


def test_stories_are_the_generators_in_its_order():
    assert read("builtin:stories", max_documents=7, seed=3) == list(islice(stories.stories(3), 7))


def test_pairs_bring_their_own_division():
    source = open_source("builtin:pt-en", "pairs", max_documents=50, seed=1)
    generated = list(islice(pt_en.pairs(1), 50))
    assert list(source.documents()) == [Pair(pair.source, pair.target) for pair in generated]
    assert source.divided is not None
    assert [part == "validation" for part, _ in source.divided()] == [pair.validation for pair in generated]
    assert [document for _, document in source.divided()] == list(source.documents())


def test_several_sources_have_their_own_division_when_all_of_them_have(tmp_path):
    table = str(write(tmp_path / "a.tsv", "Olá.\tHello.\n"))
    both = open_source(["builtin:pt-en", "builtin:pt-en"], "pairs", max_documents=40)
    assert both.divided is not None
    assert [pair for _, pair in both.divided()] == list(both.documents())
    assert open_source(["builtin:pt-en", table], "pairs", max_documents=40).divided is None


def test_the_python_documentation_is_text():
    assert len(read("builtin:python-docs")) > 20
    assert len(read("builtin:python-docs", max_documents=3)) == 3


def test_the_fingerprint_knows_seed_and_number():
    def fingerprint(name, kind="text", **options):
        return open_source(name, kind, **options).fingerprint()

    seen = {
        fingerprint("builtin:stories"),
        fingerprint("builtin:stories", seed=1),
        fingerprint("builtin:stories", max_documents=9),
        fingerprint("builtin:python-docs"),
        fingerprint("builtin:pt-en", "pairs"),
        fingerprint("builtin:pt-en", "pairs", seed=1),
    }
    assert len(seen) == 6
    assert fingerprint("builtin:stories", seed=1) in seen


def test_an_unknown_name_is_refused_with_the_nearest():
    sentence = refusal(UsageError, 2, "builtin:storys")
    assert "'builtin:storys'" in sentence and "perhaps builtin:stories was meant" in sentence


@pytest.mark.parametrize(
    ("name", "kind", "problem"),
    [
        ("builtin:pt-en", "text", "builtin:pt-en holds pairs, not text; use builtin:stories"),
        ("builtin:stories", "pairs", "builtin:stories holds text, not pairs; use builtin:pt-en"),
        ("builtin:python-docs", "pairs", "builtin:python-docs holds text, not pairs"),
    ],
)
def test_the_wrong_kind_is_refused(name, kind, problem):
    assert problem in refusal(UsageError, 2, name, kind)
