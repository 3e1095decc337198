"""Stop a Kafka broker under traffic, and count what is lost, double or judged too early.

Run as `python -m tests.bench.outage`. One producer sends over the broker, one over HTTP; their own
logs of what was acknowledged to them are the oracle. Exit code 1 if anything is lost, double, or
judged on less than its whole trace, or if what came over HTTP had to wait for the broker.
"""

import argparse
import itertools
import sys
import tempfile
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path

from tests.bench.figures import Figures
from tests.bench.kill import add_counts
from tests.support.collector_process import CollectorProgram
from tests.support.kafka_broker import KafkaBroker, create_topics, own_broker
from tests.support.kill_run import KillReport, report_of, wait_settled
from tests.support.load import (
    SPANS_PER_TRACE,
    HttpDelivery,
    KafkaDelivery,
    Producer,
    load_profile,
)
from tests.support.processes import wait_until

PARTITIONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageReport:
    """Evaluations while the broker was away, and the counts in the end."""

    judged_meanwhile: int
    over_kafka: int
    end: KillReport

    @property
    def is_clean(self) -> bool:
        """Nothing lost, double or too early, and HTTP did not wait."""
        return self.end.is_clean and self.judged_meanwhile > 0


def outage(folder: Path, broker: KafkaBroker, away_s: float, items: int) -> OutageReport:
    """Let both producers deliver, before, while and after the broker is away.

    Args:
        folder: For the collector.
        broker: Running; is stopped and started again.
        away_s: For how long, in seconds.
        items: How many to deliver at least before and after it, over the broker.
    """
    name = f"outage-{uuid.uuid4().hex[:8]}"
    topics = f"{name}.spans", f"{name}.records"
    create_topics(broker.bootstrap, list(topics), partitions=PARTITIONS)
    collector = CollectorProgram(
        folder, "--profile", load_profile().save_to_json(folder / "load.json"),
        "--kafka", broker.bootstrap, "--kafka-spans-topic", topics[0],
        "--kafka-records-topic", topics[1], "--kafka-group", name,
    )  # fmt: skip
    collector.start()
    kafka = KafkaDelivery(broker.bootstrap, *topics, PARTITIONS)
    http = HttpDelivery(lambda: collector.url)
    try:
        with (
            Producer(itertools.count(0, 2), kafka, pause_s=0.1) as over_kafka,
            Producer(itertools.count(1, 2), http, pause_s=0.1) as over_http,
        ):
            _await_more(over_kafka, items)
            wait_until(lambda: collector.records()["evaluated"] > 0, what="a first evaluation")
            broker.stop()
            wait_until(lambda: _is_held(collector), what="the clock is held up")
            before = collector.records()["evaluated"]
            threading.Event().wait(away_s)
            judged_meanwhile = collector.records()["evaluated"] - before
            broker.start()
            _await_more(over_kafka, items)
        sent = [*over_kafka.acknowledged, *over_http.acknowledged]
        wait_settled(collector, len(sent))
        return OutageReport(
            judged_meanwhile=judged_meanwhile,
            over_kafka=len(over_kafka.acknowledged),
            end=report_of(collector, sent, kills=0),
        )
    finally:
        kafka.close()
        http.close()
        collector.close()


def _is_held(collector: CollectorProgram) -> bool:
    return collector.metrics()["scouter_join_input_caught_up"] == 0


def _await_more(producer: Producer, items: int) -> None:
    enough = len(producer.acknowledged) + items
    wait_until(
        lambda: producer.fault or len(producer.acknowledged) >= enough,
        what=f"{enough} items over the broker", timeout_s=300,
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--away-s", type=float, default=60)
    parser.add_argument("--items", type=int, default=500, help="before and after, over the broker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, own_broker() as broker:
        report = outage(Path(name), broker, options.away_s, options.items)
    end = report.end
    print(f"away for {options.away_s:g} s; {end.items} records and {end.items * SPANS_PER_TRACE} "
          f"spans acknowledged, {report.over_kafka} records over the broker")  # fmt: skip
    print(f"judged while it was away: {report.judged_meanwhile}")
    print(f"records: {end.lost_records} lost, {end.double_records} double, "
          f"{end.unknown_records} never acknowledged; outcomes: {dict(end.outcomes)}")  # fmt: skip
    print(f"spans: {end.lost_spans} lost, {end.double_spans} double")
    print(f"sheet agrees: {end.sheet_agrees}; counters agree: {end.counters_agree}; "
          f"rates agree: {end.rates_agree}")  # fmt: skip
    figures = Figures("outage")
    figures.add("judged while the broker was away", report.judged_meanwhile, at_least=1)
    add_counts(figures, end)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
