"""Whatever bytes come, the answer is a documented one, and nothing is left behind."""

from __future__ import annotations

import json
from typing import Any

import msgpack
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import CODES
from gateway.protocol import TYPES

from .house import VOICE
from .test_session import Table

SCALAR = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.binary(max_size=8),
)
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)
FIELDS = [
    *("utterance", "voice", "language", "text", "end", "seed", "sampling", "format", "pace"),
    *("max_seconds", "clean", "priority", "progress", "journal", "resume", "continues", "carry"),
    *("words", "layout", "seq", "played", "samples", "id", "token", "client", "more"),
]
GOOD: dict[str, Any] = {"utterance": "u", "voice": VOICE, "text": "hi ", "samples": 1}
MESSAGE = st.builds(
    lambda kind, kept, changed: {"type": kind} | {k: GOOD[k] for k in kept} | changed,
    st.one_of(st.sampled_from(TYPES), VALUE),
    st.sets(st.sampled_from(sorted(GOOD))),
    st.dictionaries(st.sampled_from(FIELDS), VALUE, max_size=3),
)


def answered(data: bytes | str) -> None:
    table = Table()
    table.heard()
    table.session.receive_message(data, table.now)
    for message in table.heard():
        if message["type"] == "error":
            assert message["code"] in CODES
            assert message["fatal"] is bool(table.session.closing)
        msgpack.packb(message)
        json.dumps(message).encode()
    table.session.connection_lost()
    assert not table.session.live


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    answered(data)


@settings(max_examples=400, deadline=None)
@given(MESSAGE)
def test_any_message(message: dict[str, Any]) -> None:
    answered(msgpack.packb(message))


@settings(max_examples=200, deadline=None)
@given(MESSAGE, st.integers(0, 400), st.binary(max_size=3))
def test_any_damage(message: dict[str, Any], at: int, damage: bytes) -> None:
    packed = msgpack.packb(message)
    answered(packed[:at] + damage + packed[at + len(damage) :])
