"""A pending verdict with all that is needed to decide it."""

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from collector.pipeline.evaluate.judge_answers import Answered
from collector.pipeline.evaluate.kept_values import most_characters
from collector.pipeline.evaluate.records import eval_record, task_rows
from collector.pipeline.evaluate.session import uid_of
from collector.pipeline.join.read_back import read_trees
from collector.pipeline.profiles import ProfileRegistry
from collector.pipeline.sessions.read import SessionReader
from collector.storage.port.rows import EvaluationRow, RecordRow, Scope, TaskRow
from collector.storage.port.work import WorkStore
from scouter.evaluate.engine.context import plain_context
from scouter.evaluate.engine.deferred import question_of
from scouter.evaluate.engine.execute import Found, JudgeQuestion, walk
from scouter.evaluate.engine.judged import answered
from scouter.evaluate.engine.plan import Plan, reads_spans
from scouter.evaluate.engine.sessions import session_of
from scouter.evaluate.judge.ask import Reply
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.record import EvalRecord

Put = Callable[[JudgeQuestion], Awaitable[Reply]]
VerdictKey = tuple[str, str]
"""Space and uid."""

_PENDING: Final = Outcome.PENDING


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """One verdict on a record or session, some tasks of which are pending."""

    verdict: EvaluationRow
    plan: Plan
    record: EvalRecord
    """The record, or what stands for the session."""
    tree: SpanTree | None
    """Spans, where a pending task reads them."""
    read_seq: int
    """Last commit before any of this was read."""

    async def decide(self, put: Put) -> Answered:
        """Ask what is to be asked, and run what hangs on the answers; nothing else is run again.

        Args:
            put: Puts one question.
        """
        began = time.perf_counter_ns()
        context, found = plain_context(self.record), self._found()
        await answered(walk(self.plan, context, self.tree, self.record.uid, found), put)
        tasks = list(self.verdict.tasks)
        for at, row in enumerate(tasks):
            if row.outcome is _PENDING:
                (made,) = task_rows([found.results[at]], most_characters(len(tasks)))
                if at in self.plan.judges:
                    question = question_of(
                        self.plan, at, context, found, self.record.uid, self.tree
                    )
                    made = replace(made, question=question, answer=found.answers.get(at))
                tasks[at] = made
        return self._answered(tasks, time.perf_counter_ns() - began)

    def give_up(self, why: str) -> Answered:
        """Say of everything that is pending that it cannot be decided."""
        return give_up(self.verdict, self.read_seq, why)

    def _found(self) -> Found:
        """Collect the results of the verdict's tasks that are decided already."""
        found = Found()
        for at, (row, spec) in enumerate(zip(self.verdict.tasks, self.plan.specs, strict=True)):
            if row.outcome is _PENDING:
                continue
            reason = None if row.reason is None else Reason(row.reason)
            found.results[at] = EvalTaskResult(
                spec, row.outcome, reason, row.expected, row.actual, row.message
            )
            if at in self.plan.judges and (row.question or row.answer is not None):
                found.answers[at] = row.answer
        return found

    def _answered(self, tasks: Sequence[TaskRow], duration_ns: int) -> Answered:
        return Answered(
            before=self.verdict,
            tasks=tuple(tasks),
            read_seq=self.read_seq,
            duration_ns=duration_ns,
        )


def give_up(
    verdict: EvaluationRow, read_seq: int, why: str, reason: Reason = Reason.PROVIDER
) -> Answered:
    """Say of everything that is pending in a verdict that it cannot be decided."""
    return Answered(
        before=verdict,
        tasks=tuple(
            replace(row, outcome=Outcome.ERRORED, reason=reason.value, message=why)
            if row.outcome is _PENDING
            else row
            for row in verdict.tasks
        ),
        read_seq=read_seq,
        duration_ns=0,
    )


class Inquiries:
    """Reads what is needed to decide pending verdicts; any thread may ask.

    Args:
        store: Where it is.
        registry: The profiles that made them.
    """

    def __init__(self, store: WorkStore, registry: ProfileRegistry) -> None:
        self._store, self._registry = store, registry
        self._sessions = SessionReader(store, registry)

    def latest(self, key: VerdictKey) -> "Inquiry | Answered | None":
        """The latest verdict on a record or session, if some of it is pending.

        Raises:
            TransientError: The store cannot be read now.
        """
        read_seq = self._store.last_seq()
        verdict = self._store.latest_verdicts([key]).get(key)
        if verdict is None or not verdict.pending:
            return None
        return self.of([verdict], read_seq).get(key)

    def of(
        self, verdicts: Sequence[EvaluationRow], read_seq: int
    ) -> Mapping[VerdictKey, Inquiry | Answered]:
        """Read what some verdicts are about.

        Args:
            verdicts: With pending tasks.
            read_seq: Last commit before they were read.

        Returns:
            By space and uid an inquiry, or where nobody knows the verdict's profile any more, that
            it cannot be decided. What was taken out of the store meanwhile is left out.

        Raises:
            TransientError: The store cannot be read now.
        """
        found: dict[VerdictKey, Inquiry | Answered] = {}
        by_space: defaultdict[str, list[tuple[EvaluationRow, Plan]]] = defaultdict(list)
        for verdict in verdicts:
            plan = self._plan_of(verdict)
            if plan is None:
                why = f"the profile {verdict.profile_uid} cannot be used any more"
                found[verdict.space, verdict.record_uid] = give_up(verdict, read_seq, why)
            else:
                by_space[verdict.space].append((verdict, plan))
        for space, pairs in by_space.items():
            records, too_large = self._records(space, [verdict for verdict, _ in pairs])
            traces = {
                verdict.record_uid: _traces(rows)
                for verdict, plan in pairs
                if _needs_spans(verdict, plan) and (rows := records.get(verdict.record_uid))
            }
            wanted = {trace_id for ids in traces.values() for trace_id in ids}
            trees = read_trees(self._store, space, sorted(wanted))
            for verdict, plan in pairs:
                if verdict.record_uid in too_large:
                    why = too_large[verdict.record_uid]
                    answer = give_up(verdict, read_seq, why, Reason.LIMIT)
                    found[space, verdict.record_uid] = answer
                    continue
                rows = records.get(verdict.record_uid)
                if rows:
                    tree = _tree(traces.get(verdict.record_uid), trees)
                    found[space, verdict.record_uid] = Inquiry(
                        verdict=verdict,
                        plan=plan,
                        record=_record_of(verdict, rows),
                        tree=tree,
                        read_seq=read_seq,
                    )
        return found

    def _plan_of(self, verdict: EvaluationRow) -> Plan | None:
        registered = self._registry.get(verdict.space, verdict.profile_uid)
        if registered is None:
            return None
        plan = registered.profile.plan
        plan = plan if verdict.scope is Scope.RECORD else plan.session
        ids = [row.task_id for row in verdict.tasks]
        if plan is None or [task.id for task in plan.tasks] != ids:
            return None
        return plan

    def _records(
        self, space: str, verdicts: Sequence[EvaluationRow]
    ) -> tuple[Mapping[str, Sequence[RecordRow]], Mapping[str, str]]:
        """The records that verdicts are about, by the verdicts' uids, and why some are too many."""
        uids = [row.record_uid for row in verdicts if row.scope is Scope.RECORD]
        found: dict[str, Sequence[RecordRow]] = {}
        too_large: dict[str, str] = {}
        if uids:
            found = {row.uid: [row] for row in self._store.records_of(space, uids)}
        sessions = {
            row.record_uid: row.session_id for row in verdicts if row.scope is Scope.SESSION
        }
        if sessions:
            # A verdict may be that of another version than the one that the records mean.
            for part in self._sessions.sessions(space, set(sessions.values())):
                for key, session in part.items():
                    uid = uid_of(key.profile_uid, key.session_id)
                    if uid in sessions and session.too_large:
                        too_large[uid] = session.too_large
                    elif uid in sessions:
                        found[uid] = session.rows
        return found, too_large


def _needs_spans(verdict: EvaluationRow, plan: Plan) -> bool:
    return any(
        row.outcome is _PENDING and reads_spans(task)
        for row, task in zip(verdict.tasks, plan.tasks, strict=True)
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


def _record_of(verdict: EvaluationRow, rows: Sequence[RecordRow]) -> EvalRecord:
    if verdict.scope is Scope.RECORD:
        return eval_record(rows[0])
    return session_of(
        map(eval_record, rows),
        verdict.session_id,
        uid=verdict.record_uid,
        name=verdict.record_id,
    ).record
