"""builtin:python-docs is the interpreter's own text, whole and in a fixed order."""

from pydoc_data import topics as pydoc_topics

from tfcli.corpora.open import open_source, python_docs


def test_documents_are_the_topics_sorted_by_name():
    documents = list(python_docs())
    assert len(documents) == len(pydoc_topics.topics) > 50
    assert documents[0] == pydoc_topics.topics[min(pydoc_topics.topics)]
    assert documents[-1] == pydoc_topics.topics[max(pydoc_topics.topics)]
    assert sum(map(len, documents)) == sum(map(len, pydoc_topics.topics.values())) > 300_000


def test_the_fingerprint_follows_the_content(monkeypatch):
    before = open_source("builtin:python-docs", "text").fingerprint()
    assert before == open_source("builtin:python-docs", "text").fingerprint()
    changed = dict(pydoc_topics.topics)
    changed["if"] += " "
    monkeypatch.setattr(pydoc_topics, "topics", changed)
    assert open_source("builtin:python-docs", "text").fingerprint() != before
