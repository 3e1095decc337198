"""Kill a collector at random moments under traffic, then hold it against the producers' logs."""

import itertools
import os
import random
import re
import resource
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.support.collector_process import CollectorProcess
from tests.support.load import SPANS_PER_TRACE, Delivery, Item, Producer
from tests.support.processes import wait_until

LONGEST_LIFE_S: Final = 0.6
"""A collector is killed at a random moment up to so long after it took its first request."""
_MOST: Final = 10
"""Times as many kills until one falls between a message that is stored and its offset."""
STATES: Final = ("waiting", "evaluated", "skipped", "expired", "dead_lettered", "erased")
DECIDED: Final = ("passed", "failed", "errored", "skipped")
REFUSED: Final = b"the store does not take messages"
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class KillReport:
    """Items that were sent, and items that are stored."""

    kills: int
    items: int
    """Records acknowledged to the producers, with `SPANS_PER_TRACE` spans each."""
    lost_records: int
    double_records: int
    unknown_records: int
    lost_spans: int
    double_spans: int
    outcomes: Counter[str]
    sheet_agrees: bool
    """The conservation sheet sums up and counts what was sent."""
    counters_agree: bool
    """`/metrics` counts every first evaluation once."""
    rates_agree: bool
    """By task and outcome: the rollups' rates, the counters' and a count of all evaluations."""
    cut_off: int = 0
    """Requests that were in flight as the collector was killed."""
    redelivered: int = 0
    """Records and spans that came again, as what they came in had not been acknowledged."""

    @property
    def is_clean(self) -> bool:
        """Nothing lost, nothing double, every evaluation that of the whole trace."""
        wrong = (
            self.lost_records, self.double_records, self.unknown_records,
            self.lost_spans, self.double_spans,
        )  # fmt: skip
        all_passed = self.outcomes == {"passed": self.items}
        agree = self.sheet_agrees and self.counters_agree and self.rates_agree
        return not any(wrong) and all_passed and agree


def kill_run(
    collector: CollectorProcess,
    deliveries: Sequence[Delivery],
    *,
    kills: int,
    items: int,
    pause_s: float = 0.02,
    from_broker: bool = False,
    seed: int = 1,
    progress: Callable[[int, int], None] = lambda kills, items: None,
) -> KillReport:
    """Let producers deliver while the collector is killed and started again.

    Args:
        collector: Running, with `load_profile`.
        deliveries: One producer each, all over the same numbered items.
        kills: How often to kill it; over a broker more often, until a message came again.
        items: How many items to deliver at least.
        pause_s: Of each producer between two batches.
        from_broker: It reads from a broker, and is ready before that: kill it only once it has
            taken something, and every second time while it cannot store what it has read.
        seed: Of the moments.
        progress: Told the kills and the acknowledged items so far.
    """
    moments, pause = random.Random(seed), threading.Event()
    numbers = itertools.count()
    with ExitStack() as stack:
        for each in deliveries:
            stack.callback(each.close)
        producers = [
            stack.enter_context(Producer(numbers, each, pause_s=pause_s)) for each in deliveries
        ]

        def acknowledged() -> int:
            return sum(len(producer.acknowledged) for producer in producers)

        for number in itertools.count():
            if number >= kills and (
                not from_broker or number >= _MOST * kills or came_again(collector)
            ):
                break
            if from_broker and number % 2:
                wait_refused(collector)
            else:
                if from_broker:
                    wait_taken(collector)
                pause.wait(moments.random() * LONGEST_LIFE_S)
                if not from_broker:  # else all of a few kills may fall between two requests
                    wait_until(
                        lambda: any(each.is_in_flight for each in deliveries),
                        what="a request in flight", every_s=0.001,
                    )  # fmt: skip
            collector.kill()
            collector.start()
            progress(number + 1, acknowledged())
        wait_until(
            lambda: any(p.fault for p in producers) or acknowledged() >= items,
            what=f"{items} items are acknowledged", timeout_s=600, every_s=0.1,
        )  # fmt: skip
    sent = [item for producer in producers for item in producer.acknowledged]
    wait_settled(collector, len(sent))
    report = report_of(collector, sent, kills)
    return replace(report, cut_off=sum(each.cut_off for each in deliveries))


def came_again(collector: CollectorProcess) -> int:
    """Records and spans that came again."""
    sheet = collector.get("/api/v1/conservation")
    return sheet["records"]["duplicates"] + sheet["spans"]["duplicates"]


def wait_taken(collector: CollectorProcess) -> None:
    """Wait until a collector has accepted something more."""
    before = collector.records()["accepted"]
    wait_until(lambda: collector.records()["accepted"] > before, what="a record is taken")


def wait_refused(collector: CollectorProcess) -> None:
    """Let no file grow any more, and wait until the collector has read what it cannot store.

    A killed process loses nothing that it has written, synced or not: so this is where an offset
    that was committed too early shows.
    """
    log = collector.process.log
    os.truncate(log, 0)  # the limit holds for it, too
    resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    wait_until(lambda: REFUSED in log.read_bytes(), what="the store refuses what was read")


def wait_settled(collector: CollectorProcess, count: int) -> None:
    """Wait until every accepted record is evaluated, and there are so many."""

    def settled() -> bool:
        records = collector.records()
        return records["accepted"] == records["evaluated"] >= count

    wait_until(settled, what=f"{count} records are evaluated", every_s=0.2)


def report_of(collector: CollectorProcess, sent: Sequence[Item], kills: int) -> KillReport:
    """Hold what the collector has against what it acknowledged."""
    found = collector.evaluations()
    uids = Counter(str(item["uid"]) for item in found)
    wanted = {item.uid for item in sent}
    lost_spans = double_spans = 0
    for item in sent:
        spans = collector.get(f"/api/v1/traces/{item.trace_id}")["spans"]
        ids = Counter(str(span["spanId"]) for span in spans)
        lost_spans += len(set(item.span_ids) - set(ids))
        double_spans += sum(count - 1 for count in ids.values())
    first_evaluations = sum(
        value
        for name, value in collector.metrics().items()
        if name.startswith("scouter_records_evaluated_total")
    )
    return KillReport(
        kills=kills,
        items=len(sent),
        lost_records=len(wanted - set(uids)),
        double_records=sum(count - 1 for count in uids.values()),
        unknown_records=len(set(uids) - wanted),
        lost_spans=lost_spans,
        double_spans=double_spans,
        outcomes=Counter(str(item["outcome"]) for item in found),
        sheet_agrees=sheet_agrees(collector, len(sent), len(sent) * SPANS_PER_TRACE),
        counters_agree=first_evaluations == len(sent),
        rates_agree=rates_agree(collector, found),
        redelivered=came_again(collector),
    )


def sheet_agrees(collector: CollectorProcess, records: int, spans: int) -> bool:
    """Tell whether so many were accepted, each record in one state, each span stored once.

    The sheet and `/metrics` have to say so.
    """
    sheet = collector.get("/api/v1/conservation")
    states = sum(sheet["records"][state] for state in STATES)
    stored = sheet["spans"]["stored"], sheet["spans"]["accepted"]
    shown = Counter[str]()
    for series, value in collector.metrics().items():
        shown[series.partition("{")[0]] += int(value)
    received = shown["scouter_records_received_total"], shown["scouter_spans_received_total"]
    is_whole = states == sheet["records"]["accepted"] == records and stored == (spans, spans)
    return is_whole and received == (records, spans)


def rates_agree(collector: CollectorProcess, found: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether rollups and counters say by task and outcome what all evaluations say.

    Args:
        collector: With at least one evaluation.
        found: All its evaluations, each record's latest.
    """
    counted = Counter(
        (task["task_id"], task["outcome"]) for item in found for task in item["tasks"]
    )
    rates = Counter[tuple[str, str]]()
    for row in collector.get("/api/v1/tasks")["items"]:
        for outcome in DECIDED:
            rates[row["task_id"], outcome] += row[outcome]
    shown = Counter[tuple[str, str]]()
    for series, value in collector.metrics().items():
        name, labels = series.partition("{")[0], dict(_LABEL.findall(series))
        if name == "scouter_evaluations_total":
            shown[labels["task"], labels["outcome"]] += int(value)
        elif name == "scouter_task_revisions_total":
            shown[labels["task"], labels["to"]] += int(value)
            shown[labels["task"], labels["from"]] -= int(value)
    return bool(counted) and counted == rates == shown
