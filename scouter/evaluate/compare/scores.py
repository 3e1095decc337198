"""Scores in two runs: those of each record side by side, and the test whether they fell.

Only of tasks whose scores say more than passed or failed; what those do is in the rates.
"""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import fmean
from typing import Final, NamedTuple, TypeAlias

from scouter.evaluate.compare.pairing import Identity, Matched, Row, match
from scouter.evaluate.compare.rows import ScoreChange, corrected
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.rows import ResultRows
from scouter.evaluate.results.run import RunResults
from scouter.evaluate.results.task_result import ASSERTIONS, EvalTaskResult, as_score
from scouter.evaluate.statistics.clustered_mean import clustered_mean
from scouter.evaluate.statistics.permutation import Stratum, fall_p_value

_PLAIN: Final = (0.0, 1.0)
_ENDS: Final = (1.0, 5.0, 10.0, 100.0)
"""Usual upper ends of scales."""
_STEPS, _COARSEST = 1000, 60
"""Steps to which values are rounded for the tests, and the fewest that are good enough."""

_MORE_IS_BETTER: Final = {"GreaterThan", "GreaterThanOrEqual", "IsPositive"}
_LESS_IS_BETTER: Final = {"LessThan", "LessThanOrEqual", "IsNegative"}
_NEITHER: Final = {
    "InRange", "NotInRange", "ApproximatelyEquals", "WithinAbsoluteTolerance",
    "WithinRelativeTolerance",
}  # fmt: skip


class _RecordKey(NamedTuple):
    """A record, whatever the attempt, and the conversation that it belongs to."""

    record: Hashable
    conversation: Hashable
    name: str


@dataclass(slots=True)
class _Scores:
    """Results of one task in one run."""

    scores: dict[_RecordKey, dict[int, float]] = field(
        default_factory=dict[_RecordKey, dict[int, float]]
    )
    """Per record, by attempt."""
    errored: set[_RecordKey] = field(default_factory=set[_RecordKey])
    """Records of which an attempt errored."""
    questions: dict[_RecordKey, set[str]] = field(default_factory=dict[_RecordKey, set[str]])
    """Questions to the judge about a record, as far as they are stored."""
    results: list[EvalTaskResult] = field(default_factory=list[EvalTaskResult])
    """Those with a score."""

    @property
    def count(self) -> int:
        return sum(map(len, self.scores.values()))

    @property
    def says_more(self) -> bool:
        return any(
            score not in _PLAIN for found in self.scores.values() for score in found.values()
        )


_Run: TypeAlias = dict[str, _Scores]
"""By task."""
_Rows: TypeAlias = Iterable[tuple[_RecordKey, int, Mapping[str, EvalTaskResult]]]


def run_scores(baseline: RunResults, new: RunResults) -> tuple[ScoreChange, ...]:
    """Compare the scores of two replays: of each alias that both have, then of the scenarios.

    Args:
        baseline: The run to compare with.
        new: The run in question; attempts of all its rounds count.

    Returns:
        One row per task with scores other than 0 and 1.

    Cost: linear in the number of task results.
    """
    found: list[ScoreChange] = []
    others = dict(new.parts)
    for alias, rows in baseline.parts:
        other = others.get(alias)
        if other is not None and (_measures(rows) or _measures(other)):
            matched = match(rows, other, (baseline.repeats, new.repeats))
            found += score_changes(matched, alias)
    return corrected(found)


def score_changes(matched: Matched, alias: str | None = None) -> tuple[ScoreChange, ...]:
    """Compare the scores of one alias' tasks.

    Args:
        matched: The records of both runs, side by side.
        alias: Its name, if it has one.

    Returns:
        One row per task with scores other than 0 and 1, in the tasks' order.

    Cost: linear in the number of task results.
    """
    is_apart = not matched.pairs and bool(matched.added)
    paired, _ = matched.clusters()
    clusters: dict[Identity, Hashable] = {}
    for pair, cluster in zip(matched.pairs, paired, strict=True):
        clusters.setdefault(pair.old.identity, cluster)

    def read(rows: Iterable[Row]) -> _Run:
        return _by_task(
            (_record_key(row, clusters.get(row.identity)), row.attempt, row.tasks) for row in rows
        )

    old, now = read(matched.old_rows), read(matched.new_rows)
    rows = _changes_apart if is_apart else _changes
    return corrected([*rows(alias, old, now)])


def _record_key(row: Row, cluster: Hashable) -> _RecordKey:
    name = row.identity.scenario_id or row.record_id or f"#{row.identity.ordinal + 1}"
    return _RecordKey(row.identity, cluster or row.session_id or row.identity, name)


def _measures(rows: ResultRows) -> bool:
    """Tell whether any task could have a score of its own."""
    return any(task.task_type not in ASSERTIONS for record in rows.records for task in record.tasks)


def _by_task(rows: _Rows) -> _Run:
    found: _Run = {}
    measuring: dict[tuple[str, ...], list[str]] = {}
    """Ids of the tasks of a row that are no assertions, by all its tasks; one run has one plan."""
    for key, attempt, tasks in rows:
        names = tuple(tasks)
        if names not in measuring:
            measuring[names] = [n for n in names if tasks[n].task_type not in ASSERTIONS]
        for name in measuring[names]:
            task, known = tasks[name], found.setdefault(name, _Scores())
            if (score := task.score) is not None:
                known.scores.setdefault(key, {})[attempt] = score
                known.results.append(task)
                if task.exchange is not None and (question := task.exchange.question):
                    known.questions.setdefault(key, set()).add(question)
            elif task.outcome is Outcome.ERRORED:
                known.errored.add(key)
    return found


# --- rows ---------------------------------------------------------------------------------------


def _changes(alias: str | None, old: _Run, now: _Run) -> Iterator[ScoreChange]:
    for task_id, before in old.items():
        after = now.get(task_id, _Scores())
        both = [key for key in before.scores if key in after.scores]
        unscored = len(before.scores.keys() & (after.errored - after.scores.keys()))
        unscored += len(after.scores.keys() & (before.errored - before.scores.keys()))
        if not (both or unscored) or not (before.says_more or after.says_more):
            continue
        means = [
            (fmean(before.scores[key].values()), fmean(after.scores[key].values())) for key in both
        ]
        clusters: dict[Hashable, list[float]] = {}
        for key, (was, is_now) in zip(both, means, strict=True):
            clusters.setdefault(key.conversation, []).append(is_now - was)
        found = clustered_mean(list(clusters.values())) if both else None
        results = [*before.results, *after.results]
        row = ScoreChange(
            alias=alias,
            task_id=task_id,
            records=len(both),
            conversations=len(clusters),
            baseline_count=before.count,
            comparison_count=after.count,
            baseline_mean=fmean(was for was, _ in means) if both else None,
            comparison_mean=fmean(is_now for _, is_now in means) if both else None,
            difference=0.0 if found is None else found.mean,
            interval=None if found is None else found.interval,
            unscored=unscored,
            same_questions=sum(
                not before.questions.get(key, set()).isdisjoint(after.questions.get(key, ()))
                for key in both
            ),
            direction=_direction(results),
            scale=_scale(results),
        )
        if both and row.direction:
            row = row.model_copy(update=_tested(row, both, means, clusters, before, after))
        yield row


def _tested(
    row: ScoreChange,
    both: Sequence[_RecordKey],
    means: Sequence[tuple[float, float]],
    clusters: Mapping[Hashable, Sequence[float]],
    before: _Scores,
    after: _Scores,
) -> dict[str, object]:
    """Test whether scores got worse.

    If nothing changed, the difference of a conversation is as likely to be a rise as a fall,
    whatever its attempts and turns have in common. That needs as many attempts in either run:
    where they are not, skewed scores have skewed differences, and the attempts are tested as well.
    """
    sign = row.direction
    p_value = _sign_flip([sign * math.fsum(each) for each in clusters.values()])
    pairs = [
        (_by_attempt(before, keys, sign), _by_attempt(after, keys, sign))
        for keys in _grouped(both)
    ]  # fmt: skip
    is_even = all(len(was) == len(is_now) for was, is_now in pairs)
    attempts_p = None
    if not is_even or row.is_large:
        attempts_p = fall_p_value(_on_unit(pairs), coarsest=_COARSEST)
    at = min(range(len(both)), key=lambda at: sign * (means[at][1] - means[at][0]))
    was, is_now = means[at]
    return {
        "p_value": p_value if is_even or attempts_p is None else max(p_value, attempts_p),
        "attempts_p": attempts_p,
        "furthest": f"{both[at].name!r} ({was:.3g} before, {is_now:.3g} now)",
    }


def _sign_flip(totals: Sequence[float]) -> float:
    """One-sided p-value of a sum, where each of its terms may as well have the other sign."""
    most = max(map(abs, totals))
    if not most:
        return 1.0
    moves = [Fraction(round(abs(each) / most * _STEPS), _STEPS) for each in totals]
    return fall_p_value(
        (
            Stratum((move,), (0,)) if total < 0 else Stratum((0,), (move,))
            for total, move in zip(totals, moves, strict=True)
        ),
        coarsest=_COARSEST,
    )


def _grouped(keys: Iterable[_RecordKey]) -> Iterable[Sequence[_RecordKey]]:
    found: dict[Hashable, list[_RecordKey]] = {}
    for key in keys:
        found.setdefault(key.conversation, []).append(key)
    return found.values()


def _by_attempt(scores: _Scores, keys: Sequence[_RecordKey], sign: int) -> list[float]:
    """The mean of each attempt at one conversation, turned so that more is better."""
    found: dict[int, list[float]] = {}
    for key in keys:
        for attempt, score in scores.scores[key].items():
            found.setdefault(attempt, []).append(sign * score)
    return [fmean(each) for each in found.values()]


def _on_unit(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Iterator[Stratum]:
    """The values of attempts, brought to [0, 1]."""
    values = [value for pair in pairs for side in pair for value in side]
    low, span = min(values), (max(values) - min(values)) or 1.0
    for pair in pairs:
        old, new = (
            [Fraction(round((value - low) / span * _STEPS), _STEPS) for value in side]
            for side in pair
        )
        yield Stratum(old, new)


def _changes_apart(alias: str | None, old: _Run, now: _Run) -> Iterator[ScoreChange]:
    """Compare the scores of runs of which nothing is a pair: two samples of conversations."""
    for task_id, before in old.items():
        after = now.get(task_id, _Scores())
        if not after.scores or not (before.says_more or after.says_more):
            continue
        sides = [
            [
                fmean(score for key in keys for score in found.scores[key].values())
                for keys in _grouped(found.scores)
            ]
            for found in (before, after)
        ]
        results = [*before.results, *after.results]
        sign = _direction(results)
        turned = [[sign * value for value in side] for side in sides]
        p_value = fall_p_value(_on_unit([(turned[0], turned[1])]), coarsest=_COARSEST)
        yield ScoreChange(
            alias=alias,
            task_id=task_id,
            records=min(len(before.scores), len(after.scores)),
            conversations=sum(map(len, sides)),
            baseline_count=before.count,
            comparison_count=after.count,
            baseline_mean=fmean(sides[0]),
            comparison_mean=fmean(sides[1]),
            difference=fmean(sides[1]) - fmean(sides[0]),
            interval=None,
            direction=sign,
            scale=_scale(results),
            p_value=p_value if sign else None,
        )


# --- scales -------------------------------------------------------------------------------------


def _direction(results: Sequence[EvalTaskResult]) -> int:
    """Tell whether more is better, from the comparison that decides whether a result passed.

    Returns:
        1 if more is better, -1 if less is, 0 if the task does not say.
    """
    operators = {result.operator for result in results}
    if operators <= _MORE_IS_BETTER:
        return 1
    if operators <= _LESS_IS_BETTER:
        return -1
    if operators & _NEITHER:
        return 0
    wanted = [(result.score or 0.0, as_score(result.expected)) for result in results]
    if all(bound is not None for _, bound in wanted):
        if all(bound is not None and score <= bound for score, bound in wanted):
            return 1
        if all(bound is not None and score >= bound for score, bound in wanted):
            return -1
    good, bad = (
        [r.score or 0.0 for r in results if (r.outcome is Outcome.PASSED) is passed]
        for passed in (True, False)
    )
    if good and bad and fmean(good) != fmean(bad):
        return 1 if fmean(good) > fmean(bad) else -1
    return 0 if any(isinstance(result.expected, str) for result in results) else 1


def _scale(results: Sequence[EvalTaskResult]) -> float:
    values = [abs(each) for r in results for each in (r.score, as_score(r.expected)) if each]
    most = max(values, default=1.0)
    return next((end for end in _ENDS if most <= end), most)
