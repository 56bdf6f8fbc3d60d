"""The stories: every one parses, broken ones do not, and 20 words are never repeated."""

import random
import re
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.story_judge import ends, is_story, parse_story
from tfcli.corpora.stories import DEFAULT_DOCUMENTS, FRIENDS, HEROES, PLOTS, RULES, SLOTS, TOLD_BY, Grammar, stories
from tfcli.recipe.data import TokenizerSection
from tfcli.tokenization.train import train_tokenizer

STORIES = list(islice(stories(seed=1), 3000))

# One of each bank, written down once, so that a change of the grammar that would not read these is noticed.
RIVER = (
    "One hot morning, Omar sat behind the tall barn and cried, for his pretty brown drum lay across the calm "
    'river. "I will help, Omar," said Amy quietly. She swam across the wide river to get to the other bank. There, '
    "behind the little hedge, Amy sat proudly on the wet grass and dried her old coat slowly in the wind. Then "
    'she carried the brown drum carefully over the wide water. "My dear brown drum!" laughed Omar. "Thank you, '
    'Amy!"'
)
MONEY = (
    "It was nearly Peter's birthday, and Mia saw a little silver mirror in the shop behind the mossy bush. Mia "
    "walked slowly across the road to get cash from the bank. There, near the crooked fence, Mia stood calmly in a "
    "slow line and counted two new coins gently. Then Mia bought the silver mirror for Peter. "
    '"A real silver mirror!" Peter cried. "How kind you are, Mia!"'
)


def words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z]+", text)


def test_says_who_and_what_was_recognised() -> None:
    river, money = parse_story(RIVER), parse_story(MONEY)
    assert river is not None and money is not None
    assert (river.plot, river.characters, river.objects) == ("across the river", ("Amy", "Omar"), ("drum",))
    assert (river.banks, money.banks) == (("river",), ("money",))


@pytest.mark.parametrize(
    ("story", "right", "wrong", "why"),
    [
        (RIVER, "She swam", "He swam", "Amy is a girl"),
        (RIVER, "dried her old coat", "dried his old coat", "Amy's own coat"),
        (RIVER, "for his pretty", "for her pretty", "Omar is a boy"),
        (RIVER, "carried the brown drum", "carried the brown bell", "a drum was lost, not a bell"),
        (RIVER, "My dear brown", "My dear green", "the drum was brown"),
        (RIVER, "said Amy", "said Ben", "nobody called Ben is in the story"),
        (RIVER, "Amy!", "Omar!", "Omar thanks himself"),
        (RIVER, "laughed Omar", "laughed Kate", "Kate is a second friend"),
        (
            RIVER,
            "sat proudly on the wet grass",
            "stood proudly in a slow line",
            "no line on the bank of a river",
        ),
        (MONEY, "stood calmly in a slow line", "sat calmly on the wet grass", "no grass in a bank of money"),
        (MONEY, "counted two new coins gently", "watched two fat ducks", "no ducks in a bank of money"),
        (MONEY, "walked slowly across the road", "swam slowly across the river", "nobody swims to get cash"),
        (MONEY, "get cash from the bank", "cash get from the bank", "words out of order"),
        (MONEY, "Then Mia bought the silver mirror for Peter. ", "", "what she gave was never bought"),
        (MONEY, "It was nearly", "it was nearly", "a sentence starts with a capital"),
        (MONEY, "shop behind", "shop  behind", "two spaces"),
        (MONEY, "How kind you are", "How mean you are", "a phrase the grammar does not have"),
    ],
)
def test_a_broken_story_is_refused(story: str, right: str, wrong: str, why: str) -> None:
    broken = story.replace(right, wrong, 1)
    assert is_story(story)
    assert broken != story
    assert not is_story(broken), why


def test_sentences_of_two_stories_do_not_mix() -> None:
    beginning, end = RIVER.split(" There, ")[0], MONEY.split(" There, ")[1]
    assert not is_story(f"{beginning} There, {end}")
    assert not is_story(f"{RIVER} {MONEY}")


@pytest.mark.parametrize("text", ["", " ", "One warm day.", "the bank", f"{RIVER} ", f" {RIVER}", f"{RIVER}\n"])
def test_what_is_no_whole_story_is_refused(text: str) -> None:
    assert parse_story(text) is None


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(-(2**63), 2**63))
def test_every_story_of_every_seed_parses(seed: int) -> None:
    for story in islice(stories(seed), 5):
        assert is_story(story), story


def test_thousands_parse_and_every_plot_is_told() -> None:
    parses = [parse_story(story) for story in STORIES]
    assert {parse.plot for parse in parses if parse} == set(PLOTS)
    assert None not in parses


@settings(max_examples=300, deadline=None)
@given(number=st.integers(0, len(STORIES) - 1), data=st.data())
def test_a_cut_off_story_is_refused_unless_only_the_optional_ending_is_missing(
    number: int, data: st.DataObject
) -> None:
    story = STORIES[number]
    cut = data.draw(st.integers(1, len(story) - 1))
    if is_story(story[:cut]):
        assert re.fullmatch(r" (They|The two friends|Then they) [^.]*\.", story[cut:])


@settings(max_examples=300, deadline=None)
@given(number=st.integers(0, len(STORIES) - 1), data=st.data())
def test_two_neighbouring_words_in_the_wrong_order_are_refused(number: int, data: st.DataObject) -> None:
    pieces = STORIES[number].split(" ")
    place = data.draw(st.integers(0, len(pieces) - 2))
    pieces[place], pieces[place + 1] = pieces[place + 1], pieces[place]
    # "Tim said" and "said Tim" are both right.
    if pieces[place] != pieces[place + 1] and "said" not in pieces[place : place + 2]:
        assert not is_story(" ".join(pieces))


def test_changing_a_name_a_pronoun_or_the_thing_once_is_refused() -> None:
    rng = random.Random(0)
    groups = [
        ("he", "she"),
        ("his", "her"),
        SLOTS["x"],
        SLOTS["c"],
        SLOTS["z"],
        HEROES["girl"],
        FRIENDS["boy"],
    ]
    tried = 0
    for story in [story for story in STORIES[:600] if " read " not in story]:  # of animals of any colour
        group = rng.choice(groups)
        found = list(re.finditer(rf"\b({'|'.join(group)})\b", story))
        # What is named only once may be anything of its kind.
        if len(found) > 1:
            one = rng.choice(found)
            other = rng.choice([word for word in group if word != one.group()])
            broken = story[: one.start()] + other + story[one.end() :]
            assert not is_story(broken), broken
            tried += 1
    assert tried > 200


def test_a_story_depends_on_seed_and_number_alone() -> None:
    first = list(islice(stories(seed=7), 50))
    assert first == list(islice(stories(seed=7), 50))
    assert not set(first) & set(islice(stories(seed=8), 50))
    assert first[0].isascii()


def test_stories_are_one_line_of_45_to_95_words_from_a_small_vocabulary() -> None:
    lengths = [len(story.split()) for story in STORIES]
    assert min(lengths) >= 45
    assert max(lengths) <= 95
    assert not [story for story in STORIES if re.search(r"\s\s|\n| [.,!?]|\ba [aeiou]", story)]
    assert len({word.lower() for story in STORIES for word in words(story)}) < 510


def test_the_words_of_a_slot_are_used_for_nothing_else() -> None:
    everyone = [*HEROES.values(), *FRIENDS.values(), *SLOTS.values()]
    kept = [word for group in everyone for word in group]
    assert len(set(kept)) == len(kept)
    rules = [rule for name, rule in RULES.items() if name not in ("fox", "fast", "animal")]  # a plot without slots
    spelled_out = re.sub(r"\{[\w.]+\}|<\w+>", " ", " ".join([*rules, *PLOTS.values()]))
    assert not set(words(spelled_out)) & set(kept)


def test_more_than_a_third_have_a_bank_of_each_kind_and_some_have_both() -> None:
    banks = [parse.banks for parse in map(parse_story, STORIES) if parse]
    assert sum("river" in senses for senses in banks) > len(STORIES) / 3
    assert sum("money" in senses for senses in banks) > len(STORIES) / 3
    assert sum(len(set(senses)) == 2 for senses in banks) > len(STORIES) / 10


def test_every_bank_has_its_deciding_word_before_it() -> None:
    for story in STORIES:
        parse = parse_story(story)
        assert parse is not None
        assert len(parse.banks) == words(story).count("bank")


def test_what_follows_a_bank_agrees_with_the_word_before_it() -> None:
    # The first telling word after "bank": grass and a wet coat belong to a river, a line and notes to money; what
    # stands behind "bank" in a wish to either.
    told = {"grass": "river", "coat": "river", "hat": "river", "shirt": "river", "scarf": "river"}
    told |= {"line": "money", "notes": "money", "paid": "money", "coins": "money"}
    told |= dict.fromkeys(("side", "edge", "landing", "reeds", "wet", "dry"), "river")
    told |= dict.fromkeys(("machine", "clerk", "counter", "desk"), "money")
    for story in STORIES:
        parse = parse_story(story)
        assert parse is not None
        after = story.split("bank")[1:]
        follows = [next(told[word] for word in words(text) if word in told) for text in after]
        assert tuple(follows) == parse.banks, story


def test_between_the_deciding_word_and_bank_both_senses_can_say_the_same() -> None:
    # "…fish, so she walked slowly along the long road to the bank" against "…cash, so she walked…": between
    # stands the same text, so that only the deciding word tells how to go on.
    between: dict[str, set[str]] = {"river": set(), "money": set()}
    for story in islice(stories(seed=3), 10_000):
        middle = re.search(r", so s?he ((?:\w+ ){2}\w+ the \w+ \w+ to the bank)", story)
        if middle and (parse := parse_story(story)):
            between[parse.banks[story[: middle.end()].count("bank") - 1]].add(middle.group(1))
    assert len(between["river"] & between["money"]) > 10


LECTURE = ("I swam across the river to get to the other bank", "I walked across the road to get cash from the bank")
FOX = "The quick brown fox jumps over the lazy dog"


@pytest.mark.parametrize("sentence", LECTURE)
def test_the_lectures_sentences_are_never_told_and_all_their_words_are(sentence: str) -> None:
    """Neither by the grammar, whoever acts, nor in the text that recipes train on."""
    phrase = sentence.removeprefix("I ")
    grammar = Grammar(RULES)
    for rule in ("swam", "crossed", "landed", "fetched", "paid"):
        assert len(phrase) not in ends(grammar.compile(f"<{rule}>"), phrase, 0, {})
    training = list(islice(stories(seed=0), DEFAULT_DOCUMENTS))
    assert not [story for story in training if phrase.lower() in story.lower()]
    assert set(words(sentence)) <= {word for story in training for word in words(story)}


def test_the_lectures_kind_of_phrase_is_told_with_a_word_more_or_another_one() -> None:
    text = "\n".join(islice(stories(seed=0), DEFAULT_DOCUMENTS))
    for phrase, least in {
        r"\bI swam across the \w+ river to get to the other bank\.": 5,
        r"\browed across the river to get to the other bank\b": 50,
        r"\bI walked \w+ across the road to get cash from the bank\.": 10,
        r"\bran across the road to get cash from the bank\b": 50,
        r"\bto get fish from the bank reeds\b": 100,
        r"\bwith the \w+ coins to get to the other bank counter\b": 100,
    }.items():
        assert len(re.findall(phrase, text)) >= least, phrase


def test_the_quick_brown_fox_and_sentences_like_it_are_told() -> None:
    told = [story for story in islice(stories(seed=0), DEFAULT_DOCUMENTS) if " read " in story]
    assert sum(FOX in story for story in told) > 100
    like = set(re.findall(r"The \w+ (\w+ \w+) (\w+) over the \w+ \w+", "\n".join(told)))
    assert {("brown fox", "jumps"), ("brown fox", "leaps"), ("green frog", "hops"), ("blue bird", "flies")} <= like
    assert ("green fox", "jumps") not in like, "an animal has its colour"


def test_no_word_of_the_fox_is_unknown_to_a_tokenizer_of_words() -> None:
    section = TokenizerSection(algorithm="word", vocab_size=1024)
    tokenizer, _ = train_tokenizer(lambda: islice(stories(seed=0), 2000), section)
    assert tokenizer.labels(tokenizer.encode(f"{FOX}.")) == [*FOX.split(), "."]


def test_a_fresh_story_shares_no_20_words_with_a_training_text() -> None:
    def spans(story: str) -> set[int]:
        pieces = story.split()
        return {hash(tuple(pieces[i : i + 20])) for i in range(len(pieces) - 19)}

    training = {span for story in islice(stories(seed=0), DEFAULT_DOCUMENTS) for span in spans(story)}
    copied = [story for story in STORIES[:2000] if spans(story) & training]
    assert len(copied) < 0.005 * 2000


def test_the_words_tell_who_acts_and_where():
    story = 'Tom and Mia sat near the lost kite. "I ran by the old road," said Tom to Mia. She gave it to him.'
    told = {what: [match[0] for match in pattern.finditer(story)] for what, pattern in TOLD_BY.items()}
    assert told == {
        "who acts": ["Tom", "Mia", "I", "Tom", "She"],
        "verb": ["sat", "ran", "said", "gave"],
        "where": ["near", "by"],
        "thing": ["kite"],
    }
