"""What the cleaner looks for. Every pattern reads at most LOOK characters. PURE."""

from __future__ import annotations

import re

LOOK = 80  # characters that tell what a mark is
MOST_TICKS = 16  # of a code block or of code in a line

WORD = re.compile(r"[^\W_\u2e80-\uffef]+")  # Han stands next to Latin without a space
NUMBER = re.compile(r"\d{1,3}")
CODE_TEXT = re.compile(r"[^`\s]+")
TICK_OR_BREAK = re.compile(r"[`\n]")
NOT_BREAK = re.compile(r"[^\n]+")
RULE_REST = re.compile(r"[-=_*:| \t\r]+")
DASHES = re.compile(r"[-:]+")
DUNDER = re.compile(r"__[a-z0-9_]{0,40}")

URL = ("http://", "https://", "www.")
HOST = re.compile(r"[^\W_]+|-+")
TAIL = re.compile(r"[A-Za-z0-9\-_~/#@$&+=%]+")  # of a bare address, behind its host
MOST_STOPS = 64
TAIL_STOPS = re.compile(r"[.,;:!?]{1,64}")

CITATION = re.compile(r"\[(?:\^[^\]\[\s]{1,32}|\d{1,3}(?:[ ,–-]{1,2}\d{1,3}){0,8})\]")
CITATION_BEGUN = re.compile(r"\[(?:\^[^\]\[\s]{0,32}|\d[\d ,–-]{0,40})?\Z")
CHECKBOX = re.compile(r"\[[ xX]\](?=\s)")
CHECKBOX_BEGUN = re.compile(r"\[(?:[ xX]\]?)?\Z")
REFERENCE = re.compile(r"\[[^\]\[\n]{0,64}\]")
REFERENCE_BEGUN = re.compile(r"\[[^\]\[\n]{0,64}\Z")
ADDRESS = re.compile(r"\([^\s)]{0,72}")  # as far as it is one without a title
IN_ADDRESS = re.compile(r"[^()\n]+")

ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,9}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")
ENTITY_BEGUN = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{0,9}|#\d{0,7}|#[xX][0-9A-Fa-f]{0,6})?\Z")

_INLINE = """
a abbr b big cite code del dfn em font i ins kbd mark q s samp small span strike strong sub sup u
var img speak prosody emphasis voice
""".split()
_BLOCK = """
p div br hr ul ol dl table thead tbody tfoot pre blockquote details section article header footer
center body html break
""".split()
_ITEM = "li h1 h2 h3 h4 h5 h6 tr td th dt dd summary caption".split()
TAGS = frozenset(_INLINE + _BLOCK + _ITEM)
BREAKS, ITEMS = frozenset(_BLOCK + _ITEM), frozenset(_ITEM)
_NAME = "[A-Za-z][A-Za-z0-9]{0,11}"
TAG = re.compile(rf"<(/?)({_NAME})[ \t]{{0,8}}(/?>|(?<=[ \t])[A-Za-z][A-Za-z:-]{{0,31}}=)")
TAG_BEGUN = re.compile(rf"</?(?:{_NAME}(?:[ \t]{{1,8}}(?:[A-Za-z:-]{{1,32}}|/)?|/)?)?\Z")
IN_TAG = re.compile(r"[^>]+")
IN_COMMENT = re.compile(r"[^-]+")


def name_begun(text: str) -> bool:
    """Whether a tag begins so whose name could still be one we know."""
    name = re.match(r"</?([A-Za-z0-9]*)", text)
    assert name
    word, whole = name[1].lower(), name.end() < len(text)
    return word in TAGS if whole else any(tag.startswith(word) for tag in TAGS)
