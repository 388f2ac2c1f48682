"""The wire, end to end against a fake engine process: real sockets, real messages."""

from __future__ import annotations

import asyncio
import base64

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from gateway.config import Limits

from .fake_engine import PCM
from .house import JSON, MSGPACK, asynchronous, audio_of, gateway, peer

WORDS = "one two three four five six seven eight "


@pytest.mark.parametrize("subprotocol", [MSGPACK, JSON])
@asynchronous
async def test_text_in_pieces_becomes_speech(subprotocol: str) -> None:
    async with gateway() as server, peer(server, subprotocol) as client:
        assert client.socket.subprotocol == subprotocol
        assert client.socket.response
        assert "Sec-WebSocket-Extensions" not in client.socket.response.headers
        ready = await client.next()
        assert (ready["type"], ready["protocol"]) == ("ready", "vivavoce.v1")
        assert ready["languages"][:2] == ["auto", "english"]
        await client.speak("u", seed=7)
        for number, word in enumerate(["Well, ", "he", "re ", "we are."]):
            await client.send(type="text", utterance="u", text=word, seq=number)
        await client.send(type="end", utterance="u")
        seen = await client.until("done")
        assert seen[0] == {"type": "started", "utterance": "u", "seed": 7} | {
            "queue_ms": seen[0]["queue_ms"]
        }
        audio = audio_of(seen, "u")
        assert [a["seq"] for a in audio] == list(range(12))  # four words, three frames each
        assert [a["start"] for a in audio] == [1920 * i for i in range(12)]
        first = audio[0]["pcm"]
        assert (base64.b64decode(first) if subprotocol == JSON else first) == PCM[0]
        done = seen[-1]
        assert (done["reason"], done["samples"], done["segments"]) == ("eos", 12 * 1920, 1)


@asynchronous
async def test_first_audio_comes_before_the_last_text() -> None:
    async with gateway() as server, peer(server) as client:
        await client.speak("u", WORDS)
        await client.until("audio")
        await client.send(type="text", utterance="u", text="and more")
        await client.send(type="end", utterance="u")
        assert len(audio_of(await client.until("done"), "u")) == 29  # 30 with the first


@asynchronous
async def test_utterances_of_one_connection_speak_side_by_side() -> None:
    async with gateway() as server, peer(server) as client:
        names = [f"u{i}" for i in range(8)]
        for name in names:
            await client.speak(name, WORDS, end=True)
        seen = []
        for _ in names:
            seen += await client.until("done")
        firsts = [min(seen.index(a) for a in audio_of(seen, name)) for name in names]
        ends = [i for i, m in enumerate(seen) if m["type"] == "done"]
        assert max(firsts) < min(ends)
        assert all(len(audio_of(seen, name)) == 24 for name in names)


@asynchronous
async def test_flush_speaks_to_the_end_and_the_utterance_stays_open() -> None:
    async with gateway() as server, peer(server) as client:
        await client.speak("u", "One moment")
        await client.send(type="flush", utterance="u")
        seen = await client.until("flushed")
        assert (seen[-1]["flush"], seen[-1]["at"]) == (1, 6 * 1920)
        assert len(audio_of(seen, "u")) == 6
        await client.send(type="text", utterance="u", text=" please.")
        await client.send(type="end", utterance="u")
        assert (await client.until("done"))[-1]["samples"] == 9 * 1920


@asynchronous
async def test_cancel_is_the_last_word_and_the_name_is_free() -> None:
    async with gateway() as server, peer(server) as client:
        for _ in range(20):  # with frames under way each time
            await client.speak("u", WORDS * 20, pace="fast")
            await client.until("audio")
            await client.send(type="cancel", utterance="u")
            done = (await client.until("done"))[-1]
            assert done["reason"] == "cancelled"
            await client.speak("u", "two words", end=True)
            seen = await client.until("done")
            assert [a["seq"] for a in audio_of(seen, "u")] == list(range(6))
        assert server.load.live == 0


@asynchronous
async def test_cancel_before_any_audio() -> None:
    async with gateway() as server, peer(server) as client:
        await client.speak("u")
        await client.send(type="cancel")
        done = (await client.until("done"))[-1]
        assert (done["reason"], done["samples"], done["ttfa_ms"]) == ("cancelled", 0, None)


@asynchronous
async def test_nothing_to_say_is_empty_and_no_error() -> None:
    async with gateway() as server, peer(server) as client:
        await client.speak("u", "   ", end=True)
        seen = await client.until("done")
        assert seen[-1]["reason"] == "empty"
        assert all(m["type"] != "error" for m in seen)


@pytest.mark.parametrize(
    ("encoding", "size"), [("pcm_s16le", 2), ("pcm_f32le", 4), ("mulaw", 1), ("alaw", 1)]
)
@asynchronous
async def test_formats_that_ready_states(encoding: str, size: int) -> None:
    async with gateway() as server, peer(server) as client:
        chosen = {"encoding": encoding, "rate": 24_000}
        assert chosen in (await client.next())["formats"]
        await client.speak("u", "Hi", end=True, format=chosen)
        audio = audio_of(await client.until("done"), "u")
        assert {len(a["pcm"]) for a in audio} == {1920 * size}
        assert {a["samples"] for a in audio} == {1920}


@asynchronous
async def test_journal_progress_and_max_seconds() -> None:
    async with gateway() as server, peer(server) as client:
        await client.speak("u", WORDS, end=True, journal=True, progress=True, max_seconds=0.8)
        seen = await client.until("done")
        audio = audio_of(seen, "u")
        assert [int.from_bytes(a["codes"][:2], "little") for a in audio] == list(range(10))
        chars = [m["chars"] for m in seen if m["type"] == "progress"]
        assert chars == sorted(chars)
        assert chars[-1] <= len(WORDS)
        assert seen[-1]["reason"] == "length"


@asynchronous
async def test_a_guarded_stop_and_a_failure_say_so() -> None:
    async with gateway() as server, peer(server) as client:
        await client.speak("loop", "#loop", end=True)
        assert (await client.until("done"))[-1]["reason"] == "guard_loop"
        await client.speak("fail", "#fail", end=True)
        error, done = (await client.until("done"))[-2:]
        assert (error["code"], error["utterance"], done["reason"]) == ("internal", "fail", "error")
        await client.speak("mute", "#mute", end=True)
        done = (await client.until("done"))[-1]
        assert (done["samples"] > 0, done["audible_ms"]) == (True, None)


@asynchronous
async def test_no_subprotocol() -> None:
    async with gateway() as server:
        for offered in (None, "vivavoce.v2.json"):
            async with peer(server, offered) as client:
                code, seen = await client.closed()
                assert (code, seen) == (1002, [])
                assert client.socket.close_reason
                assert all(name in client.socket.close_reason for name in (JSON, MSGPACK))
        async with peer(server, None, "/v1/speech?format=json") as client:
            assert (await client.next())["type"] == "ready"
            assert await client.alive()


@asynchronous
async def test_the_clients_first_known_offer_is_taken() -> None:
    async with gateway() as server:
        url = f"ws://127.0.0.1:{server.port}/v1/speech"
        offers = [Subprotocol(offer) for offer in ("odd", JSON, MSGPACK)]
        async with connect(url, proxy=None, subprotocols=offers) as socket:
            assert socket.subprotocol == JSON


@asynchronous
async def test_losing_the_socket_cancels() -> None:
    async with gateway() as server:
        async with peer(server) as client:
            await client.speak("u", WORDS)
            await client.speak("v", WORDS)
            await client.until("audio")
            assert server.load.live == 2
            client.socket.transport.abort()
        await server.engines.idle.wait()
        assert server.load.live == 0


@asynchronous
async def test_fragments_and_pings_between_them() -> None:
    async with gateway() as server, peer(server, JSON) as client:

        async def fragments() -> list[str]:
            return ['{"type":', '"ping",', '"id":1}']

        await client.socket.send(await fragments())
        await client.until("pong", id=1)
        latency = await client.socket.ping()
        assert await latency >= 0


@asynchronous
async def test_silence_is_pinged_and_an_answer_is_life() -> None:
    async with gateway(ping_seconds=0.2) as server, peer(server, ping_interval=None) as client:
        await client.until("ready")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.2):  # three times longer than death takes
                await client.next()
        assert await client.alive()


@asynchronous
async def test_a_dead_peer_is_let_go() -> None:
    async with gateway(ping_seconds=0.2) as server, peer(server, ping_interval=None) as client:
        await client.until("ready")
        await client.speak("u")
        await client.until("started")
        client.socket.transport.pause_reading()  # answers no ping
        (connection,) = server.connections
        await connection.wait_closed()
        await server.engines.idle.wait()
        client.socket.transport.abort()


@asynchronous
async def test_messages_above_the_rate_wait_and_none_is_lost() -> None:
    async with gateway(limits=Limits(messages_per_second=400)) as server, peer(server) as client:
        for number in range(500):
            await client.send(type="ping", id=number)
        seen = await client.until("pong", id=499)
        assert [m["id"] for m in seen if m["type"] == "pong"] == list(range(500))


@asynchronous
async def test_a_client_that_closes_gets_its_code_back() -> None:
    async with gateway() as server, peer(server) as client:
        await client.until("ready")
        await client.socket.close(1000, "bye")
        with pytest.raises(ConnectionClosed):
            await client.next()
        assert client.socket.close_code == 1000
