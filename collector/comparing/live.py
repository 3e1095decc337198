"""Two live sides as samples of conversations: rates per record, and whether one fell.

The first rate is that of records, and its errors are those of conversations: a version whose
conversations are longer passes fewer of them as a whole at the same quality. A comparison of which
a side still takes traffic holds at every look. Nothing is called regressed in more than 5 % of
comparisons of equal sides: half of that is the first rate's, half is shared by all tasks.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from collector.comparing.side import Side
from collector.store.store import Store
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.compare.rows import (
    ENOUGH,
    LARGE_FALL,
    WHOLE_CONVERSATIONS,
    WHOLE_RECORDS,
    RateComparison,
)
from scouter.evaluate.intervals import wilson
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.record_result import RecordResult, is_counted
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.statistics.clustered import Cluster
from scouter.evaluate.statistics.explained import (
    Explained,
    explain_results,
    length_trait,
    moved_text,
    points,
)
from scouter.evaluate.statistics.likeness import Likeness, conversations_of, likeness
from scouter.evaluate.statistics.multiplicity import holm
from scouter.evaluate.statistics.samples import SampleDifference, compare_samples, sample_of
from scouter.evaluate.statistics.strata import Result
from scouter.model.pair import pair_text
from scouter.model.score import is_score_uid
from scouter.replay.reports.decision import Decision, Word

LEVEL: Final = 0.025
"""One-sided level of the rate of records, and that of all tasks together."""
_EPSILON: Final = 1e-9
_LONGER: Final = 1.2
"""Ratio of mean lengths from which conversations count as longer or shorter."""
METHOD: Final = "Fisher's mid-p and Newcombe interval at the effective size (Rao and Scott)"
EVERY_LOOK: Final = f"{METHOD}, valid at every look (normal mixture)"


class Passed(NamedTuple):
    """A record or a result of a task that counts."""

    session: str
    """Empty where nobody named the conversation."""
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Both sides as samples."""

    rates: Sequence[RateComparison]
    """Records, conversations where any has several records, and tasks."""
    decision: Decision
    ruled_out: float | None
    """A fall of the first rate by more points than this is ruled out."""
    notes: Sequence[str]


def compare_live(
    before: EvalResults, after: EvalResults, *, is_open: bool, require_ruled_out: float | None
) -> Samples:
    """Compare two samples of conversations.

    Args:
        before: Records of the baseline; those without a session id are ordered by time.
        after: Records of the side in question.
        is_open: True if a side may still get records.
        require_ruled_out: Inconclusive where a fall of more points than this is not ruled out.

    Cost: linear in the task results.
    """
    sides = before, after
    records = [list(map(_record, _whole(_by_time(side)))) for side in sides]
    whole = _compared([_decided(side) for side in records], is_open=is_open)
    rows = [_row(WHOLE_RECORDS, whole, whole and whole.p_value, is_open=is_open)]
    lengths = [_mean_length(side) for side in records]
    if max(lengths) > 1:
        as_whole = _compared([_conversations(side) for side in records], is_open=is_open)
        rows.append(_row(WHOLE_CONVERSATIONS, as_whole, None, is_open=is_open))
    rows += _task_rows(sides, is_open=is_open)
    decision, ruled_out = _decide(rows, require_ruled_out, is_open=is_open)
    return Samples(
        rates=rows,
        decision=decision,
        ruled_out=ruled_out,
        notes=[*_likeness_notes(records), *_length_notes(lengths)],
    )


def _by_time(results: EvalResults) -> list[RecordResult]:
    return sorted(results.records, key=lambda each: each.created_ns)


def _whole(records: Iterable[RecordResult]) -> list[RecordResult]:
    """Those of whole records: a score from outside makes no conversation longer, or unknown."""
    return [each for each in records if not is_score_uid(each.record_uid)]


def _record(record: RecordResult) -> tuple[str, bool | None]:
    return record.session_id, passed_of(record)


def passed_of(record: RecordResult) -> bool | None:
    """Tell whether a record passed; None if nobody knows, as a judge's budget was spent."""
    if record.outcome in {Outcome.FAILED, Outcome.ERRORED}:
        return False
    if record.outcome is not Outcome.PASSED:
        return None
    return None if any(task.reason is Reason.BUDGET for task in record.tasks) else True


def _decided(records: Iterable[tuple[str, bool | None]]) -> list[Passed]:
    return [Passed(session, passed) for session, passed in records if passed is not None]


def _conversations(records: Iterable[tuple[str, bool | None]]) -> list[Passed]:
    """Each conversation once: it passed if all of its records did."""
    known: dict[str | int, bool | None] = {}
    for at, (session, passed) in enumerate(records):
        key = session or at
        if known.get(key, True) is not False and passed is not True:
            known[key] = passed
        known.setdefault(key, passed)
    return [Passed("", passed) for passed in known.values() if passed is not None]


def _mean_length(records: Sequence[tuple[str, bool | None]]) -> float:
    names = {session or at for at, (session, _) in enumerate(records)}
    return len(records) / len(names) if names else 1.0


# --- rates ---------------------------------------------------------------------------------


def _likeness(results: Iterable[Passed]) -> Likeness:
    return likeness([each.passed for each in results if not each.session])


def _clusters(results: Sequence[Passed]) -> list[Cluster]:
    found: defaultdict[int, list[bool]] = defaultdict(list)
    for number, each in zip(conversations_of(results), results, strict=True):
        found[number].append(each.passed)
    return [Cluster(0, sum(each), len(each)) for each in found.values()]


def _compared(sides: Sequence[Sequence[Passed]], *, is_open: bool) -> SampleDifference | None:
    """Compare a rate; None where a side has no result that counts."""
    if not all(sides):
        return None
    before, after = (sample_of(_clusters(side)) for side in sides)
    return compare_samples(before, after, is_open=is_open)


def _task_rows(sides: Iterable[EvalResults], *, is_open: bool) -> list[RateComparison]:
    """Rows of the tasks that both sides have, corrected for their number."""
    by_task = [_by_task(side) for side in sides]
    names = list(dict.fromkeys([*by_task[0], *by_task[1]]))
    found = {
        name: _compared([side.get(name, ()) for side in by_task], is_open=is_open) for name in names
    }
    tested = {name: each.p_value for name, each in found.items() if each and _is_enough(each)}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    return [
        _row(name, each, adjusted.get(name), is_open=is_open, family=len(tested))
        for name, each in found.items()
    ]


def _by_task(results: EvalResults) -> Mapping[str, Sequence[Passed]]:
    found: defaultdict[str, list[Passed]] = defaultdict(list)
    for record in _by_time(results):
        for task in record.tasks:
            if is_counted(task):
                found[task.task_id].append(Passed(record.session_id, _is_passed(task)))
    return found


def _is_passed(task: EvalTaskResult) -> bool:
    return task.outcome is Outcome.PASSED


def _is_enough(found: SampleDifference) -> bool:
    return min(found.before.conversations, found.after.conversations) >= ENOUGH


def _row(
    task_id: str,
    found: SampleDifference | None,
    adjusted: float | None,
    *,
    is_open: bool,
    family: int = 1,
) -> RateComparison:
    """A row; `adjusted` is None where the rate decides nothing."""
    is_enough = found is not None and _is_enough(found)
    adjusted = adjusted if is_enough else None
    before, after = (found.before, found.after) if found else (None, None)
    counts = [(each.passed, each.count) if each else (0, 0) for each in (before, after)]
    interval = found.interval if found and is_enough else (-1.0, 1.0)
    regressed = adjusted is not None and adjusted <= LEVEL and interval[1] < 0
    conversations = [each.conversations if each else 0 for each in (before, after)]
    return RateComparison(
        alias=None,
        task_id=task_id,
        baseline_passed=counts[0][0],
        baseline_count=counts[0][1],
        comparison_passed=counts[1][0],
        comparison_count=counts[1][1],
        baseline_pass_rate=before.rate if before else 0.0,
        comparison_pass_rate=after.rate if after else 0.0,
        baseline_interval=wilson(*counts[0]),
        comparison_interval=wilson(*counts[1]),
        pairs=0,
        clusters=min(conversations),
        fell=0,
        rose=0,
        difference=found.difference if found else 0.0,
        interval=interval,
        method=EVERY_LOOK if is_open else METHOD,
        p_value=found.p_value if found and is_enough else None,
        adjusted_p=adjusted,
        level=LEVEL,
        fall_limit=max(0.0, -interval[0]),
        regressed=regressed,
        is_cleared=True,  # nothing is named that the correction does not name
        reason=_reason(counts, found, interval if is_enough else None, adjusted, family),
    )


def _reason(
    counts: Sequence[tuple[int, int]],
    found: SampleDifference | None,
    interval: tuple[float, float] | None,
    adjusted: float | None,
    family: int,
) -> str:
    """A row in words."""
    (old, of), (new, now) = counts
    text = f"{old:,} of {of:,} before, {new:,} of {now:,} now"
    if found is None:
        return f"{text}; one side has no result that counts"
    if interval is None:
        fewest = min(found.before.conversations, found.after.conversations)
        noun = "conversation is" if fewest == 1 else "conversations are"
        return f"{text}; {fewest} {noun} too few for an interval"
    text += f"; {moved_text(found.difference)} (95 % {points(interval[0])} to "
    text += f"{points(interval[1])} points)"
    if adjusted is None:
        return text
    p = "< 0.001" if adjusted < 0.001 else f"{adjusted:.2g}"
    return f"{text}; p {p}" + (f" after Holm over {family} tasks" if family > 1 else "")


# --- the decision and what else is to be said ------------------------------------------------


def _decide(
    rows: Sequence[RateComparison], require_ruled_out: float | None, *, is_open: bool
) -> tuple[Decision, float | None]:
    """The decision, and the largest fall of the first rate in points that is not ruled out."""
    whole = rows[0]
    fallen = [row for row in rows if row.regressed]
    ruled_out = 100 * whole.fall_limit if whole.has_interval else None
    headline = (
        f"{whole.label.capitalize()}: {100 * whole.comparison_pass_rate:.1f} % now, "
        f"{100 * whole.baseline_pass_rate:.1f} % before"
    )
    if fallen:
        reasons = [f"{row.label}: {row.reason}" for row in fallen]
        advice = "mend what broke, and compare again"
        return _decision(Word.REGRESSED, headline, 1, reasons, (advice,)), ruled_out
    more = "wait for more records" if is_open else "compare more of them"
    if not whole.has_interval or ruled_out is None:
        reason = f"too few conversations to tell: {whole.reason}"
    elif whole.difference <= -LARGE_FALL + _EPSILON:
        reason = f"{whole.label} may have fallen by chance: {whole.reason}"
    elif require_ruled_out is not None and ruled_out > require_ruled_out:
        reason = (
            f"only a fall of more than {ruled_out:.1f} points is ruled out, and "
            f"{require_ruled_out:g} are required"
        )
    else:
        headline += f"; a fall of more than {ruled_out:.1f} points is ruled out"
        return _decision(Word.NO_REGRESSION, headline, 0), ruled_out
    return _decision(Word.INCONCLUSIVE, headline, 3, [reason], (more,)), ruled_out


def _decision(
    word: Word,
    headline: str,
    exit_code: Literal[0, 1, 3],
    reasons: Sequence[str] = (),
    advice: tuple[str, ...] = (),
) -> Decision:
    return Decision(
        word=word,
        headline=f"{headline}.",
        reasons=tuple(reasons),
        notes=(),
        advice=advice,
        exit_code=exit_code,
    )


def _likeness_notes(sides: Sequence[Sequence[tuple[str, bool | None]]]) -> Iterator[str]:
    """Likeness of records without a session id."""
    single: list[str] = []
    for records, when in zip(sides, ("before", "now"), strict=True):
        results = _decided(records)
        alone = sum(not each.session for each in results)
        if not alone:
            continue
        found = _likeness(results)
        if found.is_beyond_chance:
            yield (
                f"{alone:,} records {when} have no session id, and neighbours are more alike than "
                f"by chance (correlation {found.correlation:.2f}): 20 in a row count as one "
                "conversation. Send session ids for narrower intervals that are sure."
            )
        else:
            single.append(f"{alone:,} {when}")
    if single:
        yield (
            f"Records without a session id ({', '.join(single)}) count as a conversation each: "
            "neighbours are no more alike than by chance."
        )


def _length_notes(lengths: Sequence[float]) -> Iterator[str]:
    before, now = lengths
    if max(lengths) / min(lengths) >= _LONGER:
        word = "longer" if now > before else "shorter"
        yield (
            f"Conversations are {word} now: {now:.1f} records, {before:.1f} before. A longer one "
            "passes less often as a whole at the same quality, so the rate of records decides."
        )


def state_text(before: Side, after: Side) -> str:
    """Say whether the sides still take traffic, and what that means for the intervals."""
    names = " and ".join(side.label for side in (before, after) if side.is_open)
    if not names:
        return "Closed: no more records come to either side, so the intervals are for one look."
    return f"Still taking traffic: {names}. The intervals hold at every look, however many."


_NONE: Final = frozenset[str]()


def explain(store: Store, space: str, sides: tuple[Side, Side]) -> Explained | None:
    """Split the change of the rate of records into traffic, route and behaviour.

    Args:
        store: Has the spans, which name tools, models and setups.
        space: Whose.
        sides: Live sides, of which nothing is compared in pairs.

    Returns:
        None where the sides have too few conversations, or no traffic in common.

    Cost: the names in the spans of all records, and that of the split.
    """
    traces = {each.trace_id for side in sides for each in side.results.records if each.trace_id}
    names = {
        trace_id: frozenset([f"{kind} {name}" for kind, name in some])
        for trace_id, some in store.trace_names(space, traces).items()
    }
    before, after = (_results(side, names) for side in sides)
    return explain_results(before, after, is_open=any(side.is_open for side in sides))


def _results(side: Side, names: Mapping[str, frozenset[str]]) -> list[Result]:
    """The records that count, in the order of time, with their traits."""
    records = _whole(_by_time(side.results))
    lengths = Counter(each.session_id for each in records if each.session_id)
    known = [(each, passed) for each in records if (passed := passed_of(each)) is not None]
    numbers = conversations_of([(each.session_id, passed) for each, passed in known])
    return [
        Result(
            number, passed, names.get(each.trace_id or "", _NONE).union(_own(each, side, lengths))
        )
        for number, (each, passed) in zip(numbers, known, strict=True)
    ]


def _own(record: RecordResult, side: Side, lengths: Mapping[str, int]) -> Iterator[str]:
    """Traits that no span tells."""
    for key, value in side.tags.get(record.record_uid, {}).items():
        yield f"tag {pair_text(key, value)}"
    if record.record_id != record.record_uid:
        yield f"record {record.record_id}"
    if length := lengths.get(record.session_id):
        yield length_trait(length)
