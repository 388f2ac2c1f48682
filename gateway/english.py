"""English numbers, money, times and dates as words: the rules of wetext, and where they fail ours.

wetext carries WeTextProcessing's grammars; the first call reads them (half a second).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

# Before the library: what it reads wrongly or not at all.
_FIRST: list[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern), words)
    for pattern, words in (
        (r"[\"“”\\]", ""),
        (r"https?://|\bwww\.", ""),
        (r"(?<=\w)/(?=$|\s)", ""),  # the end of an address
        (r"(?<=[A-Za-z]{2})\.(?=[a-z]{2})", " dot "),
        (r"(?<![\d,.$£€])(\d),000(?!,?\d)", r"\1 thousand"),
        (r"(?<![\d,.$£€])(\d),(\d{3})(?![.,]?\d)", r"\1 thousand \2"),
        (r"(?<=\d),(?=\d{3}(?!\d))", ""),
        (r"\b[Nn]o\. ?(?=\d)", "number "),
        (r"(?<=\d)[–—](?=\d)", "-"),
        (r"\b24/7\b", "twenty four seven"),
        (r"\b[vV](?=\d)", "version "),
        (r"(?<=\d)\.(?=\d+\.\d)|(?<=\d\.\d)\.(?=\d)", " point "),
        (r"~\s?(?=\d)", "about "),
        (r"±\s?", "plus or minus "),
        (r"(?<![\w.])\+(?=\d)", "plus "),
        (r"#(?=\d)", "number "),
        (r"#(?=[A-Za-z])", "hashtag "),
        (r"(?<=\w)\s*>\s*(?=[\w-])", " is greater than "),
        (r"(?<=\w)\s*<\s*(?=[\w-])", " is less than "),
        (r"\s*≥\s*", " is at least "),
        (r"\s*≤\s*", " is at most "),
        (r"(?<=[A-Za-z])/(?=[A-Za-z])", " "),
    )
]
_ALONE = re.compile(r"(?:(?<=^)|(?<=\band )|(?<=[^\w] ))(thousand|million|billion)\b")
_CENTS = re.compile(r"([$£€])(\d[\d,]*)\.(\d\d)(?!\.?\d)(?!\s+[a-z]*illion)")
_COIN = {"$": "cent", "£": "penny", "€": "cent"}
_DECADE = re.compile(r"['’]?\b(\d{2})?(\d0)s\b")
_TENS = "twenties thirties forties fifties sixties seventies eighties nineties".split()
_LOCAL = re.compile(r"(?<![\w-])(\d{3})-(\d{4})(?![\w-])")  # a telephone number


def say(text: str) -> str:
    """A stretch of English with numbers or signs -> words. What it cannot read stays as it is."""
    first = _CENTS.sub(_cents, text)
    for pattern, words in _FIRST:
        first = pattern.sub(words, first)
    first = _LOCAL.sub(lambda m: f"{' '.join(m[1])}, {' '.join(m[2])}", first)
    first = _DECADE.sub(_decade, first)
    try:
        words = str(_library().normalize(first))
    except (AssertionError, IndexError, KeyError, ValueError):  # its parser's ways to give up
        words = first
    return _ALONE.sub(r"one \1", words) if words.strip() else text


def _cents(match: re.Match[str]) -> str:
    sign, whole, part = match[1], match[2], int(match[3])
    coin = _COIN[sign] if part == 1 else {"penny": "pence"}.get(_COIN[sign], "cents")
    coins = f"{part} {coin}"
    return {0: f"{sign}{whole}"}.get(part, coins if whole == "0" else f"{sign}{whole} and {coins}")


def _decade(match: re.Match[str]) -> str:
    century, tens = match[1], int(match[2]) // 10
    if tens == 0:
        return {"20": "two thousands"}.get(
            century or "", f"{century} hundreds" if century else match[0]
        )
    named = _TENS[tens - 2] if tens > 1 else "tens"
    return f"{century} {named}" if century else named


@cache
def _library() -> Any:
    from wetext import Normalizer

    return Normalizer(lang="en", operator="tn")
