"""`kill -9` in the middle of traffic: what was acknowledged is evaluated, exactly once.

`python -m tests.bench.kill` is the long form.
"""

from pathlib import Path

from tests.bench.kill import over_http

KILLS = 2
ITEMS = 150


def test_over_http(tmp_path: Path) -> None:
    report = over_http(tmp_path, KILLS, ITEMS)
    assert report.items >= ITEMS
    assert report.cut_off > 0, "no kill met a request in flight"
    assert report.is_clean, report
