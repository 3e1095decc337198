"""The comparison of two sides: runs and pairs by the engine of releases, others as samples.

Live records are other ones in every version. Where at least half of the smaller side has ids that
the other side has, too, those are compared in pairs; else the sides are compared as two samples of
conversations. Nothing is paired by its place, and a record that only one side has is no loss.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain
from typing import Final, TypeAlias

from collector.comparing.live import compare_live, state_text
from collector.comparing.side import Side, first_of, shared_ids, with_tasks
from collector.prices import PriceTable
from collector.problem import ProblemError
from collector.store.span_queries import TraceTotals
from collector.store.store import Store
from scouter.client.models.comparison import TraceFigures
from scouter.evaluate.api.comparison import ComparisonResults, ScenarioComparisonResults
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.comparable import comparable
from scouter.evaluate.compare.gate_counts import Attempt, attempts_of
from scouter.evaluate.compare.rows import RateComparison
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.results.run import RunResults
from scouter.evaluate.statistics.clustered_mean import ClusteredMean, clustered_mean
from scouter.evaluate.statistics.distributions import NORMAL
from scouter.evaluate.statistics.every_look import look_p_value, look_quantile
from scouter.evaluate.statistics.multiplicity import holm
from scouter.model.visible import some_of
from scouter.replay.reports.decision import Decision, Policy, Word, decide

_QUANTILE: Final = NORMAL.inv_cdf(0.975)
_TINY: Final = 1e-300


def at_every_look(
    rates: Sequence[RateComparison], decision: Decision
) -> tuple[tuple[RateComparison, ...], Decision]:
    """Widen rates of one look, so that they hold at all looks together.

    Args:
        rates: With intervals and p-values of one look.
        decision: Made from them.

    Returns:
        The wider rates; and the decision, which is inconclusive if nothing but a rate spoke
        against the side and none does so surely enough for every look.
    """
    found = [_widened(row) for row in rates]
    rest = [row for row in found if row.adjusted_p is not None and not row.is_whole]
    adjusted = dict(zip(map(id, rest), holm([row.p_value or 0.0 for row in rest]), strict=True))
    wider = tuple(_decided_pair(row, adjusted.get(id(row), row.p_value)) for row in found)
    spoke = [row.label for row in rates if row.regressed]
    is_alone = all(reason.startswith(tuple(spoke)) for reason in decision.reasons)
    if decision.word is not Word.REGRESSED or not is_alone or any(row.regressed for row in wider):
        return wider, decision
    return wider, replace(
        decision,
        word=Word.INCONCLUSIVE,
        reasons=tuple(f"not sure at every look: {reason}" for reason in decision.reasons),
        advice=("wait for more records, or compare up to a time that is past",),
        exit_code=3,
    )


def _widened(row: RateComparison) -> RateComparison:
    lower, upper = row.interval
    error = (upper - lower) / 2 / _QUANTILE
    if not row.has_interval or row.p_value is None or error <= 0:
        return row
    information = 1 / error**2
    factor = look_quantile(information) / _QUANTILE
    z = -NORMAL.inv_cdf(min(max(row.p_value, _TINY), 1 - 1e-15))
    wide = (
        max(-1.0, row.difference - factor * (row.difference - lower)),
        min(1.0, row.difference + factor * (upper - row.difference)),
    )
    return row.model_copy(
        update={"interval": wide, "p_value": look_p_value(z, information), "is_cleared": True}
    )


def _decided_pair(row: RateComparison, adjusted: float | None) -> RateComparison:
    if row.adjusted_p is None or adjusted is None:
        return row
    return row.model_copy(update={"adjusted_p": adjusted, "regressed": adjusted <= row.level})


_NAMED: Final = 8


class Pairing(StrEnum):
    """Way in which the two sides were brought together."""

    SCENARIOS = "scenarios"
    IDS = "ids"
    APART = "apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlippedRecord:
    """A record of both sides that passed in one of them only."""

    name: str
    is_worse: bool
    before: RecordResult
    after: RecordResult


@dataclass(frozen=True, slots=True, kw_only=True)
class FlippedScenario:
    """A scenario of two runs that passed in another share of its attempts."""

    name: str
    is_worse: bool
    before: int
    """The attempt that shows it best."""
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A comparison, in the words and numbers of the engine."""

    pairing: Pairing
    decision: Decision
    ruled_out: float | None
    """A fall of more points than this is ruled out; None where nothing was compared."""
    rates: Sequence[RateComparison]
    flips: Sequence[FlippedRecord | FlippedScenario]
    """Changes for the worse come first."""
    notes: Sequence[str]
    is_open: bool = False
    """True if a side still takes traffic: intervals and p-values hold at every look."""
    state: str = ""
    """The same in words; empty of two runs."""


def compare_sides(before: Side, after: Side, require_ruled_out: float | None) -> Compared:
    """Compare two sides.

    Args:
        before: The baseline.
        after: The side in question.
        require_ruled_out: Inconclusive where a fall of more points than this is not ruled out.

    Raises:
        ProblemError: 409, there is nothing to compare: a side is empty, they have no task in
            common, or one is a run with scenarios and the other a run without.

    Cost: linear in the task results, and the permutation tests.
    """
    if before.run is not None and after.run is not None:
        if before.is_bare != after.is_bare:
            raise ProblemError(409, "one of the runs has scenarios and the other one has none")
        if not before.is_bare:
            return _runs(before.run, after.run, require_ruled_out)
    return _records(before, after, require_ruled_out)


def _runs(
    before: ScenarioEvalResults, after: ScenarioEvalResults, require_ruled_out: float | None
) -> Compared:
    found = ScenarioComparisonResults.of(before, after)
    common = comparable(before, after)
    return Compared(
        pairing=Pairing.SCENARIOS,
        decision=_decided(found, require_ruled_out),
        ruled_out=found.ruled_out,
        rates=found.rates,
        flips=sorted(_scenario_flips(common.baseline, common.of(after)), key=_order),
        notes=(*(change.text for change in found.changes), *found.notes),
    )


def _records(before: Side, after: Side, require_ruled_out: float | None) -> Compared:
    for side, what in ((before, "the baseline"), (after, "the new side")):
        if not side.results.records:
            raise ProblemError(409, f"{what} has no evaluated records: {side.label}")
    tasks = before.tasks & after.tasks
    if not tasks:
        raise ProblemError(409, "the two sides have no task in common")
    old, new = (with_tasks(side.results, tasks) for side in (before, after))
    shared = shared_ids(old, new)
    is_open = before.is_open or after.is_open
    state = state_text(before, after)
    if 2 * shared.total() < min(len(old), len(new)):
        samples = compare_live(old, new, is_open=is_open, require_ruled_out=require_ruled_out)
        return Compared(
            pairing=Pairing.APART,
            decision=samples.decision,
            ruled_out=samples.ruled_out,
            rates=samples.rates,
            flips=(),
            notes=(*samples.notes, *_notes(before, after, None)),
            is_open=is_open,
            state=state,
        )
    old, new = first_of(old, shared), first_of(new, shared)
    found = ComparisonResults.of(old, new)
    rates, decision = found.rates, _decided(found, require_ruled_out)
    if is_open:
        rates, decision = at_every_look(rates, decision)
    return Compared(
        pairing=Pairing.IDS,
        decision=decision,
        ruled_out=found.ruled_out,
        rates=rates,
        flips=sorted(_record_flips(old, new), key=_order),
        notes=(*found.notes, *_notes(before, after, shared.total())),
        is_open=is_open,
        state=state,
    )


def _decided(
    found: ScenarioComparisonResults | ComparisonResults, require_ruled_out: float | None
) -> Decision:
    return decide(None, found, (), Policy(require_ruled_out=require_ruled_out))


def _notes(before: Side, after: Side, paired: int | None) -> Iterator[str]:
    counts = len(before.results), len(after.results)
    if paired is None:
        yield "Few records of the two sides have the same id: they are compared as two samples."
    else:
        yield "Pairs have the same traffic on both sides, so that a fall is behaviour."
    if paired is not None and paired < max(counts):
        yield (
            f"Records with an id that both sides have are compared in pairs: {paired:,} of "
            f"{counts[0]:,} before and of {counts[1]:,} now."
        )
    for side, other, when in ((before, after, "before"), (after, before, "now")):
        if only := sorted(side.tasks - other.tasks):
            yield f"Not compared, as only there {when}: {some_of(only, _NAMED)}."
        if side.is_cut:
            yield f"Of {side.label} only the newest {len(side.results):,} records are compared."


def _order(flip: FlippedRecord | FlippedScenario) -> tuple[bool, str]:
    return not flip.is_worse, flip.name


def _record_flips(old: EvalResults, new: EvalResults) -> Iterator[FlippedRecord]:
    """Records that passed on one side only; both sides have as many of each id."""
    before: Mapping[str, list[RecordResult]] = defaultdict(list)
    for each in old.records:
        before[each.record_id].append(each)
    taken: dict[str, int] = defaultdict(int)
    for now in new.records:
        was = before[now.record_id][taken[now.record_id]]
        taken[now.record_id] += 1
        passed = was.outcome is Outcome.PASSED
        if passed is not (now.outcome is Outcome.PASSED):
            yield FlippedRecord(name=now.record_id, is_worse=passed, before=was, after=now)


def _scenario_flips(before: RunResults, after: RunResults) -> Iterator[FlippedScenario]:
    old, new = attempts_of(before), attempts_of(after, before)
    for name in old:
        was, now = _share(old[name]), _share(new.get(name, []))
        if was is None or now is None or was == now:
            continue
        is_worse = now < was
        yield FlippedScenario(
            name=name,
            is_worse=is_worse,
            before=_telling(old[name], passed=is_worse),
            after=_telling(new[name], passed=not is_worse),
        )


def _share(attempts: Sequence[Attempt]) -> float | None:
    decided = [each.passed for each in attempts if each.passed is not None]
    return sum(decided) / len(decided) if decided else None


def _telling(attempts: Sequence[Attempt], *, passed: bool) -> int:
    """The first attempt that passed, or did not; else the first of all."""
    found = (each.attempt for each in attempts if each.passed is passed)
    return next(found, attempts[0].attempt)


Flip: TypeAlias = FlippedRecord | FlippedScenario
_Change: TypeAlias = tuple[str, Outcome, Outcome]
_Key: TypeAlias = tuple[bool, tuple[_Change, ...], tuple[str, ...], tuple[str, ...]]

_MOST_FLIPS: Final = 200
"""Flips that are looked at; of more, the first ones."""


def kinds_of(
    store: Store, space: str, sides: tuple[Side, Side], flips: Sequence[Flip]
) -> list[list[Flip]]:
    """Bring flips of one kind together; each scenario, and each record of a run, stands alone.

    Args:
        store: Has the spans of live records.
        space: Whose.
        sides: The baseline and the side in question.
        flips: Those for the worse first.

    Returns:
        Kinds for the worse first, then the larger ones; of each the newest flip first.

    Cost: a look at the traces of 200 flips.
    """
    looked = flips[:_MOST_FLIPS]
    if all(side.run is not None for side in sides):
        return [[each] for each in looked]
    records = [each for each in looked if isinstance(each, FlippedRecord)]
    tools = _tools(store, space, records)
    kinds: defaultdict[_Key, list[Flip]] = defaultdict(list)
    for each in sorted(records, key=lambda flip: -flip.after.created_ns):
        kinds[_key(each, tools)].append(each)
    return sorted(kinds.values(), key=lambda kind: (not kind[0].is_worse, -len(kind)))


def _tools(
    store: Store, space: str, records: Sequence[FlippedRecord]
) -> Mapping[str, tuple[str, ...]]:
    """The tools that were called in the traces of records, by trace."""
    both = (side for each in records for side in (each.before, each.after))
    steps = store.trace_steps(space, {side.trace_id for side in both if side.trace_id})
    return {
        trace_id: tuple(step.tool for step in some if step.tool) for trace_id, some in steps.items()
    }


def _key(flip: FlippedRecord, tools: Mapping[str, tuple[str, ...]]) -> _Key:
    before, after = (tools.get(side.trace_id or "", ()) for side in (flip.before, flip.after))
    return flip.is_worse, tuple(_changes(flip.before, flip.after)), before, after


def _changes(before: RecordResult, after: RecordResult) -> list[_Change]:
    """Tasks that end otherwise, and how."""
    was = {task.task_id: task.outcome for task in before.tasks}
    return sorted(
        (task.task_id, was[task.task_id], task.outcome)
        for task in after.tasks
        if was.get(task.task_id, task.outcome) is not task.outcome
    )


_MOST_TRACES: Final = 100
"""Records of a side whose traces are looked at: the newest."""


def figures_of(
    store: Store, space: str, sides: Iterable[Side], prices: PriceTable
) -> tuple[list[TraceFigures | None], tuple[str, ...]]:
    """Sum up the traces of the newest 100 records of each side; None where nothing is stored.

    Returns:
        And a sentence about their mean costs, where those of both are known.

    Cost: a look at the hash of each span in the commits that may hold one of the traces.
    """
    traces = [
        {each.trace_id: each.session_id or each.trace_id for each in records if each.trace_id}
        for records in (side.results.records[: _MOST_TRACES * (side.run is None)] for side in sides)
    ]
    found = store.trace_totals(space, set[str]().union(*traces))
    figures = [_figures([found[each] for each in some if each in found], prices) for some in traces]
    if any(each is None or each.cost is None for each in figures):
        return figures, ()
    costs: list[ClusteredMean] = []
    for some in traces:
        groups: defaultdict[str, list[float]] = defaultdict(list)
        for trace_id in some.keys() & found.keys():
            cost = prices.total(found[trace_id].models).usd
            groups[some[trace_id]].append(cost or 0.0)
        costs.append(clustered_mean([*groups.values()]))
    return figures, (_cost_text(*costs),)


def _cost_text(before: ClusteredMean, after: ClusteredMean) -> str:
    """Both means, and the interval of their difference, with conversations as units of chance."""
    text = f"Mean cost of a trace: {before.mean:.4g} USD before, {after.mean:.4g} USD now"
    if before.interval is None or after.interval is None:
        return f"{text}; too few conversations for an interval of the difference."
    apart = after.mean - before.mean
    half = math.hypot(before.interval[1] - before.mean, after.interval[1] - after.mean)
    low, high = apart - half, apart + half
    return f"{text}: {apart:+.4g} (95 % at one look: {low:+.4g} to {high:+.4g})."


def _figures(traces: Sequence[TraceTotals], prices: PriceTable) -> TraceFigures | None:
    if not traces:
        return None
    cost = prices.total(chain.from_iterable(each.models for each in traces))
    took = sorted(max(0, each.duration_ns) / 1e6 for each in traces)
    return TraceFigures(
        traces=len(traces),
        median_ms=statistics.median(took),
        p95_ms=took[math.ceil(0.95 * len(took)) - 1],
        input_tokens=_mean(each.input_tokens for each in traces),
        output_tokens=_mean(each.output_tokens for each in traces),
        cost=None if cost.usd is None else cost.usd / len(traces),
        unpriced_models=cost.unpriced_models,
    )


def _mean(numbers: Iterable[int | None]) -> float | None:
    """The mean of those that are known."""
    known = [each for each in numbers if each is not None]
    return statistics.fmean(known) if known else None
