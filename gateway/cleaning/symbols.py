"""Characters that are seen and not said, and those that text is glued or parted by. PURE."""

from __future__ import annotations

import re

# Arrows, technical signs, boxes, blocks, shapes, dingbats, emoji with their flags, skin tones,
# variation selectors and keycap. Mathematical operators (2200 to 22FF) are said.
_SYMBOL = (
    "\u20e3\u2190-\u21ff\u2300-\u23ff\u2500-\u27bf\u27f0-\u27ff\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\ufe0e\ufe0f\U0001f000-\U0001faff\U000e0020-\U000e007f"
)
SYMBOLS = re.compile(f"(?:[{_SYMBOL}]\u200d?)+")
JOINER = "\u200d"  # between emoji it is one of them; Persian and Hindi write with it

OPENING = frozenset("([{<\"'“‘„«‹¿¡`/–—-:>|*_~=+")
CLOSING = frozenset(".,;:!?…)]}%。，、；：！？）」』】")
QUOTES = frozenset("\"'”’»›)]}」』）】")
STOPS = frozenset(".,;:!?…。，、；：！？|-–—")

_HAN = re.compile("[\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff00-\uffef]")


def han(c: str) -> bool:
    """Written without spaces between words, or with this writing's own punctuation."""
    return _HAN.match(c) is not None


def ascii_word(c: str) -> bool:
    return c.isascii() and c.isalnum()
