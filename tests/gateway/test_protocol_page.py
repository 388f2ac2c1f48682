"""docs/protocol.md is the law: its examples are messages, its lists are the code's."""

from __future__ import annotations

import json
import re

import msgpack

from gateway import protocol
from gateway.capabilities import SUBPROTOCOLS, Capabilities
from gateway.config import Limits
from gateway.formats import ENCODINGS

from .house import ROOT
from .test_session import READY

PAGE = (ROOT / "docs" / "protocol.md").read_text()
SERVED = Capabilities.of(READY, Limits())


def test_the_example_is_made_of_valid_messages() -> None:
    ours = re.findall(r"^→ (.+)$", PAGE, re.M)
    theirs = re.findall(r"^← (.+)$", PAGE, re.M)
    assert {protocol.parse(json.loads(m), SERVED).utterance for m in ours} == {"a1"}  # type: ignore[union-attr]
    kinds = [json.loads(m)["type"] for m in theirs]
    assert kinds == ["ready", "started", "audio", "audio", "flushed", "done"]


def test_the_bytes_shown_are_the_bytes_sent() -> None:
    dump = re.search(r"^((?:[0-9a-f]{2} ){22}[0-9a-f]{2})$", PAGE, re.M)
    assert dump
    assert msgpack.unpackb(bytes.fromhex(dump[1])) == {"type": "end", "utterance": "a1"}


def test_every_message_type_and_field_is_on_the_page() -> None:
    section = PAGE.partition("## Client to server")[2].partition("## Server to client")[0]
    for kind, (_, fields) in protocol._INCOMING.items():
        assert f"### `{kind}`" in section
        for name in fields:
            assert f"`{name}" in section, f"{kind}.{name}"


def test_formats_and_subprotocols_are_on_the_page() -> None:
    for word in (*ENCODINGS, *SUBPROTOCOLS):
        assert f"`{word}`" in PAGE
