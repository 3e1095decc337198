"""A pending evaluation with all that is needed to decide it."""

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from collector.store.rows import EvaluationRow, RecordRow, Scope
from collector.store.store import Store
from collector.worker.profiles import ProfileRegistry
from collector.worker.records import eval_record, task_rows
from collector.worker.revising import Answered
from collector.worker.session_reader import SessionReader
from collector.worker.stored_values import most_characters
from collector.worker.trace_facts import read_trees
from scouter.evaluate.engine.execute import Found, JudgeQuestion, plain_context, walk
from scouter.evaluate.engine.judged import answered, question_of
from scouter.evaluate.engine.plan import Plan, reads_spans
from scouter.evaluate.engine.sessions import session_of
from scouter.evaluate.judge.ask import Reply
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.record import EvalRecord

Put = Callable[[JudgeQuestion], Awaitable[Reply]]
EvaluationKey = tuple[str, str]
"""Space and uid."""

_PENDING: Final = Outcome.PENDING


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """One evaluation on a record or session, some tasks of which are pending."""

    evaluation: EvaluationRow
    plan: Plan
    record: EvalRecord
    """The record, or what stands for the session."""
    tree: SpanTree | None
    """Spans, where a pending task reads them."""
    read_seq: int
    """Last commit before any of this was read."""

    async def decide(self, put: Put) -> Answered:
        """Send what is to be sent, and run what hangs on the answers; nothing else is run again.

        Args:
            put: Puts one question.
        """
        began = time.perf_counter_ns()
        context, found = plain_context(self.record), self._found()
        await answered(walk(self.plan, context, self.tree, self.record.uid, found), put)
        tasks = list(self.evaluation.tasks)
        for at, row in enumerate(tasks):
            if row.outcome is _PENDING:
                (made,) = task_rows([found.results[at]], most_characters(len(tasks)))
                if at in self.plan.judges:
                    question = question_of(
                        self.plan, at, context, found, self.record.uid, self.tree
                    )
                    made = replace(made, question=question, answer=found.answers.get(at))
                tasks[at] = made
        return Answered(
            before=self.evaluation,
            tasks=tuple(tasks),
            read_seq=self.read_seq,
            duration_ns=time.perf_counter_ns() - began,
        )

    def _found(self) -> Found:
        """Collect the results of the evaluation's tasks that are decided already."""
        found = Found()
        for at, (row, spec) in enumerate(zip(self.evaluation.tasks, self.plan.specs, strict=True)):
            if row.outcome is _PENDING:
                continue
            reason = None if row.reason is None else Reason(row.reason)
            found.results[at] = EvalTaskResult(
                spec, row.outcome, reason, row.expected, row.actual, row.message
            )
            if at in self.plan.judges and (row.question or row.answer is not None):
                found.answers[at] = row.answer
        return found


def give_up(
    evaluation: EvaluationRow, read_seq: int, why: str, reason: Reason = Reason.PROVIDER
) -> Answered:
    """Say of everything that is pending in an evaluation that it cannot be decided."""
    return Answered(
        before=evaluation,
        tasks=tuple(
            replace(row, outcome=Outcome.ERRORED, reason=reason.value, message=why)
            if row.outcome is _PENDING
            else row
            for row in evaluation.tasks
        ),
        read_seq=read_seq,
        duration_ns=0,
    )


class Inquiries:
    """Reads what is needed to decide pending evaluations; any thread may ask.

    Args:
        store: Holds the records and spans.
        registry: The profiles that made them.
    """

    def __init__(self, store: Store, registry: ProfileRegistry) -> None:
        self._store, self._registry = store, registry
        self._sessions = SessionReader(store, registry)

    def latest(self, key: EvaluationKey) -> "Inquiry | Answered | None":
        """The latest evaluation on a record or session, if some of it is pending.

        Raises:
            TransientError: The store cannot be read now.
        """
        read_seq = self._store.last_seq()
        evaluation = self._store.latest_evaluations([key]).get(key)
        if evaluation is None or not evaluation.pending:
            return None
        return self.of([evaluation], read_seq).get(key)

    def of(
        self, evaluations: Sequence[EvaluationRow], read_seq: int
    ) -> Mapping[EvaluationKey, Inquiry | Answered]:
        """Read what some evaluations are about.

        Args:
            evaluations: With pending tasks.
            read_seq: Last commit before they were read.

        Returns:
            By space and uid an inquiry. Where nobody knows the evaluation's profile any more, an
            answer that it cannot be decided. Evaluations that left the store meanwhile are left
            out.

        Raises:
            TransientError: The store cannot be read now.
        """
        found: dict[EvaluationKey, Inquiry | Answered] = {}
        by_space: defaultdict[str, list[tuple[EvaluationRow, Plan]]] = defaultdict(list)
        for evaluation in evaluations:
            plan = self._plan_of(evaluation)
            if plan is None:
                why = f"the profile {evaluation.profile_uid} cannot be used any more"
                found[evaluation.space, evaluation.record_uid] = give_up(evaluation, read_seq, why)
            else:
                by_space[evaluation.space].append((evaluation, plan))
        for space, pairs in by_space.items():
            records, too_large = self._records(space, [evaluation for evaluation, _ in pairs])
            traces = {
                evaluation.record_uid: _traces(rows)
                for evaluation, plan in pairs
                if _needs_spans(evaluation, plan) and (rows := records.get(evaluation.record_uid))
            }
            wanted = {trace_id for ids in traces.values() for trace_id in ids}
            trees = read_trees(self._store, space, sorted(wanted))
            for evaluation, plan in pairs:
                if evaluation.record_uid in too_large:
                    why = too_large[evaluation.record_uid]
                    answer = give_up(evaluation, read_seq, why, Reason.LIMIT)
                    found[space, evaluation.record_uid] = answer
                    continue
                rows = records.get(evaluation.record_uid)
                if rows:
                    tree = _tree(traces.get(evaluation.record_uid), trees)
                    found[space, evaluation.record_uid] = Inquiry(
                        evaluation=evaluation,
                        plan=plan,
                        record=_record_of(evaluation, rows),
                        tree=tree,
                        read_seq=read_seq,
                    )
        return found

    def _plan_of(self, evaluation: EvaluationRow) -> Plan | None:
        registered = self._registry.get(evaluation.space, evaluation.profile_uid)
        if registered is None:
            return None
        plan = registered.profile.plan
        plan = plan if evaluation.scope is Scope.RECORD else plan.session
        ids = [row.task_id for row in evaluation.tasks]
        if plan is None or [task.id for task in plan.tasks] != ids:
            return None
        return plan

    def _records(
        self, space: str, evaluations: Sequence[EvaluationRow]
    ) -> tuple[Mapping[str, Sequence[RecordRow]], Mapping[str, str]]:
        """Records of evaluations, by the evaluations' uids, and why some are too many."""
        uids = [row.record_uid for row in evaluations if row.scope is Scope.RECORD]
        found: dict[str, Sequence[RecordRow]] = {}
        too_large: dict[str, str] = {}
        if uids:
            found = {row.uid: [row] for row in self._store.records_of(space, uids)}
        sessions = {
            row.record_uid: row.session_id for row in evaluations if row.scope is Scope.SESSION
        }
        if sessions:
            # An evaluation may be that of another version than the one that the records mean.
            for part in self._sessions.sessions(space, set(sessions.values())):
                for key, session in part.items():
                    uid = key.uid
                    if uid in sessions and session.too_large:
                        too_large[uid] = session.too_large
                    elif uid in sessions:
                        found[uid] = session.rows
        return found, too_large


def _needs_spans(evaluation: EvaluationRow, plan: Plan) -> bool:
    return any(
        row.outcome is _PENDING and reads_spans(task)
        for row, task in zip(evaluation.tasks, plan.tasks, strict=True)
    )


def _traces(rows: Sequence[RecordRow]) -> list[str]:
    return list(dict.fromkeys(row.trace_id for row in rows if row.trace_id is not None))


def _tree(trace_ids: Sequence[str] | None, trees: Mapping[str, SpanTree]) -> SpanTree | None:
    if trace_ids is None:
        return None
    found = [trees[trace_id] for trace_id in trace_ids if trace_id in trees]
    unread = next((tree.unread for tree in found if tree.unread), "")
    lost = next((tree.lost for tree in found if tree.lost), "")
    return SpanTree((span for tree in found for span in tree.spans), unread=unread, lost=lost)


def _record_of(evaluation: EvaluationRow, rows: Sequence[RecordRow]) -> EvalRecord:
    if evaluation.scope is Scope.RECORD:
        return eval_record(rows[0])
    return session_of(
        map(eval_record, rows),
        evaluation.session_id,
        uid=evaluation.record_uid,
        name=evaluation.record_id,
    ).record
