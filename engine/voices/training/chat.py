"""A grammar of what chatbots say: answers, questions, numbers, names, dates, lists, single words.

Nonsense is welcome: a voice has to learn letters, not facts.
"""

# ruff: noqa: E501  (tables of words)
from __future__ import annotations

import random
import re

RULES: dict[str, list[str]] = {
    "say": [
        *["{open}"] * 3, *["{answer}"] * 6, *["{question}"] * 6, *["{order}"] * 5,
        *["{number}"] * 6, *["{nonsense}"] * 8, *["{words}"] * 3, *["{open} {answer}"] * 2,
        *["{list}"] * 2, *["{talk}"] * 6, "{open} {question}", "{short}", "{short}",
        *["{typed}"] * 8, *["{typed}"] * 2,
    ],
    "typed": [  # what a front end must read: the teacher's own does, where [written|spoken] does not say it
        "It costs ${n100}.{n90}.", "The total is ${n1000}.{n90}, plus ${n28} for shipping.", "${n28}.50", "£{n100} or €{n100}.",
        "A budget of ${n28}.{digit} million.", "That's ${big}.", "There are {big} {things}.", "About {big} people live in {city}.",
        "The {thing} leaves at {n12}:{n90}.", "It's {n12}:{n90} {ampm}", "From {n12}:{n90} to {n12}:{n90} {ampm}", "See you at {n12} {ampm}",
        "It is {n12}:0{digit} {ampm} in {city}.", "{mon}. {n28}, {year}.", "On {month} {n28}{th}, {year}, we met.", "Due {month} {n28}.",
        "On {m}/{n28}/{year}, {name} moved to {city}.", "The {nth} of {month}.", "Her {nth} {noun}.", "In the {decade}s.", "Since {year}.",
        "{title} {name} called.", "{title} {name} and {title} {name} are here.", "Ask {title} {name} {when}.", "{name} {letter}. {name}.",
        "{noun}, e.g. a {adj} {noun}.", "{nouns}, {nouns}, etc.", "A {noun}, i.e. a {adj} {noun}.", "{noun} vs. {noun}.", "No. {n28}.",
        "{name} & {name}.", "The {acronym} and the {acronym}.", "What is {acronym}?", "Your {acronym} is {adj}.", "The {acronym} {noun}.",
        "Use the {acronym} to {verb} it.", "{n100}% of {nouns}.", "A {n28}.{digit}% rise.", "{n28}.{digit} {unit}.", "It is {n100} {unit} long.",
        "{n28} {unit} and {n28} {unit}.", "{n28}°C in {city}.", "About -{n28}°{cf}.", "{digit}.{digit}{digit}", "{n28}.{n90}", "-{n28}",
        "{n28} + {n28} = {n90}.", "1/{digit2} of the {noun}.", "Version {digit}.{digit}.", "{n28}-{n60} {nouns}.", "#{n28}.",
        "Call {phone}.", "The number is {phone}.", "My number is {phone}, {name}.", "Dial {phone} {when}.", "Visit {url}.", "See {url} for more.",
        "Go to {url} and {verb} the {noun}.", "Write to {email}.", "My address is {email}.", "Send it to {email} {when}.",
        "{n200} {surname} {street}.", "Flight {letter}{letter}{n1000}.", "Room {n1000}.", "Gate {letter}{n28}.", "Order {n1000}{letter}.",
        "He said \"{short}\" and left.", "\"{question}\"", "\"{answer}\" said {name}.", "The {noun} (a {adj} {noun}) is here.",
        "The {noun} - {adj} and {adj} - is {when} here.", "{clause}; {clause}.", "Note: {clause}.", "Well... {clause}.", "{open} ({short})",
        "{name}: {question}", "{noun}/{noun}.", "{adj}-{adj} {nouns}.", "WARNING: {clause}.", "{n28}x{n28} {unit}.", "Chapter {roman}.",
    ],
    "ampm": ["a.m.", "p.m.", "AM.", "PM.", "am.", "pm."],
    "th": ["th"],
    "nth": ["1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th", "9th", "10th", "11th", "12th", "19th", "20th", "21st", "23rd", "30th", "100th"],
    "mon": "Jan Feb Mar Apr Aug Sept Oct Nov Dec".split(),
    "m": "1 2 3 4 5 6 7 8 9 10 11 12".split(),
    "decade": ["1950", "1960", "1970", "1980", "1990", "1920"],
    "title": ["Dr.", "Mr.", "Mrs.", "Ms.", "Prof.", "Dr.", "Mr.", "Mrs."],
    "acronym": "NASA FBI CIA USA UK EU UN BBC CNN TV PC CPU GPU USB PDF HTML API URL AI IBM ATM CEO DIY DNA FAQ GPS HR IT MRI NATO PIN "
               "RAM SMS SUV VIP WWF XML JSON HTTP NBA NFL MIT UCLA LED LCD DVD CD ID IQ OK".split(),
    "unit": "km kg cm mm mph km/h GB MB minutes hours days miles feet inches degrees liters meters grams dollars tons pounds years".split(),
    "cf": ["C", "F"],
    "digit2": ["2", "3", "4", "5", "8"],
    "roman": ["II", "III", "IV", "2", "3", "V"],
    "surname": "Main Oak Park Maple Cedar Elm Lake Hill Washington Church Mill River Spring King Queen Green High Station".split(),
    "street": ["Street", "St.", "Avenue", "Ave.", "Road", "Rd.", "Lane", "Drive", "Blvd."],
    "open": [
        "Hello!", "Hi there.", "Hello, {name}.", "Good {part}, {name}.", "Good {part}!", "Welcome back.",
        "Sure.", "Of course.", "Yes.", "No.", "Okay.", "All right.", "Thank you.", "You're welcome.",
        "One moment.", "One moment, please.", "Let me check.", "Let me see.", "Got it.", "Great question.",
        "No problem.", "I'm sorry, {name}.", "Sorry about that.", "Well, let me think.", "Hmm, that's odd.",
        "Goodbye.", "Bye for now.", "See you {when}.", "Take care.", "Absolutely.", "Not yet.", "Maybe.",
        "I see.", "Right.", "Exactly.", "Done.", "Nice to meet you, {name}.", "Thanks for waiting.",
        "Thanks, {name}.", "Hey {name}.", "That's right.", "I understand.", "Interesting.", "Perfect.",
    ],
    "answer": [
        "I found {count} {nouns} for you.", "The {noun} is {adv} {adj}.", "It looks like {clause}.",
        "I think {clause}.", "I'm not sure, but {clause}.", "You can {verb} the {noun} {when}.",
        "Your {noun} will be ready {when}.", "Here is what I know about the {noun}.",
        "Your {thing} is on the way.", "The {thing} opens at {clock} and closes at {clock}.",
        "I can help you with that, {name}.", "I have sent the {thing} to {name}.",
        "There are {count} {things} left in the {place}.", "The weather in {city} is {weather} {when}.",
        "It will be {weather} in {city}, with a high of {n100} degrees.", "Let me look that up for you.",
        "I would {verb} the {thing} first, then {verb} the {noun}.", "That depends on the {noun}.",
        "Because the {noun} is {adj}, we should {verb} it.", "If you like, I can {verb} it {when}.",
        "I don't have any {things} called {name}.", "The answer is {n1000}.", "We are nearly there.",
        "Don't worry, the {thing} is still in the {place}.", "I couldn't find a {noun} in {city}.",
        "{name} said the {adj} {thing} was left in the {place}.", "You have {count} new {things}.",
        "My favorite {noun} is the {adj} one.", "Sure, I can {verb} that for you {when}.",
        "It takes about {n60} minutes to get from {city} to {city}.", "{name} is {adj} and {adj}.",
    ],
    "question": [
        "What time does the {thing} leave for {city}?", "How are you {when}?", "Can you {verb} the {noun}?",
        "Would you like me to {verb} the {thing}?", "Where did {name} put the {adj} {thing}?",
        "Do you want {noun} or {noun}?", "Is the {noun} {adj}?", "Who is {name}?", "Why is it so {adj}?",
        "When will the {thing} be ready?", "Which {noun} do you mean?", "How many {things} do you need?",
        "Have you ever been to {city}?", "Shall we meet in the {place} at {clock}?", "Are you sure?",
        "What do you think about the {noun}?", "Did {name} {verb} it?", "How much is the {adj} {thing}?",
        "Could you say that again, please?", "What's the weather like in {city}?", "Is there anything else?",
        "How can I help you {when}?", "What is your name?", "What should we {verb} next, {name}?",
        "Does that make sense?", "How old is {name}?", "Can I ask you something?", "What happened {when}?",
    ],
    "order": [
        "Please {verb} the {thing}.", "Turn {side} at the {place}.", "Go to the {place} and {verb} the {noun}.",
        "First, {verb} the {noun}. Then, {verb} the {adj} {thing}.", "Don't {verb} the {noun}!",
        "Tell me about the {noun}.", "Call {name} {when}.", "Try to {verb} it {adv}.", "Wait {n60} seconds.",
        "Send the {thing} to {name} in {city}.", "Never {verb} a {adj} {noun}.", "Open the {thing}.",
        "Remember to {verb} the {thing} {when}.", "Keep the {noun} in the {place}.", "Press {digit} to go on.",
        "Bring {count} {things} and a {adj} {noun}.", "Ask {name} for the {thing}.", "Listen to this.",
    ],
    "number": [
        "The number is {digit} {digit} {digit}, {digit} {digit} {digit} {digit}.", "It costs ${n100}.",
        "It costs {n1000} dollars.", "The total is ${n100}.{n90}.", "We meet at {clock}.", "It is {clock}.",
        "My flight is {letter}{letter} {n1000}.", "The year was {year}.", "Born in {year}, {name} moved to {city}.",
        "That is {n100} percent.", "About {n100}% of the {things} are {adj}.", "{n100} plus {n100} is {n200}.",
        "{Count}, {count}, {count}.", "Your appointment is on {day}, {month} {n28}.", "It's {month} {n28}, {year}.",
        "The room is {n1000} meters long.", "There were {n1000} people in {city}.", "Chapter {n28}.",
        "Take bus {n200} to {city}.", "It weighs {n100} kilograms.", "The code is {letter} {digit} {letter} {digit}.",
        "{n60} minutes and {n60} seconds.", "I bought {count} {things} for {n100} dollars.", "Page {n1000}.",
        "In {year}, about {n1000} {things} were sold.", "The score was {n28} to {n28}.", "{n1000}.", "{Count}.",
    ],
    "nonsense": [
        "The {adj} {noun} and the {noun} {verb} {adv}.", "A {noun} of {noun} is {adj}.",
        "They {verb} every {adj} {noun} in {city}.", "{name} and {name} {verb} the {noun} {adv}.",
        "Some {adj} {nouns} {verb}, but other {nouns} {verb} {adv}.", "To {verb} is to {verb} {adv}.",
        "We {adv} {verb} the {noun} and {verb} its {noun}.", "No {noun} is as {adj} as a {adj} {noun}.",
        "The {noun}, the {noun} and the {adj} {noun}.", "{adj} {nouns} {verb} {adj} {nouns}.",
        "I {verb} my {noun} with a {adj} {noun}.", "You {adv} {verb} a {noun}.", "{adj} {noun}, {adj} {noun}.",
        "Her {noun} was {adj}, his {noun} {adv} {adj}.", "Each {noun} has a {noun}, a {noun} and {count} {nouns}.",
    ],
    "words": [
        "{noun}.", "{verb}.", "{adj}.", "{adv}.", "{noun}.", "{name}.", "{city}.", "{adj} {noun}.",
        "{noun} {noun}.", "{verb} {adv}.", "{day}.", "{month}.", "the {noun}.", "{noun}!", "{adj}?",
        "{noun}", "{adj} {noun}", "{verb} the {noun}", "{name} and {name}",
    ],
    "list": [
        "You need {noun}, {noun}, {noun} and {noun}.", "{day}, {day} and {day}.", "{name}, {name} and {name}.",
        "Buy {count} {things}, {count} {things} and some {noun}.", "Red, {color}, {color} and {color}.",
        "First, {verb}. Second, {verb}. Third, {verb}.", "In {city}, {city} and {city}.",
        "There is the {thing}, the {thing} and, of course, the {thing}.", "{letter}, {letter}, {letter}, {letter}.",
    ],
    "talk": [
        "That sounds like a {adj} idea to me.", "I was thinking about the {noun} you mentioned {when}.",
        "To be honest, I would rather {verb} than {verb}.", "Once upon a time, a {adj} {noun} lived in {city}.",
        "In other words, the {noun} is more {adj} than the {noun}.", "For example, you could {verb} your {noun}.",
        "It's hard to say, because {clause}.", "Let's start with the {noun}, and {verb} the rest {when}.",
        "This {noun} was made in {city} by {name}.", "By the way, did you know that {clause}?",
        "As far as I know, {clause}.", "When {clause}, you can {verb} the {thing}.", "I'd love to hear more.",
        "On the other hand, {clause}.", "The good news is that {clause}.", "What a {adj} {noun}!",
        "Speaking of {nouns}, {clause}.", "Unfortunately, {clause}.", "However, {clause}, so please wait.",
        "After that, we'll {verb} the {thing} and {verb} home.", "It was a {color} {thing} with a {adj} {noun}.",
        "I hope that helps, {name}.", "She told me that {clause}.", "He didn't {verb} the {noun}, did he?",
        "There's nothing better than a {adj} {noun} on a {weather} {day}.", "They've never seen a {adj} {noun}.",
    ],
    "short": [
        "Yes, please.", "No, thanks.", "Not really.", "Why not?", "Right away.", "Come in.", "Good idea.",
        "Well done!", "Oh no!", "Wow!", "Hello?", "Really?", "Of course not.", "I don't know.", "Me too.",
        "Go on.", "Stop!", "Hurry up!", "Sounds good.", "That's all.", "Just a second.", "Never mind.",
    ],
    "clause": [
        "the {noun} is {adj}", "{name} will {verb} it {when}", "it is {weather} in {city}", "we need {count} {nouns}",
        "you should {verb} the {noun}", "the {thing} is in the {place}", "they {verb} the {adj} {noun}",
        "nobody can {verb} it", "your {thing} is {adj}", "I can't {verb} the {noun}", "there's a {adj} {noun} here",
    ],
    "name": (
        "Anna Ben Carla David Emma Frank Grace Henry Iris Jack Kate Liam Maria Nora Oscar Paul Quinn Rosa Sam Tom "
        "Uma Victor Wendy Xavier Yusuf Zoe John Mary James Linda Robert Susan Michael Karen William Sarah Thomas "
        "Lisa Charles Nancy George Helen Peter Laura Kevin Amy Brian Olivia Edward Sophia Ryan Mia Jacob Chloe"
    ).split(),
    "city": (
        "London Paris Berlin Rome Madrid Vienna Boston Chicago Tokyo Sydney Toronto Dublin Oslo Lisbon Athens Cairo "
        "Denver Seattle Dallas Houston Miami Austin Delhi Mumbai Beijing Seoul Moscow Prague Geneva Milan Texas "
        "California Spain Germany Canada Japan China India Brazil Mexico Italy France England Ireland Africa Europe"
    ).split(),
    "thing": (
        "book ticket train bus door window phone letter package order invoice coffee key lamp table chair report file "
        "message meeting garden kitchen car bicycle camera song picture computer screen button recipe dinner lunch "
        "breakfast flight hotel taxi map ticket plan list store library museum parcel photo email password account"
    ).split(),
    "place": (
        "kitchen garden office station library museum park hotel airport bank school hospital market river bridge "
        "corner basement attic hallway living_room parking_lot city_hall supermarket restaurant theater harbor"
    ).split(),
    "part": ["morning", "afternoon", "evening", "night"],
    "when": [
        "today", "tomorrow", "tonight", "now", "later", "soon", "on {day}", "next week", "this {part}", "at {clock}",
        "yesterday", "in {n28} minutes", "every {day}", "right away", "after lunch", "before {clock}", "in {month}",
    ],
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "month": "January February March April May June July August September October November December".split(),
    "weather": "sunny rainy cloudy windy cold warm hot foggy stormy snowy mild dry wet".split(),
    "color": "blue green yellow purple orange white black brown pink gray silver golden".split(),
    "side": ["left", "right", "around", "back", "left", "right"],
    "count": (
        "two three four five six seven eight nine ten eleven twelve thirteen fifteen eighteen twenty thirty "
        "forty-two fifty seventy-five ninety one_hundred a_hundred two_hundred three_thousand a_million several"
    ).split(),
    "clock": [
        "{hour} o'clock", "half past {hour}", "quarter to {hour}", "{n12}:{n90}", "{n12} a.m.", "{n12} p.m.", "noon",
        "{hour} thirty", "{hour} fifteen", "{n12}:30", "{n12}:15 p.m.", "midnight",
    ],
    "hour": "one two three four five six seven eight nine ten eleven twelve".split(),
}  # fmt: skip
NUMBERS = {"n12": (1, 12), "n28": (1, 28), "n60": (2, 60), "n90": (10, 59), "n100": (1, 100),
           "n200": (2, 200), "n1000": (3, 9999), "year": (1750, 2035), "digit": (0, 9)}  # fmt: skip
USED = {"noun": 6000, "verb": 2500, "adj": 2500, "adv": 500}  # how far down the frequency list
_SLOT = re.compile(r"\{(\w+)\}")


class Grammar:
    """Draws sentences; `lemmas`: words by part of speech, most used first."""

    def __init__(self, lemmas: dict[str, list[str]], rng: random.Random) -> None:
        self._lemmas = {part: words[: USED[part]] for part, words in lemmas.items()}
        self._rng = rng

    def say(self) -> str:
        return self._expand("{say}").replace("_", " ")

    def _expand(self, text: str) -> str:
        while match := _SLOT.search(text):
            text = text[: match.start()] + self._fill(match[1]) + text[match.end() :]
        return text

    def _fill(self, slot: str) -> str:
        rng = self._rng
        if slot in NUMBERS:
            number = int(rng.uniform(*NUMBERS[slot]) + 0.5)
            small = slot == "n1000" and rng.random() < 0.4
            return str(number // 10 if small and number > 1000 else number)
        if slot in self._lemmas:
            words = self._lemmas[slot]  # common words more often
            return words[int(len(words) * rng.random() ** 2)]
        if slot == "nouns":
            return _plural(self._fill("noun"))
        if slot == "things":
            return _plural(self._fill("thing"))
        if slot == "Count":
            return self._fill("count").capitalize()
        if slot in ("phone", "url", "email"):
            return getattr(self, f"_{slot}")()
        if slot == "big":
            return f"{rng.choice([rng.randint(1_000, 9_999), rng.randint(10_000, 999_999), rng.randint(1, 99) * 1_000_000]):,}"
        if slot == "letter":
            return rng.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        return rng.choice(RULES[slot])

    def _phone(self) -> str:
        rng = self._rng
        parts = [[rng.randint(0, 9) for _ in range(n)] for n in rng.choice([(3, 4), (3, 3, 4)])]
        parts[0][0] = rng.randint(2, 9)
        words = ", ".join(" ".join(DIGITS[d] for d in part) for part in parts)
        return f"[{'-'.join(''.join(map(str, part)) for part in parts)}|{words}]"

    def _url(self) -> str:
        rng = self._rng
        name, end = "".join(self._fill("noun") for _ in range(rng.choice([1, 1, 2]))), self._end()
        path = f"/{self._fill('noun')}" if rng.random() < 0.3 else ""
        start, said = rng.choice(
            [
                ("www.", "double u double u double u dot "),
                ("", ""),
                ("https://", ""),
                ("https://www.", ""),
            ]
        )
        said_end = (
            end.replace(".", " dot ")
            .replace("io", "i o")
            .replace("ai", "a i")
            .replace(" uk", " u k")
        )
        return f"[{start}{name}{end}{path}|{said}{name}{said_end}{path.replace('/', ' slash ')}]"

    def _email(self) -> str:
        user, host, end = self._fill("name").lower(), self._fill("noun"), self._end()
        if self._rng.random() < 0.3:
            user += "." + self._fill("noun")
        said_end = (
            end.replace(".", " dot ")
            .replace("io", "i o")
            .replace("ai", "a i")
            .replace(" uk", " u k")
        )
        return f"[{user}@{host}{end}|{user.replace('.', ' dot ')} at {host}{said_end}]"

    def _end(self) -> str:
        return self._rng.choice([".com", ".com", ".com", ".org", ".net", ".io", ".ai", ".co.uk"])


DIGITS = "zero one two three four five six seven eight nine".split()


def _plural(noun: str) -> str:
    if noun.endswith(("s", "x", "ch", "sh")):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") and noun[-2] not in "aeiou" else noun + "s"


_READ = re.compile(r"\[([^|\]]*)\|([^\]]*)\]")  # [as written|as spoken]


def written(text: str) -> str:
    return _READ.sub(r"\1", text)


def spoken(text: str) -> str:
    return _READ.sub(r"\2", text)
