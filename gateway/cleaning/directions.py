"""Stage directions: `(laughs)`, `[long pause]`, `*sighs softly*`. PURE.

One is a bracketed or starred phrase of at most three words that begins with a word of the lists
below, or ends with a sound that only has an adjective before it. All else in brackets is said.
"""

from __future__ import annotations

import re

_VERBS = """
laughs laughing chuckles chuckling giggles giggling sighs sighing whispers whispering coughs
coughing gasps gasping sniffs sniffles sobs sobbing groans groaning moans yawns yawning hums humming
gulps smiles smiling grins grinning smirks smirking winks winking nods nodding shrugs shrugging
frowns frowning blushes blushing pauses pausing inhales exhales
""".split()
_SOUNDS = """
pause beat silence laughter laugh chuckle giggle sigh gasp cough whisper applause music cheering
""".split()
_HOW = """
long short brief slight small soft softly gentle gently quiet quietly deep deeply loud loudly
nervous nervously warm warmly dramatic light lightly awkward
""".split()
LONGEST = 40  # characters
_PHRASE = re.compile(r"[A-Za-z ]*")
_BEGUN = {word[:n] for word in _VERBS + _SOUNDS + _HOW for n in range(1, len(word) + 1)}


def direction(phrase: str) -> bool:
    words = phrase.lower().split()
    if not 1 <= len(words) <= 3 or len(phrase) > LONGEST or not _PHRASE.fullmatch(phrase):
        return False
    if words[0] in _VERBS:
        return True
    while len(words) > 1 and words[0] in _HOW:
        words = words[1:]
    return words in ([sound] for sound in _SOUNDS)


def may_be(begun: str) -> bool:
    """Whether a text that begins so could be a direction's, up to where it is known."""
    if len(begun) == 1:
        return begun == " " or begun.lower() in _BEGUN
    if len(begun) > LONGEST or not _PHRASE.fullmatch(begun):
        return False
    words = begun.lower().split()
    return len(words) <= 3 and (not words or words[0] in _BEGUN)
