"""The words that a story chooses once and then keeps: its people, things, colour, place, food and animal.

Every word here belongs to one slot and is used for nothing else in the stories, so the first one that a
reader meets says what the slot holds. Who acts in a sentence, and its verbs, are told from the words around them.
"""

import re

HEROES = {
    "girl": (
        *("Mia", "Anna", "Lucy", "Nora", "Ella", "Ruth", "Clara", "Ivy"),
        *("Emma", "Rosa", "Lena", "Zoe", "Amy", "Julia", "Tess", "Iris"),
    ),
    "boy": (
        *("Tom", "Ben", "Sam", "Max", "Leo", "Jack", "Paul", "Oscar"),
        *("Felix", "Hugo", "Noah", "Adam", "Theo", "Erik", "Joe", "Karl"),
    ),
}
FRIENDS = {
    "girl": (
        *("Lily", "Sara", "Kate", "Jane", "Maya", "Alice", "Vera", "Nina"),
        *("Molly", "Dora", "Ada", "Eva", "Grace", "Hanna", "Olga", "Pia"),
    ),
    "boy": (
        *("Tim", "Dan", "Bill", "Peter", "Jim", "Carl", "Fred", "Otto"),
        *("Ned", "Luke", "Ravi", "Omar", "Rick", "Hans", "Bob", "Ali"),
    ),
}
PRONOUNS = {
    "girl": {"he": "she", "him": "her", "his": "her", "He": "She", "His": "Her"},
    "boy": {"he": "he", "him": "him", "his": "his", "He": "He", "His": "His"},
}
OTHER = {"girl": "boy", "boy": "girl"}

# x: the thing, c: its colour, p: the place, f: the food, z: the animal
SLOTS = {
    "x": (
        *("kite", "drum", "bell", "lamp", "flute", "doll", "box", "basket"),
        *("cup", "clock", "whistle", "mirror", "horn", "jug", "spoon", "fan"),
        *("comb", "puppet", "candle", "brush"),
    ),
    "c": ("red", "blue", "green", "yellow", "white", "brown", "purple", "silver", "black", "golden"),
    "p": ("garden", "park", "market", "forest", "village", "meadow", "orchard", "valley"),
    "f": ("bread", "soup", "cake", "cheese", "pie", "rice", "pudding", "jam"),
    "z": ("dog", "cat", "goat", "rabbit", "hen", "lamb", "pony", "goose"),
}

# The last of these words before "bank" says which bank it is.
RIVER_WORDS = frozenset({"river", "swam", "swim", "boat", "fish", "water", "rowed"})
MONEY_WORDS = frozenset({"cash", "money", "coins", "account", "notes", "wallet"})

# The words of the stories that only hold a sentence together; all others are content words.
_FUNCTION_WORDS = """
a the one other some no not s and but so as for to in of at on with from by near behind beside
across along over down under into until about up i you he she it we they me him her them my your his
this that there here what how is was are am were be have had will can could must do
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())

_NAME = "|".join(name for people in (HEROES, FRIENDS) for names in people.values() for name in names)
_VERB = """
asked ate bought broke called came carried could counted cried danced dreamed dried dropped fell felt followed found
gave had heard hid hoped hurried hurt laughed lay looked lost mended paid put rained ran rested rowed said sang sat saw
sighed slept stood swam talked told took walked wanted was watched went were wished
"""
_SAID = "|".join(f"(?<={verb} )" for verb in ("said", "asked", "cried", "called", "laughed"))
TOLD_BY = {
    "who acts": re.compile(
        rf"\b(?:{_NAME}|[Hh]e|[Ss]he|[Tt]hey|I)(?=(?: and (?:{_NAME}))? (?:{'|'.join(_VERB.split())})\b)"
        rf"|(?:{_SAID})(?:{_NAME})"
    ),
    "verb": re.compile(rf"(?<!the )\b(?:{'|'.join(_VERB.split())})\b"),
    "where": re.compile(r"\b(?:[Bb]ehind|[Bb]eside|[Nn]ear|[Bb]y|across|along|down|over|under|in|on|into)\b"),
    "thing": re.compile(rf"\b(?:{'|'.join((*SLOTS['x'], *SLOTS['f'], *SLOTS['z']))})\b"),
}
"""Which words say what: who acts is a name or a pronoun with its verb behind it, or a name behind "said"; the verbs are
those of the narration ("the lost boat" has none)."""
