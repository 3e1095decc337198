"""What records ran with: prompt, tools, answering model, fingerprint and versions, over time.

Evaluations know their trace, and the spans of a trace tell its setup.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from collector.store.evaluation_queries import (
    EvaluationQuery,
    evaluation_condition,
    time_conditions,
)
from collector.store.reads import Values
from collector.store.spans import commit_steps
from collector.store.totals import HOUR_NS
from collector.store.traces import SummaryReads
from scouter.evaluate.intervals import wilson
from scouter.model.genai.setup import KINDS

_SAMPLE: Final = 1_000
"""Results whose spans are read; half as many are enough."""
_COMMITS: Final = 16
"""Commits that are read first, or half as many."""
_TIME_S: Final = 0.2
"""After it no more commits are read."""
_NEAR: Final = 100
"""Results before a moment that are as near to it as an hour, if they take longer."""
_LEAST: Final = 0.1
"""Largest share of a value before that is a change, and the least rise that is."""
_N: Final = "BIGINT"
_Results: TypeAlias = list[tuple[int, str]]
"""Time and trace of each."""
_Setup: TypeAlias = tuple[str, str]
"""Kind and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupSpan:
    """A value of the setup of records, in a time."""

    kind: str
    name: str
    first_ns: int
    """Time of the first result with it."""
    records: int
    """Results with it."""
    share: float
    """Of the results from the first one on whose spans tell this kind."""
    is_new: bool
    """True if it was in none of the results before; these are 20 or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupChange:
    """A value of the setup that more records had from a moment on than before."""

    kind: str
    name: str
    before: float
    """Share of the results before whose spans tell this kind."""
    share: float
    """The same since."""
    first_ns: int
    """Time of the first result near the moment that has it."""


_FEW: Final = 20


class SetupReads(SummaryReads):
    """Reads of setups."""

    def setups(self, query: EvaluationQuery) -> tuple[list[SetupSpan], int]:
        """What the records of a time ran with, in the order in which each value came.

        Returns:
            The values, and how many results were looked at: 1,000 at most, evenly spread.

        Cost: that of a list of as many, and the names in their spans.
        """
        results = self._results(query)
        names = self.trace_names(query.space, {trace_id for _, trace_id in results})
        reported: Counter[str] = Counter()
        """Results so far, by kind."""
        first: dict[_Setup, tuple[int, int]] = {}
        has: Counter[_Setup] = Counter()
        for at_ns, trace_id in results:
            setup = _setup(names.get(trace_id, ()))
            for each in setup:
                first.setdefault(each, (at_ns, reported[each[0]]))
                has[each] += 1
            reported.update({kind for kind, _ in setup})
        return [
            SetupSpan(
                kind=kind, name=name, first_ns=at_ns, records=has[kind, name],
                share=has[kind, name] / (reported[kind] - before), is_new=before >= _FEW,
            )
            for (kind, name), (at_ns, before) in first.items()
        ], len(results)  # fmt: skip

    def setup_changes(self, query: EvaluationQuery, at_ns: int) -> list[SetupChange]:
        """Find what changed just before a moment, or at it.

        The results of the hour from the moment on are compared with those of the hour that ended
        an hour before it, so that a change within the hour before counts. The time of the last 100
        results takes the place of an hour that has fewer; where there are no two hours of results,
        it is half of their time. A value changed if at most a tenth had it before, its share rose
        by 10 points or more, and the 95 % intervals are apart.

        Args:
            query: The results, without a time.
            at_ns: The moment.

        Returns:
            The values, those with the largest rise first.

        Cost: that of five lists, and the names in the spans of at most 3,000 results.
        """
        length_ns = self._near_ns(replace(query, until_ns=at_ns), at_ns)
        begin_ns = at_ns - length_ns
        before, until, since = (
            self._results(replace(query, since_ns=first, until_ns=first + length_ns))
            for first in (begin_ns - length_ns, begin_ns, at_ns)
        )
        traces = {trace_id for part in (before, until, since) for _, trace_id in part}
        names = self.trace_names(query.space, traces)
        was, now = _counts(before, names), _counts(since, names)
        first: dict[_Setup, int] = {}
        for time_ns, trace_id in sorted([*until, *since]):
            for each in _setup(names.get(trace_id, ())):
                first.setdefault(each, time_ns)
        found: list[SetupChange] = []
        for (kind, name), count in now.has.items():
            old, of_old, of = was.has[kind, name], was.known[kind], now.known[kind]
            if not of_old or old > _LEAST * of_old or count / of - old / of_old < _LEAST:
                continue
            if wilson(count, of)[0] > wilson(old, of_old)[1]:
                found.append(
                    SetupChange(
                        kind=kind, name=name, before=old / of_old, share=count / of,
                        first_ns=first[kind, name],
                    )
                )  # fmt: skip
        order = {kind: at for at, kind in enumerate(KINDS)}
        return sorted(found, key=lambda each: (each.before - each.share, order[each.kind]))

    def _near_ns(self, query: EvaluationQuery, at_ns: int) -> int:
        """Length of the time just before a moment, by the results before it."""
        every, newest = self._results(query), self._last_times(query)
        if not (every and newest):  # a commit between both may have left nothing
            return HOUR_NS
        return min(max(HOUR_NS, at_ns - newest[-1]), (at_ns - every[0][0]) // 2)

    def _last_times(self, query: EvaluationQuery) -> list[int]:
        """Times of the last results of a query, the newest first."""
        found: list[int] = []
        for first, last in commit_steps(self.last_seq()):
            values = Values()
            where = _condition(query, first, last, values)
            found += (
                at_ns
                for (at_ns,) in self.read(
                    f"SELECT e.evaluated_ns FROM evaluations e WHERE {where}"
                    f" ORDER BY e.evaluated_ns DESC LIMIT {values.of(_NEAR - len(found), _N)}",
                    values,
                )
            )
            if len(found) == _NEAR:
                break
        return found

    def _results(self, query: EvaluationQuery) -> _Results:
        """Results of a query that have a trace, by time: all of them, or evenly over its commits.

        Every n-th commit is read, then those halfway between, until there are enough: so each part
        of the time has its share of them, and a rare one costs no more than a frequent one.
        """
        first, last = self._ends(query)
        if query.as_of is None:  # later revisions may be behind the time
            query = replace(query, as_of=self.last_seq())
        step = 1 << ((last - first) // _COMMITS).bit_length()
        commits, began = range(first, last + 1, step), time.monotonic()
        found: _Results = []
        while commits:
            values = Values()
            where = _condition(query, first, last, values)
            found += self.read(
                f"SELECT e.evaluated_ns, e.trace_id FROM evaluations e WHERE {where}"
                f" AND e.seq IN ({', '.join(map(str, commits))})",  # a list prunes, a join does not
                values,
            )
            is_late = time.monotonic() - began > _TIME_S
            if step == 1 or len(found) >= _SAMPLE // 2 or is_late:
                break
            commits, step = range(first + step // 2, last + 1, step), step // 2
        every = sorted(found)
        return every[:: 1 + (len(every) - 1) // _SAMPLE] if every else every

    def _ends(self, query: EvaluationQuery) -> tuple[int, int]:
        """The first and the last commit of the evaluations of a time, or nearly so.

        Order in time is not that of commits: as many as a sample has are looked at.
        """
        values = Values()
        since = " AND ".join(time_conditions(query.since_ns or 0, query.until_ns, values))
        ((first, last),) = self.read(
            "SELECT min(seq), max(seq) FROM ("
            f" (SELECT e.seq FROM evaluations e WHERE {since} ORDER BY e.evaluated_ns"
            f" LIMIT {_SAMPLE}) UNION ALL"
            f" (SELECT e.seq FROM evaluations e WHERE {since} ORDER BY e.evaluated_ns DESC"
            f" LIMIT {_SAMPLE})) ends",
            values,
        )
        return (0, -1) if first is None else (first, last)


def _condition(query: EvaluationQuery, first: int, last: int, values: Values) -> str:
    where = evaluation_condition(query, first, last, values)
    return f"{where} AND e.scope = 'record' AND e.trace_id IS NOT NULL"


@dataclass(frozen=True, slots=True)
class _Counts:
    has: Counter[_Setup]
    """Results by value."""
    known: Counter[str]
    """Results by kind that have a value of it."""


def _counts(results: Sequence[tuple[int, str]], names: Mapping[str, Iterable[_Setup]]) -> _Counts:
    found = _Counts(Counter(), Counter())
    for _, trace_id in results:
        setup = _setup(names.get(trace_id, ()))
        found.has.update(setup)
        found.known.update({kind for kind, _ in setup})
    return found


def _setup(names: Iterable[_Setup]) -> list[_Setup]:
    """What a record ran with, of all that its spans name."""
    return sorted(each for each in names if each[0] in KINDS)
