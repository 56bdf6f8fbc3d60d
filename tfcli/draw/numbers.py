"""Numbers as a person reads them: 1.23 M, 3 min 20 s, 43.1 %."""

import math

# Several roundings in float32 of numbers around 1 stay below it.
_RESIDUE = 1e-6
_HUGE = 1e9
_THOUSANDS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def exact(number: int) -> str:
    """A whole number with commas.

    >>> exact(812544)
    '812,544'
    """
    return f"{number:,}"


def short(number: float, unit: str = "") -> str:
    """Three significant digits and a thousands letter, which stands before the unit.

    >>> short(18912), short(999), short(1.5e6, "B")
    ('18.9 k', '999', '1.5 MB')
    """
    if not math.isfinite(number):
        return f"{number} {unit}".strip()
    for size, letter in _THOUSANDS:
        # 999,600 would round to "1000 k": the next letter begins where its three digits do.
        if abs(number) >= size * 0.9995:
            return f"{_three_digits(number / size)} {letter}{unit}"
    return f"{_three_digits(number)} {unit}".strip()


def _three_digits(number: float) -> str:
    digits = max(0, 2 - math.floor(math.log10(abs(number)))) if number else 0
    text = f"{number:.{min(digits, 3)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def counted(parameters: int, of_adapters: int = 0) -> str:
    """Parameters, and which of them are trained.

    >>> counted(816_000), counted(816_000, 65_536)
    ('816 k parameters', '816 k parameters (frozen; 65.5 k in adapters are trained)')
    """
    adapters = f" (frozen; {short(of_adapters)} in adapters are trained)" if of_adapters else ""
    return f"{short(parameters)} parameters{adapters}"


def duration(seconds: float) -> str:
    """A time in its two largest units.

    >>> duration(0.25), duration(8.4), duration(200), duration(7260)
    ('250 ms', '8.4 s', '3 min 20 s', '2 h 1 min')
    """
    if not math.isfinite(seconds):
        return "?"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    whole, minutes, hours = (round(seconds / unit) for unit in (1, 60, 3600))
    if whole < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 24 * 60 else f"{hours // 24} d {hours % 24} h"


def short_duration(seconds: float) -> str:
    """A time with three digits, however short.

    >>> short_duration(0.00123), short_duration(0.5), short_duration(2)
    ('1.23 ms', '500 ms', '2 s')
    """
    if seconds < 1e-3:
        return short(seconds * 1e6, "µs")
    return short(seconds, "s") if seconds >= 1 else short(seconds / 1e-3, "ms")


def percent(share: float) -> str:
    """A share of 1 as a percentage with one decimal; what is not nothing is not called 0.

    >>> percent(0.4312), percent(0.0001)
    ('43.1 %', '<0.1 %')
    """
    return "<0.1 %" if 0.0 < share < 0.0005 else f"{share * 100:.1f} %"


def percent_in_four(share: float) -> str:
    """A share of 1 in four cells; what is not nothing is not called 0, and what is not everything not 100.

    >>> percent_in_four(0.51), percent_in_four(0.001), percent_in_four(0.999)
    (' 51%', ' <1%', '>99%')
    """
    if 0 < share < 0.005:
        return " <1%"
    return ">99%" if 0.995 <= share < 1 else f"{share:4.0%}"


def decimals(value: float, digits: int = 4) -> str:
    """A number with so many decimals; a huge one, which has no use for them, with a power of ten.

    >>> decimals(1.23456), decimals(12.0, 1), decimals(1e308)
    ('1.2346', '12.0', '1e+308')
    """
    return f"{value:.{digits}f}" if abs(value) < _HUGE else f"{value:.{digits}g}"


def residue(difference: float) -> str:
    """What rounding leaves between two ways to compute the same number; a larger difference as a number.

    Digits of a residue differ between processors and say nothing, so they are not shown.

    >>> residue(2.98e-08), residue(0.0), residue(0.0125)
    ('<1e-6', '<1e-6', '0.0125')
    """
    return "<1e-6" if abs(difference) < _RESIDUE else f"{difference:.3g}"


def speed(tokens_per_second: float) -> str:
    """Tokens a second.

    >>> speed(18912)
    '18.9 k tokens/s'
    """
    return f"{short(tokens_per_second)} tokens/s"


def plural(number: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "mask"), plural(2000, "document")
    ('1 mask', '2,000 documents')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def weight(value: float) -> str:
    """A share of 1 in three cells.

    >>> weight(0.874), weight(1.0), weight(0.001)
    ('.87', '1.0', '.00')
    """
    text = f"{value:.2f}"
    return text[1:] if text.startswith("0") else text[:3]
