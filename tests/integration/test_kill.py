"""`kill -9` in the middle of traffic: what was acknowledged is evaluated, exactly once.

`python -m tests.bench.kill` is the long form.
"""

from pathlib import Path

from tests.bench.kill import over_http, over_kafka
from tests.support.kafka_broker import ExternalBroker, KafkaBroker

KILLS = 2
ITEMS = 150


def test_over_http(tmp_path: Path) -> None:
    report = over_http(tmp_path, KILLS, ITEMS)
    assert report.items >= ITEMS
    assert report.cut_off > 0, "no kill met a request in flight"
    assert report.is_clean, report


def test_over_kafka(tmp_path: Path, kafka: KafkaBroker | ExternalBroker) -> None:
    report = over_kafka(tmp_path, kafka.bootstrap, KILLS, ITEMS)
    assert report.items >= ITEMS
    assert report.redelivered > 0, "no kill met a message that was stored, its offset not committed"
    assert report.is_clean, report
