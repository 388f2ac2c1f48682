"""The ring between the event loop and the sound card's callback."""

from __future__ import annotations

from gateway.speaker import Ring


def test_it_is_silent_until_enough_is_there_to_start() -> None:
    ring = Ring(start=8, capacity=100)
    assert ring.put(b"abcd")
    assert ring.take(4) == bytes(4)
    assert ring.put(b"efgh")
    assert ring.take(4) == b"abcd"
    assert ring.taken == 4
    assert ring.underruns == 0


def test_a_gap_is_silence_counted_once_and_the_start_waits_anew() -> None:
    ring = Ring(start=4, capacity=100)
    ring.put(b"abcdef")
    assert ring.take(4) == b"abcd"
    assert ring.take(4) == b"ef\0\0"
    assert ring.take(4) == bytes(4)
    assert ring.underruns == 1
    ring.put(b"gh")
    assert ring.take(2) == bytes(2)
    ring.put(b"ij")
    assert ring.take(4) == b"ghij"
    assert ring.underruns == 1


def test_the_end_is_no_gap_and_needs_no_start() -> None:
    ring = Ring(start=8, capacity=100)
    ring.put(b"abc")
    ring.end()
    assert ring.take(4) == b"abc\0"
    assert ring.take(4) == bytes(4)
    assert (ring.underruns, ring.taken, len(ring)) == (0, 3, 0)


def test_it_takes_what_fits_whole_or_not_at_all() -> None:
    ring = Ring(start=2, capacity=6)
    assert ring.put(b"abcd")
    assert not ring.put(b"efg")
    assert ring.take(4) == b"abcd"
    assert ring.put(b"efg")
    assert ring.take(3) == b"efg"


def test_more_than_it_holds_is_taken_where_it_is_empty() -> None:
    """Else a writer with one long piece would wait for ever."""
    ring = Ring(start=2, capacity=4)
    assert ring.put(b"abcdefgh")
    assert ring.take(8) == b"abcdefgh"
