"""What is said in comparisons."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    text: str
    instruct: str = ""
    language: str = "auto"
    speaker: str = ""


DESIGNED = [
    Case("Hello there, my friend.", "A calm man, low and dry.", "english"),
    Case("Ja.", "Eine helle Stimme", "German"),
    Case("One, two, three, four and then five: nobody is here to count any further."),
]
CUSTOM = [
    Case("Good morning.", "Whisper it.", "english", "ryan"),
    Case("Ni hao!", "", "auto", "eric"),
    Case("Ni hao, and well met to you all.", "", "chinese", "serena"),
]
