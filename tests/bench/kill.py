"""`kill -9` the collector again and again under traffic, and count what is lost or double.

Run as `python -m tests.bench.kill`; `--kafka` sends over a real broker instead of HTTP. The
producers' own logs of what was acknowledged to them are the oracle. Exit code 1 if anything is
lost, double, or judged on less than its whole trace, or if no kill met a request in flight: over
HTTP a connection was cut off, over Kafka messages that were stored came again.
"""

import argparse
import sys
import tempfile
import uuid
from pathlib import Path

from tests.bench.figures import Figures
from tests.support.collector_process import CollectorProcess
from tests.support.kafka_broker import create_topics, run_broker
from tests.support.kill_run import KillReport, kill_run
from tests.support.load import SPANS_PER_TRACE, HttpDelivery, KafkaDelivery, load_profile

PARTITIONS = 4


def over_http(folder: Path, kills: int, items: int) -> KillReport:
    """Two producers over HTTP."""
    profile = load_profile().save_to_json(folder / "load.json")
    collector = CollectorProcess(folder, "--profile", profile)
    collector.start()
    try:
        deliveries = [HttpDelivery(lambda: collector.url) for _ in range(2)]
        return kill_run(collector, deliveries, kills=kills, items=items, progress=show)
    finally:
        collector.close()


def over_kafka(folder: Path, bootstrap: str, kills: int, items: int) -> KillReport:
    """One producer over a broker's two topics."""
    name = f"kill-{uuid.uuid4().hex[:8]}"
    topics = f"{name}.spans", f"{name}.records"
    create_topics(bootstrap, list(topics), partitions=PARTITIONS)
    profile = load_profile().save_to_json(folder / "load.json")
    collector = CollectorProcess(
        folder, "--profile", profile, "--kafka", bootstrap, "--kafka-spans-topic", topics[0],
        "--kafka-records-topic", topics[1], "--kafka-group", name,
        "--kafka-session-s", "10m",  # who comes back does not wait for it
    )  # fmt: skip
    collector.start()
    delivery = KafkaDelivery(bootstrap, *topics, PARTITIONS)
    try:
        return kill_run(
            collector, [delivery], kills=kills, items=items, pause_s=0.1, from_broker=True,
            progress=show,
        )  # fmt: skip
    finally:
        collector.close()


def show(kills: int, items: int) -> None:
    """One line that is written over."""
    if sys.stderr.isatty():
        print(f"\r{kills} kills, {items} items acknowledged", end="", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--items", type=int, default=5_000, help="records, with 4 spans each")
    parser.add_argument("--kafka", action="store_true", help="over a real broker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.kafka:
            with run_broker() as broker:
                report = over_kafka(folder, broker.bootstrap, options.kills, options.items)
        else:
            report = over_http(folder, options.kills, options.items)
    print(f"{report.kills} kills, {report.items} records and "
          f"{report.items * SPANS_PER_TRACE} spans acknowledged; "
          f"{report.cut_off} requests were in flight, {report.redelivered} records and spans "
          "came again")  # fmt: skip
    print(f"records: {report.lost_records} lost, {report.double_records} double, "
          f"{report.unknown_records} never acknowledged")  # fmt: skip
    print(f"outcomes: {dict(report.outcomes)}")
    print(f"spans: {report.lost_spans} lost, {report.double_spans} double")
    print(f"sheet agrees: {report.sheet_agrees}; counters agree: {report.counters_agree}; "
          f"rates agree: {report.rates_agree}")  # fmt: skip
    figures = Figures("kill --kafka" if options.kafka else "kill")
    figures.add("kills", report.kills, at_least=options.kills)
    if options.kafka:
        figures.add("records and spans that came again", report.redelivered, at_least=1)
    else:
        figures.add("requests in flight", report.cut_off, at_least=1)
    add_counts(figures, report)
    return figures.end()


def add_counts(figures: Figures, report: KillReport) -> None:
    """Report what was sent and what is there: nothing may be lost, double or judged wrongly."""
    figures.add("records acknowledged", report.items)
    figures.add("records lost", report.lost_records, at_most=0)
    figures.add("records double", report.double_records, at_most=0)
    figures.add("records never acknowledged", report.unknown_records, at_most=0)
    figures.add("records judged wrongly", report.items - report.outcomes["passed"], at_most=0)
    figures.add("spans lost", report.lost_spans, at_most=0)
    figures.add("spans double", report.double_spans, at_most=0)
    figures.add("all as it should be, sheets and counters too", int(report.is_clean), at_least=1)


if __name__ == "__main__":
    sys.exit(main())
