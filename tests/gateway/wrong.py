"""Every wrong message and the error it earns: the table of docs/protocol.md, in data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack

from .house import VOICE


@dataclass(frozen=True)
class Wrong:
    """`raw` (or the map `message`) after the messages `before` gets `code`, `field` and `close`."""

    name: str
    code: str
    message: dict[str, Any] | None = None
    raw: bytes | str | None = None
    before: tuple[dict[str, Any], ...] = ()
    field: str | None = None
    limit: str | None = None
    close: int = 0
    utterance: str | None = None


PING = {"type": "ping"}
OPEN: dict[str, Any] = {"type": "speak", "utterance": "u", "voice": VOICE}
ENDED = OPEN | {"text": "so it goes on and on for a while", "end": True, "pace": "live"}


def speak(**fields: Any) -> dict[str, Any]:
    return OPEN | fields


def wrong_speak(name: str, field: str, code: str = "bad_message", **fields: Any) -> Wrong:
    return Wrong(name, code, speak(**fields), field=field, utterance="u")


def wrong_sampling(name: str, field: str, **sampling: Any) -> Wrong:
    message = speak(sampling=sampling)
    return Wrong(name, "bad_message", message, field=f"speak.sampling.{field}", utterance="u")


FATAL = [
    Wrong("text on msgpack", "bad_message", raw='{"type":"ping"}', close=1003),
    Wrong("empty", "bad_message", raw=b"", close=1007),
    Wrong("cut short", "bad_message", raw=msgpack.packb(PING)[:-1], close=1007),
    Wrong("two values", "bad_message", raw=msgpack.packb(PING) * 2, close=1007),
    Wrong("reserved byte", "bad_message", raw=b"\xc1", close=1007),
    Wrong("a list", "bad_message", raw=msgpack.packb(["ping"]), close=1007),
    Wrong("an integer", "bad_message", raw=msgpack.packb(7), close=1007),
    Wrong(
        "extension type",
        "bad_message",
        raw=msgpack.packb({"type": msgpack.ExtType(4, b"x")}),
        close=1007,
    ),
    Wrong("empty extension", "bad_message", raw=b"\x82\xa4type\xa4ping\xa2id\xc7\0\5", close=1007),
    Wrong("empty timestamp", "bad_message", raw=b"\x81\xa4type\xc7\0\xff", close=1007),
    Wrong("timestamp", "bad_message", raw=b"\x81\xa4type\xd6\xff\x00\x00\x00\x00", close=1007),
    Wrong("key twice", "bad_message", raw=b"\x82\xa4type\xa4ping\xa4type\xa4ping", close=1007),
    Wrong("key no string", "bad_message", raw=b"\x82\xa4type\xa4ping\x01\x02", close=1007),
    Wrong("key of bytes", "bad_message", raw=b"\x81\xc4\x04type\xa4ping", close=1007),
    Wrong("string not UTF-8", "bad_message", raw=b"\x81\xa4type\xa1\xff", close=1007),
    Wrong("map of 65", "bad_message", {str(i): i for i in range(65)}, close=1007),
    Wrong("list of 65", "bad_message", {"type": "ping", "id": [0] * 65}, close=1007),
    Wrong("bomb of lists", "bad_message", raw=b"\x91" * 60_000, close=1007),
    Wrong("bomb of length", "bad_message", raw=b"\xdd\xff\xff\xff\xff", close=1007),
    Wrong("nested", "bad_message", {"type": "ping", "id": {"a": {"b": {"c": {}}}}}, close=1007),
    Wrong("no type", "bad_message", {"utterance": "u"}, field="type", close=1007),
    Wrong("type no string", "bad_message", {"type": 3}, field="type", close=1007),
    Wrong(
        "too large",
        "too_large",
        {"type": "ping", "id": "x" * 140_000},
        limit="message_bytes",
        close=1009,
    ),
    Wrong("unknown first type", "bad_message", {"type": "sing"}, field="type", close=1002),
    Wrong("late hello", "bad_message", {"type": "hello"}, before=(PING,), field="type", close=1002),
]

LOST = [  # the message falls, the connection stays
    Wrong("unknown type", "bad_message", {"type": "sing"}, before=(PING,), field="type"),
    Wrong("type in capitals", "bad_message", {"type": "Ping"}, before=(PING,), field="type"),
    Wrong("unknown field of ping", "bad_message", {"type": "ping", "x": 1}, field="ping.x"),
    Wrong("ping id of a list", "bad_message", {"type": "ping", "id": []}, field="ping.id"),
    Wrong("ping id of 65", "bad_message", {"type": "ping", "id": "x" * 65}, field="ping.id"),
    Wrong(
        "unknown field of hello", "bad_message", {"type": "hello", "key": "k"}, field="hello.key"
    ),
    Wrong("token no string", "bad_message", {"type": "hello", "token": 5}, field="hello.token"),
    Wrong(
        "text without name", "bad_message", {"type": "text", "text": "a"}, field="text.utterance"
    ),
    Wrong("name empty", "bad_message", {"type": "end", "utterance": ""}, field="end.utterance"),
    Wrong(
        "name of 65", "bad_message", {"type": "end", "utterance": "n" * 65}, field="end.utterance"
    ),
    Wrong("name a number", "bad_message", {"type": "end", "utterance": 1}, field="end.utterance"),
    Wrong(
        "name with NUL", "bad_message", {"type": "end", "utterance": "a\0"}, field="end.utterance"
    ),
    Wrong(
        "cancel played float",
        "bad_message",
        {"type": "cancel", "played": 1.5},
        field="cancel.played",
    ),
    *(
        Wrong(
            f"{kind} for nobody",
            "unknown_utterance",
            {"type": kind, "utterance": "no"} | more,
            utterance="no",
        )
        for kind, more in {
            "text": {"text": "a"},
            "flush": {},
            "end": {},
            "played": {"samples": 1},
        }.items()
    ),
    wrong_speak("unknown field", "speak.colour", colour="red"),
    Wrong(
        "no voice",
        "bad_message",
        {"type": "speak", "utterance": "u"},
        field="speak.voice",
        utterance="u",
    ),
    wrong_speak("voice no map", "speak.voice", voice="calm"),
    wrong_speak("voice empty", "speak.voice.design", voice={}),
    wrong_speak(
        "voice of two", "speak.voice.speaker", "unsupported", voice={"speaker": "x", "design": "y"}
    ),
    wrong_speak("speaker voice", "speak.voice.speaker", "unsupported", voice={"speaker": "x"}),
    wrong_speak("cloned voice", "speak.voice.clone", "unsupported", voice={"clone": {}}),
    wrong_speak("voice with more", "speak.voice.mood", voice={"design": "x", "mood": "y"}),
    wrong_speak("design no string", "speak.voice.design", voice={"design": None}),
    wrong_speak("design too long", "speak.voice.design", "too_large", voice={"design": "é" * 2049}),
    wrong_speak("design with NUL", "speak.voice.design", voice={"design": "a\0b"}),
    wrong_speak("language not there", "speak.language", "unsupported", language="turkish"),
    wrong_speak("language no string", "speak.language", language=["english"]),
    wrong_speak("text no string", "speak.text", text=b"bytes"),
    wrong_speak("text too long", "speak.text", "too_large", text="x" * 32_769),
    wrong_speak("end no boolean", "speak.end", end=1),
    wrong_speak("seed negative", "speak.seed", seed=-1),
    wrong_speak("seed too large", "speak.seed", seed=2**53),
    wrong_speak("seed a float", "speak.seed", seed=1.0),
    wrong_speak("seed a boolean", "speak.seed", seed=True),
    wrong_speak("seed null", "speak.seed", seed=None),
    wrong_speak("sampling no map", "speak.sampling", sampling=[]),
    wrong_sampling("sampling unknown", "temprature", temprature=1.0),
    wrong_sampling("temperature low", "temperature", temperature=0.0),
    wrong_sampling("temperature high", "temperature", temperature=2.01),
    wrong_sampling("temperature NaN", "temperature", temperature=float("nan")),
    wrong_sampling("temperature infinite", "temperature", temperature=float("inf")),
    wrong_sampling("temperature a string", "temperature", temperature="1"),
    wrong_sampling("top_k high", "top_k", top_k=3073),
    wrong_sampling("top_k a float", "top_k", top_k=50.0),
    wrong_sampling("top_p high", "top_p", top_p=1.01),
    wrong_sampling("penalty low", "repetition_penalty", repetition_penalty=0.05),
    wrong_sampling("greedy a number", "greedy", greedy=1),
    wrong_sampling("greedy and temperature", "temperature", greedy=True, temperature=0.5),
    wrong_sampling("predictor top_k high", "predictor.top_k", predictor={"top_k": 2049}),
    wrong_sampling(
        "predictor greedy and temperature",
        "predictor.temperature",
        predictor={"greedy": True, "temperature": 1},
    ),
    wrong_speak(
        "predictor penalty",
        "speak.sampling.predictor.repetition_penalty",
        sampling={"predictor": {"repetition_penalty": 1.0}},
    ),
    wrong_speak("format no map", "speak.format", format="wav"),
    wrong_speak("format unknown", "speak.format", "unsupported", format={"encoding": "mp3"}),
    wrong_speak("format rate", "speak.format", "unsupported", format={"rate": 22_050}),
    wrong_speak("format rate a string", "speak.format.rate", format={"rate": "24000"}),
    wrong_speak("format with more", "speak.format.channels", format={"channels": 2}),
    wrong_speak("pace unknown", "speak.pace", pace="slow"),
    wrong_speak("seconds zero", "speak.max_seconds", max_seconds=0),
    wrong_speak("seconds too many", "speak.max_seconds", max_seconds=656),
    wrong_speak("clean", "speak.clean", clean="none"),
    wrong_speak("words", "speak.words", words="yes"),
    wrong_speak("priority", "speak.priority", "unsupported", priority=1),
    wrong_speak("resume", "speak.resume.text", resume={"seed": 1}),
    wrong_speak("carry unknown", "speak.carry", carry="all"),
    wrong_speak("layout unknown", "speak.layout", layout="table"),
    wrong_speak("progress no boolean", "speak.progress", progress="yes"),
    wrong_speak("continues nobody", "speak.continues", "unknown_utterance", continues="nobody"),
]

FAILED = [  # the utterance fails: error, then done with reason error
    Wrong(
        "type misspelt",
        "bad_message",
        {"type": "txt", "utterance": "u", "text": "more"},
        before=(OPEN,),
        field="type",
        utterance="u",
    ),
    Wrong("second speak", "duplicate_utterance", OPEN, before=(OPEN,), utterance="u"),
    Wrong(
        "text after end",
        "bad_message",
        {"type": "text", "utterance": "u", "text": "more"},
        before=(ENDED,),
    ),
    Wrong(
        "empty text after end",
        "bad_message",
        {"type": "text", "utterance": "u", "text": ""},
        before=(ENDED,),
    ),
    Wrong("flush after end", "bad_message", {"type": "flush", "utterance": "u"}, before=(ENDED,)),
    Wrong("end after end", "bad_message", {"type": "end", "utterance": "u"}, before=(ENDED,)),
    Wrong(
        "gap in seq",
        "bad_message",
        {"type": "text", "utterance": "u", "text": "a", "seq": 1},
        before=(OPEN,),
        field="text.seq",
    ),
    Wrong(
        "unknown field",
        "bad_message",
        {"type": "text", "utterance": "u", "text": "a", "x": 1},
        before=(OPEN,),
        field="text.x",
    ),
    Wrong(
        "text missing",
        "bad_message",
        {"type": "text", "utterance": "u"},
        before=(OPEN,),
        field="text.text",
    ),
    Wrong(
        "text too long",
        "too_large",
        {"type": "text", "utterance": "u", "text": "x" * 32_769},
        before=(OPEN,),
        limit="text_bytes",
    ),
    Wrong(
        "played negative",
        "bad_message",
        {"type": "played", "utterance": "u", "samples": -1},
        before=(OPEN,),
        field="played.samples",
    ),
    Wrong(
        "speak wrong and live", "bad_message", speak(seed=-1), before=(OPEN,), field="speak.seed"
    ),
]
