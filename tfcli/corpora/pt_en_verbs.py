"""The verbs of builtin:pt-en with their inflections, and the auxiliaries in every person."""

from typing import NamedTuple


class Verb(NamedTuple):
    """A main verb: Portuguese infinitive, gerund and simple past by person; English base, past and -ing.

    `takes` holds the kinds of its objects; `progressive` is False for verbs like find ("is finding" is odd).
    `habit` is the Portuguese present (3s, 3p) and the English third person, for verbs of daily life.
    """

    pt: str
    gerund: str
    past_pt: dict[str, str]
    en: str
    past_en: str
    ing: str
    takes: frozenset[str] = frozenset()
    progressive: bool = True
    habit: tuple[str, str, str] | None = None


class Auxiliary(NamedTuple):
    """A verb before another verb, or be and have: both sides by person (English: 1s, 3s and the rest)."""

    pt: dict[str, str]
    en: dict[str, str]


def _verb(pt: str, past: str, en: str, takes: str = "", *, progressive: bool = True, habit: str = "") -> Verb:
    """`past` is eu/ele/eles; the last may be left out of a regular verb in -ar (comprou, compraram)."""
    base, past_en, ing = en.split("/")
    first, third, *irregular = past.split("/")
    they = irregular[0] if irregular else third.removesuffix("ou") + "aram"
    return Verb(
        pt,
        pt[:-1] + "ndo",
        {"1s": first, "2s": third, "3s": third, "3p": they},
        base,
        past_en,
        ing,
        frozenset(takes.split()),
        progressive,
        tuple(habit.split("/")) if habit else None,  # type: ignore[arg-type]
    )


def _auxiliary(pt: str, en: str) -> Auxiliary:
    """`pt`: eu/ele/nós/eles; `en`: I/he/they."""
    first, third, we, they = pt.split("/")
    i, he, others = en.split("/")
    return Auxiliary(
        {"1s": first, "2s": third, "3s": third, "1p": we, "3p": they},
        {"1s": i, "2s": others, "3s": he, "1p": others, "3p": others},
    )


VERBS = (
    _verb(
        "comprar",
        "comprei/comprou",
        "buy/bought/buying",
        "text food clothes object furniture vehicle animal building",
        habit="compra/compram/buys",
    ),
    _verb(
        "vender",
        "vendi/vendeu/venderam",
        "sell/sold/selling",
        "text food clothes object furniture vehicle building",
        habit="vende/vendem/sells",
    ),
    _verb(
        "ver",
        "vi/viu/viram",
        "see/saw/seeing",
        "text food clothes object vehicle animal building",
        progressive=False,
    ),
    _verb(
        "encontrar",
        "encontrei/encontrou",
        "find/found/finding",
        "text clothes object animal",
        progressive=False,
    ),
    _verb("perder", "perdi/perdeu/perderam", "lose/lost/losing", "text clothes object animal", progressive=False),
    _verb("procurar", "procurei/procurou", "look for/looked for/looking for", "text clothes object animal"),
    _verb("trazer", "trouxe/trouxe/trouxeram", "bring/brought/bringing", "text food clothes object drink"),
    _verb("esconder", "escondi/escondeu/esconderam", "hide/hid/hiding", "text food object"),
    _verb("ler", "li/leu/leram", "read/read/reading", "text", habit="lê/leem/reads"),
    _verb(
        "escrever",
        "escrevi/escreveu/escreveram",
        "write/wrote/writing",
        "written",
        habit="escreve/escrevem/writes",
    ),
    _verb("comer", "comi/comeu/comeram", "eat/ate/eating", "food", habit="come/comem/eats"),
    _verb("beber", "bebi/bebeu/beberam", "drink/drank/drinking", "drink", habit="bebe/bebem/drinks"),
    _verb("lavar", "lavei/lavou", "wash/washed/washing", "washable"),
    _verb("limpar", "limpei/limpou", "clean/cleaned/cleaning", "cleanable"),
    _verb("pintar", "pintei/pintou", "paint/painted/painting", "paintable"),
    _verb("abrir", "abri/abriu/abriram", "open/opened/opening", "openable"),
    _verb("fechar", "fechei/fechou", "close/closed/closing", "closable"),
    _verb("quebrar", "quebrei/quebrou", "break/broke/breaking", "breakable", progressive=False),
    _verb("consertar", "consertei/consertou", "repair/repaired/repairing", "repairable"),
)

GIVING = (
    _verb("dar", "dei/deu/deram", "give/gave/giving"),
    _verb("mostrar", "mostrei/mostrou", "show/showed/showing"),
    _verb("enviar", "enviei/enviou", "send/sent/sending"),
)

MEETING = (
    _verb("ver", "vi/viu/viram", "see/saw/seeing", progressive=False),
    _verb("ajudar", "ajudei/ajudou", "help/helped/helping"),
    _verb("visitar", "visitei/visitou", "visit/visited/visiting"),
    _verb("convidar", "convidei/convidou", "invite/invited/inviting"),
    _verb("chamar", "chamei/chamou", "call/called/calling"),
)

GO = _verb("ir", "fui/foi/foram", "go/went/going")
RETURN = _verb("voltar", "voltei/voltou", "return/returned/returning")
TRAVEL = _verb("viajar", "viajei/viajou", "travel/travelled/travelling")
ARRIVE = _verb("chegar", "cheguei/chegou", "arrive/arrived/arriving")

IS = _auxiliary("sou/é/somos/são", "am/is/are")
STAYS = _auxiliary("estou/está/estamos/estão", "am/is/are")
WAS = _auxiliary("estava/estava/estávamos/estavam", "was/was/were")
GOES = _auxiliary("vou/vai/vamos/vão", "am going to/is going to/are going to")
WILL = _auxiliary("irei/irá/iremos/irão", "am/is/are")
WANTS = _auxiliary("quero/quer/queremos/querem", "want to/wants to/want to")
NEEDS_TO = _auxiliary("preciso/precisa/precisamos/precisam", "need to/needs to/need to")
CAN = _auxiliary("posso/pode/podemos/podem", "can/can/can")
HAS = _auxiliary("tenho/tem/temos/têm", "have/has/have")
LIKES = _auxiliary("gosto/gosta/gostamos/gostam", "like/likes/like")
DOES = {"1s": "do", "2s": "do", "3s": "does", "1p": "do", "3p": "do"}

DWELLING = {
    "morar": _auxiliary("moro/mora/moramos/moram", "live/lives/live"),
    "trabalhar": _auxiliary("trabalho/trabalha/trabalhamos/trabalham", "work/works/work"),
}
