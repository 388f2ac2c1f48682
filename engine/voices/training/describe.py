"""A designed voice: what is done to the teacher's parts, and how people would describe it.

`design` draws a voice as tags plus the numbers of generate.py; `describe` puts tags into words, in
many ways, so that one voice is met under many descriptions.
"""

# ruff: noqa: E501  (tables of words)
from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass
class Voice:
    """`pitch` and `formant` scale the teacher's (a woman of 190 Hz), `span` her pitch range, `rate`
    her speed; `tilt` is in nepers from 0 to 12 kHz; `breath` 0 to 1; `whisper` drops the pitch.
    """

    pitch: float = 1.0
    formant: float = 1.0
    rate: float = 1.0
    span: float = 1.0
    tilt: float = 0.0
    breath: float = 0.0
    whisper: bool = False


# who: weight, pitch, formant. Narrow and gentle: one description is one speaker, and farther out the
# listener model stops to understand.
PEOPLE: dict[str, tuple[float, tuple[float, float], tuple[float, float]]] = {
    "woman": (0.28, (0.95, 1.03), (0.98, 1.02)),
    "young woman": (0.10, (1.08, 1.14), (1.01, 1.04)),
    "old woman": (0.07, (0.84, 0.89), (0.95, 0.98)),
    "man": (0.24, (0.56, 0.60), (0.93, 0.95)),
    "young man": (0.08, (0.62, 0.66), (0.95, 0.97)),
    "old man": (0.08, (0.53, 0.57), (0.91, 0.93)),
    "deep man": (0.09, (0.455, 0.485), (0.87, 0.89)),
    "child": (0.06, (1.26, 1.34), (1.10, 1.14)),
}
NOUNS = {
    "woman": "woman|woman|female voice|lady|female speaker|adult woman|female|mother|woman in her thirties"
    "|middle-aged woman|female narrator|actress|female teacher|woman's voice|female assistant|her voice"
    "|female newsreader|saleswoman|hostess|businesswoman|nurse|feminine voice|woman of forty|soprano|queen|she",
    "young woman": "young woman|girl in her twenties|young lady|young female voice|teenage girl|young female"
    "|woman in her early twenties|high female voice|student, female|youthful woman|female teenager|schoolgirl of sixteen"
    "|girl of eighteen|princess|young actress|twenty year old woman",
    "old woman": "old woman|older woman|elderly lady|grandmother|aged female voice|old lady"
    "|woman in her seventies|mature woman|senior woman|granny|aged woman|woman of eighty|elderly woman|grandma"
    "|old woman's voice|retired teacher, female|older lady|woman in her sixties|old witch",
    "man": "man|man|male voice|guy|male speaker|adult man|male|father|man in his forties|middle-aged man"
    "|male narrator|actor|male teacher|man's voice|male assistant|gentleman|his voice|male newsreader|businessman|salesman"
    "|masculine voice|man in his thirties|man of forty|radio host, male|male announcer|fellow|he|sir|reporter, male",
    "young man": "young man|boy in his twenties|young guy|young male voice|teenage boy|young male"
    "|man in his early twenties|lad|student, male|youthful man|male teenager|young fellow|young actor|tenor"
    "|prince|twenty year old man|guy in his twenties",
    "old man": "old man|older man|elderly gentleman|grandfather|aged male voice|old guy"
    "|man in his seventies|mature man|senior man|grandpa|elderly man|aged man|man of eighty|old man's voice|wizard"
    "|man in his sixties|old professor|older gentleman|retired captain",
    "deep man": "deep male voice|man with a very deep voice|deep bass voice|deep man|big man with a low voice"
    "|deep-voiced man|male bass|deep baritone|giant|man with a low rumbling voice|very low male voice|bass singer"
    "|movie trailer narrator|man with a booming voice|very deep male|man with an extremely low voice|deep, resonant man"
    "|man, very deep|monster|bear of a man|deep bass man|low bass voice, male",
    "child": "child|little girl|small child|kid|young child|little kid|child's voice|cartoon child|small girl"
    "|schoolgirl|five year old|little boy|toddler|young kid|child of six|seven-year-old|small boy|kid's voice|childlike voice"
    "|preschooler|schoolboy|ten year old child|cartoon character, small|elf|fairy|boy of eight",
}
# tag: weight, adjectives (before the noun or behind it), phrases (behind it)
TRAITS: dict[str, tuple[float, str, str]] = {
    "slow": (0.15, "slow|unhurried|measured|deliberate|slow-paced|leisurely|patient|very slow|drawling|sluggish",
             "speaking slowly|at a slow pace|taking time over each word|who takes her time|talking slowly"
             "|with long, slow words|in no hurry|slowly spoken|speaks slowly|talks slowly|reading slowly|at a relaxed pace"
             "|at a low speed|with a slow tempo|who takes her time over every word|never hurrying|pronouncing each word slowly"),
    "fast": (0.15, "fast|quick|rapid|brisk|hurried|rushed|fast-talking|quick-spoken|very fast|speedy|hasty|swift|hectic",
             "speaking fast|at a fast pace|talking rapidly|in a hurry|speaking quickly|with a quick tempo|speaks fast|talks quickly|talking fast"
             "|reading quickly|at high speed|who rushes through her words|rushing|words tumbling out|at a rapid pace"),
    "flat": (0.13, "monotone|flat|even|emotionless|robotic|dry|bored|level|deadpan|stern|serious|monotonous|cold|dull|stoic",
             "without emotion|in a monotone|with little intonation|with a flat delivery|like a robot|sounding bored"
             "|with no expression|without any melody|hardly changing pitch|in a flat tone|speaking on one note|like a machine"),
    "lively": (0.15, "lively|expressive|animated|cheerful|energetic|happy|playful|enthusiastic|excited|joyful|bubbly|dramatic|vivid",
               "with lots of intonation|full of energy|with great expression|sounding happy|in a good mood|full of life"
               "|with a melodic voice|with a sing-song melody|with big pitch swings|telling an exciting story|smiling|theatrical"),
    "breathy": (0.05, "breathy|airy|soft|gentle|intimate|tender|delicate",
                "with a breathy tone|speaking softly|with a soft voice|close to the microphone"),
    "whisper": (0.035, "whispering|whispered|hushed|whispery|voiceless", "in a whisper|whispering|who whispers|barely audible"
                "|whispers|telling a secret|without using the voice|in a hushed whisper|whispering softly"),
    "bright": (0.08, "bright|crisp|clear|sharp|thin|brilliant|metallic",
               "with a bright tone|with a clear, bright voice|with crisp sound"),
    "dark": (0.08, "warm|dark|mellow|rich|muffled|velvety|smooth",
             "with a warm tone|with a dark timbre|with a rich, mellow voice|with a warm voice"),
    "high": (0.05, "high-pitched|high|squeaky|high-voiced", "with a high voice|in a high register|high-pitched"),
    "low": (0.06, "low-pitched|low|low-voiced", "with a low voice|in a low register|low-pitched"),
    "calm": (0.10, "calm|relaxed|quiet|peaceful|soothing|composed|steady|gentle and calm",
             "with a calm manner|speaking calmly|calm and steady|relaxed and quiet"),
    "sad": (0.04, "sad|melancholic|tired|gloomy|sleepy|weary|grumpy", "sounding sad|in a sad mood|sounding tired"),
    "plain": (0.20, "normal|neutral|ordinary|natural|friendly|pleasant|confident|professional|polite|kind",
              "with a clear voice|with a natural voice|speaking naturally|with clear diction|friendly and polite"),
}  # fmt: skip
ARTICLES = [*["a "] * 8, "", "", "the voice of a ", "sounds like a ", "speak like a ", "read this as a ", "I want a ",
            "please sound like a ", "imagine a ", "this is a "]  # fmt: skip
APART = [{"slow", "fast"}, {"flat", "lively", "calm", "sad"}, {"breathy", "whisper"}, {"bright", "dark", "sad"},
         {"high", "low"}, {"slow", "sad"}, {"fast", "calm", "sad"}]  # fmt: skip
LOUD = {"breathy", "whisper", "fast"}  # traits that cost understanding: one of them at most


def design(rng: random.Random) -> tuple[Voice, list[str]]:
    """Draw a voice and its tags; the first tag says who."""
    who = rng.choices(list(PEOPLE), [p[0] for p in PEOPLE.values()])[0]
    _, pitch, formant = PEOPLE[who]
    voice = Voice(
        pitch=rng.uniform(*pitch), formant=rng.uniform(*formant), rate=rng.uniform(0.98, 1.04)
    )
    voice.span = rng.uniform(0.95, 1.05)
    if who.startswith("old"):
        voice.rate *= 0.93
    tags = [who]
    for _ in range(rng.choices([0, 1, 2], [0.27, 0.5, 0.23])[0]):
        tag = rng.choices(list(TRAITS), [t[0] for t in TRAITS.values()])[0]
        if _fits(tag, tags):
            tags.append(tag)
            _apply(tag, voice, rng)
    return voice, tags


def _fits(tag: str, tags: list[str]) -> bool:
    who = tags[0]
    if tag in tags or any(tag in group and group & set(tags) for group in APART):
        return False
    if tag in LOUD and LOUD & set(tags):
        return False
    return not (
        (who == "deep man" and tag in ("high", "low", "whisper"))
        or (who == "child" and tag in ("low", "high"))
    )


def _apply(tag: str, voice: Voice, rng: random.Random) -> None:
    match tag:
        case "slow":
            voice.rate *= rng.uniform(0.74, 0.79)
        case "fast":
            voice.rate *= rng.uniform(1.24, 1.30)
        case "flat":
            voice.span = rng.uniform(0.22, 0.32)
        case "lively":
            voice.span = rng.uniform(1.5, 1.65)
        case "breathy":
            voice.breath = 1.0
        case "whisper":
            voice.whisper = True
        case "bright":
            voice.tilt = rng.uniform(0.7, 1.0)
        case "dark":
            voice.tilt = -rng.uniform(0.7, 1.0)
        case "high":
            voice.pitch *= rng.uniform(1.11, 1.14)
        case "low":
            voice.pitch *= rng.uniform(0.88, 0.91)
        case "calm":
            voice.rate, voice.span = voice.rate * rng.uniform(0.9, 0.94), rng.uniform(0.62, 0.72)
        case "sad":
            voice.rate, voice.span = voice.rate * rng.uniform(0.84, 0.88), rng.uniform(0.48, 0.58)
            voice.tilt, voice.pitch = -0.7, voice.pitch * 0.96


def describe(tags: list[str], rng: random.Random) -> str:
    """A description that is true of a voice with these tags; now and then none at all."""
    who, traits = tags[0], list(tags[1:])
    if rng.random() < 0.02:
        return ""
    rng.shuffle(traits)
    if "plain" not in traits and rng.random() < 0.15:
        traits.append("plain")
    elif "plain" in traits and rng.random() < 0.3:
        traits.remove("plain")
    noun = rng.choice(NOUNS[who].split("|"))
    if "'s voice" in noun or (noun.endswith(" voice") and noun[:4] in ("his ", "her ")):
        article = ""
    else:
        article = rng.choice(ARTICLES)
    before: list[str] = []
    behind: list[str] = []
    for tag in traits:
        _, adjectives, phrases = TRAITS[tag]
        where = rng.random()
        word = rng.choice(adjectives.split("|"))
        if where < 0.4 and adjectives:
            before.append(word)
        else:
            behind.append(word if where < 0.7 else rng.choice(phrases.split("|")))
    text = _join(article, before, noun, behind, rng)
    if who in ("man", "young man", "old man", "deep man"):
        text = text.replace(" her ", " his ")
    text = (
        text.replace("a old", "an old")
        .replace("a e", "an e")
        .replace("a a", "an a")
        .replace("a u", "an u")
    )
    style = rng.random()
    if style < 0.75:
        text = text[0].upper() + text[1:]
    return text + (rng.choice([".", ".", ".", "!"]) if rng.random() < 0.6 else "")


def _join(article: str, before: list[str], noun: str, behind: list[str], rng: random.Random) -> str:
    form = rng.random()
    if form < 0.1:  # "male, deep; slow"
        return rng.choice([", ", "; ", " "]).join([noun, *before, *behind])
    if form < 0.2 and behind:  # "slow and dry, a man"
        return f"{' and '.join(behind)}, {article}{' '.join([*before, noun])}"
    head = article + rng.choice([", ", " "]).join(
        [*before, noun] if len(before) < 2 else [", ".join(before), noun]
    )
    if before and rng.random() < 0.8:
        head = article + " ".join([rng.choice([", ", " and "]).join(before), noun])
    return (
        head + rng.choice([", ", ", ", " "]) + rng.choice([" and ", ", "]).join(behind)
        if behind
        else head
    )
