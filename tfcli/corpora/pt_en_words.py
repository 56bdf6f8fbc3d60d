"""The words of builtin:pt-en with their inflections: nouns, adjectives, people and places.

To add a word, add a row: the kinds of a noun decide which adjectives and verbs it meets.
"""

from typing import NamedTuple


class Noun(NamedTuple):
    """A noun; `kinds` says what can be said of it and done to it. Mass nouns (coffee) have no plural."""

    pt: str
    pt_plural: str
    gender: str
    en: str
    en_plural: str
    kinds: frozenset[str]


class Adjective(NamedTuple):
    """An adjective with its four Portuguese forms; `verb` is ser (a quality) or estar (a state)."""

    pt: dict[str, str]
    en: str
    verb: str
    fits: frozenset[str]
    more_pt: str = ""
    more_en: str = ""

    @property
    def head(self) -> str:
        return self.pt["m3s"]


class Place(NamedTuple):
    """A place one can be in and go to; `inside` is the English preposition for being there and for arriving.

    Cities mostly have no Portuguese article, and no English one.
    """

    pt: str
    article: str
    en_article: str
    en: str
    inside: str


def _noun(pt: str, gender: str, en: str, kinds: str) -> Noun:
    pt_singular, _, pt_plural = pt.partition("/")
    en_singular, _, en_plural = en.partition("/")
    return Noun(
        pt_singular,
        pt_plural or pt_singular + "s",
        gender,
        en_singular,
        en_plural or en_singular + "s",
        frozenset(kinds.split()),
    )


def _adjective(pt: str, en: str, verb: str, fits: str, more_pt: str = "", more_en: str = "") -> Adjective:
    """`pt` is one form (a regular adjective in -o or -e) or masculine/feminine/plural/feminine plural."""
    forms = pt.split("/")
    if len(forms) == 1:
        masculine = forms[0]
        feminine = masculine[:-1] + "a" if masculine.endswith("o") else masculine
        forms = [masculine, feminine, masculine + "s", feminine + "s"]
    shapes = dict(zip(("m3s", "f3s", "m3p", "f3p"), forms, strict=True))
    return Adjective(shapes, en, verb, frozenset(fits.split()), more_pt, more_en)


# The first kind is the family.
THINGS = (
    _noun("livro", "m", "book", "text written closable"),
    _noun("carta", "f", "letter", "text written openable"),
    _noun("jornal/jornais", "m", "newspaper", "text"),
    _noun("revista", "f", "magazine", "text"),
    _noun("poema", "m", "poem", "text written"),
    _noun("maçã", "f", "apple", "food washable"),
    _noun("laranja", "f", "orange", "food washable"),
    _noun("banana", "f", "banana", "food"),
    _noun("ovo", "m", "egg", "food"),
    _noun("bolo", "m", "cake", "food"),
    _noun("biscoito", "m", "biscuit", "food"),
    _noun("sanduíche", "m", "sandwich/sandwiches", "food"),
    _noun("camisa", "f", "shirt", "clothes washable coloured"),
    _noun("vestido", "m", "dress/dresses", "clothes washable coloured"),
    _noun("chapéu", "m", "hat", "clothes coloured"),
    _noun("casaco", "m", "coat", "clothes washable coloured"),
    _noun("saia", "f", "skirt", "clothes washable coloured"),
    _noun("chave", "f", "key", "object"),
    _noun("relógio", "m", "watch/watches", "object breakable repairable coloured"),
    _noun("copo", "m", "glass/glasses", "object washable breakable"),
    _noun("garrafa", "f", "bottle", "object openable closable breakable coloured"),
    _noun("bolsa", "f", "bag", "object openable closable coloured"),
    _noun("caixa", "f", "box/boxes", "object openable closable coloured"),
    _noun("caneta", "f", "pen", "object coloured"),
    _noun("faca", "f", "knife/knives", "object washable"),
    _noun("prato", "m", "plate", "object washable breakable coloured"),
    _noun("telefone", "m", "phone", "object breakable repairable coloured"),
    _noun("bola", "f", "ball", "object washable coloured"),
    _noun("flor/flores", "f", "flower", "object coloured"),
    _noun("espelho", "m", "mirror", "object cleanable breakable"),
    _noun("mesa", "f", "table", "furniture cleanable paintable repairable landmark coloured"),
    _noun("cadeira", "f", "chair", "furniture cleanable paintable repairable landmark coloured"),
    _noun("cama", "f", "bed", "furniture landmark"),
    _noun("sofá", "m", "sofa", "furniture cleanable landmark coloured"),
    _noun("carro", "m", "car", "vehicle washable repairable landmark coloured"),
    _noun("bicicleta", "f", "bicycle", "vehicle washable repairable paintable coloured"),
    _noun("barco", "m", "boat", "vehicle cleanable repairable paintable coloured"),
    _noun("gato", "m", "cat", "animal"),
    _noun("cachorro", "m", "dog", "animal washable"),
    _noun("pássaro", "m", "bird", "animal"),
    _noun("cavalo", "m", "horse", "animal large washable"),
    _noun("casa", "f", "house", "building cleanable paintable landmark coloured"),
    _noun("porta", "f", "door", "opening openable closable paintable repairable landmark coloured"),
    _noun("janela", "f", "window", "opening openable closable cleanable repairable landmark"),
)

DRINKS = (
    _noun("café", "m", "coffee", "drink"),
    _noun("chá", "m", "tea", "drink"),
    _noun("leite", "m", "milk", "drink"),
    _noun("suco", "m", "juice", "drink"),
    _noun("água", "f", "water", "drink"),
    _noun("limonada", "f", "lemonade", "drink"),
)

_GOODS = "text clothes object furniture vehicle"

THING_ADJECTIVES = (
    _adjective("vermelho", "red", "ser", "coloured"),
    _adjective("azul/azul/azuis/azuis", "blue", "ser", "coloured"),
    _adjective("verde", "green", "ser", "coloured"),
    _adjective("branco", "white", "ser", "coloured animal"),
    _adjective("preto", "black", "ser", "coloured animal"),
    _adjective("grande", "big", "ser", f"{_GOODS} food animal building opening", "maior", "bigger"),
    _adjective("pequeno", "small", "ser", f"{_GOODS} food animal building opening", "menor", "smaller"),
    _adjective("novo", "new", "ser", "text clothes object furniture vehicle building opening"),
    _adjective("velho", "old", "ser", "text clothes object furniture vehicle animal building", "", "older"),
    _adjective("bonito", "beautiful", "ser", "clothes furniture vehicle animal building", "", "more beautiful"),
    _adjective("interessante", "interesting", "ser", "text", "", "more interesting"),
    _adjective("caro", "expensive", "ser", f"{_GOODS} building", "", "more expensive"),
    _adjective("barato", "cheap", "ser", _GOODS, "", "cheaper"),
    _adjective("delicioso", "delicious", "ser", "food", "", "more delicious"),
    _adjective("quente", "hot", "estar", "drink"),
    _adjective("frio", "cold", "estar", "drink"),
    _adjective("limpo", "clean", "estar", "washable cleanable"),
    _adjective("sujo", "dirty", "estar", "washable cleanable"),
    _adjective("quebrado", "broken", "estar", "breakable repairable"),
    _adjective("aberto", "open", "estar", "openable"),
    _adjective("fechado", "closed", "estar", "openable"),
)

QUALITIES = (
    _adjective("alto", "tall", "ser", "child adult", "", "taller"),
    _adjective("jovem/jovem/jovens/jovens", "young", "ser", "adult", "", "younger"),
    _adjective("rico", "rich", "ser", "adult", "", "richer"),
    _adjective("forte", "strong", "ser", "child adult", "", "stronger"),
    _adjective("simpático", "friendly", "ser", "child adult", "", "friendlier"),
    _adjective("inteligente", "intelligent", "ser", "child adult", "", "more intelligent"),
    _adjective("gentil/gentil/gentis/gentis", "kind", "ser", "child adult", "", "kinder"),
)

STATES = (
    _adjective("cansado", "tired", "estar", "child adult"),
    _adjective("feliz/feliz/felizes/felizes", "happy", "estar", "child adult"),
    _adjective("triste", "sad", "estar", "child adult"),
    _adjective("doente", "ill", "estar", "child adult"),
    _adjective("ocupado", "busy", "estar", "adult"),
    _adjective("nervoso", "nervous", "estar", "child adult"),
)

# Needs are nouns in Portuguese ("está com fome", is with hunger) and adjectives in English.
NEEDS = (("fome", "hungry"), ("sede", "thirsty"), ("sono", "sleepy"), ("frio", "cold"), ("medo", "afraid"))

NAMES = {
    "f": ("Ana", "Maria", "Clara", "Sofia", "Laura", "Helena", "Beatriz", "Marta"),
    "m": ("Lucas", "Pedro", "Paulo", "Rafael", "Bruno", "Daniel", "João", "Carlos"),
}

PEOPLE = (
    _noun("menino", "m", "boy", "child"),
    _noun("menina", "f", "girl", "child"),
    _noun("aluno", "m", "student", "child"),
    _noun("aluna", "f", "student", "child"),
    _noun("professor/professores", "m", "teacher", "adult"),
    _noun("professora", "f", "teacher", "adult"),
    _noun("médico", "m", "doctor", "adult"),
    _noun("médica", "f", "doctor", "adult"),
    _noun("vizinho", "m", "neighbour", "adult"),
    _noun("vizinha", "f", "neighbour", "adult"),
)

RELATIVES = (
    _noun("irmão/irmãos", "m", "brother", "adult"),
    _noun("irmã", "f", "sister", "adult"),
    _noun("pai", "m", "father", "adult"),
    _noun("mãe", "f", "mother", "adult"),
    _noun("tio", "m", "uncle", "adult"),
    _noun("tia", "f", "aunt", "adult"),
    _noun("amigo", "m", "friend", "adult"),
    _noun("amiga", "f", "friend", "adult"),
)

PLACES = (
    Place("parque", "o", "the", "park", "at"),
    Place("jardim", "o", "the", "garden", "in"),
    Place("escola", "a", "the", "school", "at"),
    Place("mercado", "o", "the", "market", "at"),
    Place("praia", "a", "the", "beach", "at"),
    Place("biblioteca", "a", "the", "library", "at"),
    Place("restaurante", "o", "the", "restaurant", "at"),
    Place("museu", "o", "the", "museum", "at"),
    Place("hospital", "o", "the", "hospital", "at"),
    Place("estação", "a", "the", "station", "at"),
    Place("loja", "a", "the", "shop", "at"),
    Place("hotel", "o", "the", "hotel", "at"),
    Place("cozinha", "a", "the", "kitchen", "in"),
    Place("escritório", "o", "the", "office", "at"),
)

CITIES = (
    Place("Rio", "o", "", "Rio", "in"),
    Place("Lisboa", "", "", "Lisbon", "in"),
    Place("Porto", "o", "", "Porto", "in"),
    Place("Paris", "", "", "Paris", "in"),
    Place("Londres", "", "", "London", "in"),
    Place("Roma", "", "", "Rome", "in"),
    Place("Madri", "", "", "Madrid", "in"),
    Place("Brasil", "o", "", "Brazil", "in"),
    Place("Portugal", "", "", "Portugal", "in"),
    Place("Itália", "a", "", "Italy", "in"),
    Place("Espanha", "a", "", "Spain", "in"),
    Place("França", "a", "", "France", "in"),
    Place("Japão", "o", "", "Japan", "in"),
)

# Where one thing can be from another. Nothing is on a window or under a house here.
RELATIONS = {
    "em cima de": ("on", "mesa cadeira cama sofá"),
    "embaixo de": ("under", "mesa cadeira cama sofá carro"),
    "atrás de": ("behind", "cadeira sofá carro casa porta"),
    "perto de": ("near", "mesa cama sofá carro casa porta janela"),
    "ao lado de": ("next to", "mesa cadeira cama sofá carro casa porta janela"),
    "na frente de": ("in front of", "mesa sofá carro casa porta janela"),
}

_MONTHS = (
    "Janeiro=January Fevereiro=February Março=March Abril=April Maio=May Junho=June Julho=July Agosto=August "
    "Setembro=September Outubro=October Novembro=November Dezembro=December"
)
_WEEKDAYS = "segunda=Monday terça=Tuesday quarta=Wednesday quinta=Thursday sexta=Friday"

# Times are written for `linked`: words that share a number translate each other.
MONTHS = tuple((f"em:1 {pt}:2", f"in:1 {en}:2") for pt, _, en in (month.partition("=") for month in _MONTHS.split()))
DAYS = (
    *((f"em:1 a:1 {pt}-feira:2", f"on:1 {en}:2") for pt, _, en in (day.partition("=") for day in _WEEKDAYS.split())),
    ("em:1 o:1 sábado:2", "on:1 Saturday:2"),
    ("em:1 o:1 domingo:2", "on:1 Sunday:2"),
)
PAST = (
    ("ontem:1", "yesterday:1"),
    ("em a semana:1 passada:2", "last:2 week:1"),
    ("em o mês:1 passado:2", "last:2 month:1"),
    ("em o ano:1 passado:2", "last:2 year:1"),
)
FUTURE = (
    ("amanhã:1", "tomorrow:1"),
    ("em a próxima:2 semana:1", "next:2 week:1"),
    ("em o próximo:2 mês:1", "next:2 month:1"),
    ("em o próximo:2 ano:1", "next:2 year:1"),
)
NOW = (("agora:1", "now:1"), ("hoje:1", "today:1"))
PARTS_OF_DAY = (
    ("de:1 manhã:2", "in:1 the:1 morning:2"),
    ("à:1 tarde:2", "in:1 the:1 afternoon:2"),
    ("à:1 noite:2", "at:1 night:2"),
)
OFTEN = (("sempre", "always"), ("nunca", "never"), ("às vezes", "sometimes"))

HELLO = (
    ("Olá:1", "Hello:1"),
    ("Bom:1 dia:2", "Good:1 morning:2"),
    ("Boa:1 tarde:2", "Good:1 afternoon:2"),
    ("Boa:1 noite:2", "Good:1 evening:2"),
)

NUMBERS = (
    ("dois", "duas", "two"),
    ("três", "três", "three"),
    ("quatro", "quatro", "four"),
    ("cinco", "cinco", "five"),
    ("seis", "seis", "six"),
    ("sete", "sete", "seven"),
    ("oito", "oito", "eight"),
    ("nove", "nove", "nine"),
    ("dez", "dez", "ten"),
)
