"""The words that a story chooses once and then keeps: its people, things, colour, place, food and animal.

Every word here belongs to one slot and is used for nothing else in the stories, so the first one that a
reader meets says what the slot holds.
"""

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
