"""Prometheus series. Totals come from the store, so a restart does not reset them.

Names follow the Prometheus naming page: base units, `_total` on counters. Label values are the
collector's own words or come from registered profiles, never from a sender. Values that somebody
may choose freely are bounded, here or at their registration.
"""

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib.metadata import version
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from scouter.evaluate.outcome import OUT_OF_RATE, Outcome

_COMMIT_BUCKETS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
_SYNC_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


@cache
def own_version() -> str:
    """Version of this program; to read it from the package takes 3 ms."""
    return version("scouter-agents")


OVERTAKEN: Final = "overtaken"
"""Label of `TotalName.DROPPED` for what a broker deleted before it was read; no sender gives it."""


class TotalName(StrEnum):
    """The counts that the store keeps, in the transaction that makes them true."""

    TASKS = "tasks"
    """First evaluations; a revision adds to `REVISIONS` only."""
    RECORDS = "records"
    SESSIONS = "sessions"
    INCOMPLETE = "incomplete"
    """Of `RECORDS`, those whose trace lacked spans at the deadline."""
    RESULTS = "results"
    """Final results of tasks. The store has none: they are made of `TASKS` and `REVISIONS`."""
    REVISIONS = "revisions"
    """Tasks whose outcome a revision changed; the label is `revision_label` of both outcomes."""
    REEVALUATIONS = "reevaluations"
    """The same from another version's first evaluation on; not about the agent of now."""
    RECORDS_RECEIVED = "records_received"
    SPANS_RECEIVED = "spans_received"
    EVENTS_RECEIVED = "events_received"
    DUPLICATES = "duplicates"
    DEAD_LETTERS = "dead_letters"
    DROPPED = "dropped"
    ERASED = "erased"
    EXPIRED = "expired"
    LOST = "lost"
    """The label of what nobody could count is `UNCOUNTED`, of no space."""
    PENDING = "pending"
    """Tasks that wait for a judge in latest evaluations; the one count that falls."""
    RECORDS_DERIVED = "records_derived"
    """Records of `RECORDS_RECEIVED` that were made of traces."""
    SUPERSEDED = "superseded"
    """Derived records of `ERASED` that other records replaced."""


class TotalKey(NamedTuple):
    """One count; parts that do not apply are empty."""

    name: TotalName
    space: str
    profile: str = ""
    alias: str = ""
    task: str = ""
    label: str = ""
    """The outcome, the kind or the reason."""


Totals = Mapping[TotalKey, int]
RECEIVED: Final = {
    "record": TotalName.RECORDS_RECEIVED,
    "span": TotalName.SPANS_RECEIVED,
    "event": TotalName.EVENTS_RECEIVED,
}
"""By kind, which is the label of other counts, the count of what was ever accepted."""
UNCOUNTED: Final = TotalKey(TotalName.LOST, "", label="unknown")
"""Counter of losses whose size nobody knows."""


OTHER: Final = "(other)"
"""The label of what has no series of its own."""
_MOST_CHANGES: Final = 10_000
"""Series of changed outcomes that one space has: tasks times pairs of outcomes could be 100 times
as many as tasks. Beyond, all of the space are summed up."""
NO_TASK: Final = "none"
"""Stands for the outcome of a task that one of two versions lacks."""


def task_label(outcome: Outcome, reason: str | None) -> str:
    """Label under which a task is counted: its outcome, or the reason of a skip that no gate made.

    No rate counts such a skip. With this label, rates can be computed from the counters alone.
    """
    is_left_out = outcome is Outcome.SKIPPED and reason in OUT_OF_RATE
    return str(reason) if is_left_out else outcome.value


def revision_label(before: str, after: str) -> str:
    """The label of a change from one outcome to another."""
    return f"{before}>{after}"


_CHANGES: Final = frozenset({TotalName.REVISIONS, TotalName.REEVALUATIONS})
_SERIES: Final = {
    TotalName.TASKS: (
        "scouter_evaluations",
        "First evaluations of tasks. Outcomes in a pass rate are passed, failed, errored and "
        "skipped (by a gate); sampled, budget, not_applicable and pending are not.",
        ("space", "profile", "alias", "task", "outcome"),
    ),
    TotalName.RECORDS: (
        "scouter_records_evaluated",
        "First evaluations of records; pending ones await a judge.",
        ("space", "profile", "alias", "outcome"),
    ),
    TotalName.SESSIONS: (
        "scouter_sessions_evaluated",
        "First evaluations of sessions; pending ones await a judge.",
        ("space", "profile", "alias", "outcome"),
    ),
    TotalName.INCOMPLETE: (
        "scouter_records_incomplete",
        "First evaluations of records whose trace lacked spans at the deadline.",
        ("space", "profile", "alias"),
    ),
    TotalName.REVISIONS: (
        "scouter_task_revisions",
        "Tasks whose outcome changed after the first evaluation, because spans or records came, or "
        "a judge answered (from pending).",
        ("space", "profile", "alias", "task", "from", "to"),
    ),
    TotalName.REEVALUATIONS: (
        "scouter_task_reevaluations",
        "Tasks whose outcome changed as another version of the profile judged stored records, or "
        "at any time after that; `none` where only one of the versions has the task.",
        ("space", "profile", "alias", "task", "from", "to"),
    ),
    TotalName.RECORDS_RECEIVED: (
        "scouter_records_received",
        "Records accepted, each uid once.",
        ("space", "profile", "alias"),
    ),
    TotalName.RECORDS_DERIVED: (
        "scouter_records_derived",
        "Of the records accepted, those that were made of traces that a profile watches.",
        ("space", "profile", "alias"),
    ),
    TotalName.SUPERSEDED: (
        "scouter_records_superseded",
        "Derived records that were erased, as a sender's record of the same trace came.",
        ("space",),
    ),
    TotalName.SPANS_RECEIVED: (
        "scouter_spans_received",
        "Spans accepted, each key once.",
        ("space",),
    ),
    TotalName.EVENTS_RECEIVED: (
        "scouter_log_events_received",
        "GenAI log events accepted, each once.",
        ("space",),
    ),
    TotalName.DUPLICATES: (
        "scouter_duplicates",
        "Records, spans and log events that had been accepted before.",
        ("space", "kind"),
    ),
    TotalName.DEAD_LETTERS: (
        "scouter_dead_letters",
        "Things that could not be used and were put aside.",
        ("space", "reason"),
    ),
    TotalName.ERASED: (
        "scouter_erased",
        "Records, spans and log events that somebody had erased.",
        ("space", "kind"),
    ),
    TotalName.EXPIRED: (
        "scouter_expired",
        "Records, spans and log events that retention took out of the store.",
        ("space", "kind"),
    ),
    TotalName.LOST: (
        "scouter_lost",
        "Records, spans and log events that were accepted, and gone or damaged at a start with "
        "--accept-loss; "
        "of the kind unknown: how often nobody knew how many.",
        ("space", "kind"),
    ),
    TotalName.DROPPED: (
        "scouter_queue_dropped",
        "Records and spans that a sender's bounded queue gave up, as senders report it; with the "
        "reason overtaken messages that their broker deleted before they were read.",
        ("space", "reason"),
    ),
    TotalName.PENDING: (
        "scouter_judge_tasks_pending",
        "Tasks that wait for a judge's answer, those that depend on one included.",
        ("space",),
    ),
}


class CollectorMetrics:
    """The registry of one collector.

    Args:
        totals: Gives the store's current totals; None where another process shows them.
        waiting: Gives the number of records that wait for their trace or profile.
        exemplar: Gives the trace that a total is shown with, if there is one.
    """

    def __init__(
        self,
        totals: Callable[[], Totals] | None,
        waiting: Callable[[], int],
        exemplar: Callable[[TotalKey], Exemplar | None] = lambda _: None,
    ) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        if totals is not None:
            self.registry.register(_StoredTotals(totals, exemplar))
        self.profiles_refused = Counter(
            "scouter_profiles_refused",
            "Profiles that were not registered, since this process started, as their space has no "
            "room for them.",
            ("space",),
            registry=self.registry,
        )
        self._show(
            "scouter_records_waiting",
            "Records that wait for their trace or their profile.",
            waiting,
        )
        self.commit_seconds = Histogram(
            "scouter_store_commit_seconds",
            "Time that one commit took, with the checkpoint that some of them make.",
            registry=self.registry,
            buckets=_COMMIT_BUCKETS,
        )
        self.log_sync_seconds = Histogram(
            "scouter_log_sync_seconds",
            "Time of one sync of the log, which all who append at that time wait for.",
            registry=self.registry,
            buckets=_SYNC_BUCKETS,
        )
        ProcessCollector("scouter", registry=self.registry)  # memory, processor time, open files
        build = Gauge("scouter_build_info", "Always 1.", ("version",), registry=self.registry)
        build.labels(own_version()).set(1)

    def watch_brokers(self, lags_s: Callable[[], Mapping[str, float]]) -> None:
        """Show how far what is read from brokers is behind.

        Args:
            lags_s: Gives the lag of each receiver's spans by its name, in seconds.
        """
        self.registry.register(_BrokerLags(lags_s))

    def watch_log(self, waiting_bytes: Callable[[], int]) -> None:
        """Show how far the store is behind the log.

        Args:
            waiting_bytes: Size of what was accepted and is not in the store yet.
        """
        self._show(
            "scouter_log_waiting_bytes",
            "Bytes of the log that are not in the store yet.",
            waiting_bytes,
        )

    def watch_store(
        self,
        file_bytes: Callable[[], int],
        commit_age_s: Callable[[], float],
        *,
        oldest_ns: Callable[[], int | None],
        retention_s: float,
        max_bytes: int | None,
    ) -> None:
        """Show how large the store is and when it last took something.

        Args:
            file_bytes: Size on disk, the log included.
            commit_age_s: Seconds since the last commit.
            oldest_ns: Arrival of the oldest stored item; None of an empty store.
            retention_s: Age at which things go; 0 keeps everything.
            max_bytes: Size above which the oldest go; None for no bound.
        """
        for name, help_text, value in (
            ("size_bytes", "Size of the store on disk.", file_bytes),
            ("last_commit_age_seconds", "Time since the last commit, or since the start.",
             commit_age_s),
            ("oldest_timestamp_seconds",
             "When the oldest stored record or span came, since 1970; 0 in an empty store.",
             lambda: (oldest_ns() or 0) / 1e9),
            ("retention_seconds", "Age at which things are taken out; 0 for never.",
             lambda: retention_s),
            ("size_limit_bytes", "Size above which the oldest go; 0 for none.",
             lambda: max_bytes or 0),
        ):  # fmt: skip
            self._show(f"scouter_store_{name}", help_text, value)

    def _show(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        Gauge(name, help_text, registry=self.registry).set_function(value)


class _StoredTotals(Collector):
    """Turns the store's totals into counters, and what may fall into a gauge, at each scrape."""

    def __init__(
        self, totals: Callable[[], Totals], exemplar: Callable[[TotalKey], Exemplar | None]
    ) -> None:
        self._totals, self._exemplar = totals, exemplar

    def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        counters = {
            name: CounterMetricFamily(series, help_text, labels=labels)
            for name, (series, help_text, labels) in _SERIES.items()
            if name is not TotalName.PENDING
        }
        series, help_text, labels = _SERIES[TotalName.PENDING]
        pending = GaugeMetricFamily(series, help_text, labels=labels)
        totals = self._totals()
        for key, count in with_few_changes(totals).items():
            values = list(_label_values(key, _SERIES[key.name][2]))
            if key.name is TotalName.PENDING:
                pending.add_metric(values, count)
            else:
                counters[key.name].add_metric(values, count, exemplar=self._exemplar(key))
        return [*counters.values(), pending, _final_results(totals, self._exemplar)]


def _final_results(
    totals: Totals, exemplar: Callable[[TotalKey], Exemplar | None]
) -> CounterMetricFamily:
    """Count tasks once they are decided: at once, or as the judge of the first evaluation answers.

    A later revision is no second result, and changes none.
    """
    family = CounterMetricFamily(
        "scouter_task_results",
        "Final results of tasks, those of judges included: the first one that is not pending. "
        "Rates are passed / (passed + failed).",
        labels=("space", "profile", "alias", "task", "outcome"),
    )
    found = Counts[TotalKey]()
    for key, count in totals.items():
        before, sign, after = key.label.partition(">")
        if key.name is TotalName.TASKS and key.label != Outcome.PENDING:
            found[key._replace(name=TotalName.RESULTS)] += count
        elif key.name is TotalName.REVISIONS and sign and before == Outcome.PENDING:
            found[key._replace(name=TotalName.RESULTS, label=after)] += count
    for key, count in found.items():
        labels = [key.space, key.profile, key.alias, key.task, key.label]
        family.add_metric(labels, count, exemplar=exemplar(key))
    return family


def with_few_changes(totals: Totals, most: int = _MOST_CHANGES) -> Totals:
    """Sum up the changed outcomes of each space that has too many series of them.

    Counts never go, so that a space which is summed up once stays so, also after a restart.

    Args:
        totals: All counts.
        most: Series of one kind of change that a space may have.
    """
    sizes = Counts((key.name, key.space) for key in totals if key.name in _CHANGES)
    large = {each for each, size in sizes.items() if size > most}
    if not large:
        return totals
    found: dict[TotalKey, int] = {}
    for key, count in totals.items():
        if (key.name, key.space) in large:
            key = key._replace(profile=OTHER, alias=OTHER, task=OTHER)
        found[key] = found.get(key, 0) + count
    return found


class _BrokerLags(Collector):
    """A gauge for each broker that is read from."""

    def __init__(self, lags_s: Callable[[], Mapping[str, float]]) -> None:
        self._lags_s = lags_s

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """The gauge without values: its name makes it one that can be requested alone."""
        return [
            GaugeMetricFamily(
                "scouter_receiver_lag_seconds",
                "Everything that a broker had so long ago has been read and stored.",
                labels=("receiver",),
            )
        ]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        (family,) = self.describe()
        for name, lag_s in self._lags_s().items():
            family.add_metric([name], lag_s)
        return [family]


def _label_values(key: TotalKey, labels: Iterable[str]) -> Iterator[str]:
    for label in labels:
        if label in ("outcome", "kind", "reason"):
            yield key.label
        elif label in ("from", "to"):
            before, _, after = key.label.partition(">")
            yield before if label == "from" else after
        else:
            yield getattr(key, label)
