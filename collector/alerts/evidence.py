"""Evidence behind alerts: tallies by version, the state of a series, records and slices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collector.alerts.alert import Alert, DriftAlert, Figures, TroubleAlert
from collector.store.decided import ChangeQuery
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rows import EvaluationRow
from collector.store.setups import SetupChange
from collector.store.store import Store
from scouter.client.models.alerts import FallenTask, VersionTally
from scouter.drift.detect.many import e_bh
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.group import Group
from scouter.drift.series.observed import Name
from scouter.drift.series.reference import Reference
from scouter.drift.series.series import (
    COMPARABLE,
    FEWEST,
    Agent,
    Kind,
    Series,
    SeriesKey,
    SeriesState,
)
from scouter.drift.series.series_set import results_of
from scouter.drift.series.slices import MOST as MOST_SLICES
from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.statistics.explained import Explained, explain_results


def tally_of(group: Group, task: str) -> VersionTally | None:
    """Count the results of a task since its version began; None where it has none.

    Args:
        group: The version.
        task: Empty for the whole record.
    """
    passes, errors = (group.series.get(Name(task, kind)) for kind in (Kind.PASS, Kind.ERROR))
    decided, failed = (passes.records, passes.failed) if passes else (0, 0)
    errored = errors.failed if errors else 0
    if not decided + errored:
        return None
    return VersionTally(
        version=group.agent.version, passed=decided - failed, failed=failed, errored=errored,
        pass_rate=(decided - failed) / (decided + errored),
    )  # fmt: skip


def falls_of(group: Group) -> Sequence[FallenTask]:
    """The whole record, then its tasks, that pass less than in the version before, worst first.

    Of one that passes less the 95 % intervals of the two rates are apart.
    """
    if group.before is None:
        return ()
    found: list[FallenTask] = []
    for task in dict.fromkeys(name.task for name in group.series):
        now, before = tally_of(group, task), tally_of(group.before, task)
        if now is not None and before is not None and _interval(now)[1] < _interval(before)[0]:
            found.append(FallenTask(task=task, now=now, before=before))
    return sorted(
        found, key=lambda each: (each.task != "", each.now.pass_rate - each.before.pass_rate)
    )


def _interval(tally: VersionTally) -> Interval:
    return wilson(tally.passed, tally.passed + tally.failed + tally.errored)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentSeries:
    """See the module."""

    key: SeriesKey
    profile: AgentEvalProfile
    units: int
    """Conversations, and records without one."""
    records: int
    failed: int
    errored: int
    """Of a series of passes, the results that erred beside its records; of others 0."""
    before: VersionTally | None
    """Of a series of passes, the results under the version before."""
    rate: float
    """Rate of the last 500 to 1,000 units."""
    lower: float
    upper: float
    """Wilson interval (95 %) of that, good for one look; no alarm comes of it."""
    evidence: float
    """Evidence of a fall, as an e-value; the alarm is at 1 / alpha."""
    healthy: float | None
    """Mean of the first reference; None while nothing is known of a healthy time."""
    healthy_lower: float | None
    """Lower bound of that mean."""
    fall: Figures | None
    """The proven fall with the figures of now."""
    state: SeriesState
    words: str
    """The reference of the series, or the reason why it has none yet."""
    summary: str
    """The state in about eight words."""

    @staticmethod
    def of(series: Series, profile: AgentEvalProfile, group: Group) -> "CurrentSeries":
        """Look at a series of a group; nobody may feed it meanwhile."""
        task, is_pass = series.key.task, series.key.kind is Kind.PASS and not series.key.slice
        tally = tally_of(group, task) if is_pass else None
        before = tally_of(group.before, task) if is_pass and group.before else None
        units, total = series.recent
        lower, upper = wilson(math.floor(total), units)[0], wilson(math.ceil(total), units)[1]
        fall, known = series.fall(), [watch.reference.baseline for watch in series.watches]
        return CurrentSeries(
            key=series.key,
            profile=profile,
            units=series.units,
            records=series.records,
            failed=series.failed,
            errored=tally.errored if tally else 0,
            before=before,
            rate=total / units,
            lower=lower,
            upper=upper,
            evidence=series.evidence,
            healthy=known[0].mean if known else None,
            healthy_lower=known[0].lower if known else None,
            fall=None if fall is None else Figures.of(fall),
            state=series.state,
            words=_words(series, group.before),
            summary=_summary(series),
        )


def stands_of(found: Sequence[CurrentSeries], alpha: float) -> list[bool]:
    """Tell which falls stand among all series looked at together (e-BH).

    The slices of one version count as one series, as they share the chance of one.

    Args:
        found: All series of a space.
        alpha: Of each series.
    """
    families: dict[tuple[object, ...], float] = {}
    names = [each.key[:3] if each.key.slice else each.key for each in found]
    for each, name in zip(found, names, strict=True):
        evidence = each.evidence / (MOST_SLICES if each.key.slice else 1)
        families[name] = max(evidence, families.get(name, 0.0))
    stands = dict(zip(families, e_bh(list(families.values()), alpha), strict=True))
    return [
        stands[name] and (each.fall is not None or not each.key.slice)
        for each, name in zip(found, names, strict=True)
    ]


def promise_of(found: Sequence[CurrentSeries], alpha: float, run_length: float | None) -> str:
    """Say how many false alerts all series and slices of a user may raise together.

    Args:
        found: The series of the versions that ran last.
        alpha: Of each series; the slices of one version share it.
        run_length: Units between two false alarms of a series, in place of alpha.
    """
    tasks = sum(not each.key.slice for each in found)
    slices, versions = len(found) - tasks, len({each.key[:3] for each in found if each.key.slice})
    what = f"{tasks:,} series of tasks and records"
    if slices:
        what += f", and {slices:,} slices in {versions:,} version{'s' if versions > 1 else ''}"
    if run_length is not None:
        count = max(1, tasks + versions)
        often = f"one false alert in {run_length / count:,.0f} conversations or single records"
        return f"{what}: on steady traffic at most {often} of a series, on average"
    expected = alpha * (tasks + versions)
    most = (
        f"a false alert comes with a chance of at most {expected:.1%}"
        if expected < 1
        else f"at most {expected:.1f} false alerts are to be expected"
    )
    each = f"{alpha:.1%} for each series" + (" and for all slices of a version" if slices else "")
    return f"{what}: on steady traffic {most} in the life of these versions ({each})"


def _words(series: Series, before: Group | None) -> str:
    against = [watch.reference.sentence() for watch in series.watches]
    if series.state is SeriesState.NEVER_PASSED:
        against.append(
            f"nothing: none of its {series.records:,} records was good, so that nothing can be "
            "worse; it is watched once a thousand with good ones are learnt"
        )
    elif series.is_learning:
        against.append(f"still learning what is healthy: {_learnt(series)}")
    if series.awaits and before is not None:
        known = before.series.get(Name(*series.key[3:]))
        units = 0 if known is None else known.sample.units
        against.append(
            f"from its first record on against version {before.agent.version or '(none)'}, once "
            f"that has {COMPARABLE} finished conversations; it has {units}"
        )
    return "; ".join(against)


def _summary(series: Series) -> str:
    if series.state is SeriesState.NEVER_PASSED:
        return "nothing can get worse: no record was good"
    if series.state is SeriesState.LEARNING:
        return f"it has {_learnt(series)}"
    if series.state is SeriesState.FALLEN:
        return "a fall is proven"
    seen = max((_visible(watch.reference) for watch in series.watches), default=0.0)
    if not seen:
        return "too little is known to see a fall"
    match series.key.kind:
        case Kind.ERROR:
            return f"errors above {100 * (1 - seen):.0f} % would be seen"
        case Kind.SCORE:
            return f"a mean score below {seen:.2f} would be seen"
        case Kind.AMOUNT:
            return f"more than {100 * (1 - seen):.0f} % above it would be seen"
        case _:
            return f"a fall below {100 * seen:.0f} % would be seen"


def _visible(reference: Reference) -> float:
    """The highest mean that would mostly be seen as a fall at any time of the day; 0 for none."""
    halves = [each for each in (reference.baseline, reference.other) if each is not None]
    return min(each.visible() or 0.0 for each in halves)


def _learnt(series: Series) -> str:
    """Say how far a series has come with its own first results."""
    sample = series.sample
    if sample.records < series.enough:
        return f"{sample.records:,} of its first {series.enough:,} records"
    return f"{sample.units:,} of its first {FEWEST:,} conversations"


EXAMPLES: Final = 3
"""Newest evaluations that are named where a condition holds, or that errored."""
_CHANGES: Final = 5
"""Changes of the setup that an alert names."""


def examples_of(store: Store, alert: Alert) -> list[EvaluationRow]:
    """Evaluations that failed and are still stored; an erased one is left out.

    Where a condition holds, they are those that failed last.
    """
    if isinstance(alert, TroubleAlert):
        return []
    if alert.condition:
        query = EvaluationQuery(
            space=alert.space, profile=alert.profile_uid, outcome=Outcome.FAILED, limit=EXAMPLES
        )
        return list(store.evaluations(query).items)
    rows = [store.evaluation(alert.space, evaluation_id) for evaluation_id in alert.examples]
    return [row for row in rows if row is not None]


def errored_of(store: Store, alert: Alert) -> list[EvaluationRow]:
    """The newest evaluations that errored since a fall of passes began, which counts them apart.

    They are none of its examples, and may be the larger half of what went wrong.
    """
    if isinstance(alert, TroubleAlert) or alert.kind is not Kind.PASS:
        return []
    query = EvaluationQuery(
        space=alert.space,
        profile=alert.profile_uid,
        service_name=alert.service or None,
        service_version=alert.version or None,
        environment=alert.environment or None,
        since_ns=alert.opened.since_ns,
        limit=EXAMPLES,
        outcome=None if alert.task else Outcome.ERRORED,
        task_id=alert.task or None,
        task_outcome=Outcome.ERRORED if alert.task else None,
    )
    return list(store.evaluations(query).items)


def error_of(row: EvaluationRow, task: str) -> str:
    """The reason why a task, or the first one of a record, erred; empty where none did.

    Args:
        row: Evaluation of the record.
        task: Its id; empty for the whole record.
    """
    reasons = (
        each.reason or ""
        for each in row.tasks
        if each.outcome is Outcome.ERRORED and task in ("", each.task_id)
    )
    return next(reasons, "")


def changes_of(store: Store, alert: DriftAlert) -> tuple[SetupChange, ...]:
    """Changes of the setup of the service's records just before the fall."""
    service, environment = results_of(Agent(alert.service, alert.environment, alert.version))
    query = EvaluationQuery(
        space=alert.space,
        profile=alert.profile_uid,
        service_name=service,
        environment=environment,
    )
    return tuple(store.setup_changes(query, alert.opened.since_ns)[:_CHANGES])


def explained(store: Store, alert: Alert) -> Explained | None:
    """Origin of a fall, by the results of the alert's service in its environment.

    While it is open, more results come, so the intervals hold at every look. There is nothing of an
    error series, as an error has no rate that could be split, and of costs and durations. A
    condition says nothing of a time before.
    """
    is_split = alert.kind in (Kind.PASS, Kind.SCORE)
    if isinstance(alert, TroubleAlert) or not is_split or alert.condition:
        return None
    service, environment = results_of(Agent(alert.service, alert.environment, alert.version))
    query = ChangeQuery(
        space=alert.space,
        profile_uid=alert.profile_uid,
        task=alert.task,
        since_ns=alert.opened.since_ns,
        service=service,
        environment=environment,
    )
    return explain_results(*store.results_around(query), is_open=alert.is_open)
