"""Scores from outside: what comes in as a score becomes the result of a task.

A score is a record of its own, so it is accepted once, erased, exported and counted as any other.
Its evaluation has one task, named as the score is: from there on it is a result like all others.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, cast

from collector.items.record_items import CheckedRecord, ScoredItem, ScoreItem
from collector.store.rows import RecordRow
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from scouter.evaluate.operators.table import compile_comparison, explain
from scouter.evaluate.outcome import Outcome, Reason, TaskFault
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.evaluate.spans.derived import trace_session
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.score import FEEDBACK, SCORE, ScoreTask
from scouter.model.score import SCORE_OF, score_uid

_GOOD: Final = frozenset({"pass", "passed", "true", "yes", "good", "ok", "correct", "positive"})
_BAD: Final = frozenset({"fail", "failed", "false", "no", "bad", "incorrect", "wrong", "negative"})
"""Labels that say by themselves whether a score passes."""


def score_rows(
    checked: CheckedRecord, registry: ProfileRegistry, space: str, received_ns: int
) -> list[RecordRow]:
    """The records that carry a score: one for each profile that watches it, none if nobody does.

    Args:
        checked: The score.
        registry: Knows who watches it.
        space: Its space.
        received_ns: When it came, for one that does not say when it was given.
    """
    item = checked.item
    assert isinstance(item, ScoredItem)  # noqa: S101 whoever calls has looked
    score = item.score
    profiles = registry.scoring(space, score.name, item.profile, is_of_people=score.is_of_people)
    # A clock that is ahead makes no score late.
    given_ns = min(score.at, received_ns) if isinstance(score.at, int) else received_ns
    created_ns = given_ns
    if isinstance(item.created_at, int):
        created_ns = min(item.created_at, received_ns)
    context = score.model_dump(mode="json", exclude_defaults=True, exclude={"at", "id"})
    tags = {**(item.tags or {}), **({SCORE_OF: score.of} if score.of else {})}
    return [
        RecordRow(
            space=space,
            uid=checked.uid
            if registry.is_first_scoring(each, score.name)
            else score_uid(checked.uid, each.profile.alias),
            digest=checked.digest,
            profile_ref=each.uid,
            profile_uid=each.uid,
            profile_name=each.profile.name,
            alias=each.profile.alias,
            record_id=item.record_id or score.name,
            session_id=item.session_id or "",
            trace_id=item.trace_id,
            created_ns=created_ns,
            received_ns=received_ns,
            context={**context, "given_ns": given_ns},
            tags=tags,
        )
        for each in profiles
    ]


def about(row: RecordRow, tree: SpanTree) -> RecordRow:
    """A score with the time and the session of the trace that it is about."""
    if not tree.spans:
        return row
    return replace(
        row,
        created_ns=min(row.created_ns, tree.start_ns),
        session_id=row.session_id or trace_session(tree.spans),
    )


def result_of(row: RecordRow, registered: RegisteredProfile, tree: SpanTree) -> RecordResult:
    """Turn a score into the result of its task.

    Args:
        row: The score, with the time of what it is about.
        registered: The profile that watches it.
        tree: The spans of its trace.
    """
    context = cast("Mapping[str, Any]", row.context)
    given_ns: int = context["given_ns"]
    score = ScoreItem.model_validate({k: v for k, v in context.items() if k != "given_ns"})
    task = registered.scores[score.name.strip().lower()]
    kind, matches = FEEDBACK if score.is_of_people else SCORE, registered.matches
    # Of a trace without spans nobody knows whether the profile watches it.
    is_watched = matches is None or row.trace_id is None or any(map(matches, tree.spans))
    try:
        outcome, reason = _outcome(task, score, is_watched=is_watched), None
        message = ""
    except TaskFault as fault:
        outcome = Outcome.SKIPPED if fault.reason is Reason.NOT_APPLICABLE else Outcome.ERRORED
        reason, message = fault.reason, str(fault)
    late_s = (given_ns - row.created_ns) / 1e9
    if reason is None and late_s > task.waits_s(kind):
        reason = Reason.LATE
        message = (
            f"given {late_s:,.0f} s after what it is about, and detectors wait for "
            f"{task.waits_s(kind):,.0f} s (wait_s): they leave it out"
        )
    actual = score.label if score.value is None else score.value
    if outcome is Outcome.FAILED and task.expected_value is not None and not message:
        message = explain(task.operator, actual, task.expected_value)
    said = f"{score.source or 'an evaluator'}: {score.explanation}" if score.explanation else ""
    spec = TaskSpec(task_id=task.id, task_type=kind, operator=task.operator.value)
    found = EvalTaskResult(
        spec, outcome, reason, task.expected_value, actual, "; ".join(filter(None, (message, said)))
    )
    if outcome in (Outcome.PASSED, Outcome.FAILED):
        end = task.scale[outcome is Outcome.PASSED]
        found = found.scored(end if score.value is None else score.value)
    return RecordResult(
        row.uid, row.record_id, row.session_id, row.trace_id, outcome, (found,), row.created_ns, 0
    )


def _outcome(task: ScoreTask, score: ScoreItem, *, is_watched: bool) -> Outcome:
    """Say whether a score passes.

    Raises:
        TaskFault: It does not say, or is of a trace that the profile does not watch.
    """
    if not is_watched:
        raise TaskFault(Reason.NOT_APPLICABLE, "its trace has no span that the profile watches")
    if score.error:
        raise TaskFault(Reason.PROVIDER, f"the evaluator failed: {score.error}")
    label = score.label.strip().lower()
    if task.passed:
        if not label:
            raise TaskFault(Reason.TYPE, "the score has no label, and passes by its label")
        return _of(label in {each.lower() for each in task.passed})
    value, bound = score.value, task.expected_value
    if bound is not None and value is None:
        raise TaskFault(Reason.TYPE, f"the score has no number, only the label {label!r}")
    is_good = bound is None or compile_comparison(task.operator, bound).check(value)
    is_scaled = bound is None or task.is_on_scale(bound)
    if value is not None and is_good and is_scaled and not task.is_on_scale(value):
        low, high = task.scale
        raise TaskFault(
            Reason.TYPE,
            f"{value:g} is beyond the scale from {low:g} to {high:g}; give the score its `scale`",
        )
    if bound is not None:
        return _of(is_good)
    if value is None and not label:
        raise TaskFault(Reason.NOT_APPLICABLE, "without a number or a label it passes by nothing")
    if label in _GOOD or label in _BAD:
        return _of(label in _GOOD)
    if value is None:
        raise TaskFault(
            Reason.NOT_APPLICABLE,
            f"the label {label!r} does not say whether it passes; list those that do: "
            f"`scores: {{{task.id}: {{passed: [{label}]}}}}`",
        )
    return _of(2 * value >= sum(task.scale))


def _of(is_good: bool) -> Outcome:
    return Outcome.PASSED if is_good else Outcome.FAILED
