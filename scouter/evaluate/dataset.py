"""EvalDataset: records that exist already, judged by a list of tasks."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.engine.judged import evaluate_records, evaluate_records_async
from scouter.evaluate.engine.plan import Plan, compile_plan
from scouter.evaluate.results.provenance import collect_provenance, judge_name_of
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.task import Task, parse_tasks, with_calls_told_by
from scouter.evaluate.tasks.task_list import TasksByKind
from scouter.model.agent_work import CallsToldBy
from scouter.model.json_value import to_json_value
from scouter.model.record import EvalRecord
from scouter.model.span import Span

if TYPE_CHECKING:
    from scouter.evaluate.annotate.config import EvaluationConfig
    from scouter.evaluate.judge.port import AnyJudge


class EvalDataset(TasksByKind):
    """Records and the tasks that evaluate each of them.

    Args:
        records: Stored in this order, in the results too.
        tasks: A list of tasks, their wire form, or a `TasksFile`.
        spans: Spans of the records' traces; each record sees only those of its own trace id, a
            session those of its records' traces. A record for which nobody named a session gets
            the one that its trace names (`trace_session`), as in a collector.
        sessions: The session of each record, as session id and attempt; by default records with
            one `session_id` are a session, and one without is a session of its own.
        calls_told_by: Source that tells of the agent's calls of tools: `spans`, `messages` or
            `nobody`. It holds for all tasks that read spans and do not name one themselves.

    Raises:
        ConfigError: The tasks do not form a plan; names the task.
        ValueError: There are not as many sessions as records, or `calls_told_by` is another word.
        TypeError: Something among the records is none.
    """

    def __init__(
        self,
        records: Iterable[EvalRecord],
        tasks: Sequence[Task] | Mapping[str, object],
        spans: Iterable[Span] | None = None,
        *,
        sessions: Sequence[tuple[str, int]] | None = None,
        calls_told_by: CallsToldBy | Literal["spans", "messages", "nobody"] | None = None,
    ) -> None:
        self.records: tuple[EvalRecord, ...] = tuple(records)
        for at, record in enumerate(self.records):
            if not isinstance(record, EvalRecord):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(
                    f"records[{at}]: expected an EvalRecord, got {type(record).__name__}; "
                    "a context becomes one by EvalRecord(context=…)"
                )
        by = None if calls_told_by is None else CallsToldBy(calls_told_by)
        self.tasks: tuple[Task, ...] = with_calls_told_by(parse_tasks(tasks), by)
        self.spans: tuple[Span, ...] = () if spans is None else tuple(spans)
        self.plan: Plan = compile_plan(self.tasks)
        if sessions is not None and len(sessions) != len(self.records):
            raise ValueError(f"{len(sessions)} sessions for {len(self.records)} records")
        self._sessions = sessions
        if sessions is None and self.spans:
            self._take_sessions()

    def _take_sessions(self) -> None:
        """Give records that name no session those of their traces."""
        wanted: dict[str, list[EvalRecord]] = {}
        for record in self.records:
            if record.trace_id is not None and not (record.names_session and record.session_id):
                wanted.setdefault(record.trace_id, []).append(record)
        if not wanted:
            return
        from scouter.evaluate.spans.derived import trace_session  # many records name theirs
        from scouter.model.genai.reader import naming_sessions

        spans: dict[str, list[Span]] = {}
        for span in naming_sessions(self.spans):
            if span.trace_id in wanted:
                spans.setdefault(span.trace_id, []).append(span)
        for trace_id, found in spans.items():
            session_id = trace_session(found)
            for record in wanted[trace_id] if session_id else ():
                record.session_id = session_id

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[EvalRecord]:
        return iter(self.records)

    def __repr__(self) -> str:
        return f"EvalDataset({len(self.records)} records, {len(self.tasks)} tasks)"

    def evaluate(
        self,
        config: "EvaluationConfig | None" = None,
        *,
        judge: "AnyJudge | None" = None,
        concurrency: int = 8,
    ) -> EvalResults:
        """Evaluate every record, and every session where tasks have that scope.

        Works inside a running event loop too. The loop is blocked until the end, unlike with
        `evaluate_async`.

        Args:
            config: Names further values of records: embeddings, similarities, histograms.
            judge: Answers the judge tasks: an object with `async def ask(request)`, or a function
                from `JudgeRequest` to the answer. By default the models that the prompts name
                are called: `ModelJudge()`.
            concurrency: Most questions to the judge at a time, over all records.

        Raises:
            ConfigError: Something that is no judge, a concurrency below 1, or the settings file
                of provider entries is wrong.

        Cost: linear in records and spans; a judge's own time divided by `concurrency`.
        """
        judge = self._judge_to_call(judge)
        started, spans = time.time_ns(), self._spans_by_trace()
        trees = self._trees(spans)
        judged = evaluate_records(self.plan, self.records, trees, judge, concurrency)
        results = self._results(judged, started, judge)
        if config is not None:
            from scouter.evaluate.annotate.config import apply_config  # few evaluations need it

            results = apply_config(self.records, results, config)
        if self.plan.session is None:
            return results
        from scouter.evaluate.engine.sessions import session_results

        sessions, seen = self._session_inputs(spans)
        found = evaluate_records(self.plan.session, sessions, seen, judge, concurrency)
        return results.with_sessions(session_results(found))

    async def evaluate_async(
        self,
        config: "EvaluationConfig | None" = None,
        *,
        judge: "AnyJudge | None" = None,
        concurrency: int = 8,
    ) -> EvalResults:
        """Evaluate every record like `evaluate`, asking the judge in the running event loop.

        Tasks without a judge run in another thread, so that the loop goes on meanwhile.
        """
        judge = self._judge_to_call(judge)
        started, spans = time.time_ns(), self._spans_by_trace()
        found = await evaluate_records_async(
            self.plan, self.records, self._trees(spans), judge, concurrency
        )
        results = self._results(found, started, judge)
        if config is not None:
            from scouter.evaluate.annotate.config import apply_config_async

            results = await apply_config_async(self.records, results, config)
        if self.plan.session is None:
            return results
        from scouter.evaluate.engine.sessions import session_results

        sessions, seen = self._session_inputs(spans)
        found = await evaluate_records_async(self.plan.session, sessions, seen, judge, concurrency)
        return results.with_sessions(session_results(found))

    def _judge_to_call(self, judge: "AnyJudge | None") -> "AnyJudge | None":
        """Find the judge to ask; None if none was given and no task asks."""
        if judge is not None or not self.plan.asks:
            return judge
        from scouter.evaluate.judge.port import usual_judge  # few evaluations ask

        return usual_judge()

    def _results(
        self, judged: Sequence[RecordResult], started_ns: int, judge: object
    ) -> EvalResults:
        """Remember the times; looking for versions and revision costs more than small runs."""
        ended_ns = time.time_ns()
        provenance = partial(
            collect_provenance,
            started_ns=started_ns,
            ended_ns=ended_ns,
            profile_digests={"": self.plan.digest},
            profile_tasks={"": self.tasks},
            judge=judge_name_of(judge),
        )
        return EvalResults(judged, provenance=provenance, window=(started_ns, ended_ns))

    def _spans_by_trace(self) -> dict[str, list[Span]]:
        if not self.plan.needs_spans:
            return {}
        by_trace: defaultdict[str, list[Span]] = defaultdict(list)
        for span in self.spans:
            by_trace[span.trace_id].append(span)
        return by_trace

    def _trees(self, spans: Mapping[str, Sequence[Span]]) -> dict[str, SpanTree]:
        if not self.plan.reads_spans:
            return {}
        return {trace_id: SpanTree(each) for trace_id, each in spans.items()}

    def _session_inputs(
        self, spans: Mapping[str, Sequence[Span]]
    ) -> tuple[list[EvalRecord], list[SpanTree | None]]:
        """Make a record of each session for the session-scoped tasks, and the tree of its spans."""
        from scouter.evaluate.engine.sessions import sessions_of  # few evaluations need it

        sessions = sessions_of(self.records, self._sessions)
        return [each.record for each in sessions], [each.tree(spans) for each in sessions]

    def with_updated_contexts_by_id(
        self, context_map: Mapping[str, Mapping[str, object]]
    ) -> "EvalDataset":
        """Make a dataset whose records have some fields of their contexts replaced.

        Args:
            context_map: New fields by record id. The new records keep uid, ids, tags and times.

        Raises:
            DataError: No record has such an id, or its context is not an object.
        """
        known = {record.record_id for record in self.records}
        for record_id in context_map:
            if record_id not in known or not record_id:
                raise DataError(f"no record has the id {record_id!r}")
        records = [
            _updated(record, context_map[record.record_id])
            if record.record_id in context_map
            else record
            for record in self.records
        ]
        return EvalDataset(records, self.tasks, self.spans, sessions=self._sessions)

    def print_execution_plan(self) -> None:
        """Print the stages and what each task waits for to the standard output."""
        from rich.console import Console  # left out of the import of the engine

        from scouter.evaluate.engine.plan import plan_text

        Console(soft_wrap=True, highlight=False, markup=False).print(plan_text(self.plan))


def _updated(record: EvalRecord, fields: Mapping[str, object]) -> EvalRecord:
    context = to_json_value(record.context)
    if not isinstance(context, dict):
        raise DataError(
            f"record {record.record_id!r}: its context is no object, so it has no fields to update"
        )
    return EvalRecord(
        context={**context, **cast("dict[str, JsonValue]", to_json_value(fields))},
        id=record.record_id,
        session_id=record.session_id,
        trace_id=record.trace_id,
        tags=record.tag_map,
        uid=record.uid,
        created_ns=record.created_ns,
    )
