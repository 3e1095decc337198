"""Filters side by side say what each of them says."""

import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from collector.storage.duckdb.block_filters import _has  # pyright: ignore[reportPrivateUsage]
from collector.storage.duckdb.block_shelf import Shelf
from collector.storage.duckdb.paged_bytes import PagedBytes


@given(
    sizes=st.lists(st.sampled_from([0, 8, 16, 64, 128]), min_size=1, max_size=70),
    seed=st.integers(0, 99),
)
def test_a_shelf_says_what_each_filter_says(sizes: list[int], seed: int) -> None:
    """Also where sizes differ, and where its bits have no room on the disk."""
    rng = random.Random(seed)
    parts = [bytes(rng.getrandbits(8) | rng.getrandbits(8) for _ in range(n)) for n in sizes]
    shelf = Shelf(parts, PagedBytes(Path("/nowhere")))
    for _ in range(20):
        low, high = rng.getrandbits(30), rng.getrandbits(31) | 1
        expected = [at for at, part in enumerate(parts) if _has(part, 0, len(part), low, high)]
        assert shelf.holding(low, high) == expected
