"""The watcher is watched: what keeps results from being made, or from being complete.

Evaluation that stopped without a word is the commonest fault of such services. Each minute the
store is asked for what should not be; a finding is an alert for as long as it holds.
"""

import logging
import statistics
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from collector.alerts.drift.message import moment
from collector.metrics import LEFT_OUT, TotalName, Totals
from collector.storage.port.counts import SeriesQuery, TaskCounts
from collector.storage.port.store import Store
from scouter.evaluate.outcome import Reason

_log: Final = logging.getLogger(__name__)

_S: Final = 10**9
LOOK_NS: Final = 60 * _S
"""Between two looks."""
SPAN_NS: Final = 3_600 * _S
"""Counts are compared with those of so long before."""
FEWEST: Final = 10
"""Dead letters or drops in that time from which on they are told."""
SHARE: Final = 0.01
"""Of everything that came in that time."""
WEEK_NS: Final = 7 * 24 * 3_600 * _S
WEEKS: Final = 5
"""Weeks before whose same hours say how many results an hour should have."""
USUAL: Final = 20
"""Results that an hour mostly has, from which on an hour without any is told."""


class Trouble(StrEnum):
    """Kinds of findings."""

    NOT_EVALUATED = "not_evaluated"
    """Records were accepted long ago and have no verdict."""
    JUDGE_WAITS = "judge_waits"
    """Tasks have waited long for a judge."""
    JUDGE_BUDGET = "judge_budget"
    """A judge was not asked, as its budget is spent."""
    DEAD_LETTERS = "dead_letters"
    DROPPED = "dropped"
    """Senders gave up records or spans."""
    SILENT = "silent"
    """No result in an hour that mostly has some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that should not be."""

    space: str
    trouble: Trouble
    subject: str = ""
    """Alias of the profile, where it is about one."""
    message: str
    """The finding, and the remedy."""
    since_ns: int
    """When it was found first."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The key by which two findings are the same one."""
        return self.space, self.trouble.value, self.subject


class HealthWatch:
    """See the module.

    Args:
        store: What is asked.
        active: Gives space and alias of every active profile.
        patience_ns: A record without a verdict is told after so long; a task without its judge
            after an hour.
    """

    def __init__(
        self,
        store: Store,
        active: Callable[[], set[tuple[str, str]]],
        patience_ns: int,
    ) -> None:
        self._store, self._active, self._patience_ns = store, active, patience_ns
        self._samples: deque[tuple[int, Totals]] = deque()
        self._found: Mapping[tuple[str, str, str], Finding] = {}
        self._silent: list[Finding] = []
        self._hour = -1

    def findings(self, space: str | None = None) -> list[Finding]:
        """Findings of the last look, of a space or of all."""
        return [each for each in self._found.values() if space in (None, each.space)]

    def look(self, now_ns: int) -> None:
        """Look again, if a minute has passed; a finding that comes or goes is a line in the log.

        Raises:
            TransientError: The store cannot be read now.
        """
        if self._samples and now_ns < self._samples[-1][0] + LOOK_NS:
            return
        found = {each.key: each for each in self._look(now_ns)}
        for key in found.keys() & self._found.keys():  # as old as it was
            found[key] = _since(found[key], self._found[key].since_ns)
        for key in found.keys() - self._found.keys():
            _log.warning("%s of space %r: %s", key[1], key[0], found[key].message)
        for key in self._found.keys() - found.keys():
            _log.warning("%s of space %r is over", key[1], key[0])
        self._found = found

    def _look(self, now_ns: int) -> Iterator[Finding]:
        yield from self._old(now_ns)
        yield from self._grown(now_ns)
        hour = now_ns // SPAN_NS
        if hour != self._hour:
            self._silent = list(self._quiet(hour * SPAN_NS, now_ns))
            self._hour = hour
        yield from self._silent

    def _old(self, now_ns: int) -> Iterator[Finding]:
        """The oldest of what waits, if it waits for too long."""
        before_ns = now_ns - self._patience_ns
        for waiting in self._store.waiting_records(1):
            if waiting.record.received_ns < before_ns:
                yield Finding(
                    space=waiting.record.space, trouble=Trouble.NOT_EVALUATED, since_ns=now_ns,
                    message=f"{self._store.waiting_count():,} records wait for a verdict, the "
                    f"oldest since {moment(waiting.record.received_ns)}; scouter results record "
                    f"{waiting.record.uid} says why",
                )  # fmt: skip
        for pending in self._store.pending_verdicts(1):
            if pending.verdict.evaluated_ns < now_ns - SPAN_NS:
                yield Finding(
                    space=pending.verdict.space, trouble=Trouble.JUDGE_WAITS, since_ns=now_ns,
                    message=f"{self._store.pending_count():,} tasks wait for a judge, the oldest "
                    f"since {moment(pending.verdict.evaluated_ns)}; scouter results record "
                    f"{pending.verdict.record_uid} says why",
                )  # fmt: skip

    def _grown(self, now_ns: int) -> Iterator[Finding]:
        """Counts that grew within the last hour, as far as this process has seen it."""
        self._samples.append((now_ns, self._store.totals()))
        while len(self._samples) > 2 and self._samples[1][0] <= now_ns - SPAN_NS:
            self._samples.popleft()
        before, now = self._samples[0][1], self._samples[-1][1]
        grown = Counter[tuple[str, str]]()
        for key, count in now.items():
            name = _COUNTED.get(key.name)
            if key.name is TotalName.TASKS and key.label == Reason.BUDGET and key.label in LEFT_OUT:
                name = Trouble.JUDGE_BUDGET.value
            if name is not None:
                grown[key.space, name] += count - before.get(key, 0)
        for space in sorted({space for space, _ in grown}):
            yield from _too_many(space, grown, now_ns)

    def _quiet(self, end_ns: int, now_ns: int) -> Iterator[Finding]:
        """Active profiles without a result in the last whole hour, which mostly has some."""
        active = self._active()
        for space in sorted({space for space, _ in active}):
            counts = Counter[tuple[str, int]]()
            for week in range(WEEKS):
                until_ns = end_ns - week * WEEK_NS
                query = SeriesQuery(
                    space=space, since_ns=until_ns - SPAN_NS, until_ns=until_ns, bucket_ns=SPAN_NS
                )
                for item in self._store.task_series(query):
                    counts[item.counts.alias, week] += _results(item.counts)
            for alias in sorted(alias for of_space, alias in active if of_space == space):
                usual = statistics.median(counts[alias, week] for week in range(1, WEEKS))
                if not counts[alias, 0] and usual >= USUAL:
                    yield Finding(
                        space=space, trouble=Trouble.SILENT, subject=alias, since_ns=now_ns,
                        message=f"profile {alias!r} had no result in the hour before "
                        f"{moment(end_ns)}, which mostly has {usual:,.0f}; see whether the agent "
                        "runs and its records arrive",
                    )  # fmt: skip


_IN: Final = "in"
_COUNTED: Final = {
    TotalName.DEAD_LETTERS: Trouble.DEAD_LETTERS.value,
    TotalName.DROPPED: Trouble.DROPPED.value,
    TotalName.RECORDS_RECEIVED: _IN,
    TotalName.SPANS_RECEIVED: _IN,
}


def _too_many(space: str, grown: Counter[tuple[str, str]], now_ns: int) -> Iterator[Finding]:
    received = grown[space, _IN]
    skipped = grown[space, Trouble.JUDGE_BUDGET.value]
    if skipped > 0:
        yield Finding(
            space=space, trouble=Trouble.JUDGE_BUDGET, since_ns=now_ns,
            message=f"{skipped:,} judge tasks were skipped within an hour, as the budget of the "
            "judge is spent; raise judge_daily_budget_usd, or wait for the next day (UTC)",
        )  # fmt: skip
    for trouble, what, help_text in (
        (Trouble.DEAD_LETTERS, "things could not be used", "scouter letters list says why"),
        (Trouble.DROPPED, "records and spans were given up by senders", "see transports.md"),
    ):
        count = grown[space, trouble.value]
        if count >= FEWEST and count >= SHARE * (received + count):
            yield Finding(
                space=space, trouble=trouble, since_ns=now_ns,
                message=f"{count:,} {what} within an hour, beside {received:,} records and spans "
                f"that were accepted; {help_text}",
            )  # fmt: skip


def _results(counts: TaskCounts) -> int:
    return counts.passed + counts.failed + counts.errored


def _since(found: Finding, since_ns: int) -> Finding:
    return Finding(
        space=found.space, trouble=found.trouble, subject=found.subject, message=found.message,
        since_ns=since_ns,
    )  # fmt: skip
