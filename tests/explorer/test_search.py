"""Where a text stands among tokens."""

from tfcli.explorer.app import found_tokens


def test_a_word_of_several_tokens_is_found_where_it_begins():
    tokens = ("<s>", " T", "om", " swam", " to", " m")
    assert found_tokens(tokens, "tom") == [1]
    assert found_tokens(tokens, "m") == [2, 3, 5]
    assert found_tokens(tokens, "o") == [2, 4]


def test_nothing_is_found_of_nothing():
    assert found_tokens(("a", ""), "") == []
    assert found_tokens(("a", "", "b"), "ab") == [0]
    assert found_tokens((), "a") == []
