from __future__ import annotations

import socket

import pytest

from engine.messages import End, pack
from engine.worker import Inbox, read


def test_a_worker_that_cannot_read_a_batch_ends() -> None:
    """It would step on, deaf for ever."""
    ours, theirs = socket.socketpair()
    inbox = Inbox()
    with ours, theirs:
        ours.sendall(pack([End(1)]) + b"\0\0\0\1\xc1")
        with pytest.raises(ValueError):
            read(theirs, inbox)
    assert inbox.take(0) is None
