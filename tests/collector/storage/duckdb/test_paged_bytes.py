"""Tests of bytes in files without a name."""

import os
import random
import re
from contextlib import closing
from pathlib import Path

import pytest

from collector.storage.duckdb.paged_bytes import PagedBytes


def _own_kb() -> int:
    """Memory of this process that no file has."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


def test_what_is_kept_can_be_read(tmp_path: Path) -> None:
    """Across files, some of them for one piece that is larger than usual; after the end as well."""
    rng = random.Random(3)
    sizes = [0, 1, 5000, 9_000_000, 0, 9_000_000, 20_000_000, 7, 16 * 2**20, 1, 0]
    pieces = [rng.randbytes(size) for size in sizes]
    with closing(PagedBytes(tmp_path)) as kept:
        views = [kept.keep(piece) for piece in pieces]
    assert [bytes(view) for view in views] == pieces


def test_it_takes_no_memory_of_the_process_and_leaves_no_file(tmp_path: Path) -> None:
    piece = random.Random(4).randbytes(10**6)
    fds = len(os.listdir("/proc/self/fd"))
    with closing(PagedBytes(tmp_path)) as kept:
        views = [kept.keep(piece)]
        before = _own_kb()
        views += [kept.keep(piece) for _ in range(60)]
        assert _own_kb() - before < 5_000
        assert not list(tmp_path.iterdir())
    assert bytes(views[-1]) == piece
    views.clear()
    assert len(os.listdir("/proc/self/fd")) == fds


def test_without_a_folder_nothing_is_kept(tmp_path: Path) -> None:
    with closing(PagedBytes(tmp_path / "none")) as kept:
        with pytest.raises(FileNotFoundError):
            kept.keep(b"x")
        (tmp_path / "none").mkdir()
        assert bytes(kept.keep(b"x")) == b"x"
