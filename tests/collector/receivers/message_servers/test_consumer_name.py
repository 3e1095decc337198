"""The name under which a collector reads from a broker."""

import re
import socket
from pathlib import Path

import pytest

from collector.receivers.message_servers.receiver import FILE_NAME, consumer_name


def test_it_is_the_same_after_a_restart_and_another_for_another_store(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first = consumer_name(tmp_path / "one")
    assert consumer_name(tmp_path / "one") == first != consumer_name(tmp_path / "two")
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,249}", first)
    assert first.startswith(socket.gethostname()[:3])


def test_a_file_that_a_crash_left_empty_gets_a_number(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).touch()
    assert consumer_name(tmp_path) == consumer_name(tmp_path)
    assert (tmp_path / FILE_NAME).read_text()


def test_a_machine_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kafka takes letters of ASCII only."""
    monkeypatch.setattr(socket, "gethostname", lambda: "büro mac.local")
    assert consumer_name(tmp_path).startswith("b-ro-mac.local-")
