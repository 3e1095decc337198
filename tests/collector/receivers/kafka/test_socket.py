"""Sockets that give much at a time give every byte, in order, and say when there are no more."""

import random
import select
import socket
import threading
from collections.abc import Iterator

import pytest
from kafka.net import KafkaNetSocket

from collector.receivers.kafka.socket import LargeReadSocket, large_reads

ASKED = 4096
"""Bytes that kafka-python asks for."""


@pytest.fixture
def pair() -> Iterator[tuple[LargeReadSocket, socket.socket]]:
    """A socket of ours, as the client makes and connects it, and its far end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = KafkaNetSocket(large_reads()).socket(socket.AF_INET)
        assert isinstance(made, LargeReadSocket)
        made.connect(server.getsockname())
        made.setblocking(False)
        far, _ = server.accept()
        with made, far:
            yield made, far


def read_all(ours: socket.socket) -> list[bytes]:
    """Read until the end, as kafka-python does: what there is, whenever there is something."""
    parts: list[bytes] = []
    while True:
        select.select([ours], [], [], 10)
        while True:
            try:
                data = ours.recv(ASKED)
            except BlockingIOError:
                break
            if not data:
                return parts
            parts.append(data)


@pytest.mark.parametrize("size", [1, ASKED, 2**18 - 1, 2**18, 2**18 + 1, 5 * 2**20])
def test_every_byte_comes_in_order(size: int, pair: tuple[LargeReadSocket, socket.socket]) -> None:
    ours, far = pair
    sent = random.Random(size).randbytes(size)

    def send() -> None:
        far.sendall(sent)
        far.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    parts = read_all(ours)
    sender.join()
    assert b"".join(parts) == sent


def test_one_read_gives_what_is_there(pair: tuple[LargeReadSocket, socket.socket]) -> None:
    ours, far = pair
    far.sendall(bytes(10 * ASKED))
    select.select([ours], [], [], 10)
    assert len(ours.recv(ASKED)) == 10 * ASKED


def test_after_a_short_read_one_refusal_then_what_came_since(
    pair: tuple[LargeReadSocket, socket.socket],
) -> None:
    """The refusal ends the client's loop; nothing that came meanwhile is lost by it."""
    ours, far = pair
    far.sendall(b"first")
    select.select([ours], [], [], 10)
    assert ours.recv(ASKED) == b"first"
    far.sendall(b"second")
    select.select([ours], [], [], 10)
    with pytest.raises(BlockingIOError):
        ours.recv(ASKED)
    assert ours.recv(ASKED) == b"second"


def test_nothing_there_is_a_refusal_and_the_end_is_empty(
    pair: tuple[LargeReadSocket, socket.socket],
) -> None:
    ours, far = pair
    with pytest.raises(BlockingIOError):
        ours.recv(ASKED)
    far.close()
    select.select([ours], [], [], 10)
    assert ours.recv(ASKED) == b""
    assert ours.recv(ASKED) == b""


def test_another_version_of_the_client_reads_as_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("kafka.net.KafkaNetSocket")
    large_reads.cache_clear()
    assert large_reads() is None
    monkeypatch.undo()
    large_reads.cache_clear()
    assert large_reads() is not None
