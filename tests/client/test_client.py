"""The client library against the real gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from gateway.client import Client, SpeechError, connect, speak
from gateway.config import GatewayConfig, Limits
from gateway.keys import grants
from gateway.server import Server
from tests.gateway.house import FAKE, asynchronous, gateway

MAN = "a calm man"
FRAME = 1_920
LONG = "word " * 200  # some 48 s of speech


def url(server: Server) -> str:
    return f"ws://127.0.0.1:{server.port}/v1/speech"


async def starved(text: str, more: asyncio.Event, rest: str) -> AsyncIterator[str]:
    """`text` at once, `rest` when `more` is set."""
    yield text
    await more.wait()
    yield rest


@asynchronous
async def test_a_text_comes_back_as_audio_without_a_hole() -> None:
    async with gateway() as server, connect(url(server)) as client:
        assert client.rate == 24_000
        utterance = await client.speak(MAN, "one two three four", seed=7)
        pieces = [audio async for audio in utterance]
        assert [p.start for p in pieces] == [i * FRAME for i in range(len(pieces))]
        assert all(len(p) == 2 * p.samples == 2 * FRAME for p in pieces)
        assert any(b"".join(pieces))
        done = await utterance.done()
        assert (done.reason, done.whole) == ("eos", True)
        assert done.samples == utterance.samples == len(pieces) * FRAME
        assert utterance.seed == 7 == await utterance.started()


@asynchronous
async def test_audio_comes_while_the_text_is_still_being_written() -> None:
    async with gateway() as server, connect(url(server)) as client:
        more = asyncio.Event()
        utterance = await client.speak(MAN, starved("well, here we ", more, "are again"))
        first = await anext(utterance)
        assert first.start == 0
        more.set()  # only now is the rest written
        pieces = [audio async for audio in utterance]
        whole = await client.speak(MAN, "well, here we are again")
        assert 1 + len(pieces) == len([audio async for audio in whole])


@asynchronous
async def test_text_is_sent_piece_by_piece_by_hand() -> None:
    async with gateway() as server, connect(url(server)) as client:
        utterance = await client.speak(MAN)
        await utterance.send("one moment ")
        flush = await utterance.flush()
        at = await utterance.flushed(flush)
        assert at == 6 * FRAME  # two words at a third of a word a frame
        await utterance.send("please")
        await utterance.end()
        assert sum([audio.samples async for audio in utterance]) > at


@asynchronous
async def test_several_utterances_share_a_connection() -> None:
    async with gateway() as server, connect(url(server)) as client:
        texts = ["one", "one two three", "one two three four five"]
        utterances = [await client.speak(MAN, text) for text in texts]
        assert len({u.name for u in utterances}) == 3

        async def listen(i: int) -> int:
            return len([audio async for audio in utterances[i]])

        assert await asyncio.gather(*map(listen, range(3))) == [3, 9, 15]


@asynchronous
async def test_nothing_is_heard_after_a_cancel() -> None:
    async with gateway() as server, connect(url(server)) as client:
        first = await client.speak(MAN, LONG)
        audio = await anext(first)
        await first.cancel(played=audio.samples)
        assert [late async for late in first] == []
        second = await client.speak(MAN, "well")
        assert [a.start for a in [a async for a in second]] == [0, FRAME, 2 * FRAME]
        assert (await first.done()).reason == "cancelled"
        await first.send("to nobody")  # falls to the floor, on both sides
        assert (await second.done()).reason == "eos"


@asynchronous
async def test_a_cancel_stops_the_one_who_writes_the_text() -> None:
    stopped = asyncio.Event()

    async def endless() -> AsyncIterator[str]:
        try:
            yield "on and on "
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with gateway() as server, connect(url(server)) as client:
        utterance = await client.speak(MAN, endless())
        await anext(utterance)
        await utterance.cancel()
        await stopped.wait()
        assert (await utterance.done()).reason == "cancelled"


@asynchronous
async def test_cancel_before_any_audio() -> None:
    async with gateway() as server, connect(url(server)) as client:
        utterance = await client.speak(MAN)
        await utterance.cancel()
        assert [audio async for audio in utterance] == []
        done = await utterance.done()
        assert (done.reason, done.samples) == ("cancelled", 0)


@asynchronous
async def test_cancel_of_everything() -> None:
    async with gateway() as server, connect(url(server)) as client:
        utterances = [await client.speak(MAN, LONG) for _ in range(3)]
        await client.cancel()
        reasons = [(await u.done()).reason for u in utterances]
        assert reasons == ["cancelled"] * 3


@asynchronous
async def test_an_error_of_the_writer_reaches_the_reader() -> None:
    async def broken() -> AsyncIterator[str]:
        yield "so far so good "
        raise LookupError("the model is gone")

    async with gateway() as server, connect(url(server)) as client:
        utterance = await client.speak(MAN, broken())
        with pytest.raises(LookupError, match="the model is gone"):
            async for _ in utterance:
                pass
        after = await client.speak(MAN, "still here")
        assert len([audio async for audio in after]) == 6


@asynchronous
async def test_a_refusal_is_typed_and_leaves_the_others_alone() -> None:
    limits = replace(Limits(), utterances=1)
    async with gateway(limits=limits) as server, connect(url(server)) as client:
        first = await client.speak(MAN)
        second = await client.speak(MAN, "too much")
        with pytest.raises(SpeechError) as refused:
            await anext(second)
        assert refused.value.code == "too_many"
        with pytest.raises(SpeechError):
            await second.done()
        await first.send("fine")
        await first.end()
        assert len([audio async for audio in first]) == 3


@asynchronous
async def test_a_wrong_field_is_named() -> None:
    async with gateway() as server, connect(url(server)) as client:
        utterance = await client.speak(MAN, "hello", language="klingon")
        with pytest.raises(SpeechError, match="language") as refused:
            await utterance.done()
        assert refused.value.code in ("bad_message", "unsupported")


@asynchronous
async def test_audio_before_a_failure_is_heard_and_then_the_failure() -> None:
    async with gateway() as server, connect(url(server)) as client:
        utterance = await client.speak(MAN)
        await utterance.send("one two three ")
        heard = [await anext(utterance) for _ in range(3)]
        await utterance.send("#fail ")
        with pytest.raises(SpeechError, match="internal"):
            while True:
                heard.append(await anext(utterance))
        assert len(heard) >= 3


@asynchronous
async def test_a_text_longer_than_a_message_is_sent_in_pieces() -> None:
    limits = replace(Limits(), text_bytes=64)
    async with gateway(limits=limits) as server, connect(url(server)) as client:
        text = "mehr Wörter für alle " * 10
        utterance = await client.speak(MAN, text, pace="fast")
        assert len([audio async for audio in utterance]) == 3 * len(text.split())


@asynchronous
async def test_unread_audio_is_bounded_and_fails_alone() -> None:
    async with gateway() as server, connect(url(server), backlog=1.0) as client:
        deaf = await client.speak(MAN, LONG, pace="fast")
        with pytest.raises(SpeechError) as told:
            await deaf.done()
        assert told.value.code == "slow_client"
        other = await client.speak(MAN, "hello")
        assert len([audio async for audio in other]) == 3


@asynchronous
async def test_a_key_opens_the_door_and_a_wrong_one_does_not() -> None:
    keys = grants(["sesame"])
    async with gateway(keys=keys) as server:
        async with connect(url(server), token="sesame") as client:
            utterance = await client.speak(MAN, "hello")
            assert len([audio async for audio in utterance]) == 3
        with pytest.raises(SpeechError) as refused:
            async with connect(url(server), token="wrong"):
                pass
        assert refused.value.code == "unauthorized"


@asynccontextmanager
async def back_again(port: int) -> AsyncIterator[Server]:
    """A server where one was before."""
    server = Server(GatewayConfig(port=port, worker=FAKE, drain_seconds=0.0))
    server.bind()
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


async def lose(server: Server) -> None:
    """Break every connection as a network does: without a word."""
    for connection in list(server.connections):
        connection.transport.abort()


@asynchronous
async def test_a_lost_connection_fails_what_may_not_go_on_and_the_next_speak_opens_it_again() -> (
    None
):
    async with gateway() as server:
        client = Client(url(server), resume=False)
        await client.open()
        utterance = await client.speak(MAN, LONG)
        await anext(utterance)
        await lose(server)
    with pytest.raises(SpeechError) as lost:
        async for _ in utterance:
            pass
    assert lost.value.code == "connection_lost"
    async with back_again(server.port):
        again = await client.speak(MAN, "back again")
        assert len([audio async for audio in again]) == 6
        await client.close()


@asynchronous
async def test_text_of_which_nothing_was_heard_is_sent_again() -> None:
    async with gateway() as server:
        client = Client(url(server))
        await client.open()
        more = asyncio.Event()
        whole = await client.speak(MAN, seed=5)
        fed = await client.speak(MAN, starved("one", more, " two three"))
        await whole.send("on")
    await whole.send("e two ")  # said while there is no connection
    async with back_again(server.port):
        more.set()
        flush = await whole.flush()
        assert await whole.flushed(flush) == 6 * FRAME
        await whole.end()
        assert len([audio async for audio in whole]) == 6
        assert whole.seed == 5
        assert len([audio async for audio in fed]) == 9
        await client.close()


@asynchronous
async def test_what_a_server_that_stops_did_not_begin_is_sent_again() -> None:
    async with gateway(drain_seconds=0.1) as server:
        client = Client(url(server), resume=False)
        await client.open()
        begun = await client.speak(MAN, LONG)
        waiting = await client.speak(MAN, seed=5)
        await anext(begun)
        await waiting.started()
        await server.drain()
    with pytest.raises(SpeechError) as lost:
        await begun.done()
    assert lost.value.code == "draining"
    async with back_again(server.port):
        await waiting.send("one two")
        await waiting.end()
        assert len([audio async for audio in waiting]) == 6
        await client.close()


@asynchronous
async def test_a_broken_connection_to_a_living_server_is_mended_at_once() -> None:
    async with gateway() as server, connect(url(server)) as client:
        utterance = await client.speak(MAN)
        seed = await utterance.started()
        await lose(server)
        await utterance.send("well")
        await utterance.end()
        assert len([audio async for audio in utterance]) == 3
        assert await utterance.started() == seed


@asynchronous
async def test_a_cancel_without_a_connection_is_a_cancel() -> None:
    async with gateway() as server:
        client = Client(url(server))
        await client.open()
        utterance = await client.speak(MAN)
    await utterance.cancel()
    assert [audio async for audio in utterance] == []
    async with back_again(server.port):
        done = await utterance.done()
        assert (done.reason, done.samples) == ("cancelled", 0)
        await client.close()


@asynchronous
async def test_a_server_that_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.client.RETRY_SECONDS", 0.1)
    async with gateway() as server:
        client = Client(url(server))
        await client.open()
        utterance = await client.speak(MAN)
    with pytest.raises(SpeechError) as lost:
        await utterance.done()
    assert lost.value.code == "connection_lost"
    await client.close()


@asynchronous
async def test_a_client_that_closes_ends_what_waits_for_a_server() -> None:
    async with gateway() as server:
        client = Client(url(server))
        await client.open()
        utterance = await client.speak(MAN)
    await client.close()
    with pytest.raises(SpeechError):
        await utterance.done()


@asynchronous
async def test_an_idle_connection_that_the_server_closed_opens_again() -> None:
    limits = replace(Limits(), idle_seconds=0.3)
    async with gateway(limits=limits) as server, connect(url(server)) as client:
        assert client._socket
        await client._socket.wait_closed()
        utterance = await client.speak(MAN, "back again")
        assert len([audio async for audio in utterance]) == 6


@asynchronous
async def test_a_dead_engine_is_told_as_such() -> None:
    async with gateway() as server, connect(url(server)) as client:
        utterance = await client.speak(MAN, "#crash")
        with pytest.raises(SpeechError) as failed:
            await utterance.done()
        assert failed.value.code == "engine_failed"
        assert failed.value.retry_ms


@asynchronous
async def test_where_nothing_listens_and_where_no_socket_is() -> None:
    async with gateway() as server:
        with pytest.raises(SpeechError, match="no speech socket"):
            async with connect(f"ws://127.0.0.1:{server.port}/health/live"):
                pass
        port = server.port
    with pytest.raises(OSError):
        async with connect(f"ws://127.0.0.1:{port}/v1/speech"):
            pass


@asynchronous
async def test_the_voice_may_be_the_protocols_own_map() -> None:
    async with gateway() as server, connect(url(server)) as client:
        utterance = await client.speak({"design": MAN}, "hello", format={"encoding": "mulaw"})
        assert [len(audio) for audio in [a async for a in utterance]] == [FRAME] * 3


@asynchronous
async def test_a_voice_goes_on_in_the_next_utterance() -> None:
    async with gateway() as server, connect(url(server)) as client:
        first = await client.speak(MAN, "hello")
        await first.done()
        second = await client.speak(MAN, "hello again", continues=first)
        assert (await second.done()).reason == "eos"


@asynchronous
async def test_the_blocking_call_returns_all_audio() -> None:
    """From a thread without a loop, as a plain script would call it."""
    async with gateway() as server:
        speech = await asyncio.to_thread(speak, "one two", MAN, url=url(server), seed=3)
    assert len(speech) == 2 * 6 * FRAME
    assert (speech.rate, speech.done.reason) == (24_000, "eos")
