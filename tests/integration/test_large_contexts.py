"""Contexts that are larger than the store's memory are judged, also after `kill -9`.

`python -m tests.bench.large` is the long form.
"""

from pathlib import Path

from tests.bench.large import over_a_restart


def test_what_waits_over_a_kill_is_judged(tmp_path: Path) -> None:
    """900 records of 40 kB, 36 MB, in a store that may use 56 MB: it stood still for ever."""
    _, peak_mb = over_a_restart(tmp_path, 900, 40_000, kill=True, flags=["--memory-limit", "56MB"])
    assert peak_mb < 600
