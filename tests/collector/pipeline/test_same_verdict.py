"""The law of the pipeline: however things arrive, the last verdict is the offline one."""

import tempfile
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from collector.metrics import TotalName
from collector.pipeline.input_clock import InputClock
from collector.pipeline.join import Join, JoinTimes
from collector.pipeline.judge import eval_record
from collector.pipeline.measures import PipelineMeasures
from collector.pipeline.profiles import ProfileRegistry
from collector.pipeline.work import PipelineWork
from collector.storage.duckdb_store import DuckDBStore
from collector.storage.known_keys import SeenFilter
from collector.storage.rows import EvaluationQuery, EvaluationRow, RecordRow, Scope, TaskQuery
from collector.storage.span_codec import trace_hash
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.span import Resource, Span
from tests.contracts.store_data import SPACE, record

TIMES: Final = JoinTimes(settle_s=0.5, foreign_settle_s=7, quiet_s=30, deadline_s=300)
STEPS: Final = TraceAssertion.span_count(SpanFilter.by_name("step"))
TASKS: Final[list[Task]] = [
    AssertionTask("answer", "answer", 1, "GreaterThanOrEqual"),
    TraceAssertionTask("steps", STEPS, 2, "GreaterThanOrEqual", condition=True),
    TraceAssertionTask("all", TraceAssertion.trace_span_count(), 3, "Equals"),
    AssertionTask("behind", "steps", 3, "LessThan", depends_on=["steps"]),
    AssertionTask(
        "said", "records[*].context.answer", [0, 1], "Equals", condition=True, scope="session"
    ),
    TraceAssertionTask("session steps", STEPS, 3, "LessThan", scope="session"),
    TraceAssertionTask(
        "session spans", TraceAssertion.trace_span_count(), 4, "LessThan",
        depends_on=["said"], scope="session",
    ),
]  # fmt: skip
PROFILE: Final = AgentEvalProfile(TASKS, alias="answers")


class Process:
    """One life of a collector: the real store and pipeline, with a clock that the test moves."""

    def __init__(self, folder: Path, now: float, memory_spans: int, memory_bytes: int) -> None:
        self.now = now
        self.store = DuckDBStore(folder)
        registry = ProfileRegistry(self.store)
        self.profile_uid = registry.register(SPACE, PROFILE, activate=True).uid
        inputs = InputClock(lambda: self.now, max_step_s=1000)
        self.work = PipelineWork(
            self.store, registry, Join(TIMES, memory_spans, memory_bytes), TIMES,
            inputs=inputs, measures=PipelineMeasures(CollectorRegistry()), observers=(),
            stopping=threading.Event(), clock=lambda: self.now,
            now_ns=lambda: int(self.now * 1e9),
        )  # fmt: skip
        self.work.resume()
        judged = SeenFilter()
        for part in self.store.evaluated_traces(0):
            for _, trace_id in part:
                judged.add(trace_hash(trace_id))
        self.work.take_judged(judged, self.store.late_traces(0), self.store.last_seq())

    def spans(self, spans: Sequence[Span]) -> None:
        self.work.take_spans(self.store.append_spans(SPACE, spans, int(self.now * 1e9)).result())

    def record(self, row: RecordRow) -> None:
        self.work.take_records(self.store.append_records([row]).result())

    def after(self, seconds: float) -> None:
        """Let time pass, in steps as the pipeline's thread takes them."""
        end = self.now + seconds
        while True:
            self.work.step()
            if self.now >= end:
                return
            pause = self.work.next_step_s()
            self.now = min(end, self.now + max(0.05, end if pause is None else pause))

    def verdicts(self) -> dict[str, EvaluationRow]:
        """By uid of the record, or by `session` and the id of the session."""
        page = self.store.evaluations(EvaluationQuery(space=SPACE, limit=1000))
        found = {
            row.record_uid if row.scope is Scope.RECORD else f"session {row.session_id}": row
            for row in page.items
        }
        assert len(found) == len(page.items)
        return found

    def total(self, name: TotalName) -> int:
        return sum(n for key, n in self.store.totals().items() if key.name is name)


@contextmanager
def folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@st.composite
def trace(draw: st.DrawFn, number: int) -> list[Span]:
    """A tree of up to five spans, stamped by one process, by two or by none."""
    size = draw(st.integers(1, 5))
    is_ours = draw(st.booleans())
    spans: list[Span] = []
    for n in range(1, size + 1):
        parent = draw(st.integers(1, n - 1)) if n > 1 else None
        attributes = {PROCESS_SPAN_COUNT: size} if is_ours and parent is None else {"n": n}
        spans.append(
            Span(
                trace_id=f"{number:032x}",
                span_id=f"{n:016x}",
                parent_span_id=None if parent is None else f"{parent:016x}",
                parent_is_remote=False,
                name=draw(st.sampled_from(["step", "other"])),
                start_ns=n,
                end_ns=10,
                attributes=attributes,
                resource=Resource(attributes={PROCESS_ID: "p"} if is_ours else {}),
            )
        )
        if draw(st.booleans()):  # an unfinished version that was sent before
            early: dict[str, Any] = {"name": "early", "end_ns": 5, "attributes": {}}
            last = spans[-1]
            fields = {name: getattr(last, name) for name in Span.__dataclass_fields__}
            spans.append(Span(**(fields | early)))
    return spans


@st.composite
def stories(draw: st.DrawFn) -> tuple[list[Span], list[RecordRow], list[Any]]:
    """Traces, records and how they arrive: batches, repeats, pauses and restarts."""
    traces = [draw(trace(number)) for number in range(1, draw(st.integers(1, 2)) + 1)]
    spans = [span for each in traces for span in each]
    records = [
        record(
            f"u{n}",
            trace_id=f"{draw(st.integers(1, 3)):032x}",
            session_id=draw(st.sampled_from(["s1", "s1", "s2", ""])),
            context={"answer": n},
        )
        for n in range(draw(st.integers(1, 3)))
    ]
    repeats = draw(st.lists(st.sampled_from(spans), max_size=3))
    arrivals = draw(st.permutations([*spans, *repeats, *records]))
    events: list[Any] = []
    for each in arrivals:
        events.append([each] if isinstance(each, Span) else each)
        if isinstance(each, Span) and len(events) > 1 and draw(st.booleans()):
            before = events[-2]
            if isinstance(before, list):
                before.append(each)
                events.pop()
                continue
        pause = draw(st.sampled_from([0.0, 0.1, 0.6, 8.0, 31.0, 61.0, "restart"]))
        if pause:
            events.append(pause)
    return spans, records, events


# A store per example: shrinking would take minutes.
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(story=stories(), memory=st.sampled_from([(1, 1), (1000, 10**6)]))
def test_the_last_verdict_is_the_offline_one(
    story: tuple[list[Span], list[RecordRow], list[Any]], memory: tuple[int, int]
) -> None:
    """Over orders, repeats, splits, pauses longer than the quiet period, and restarts.

    Every record and every session has one visible verdict; its tasks are those of `EvalDataset`
    with all records and spans.
    """
    spans, rows, events = story
    with folder() as data:
        process = Process(data, 1000.0, *memory)
        rows = [
            record(row.uid, trace_id=row.trace_id, session_id=row.session_id, context=row.context,
                   profile_uid=process.profile_uid)
            for row in rows
        ]  # fmt: skip
        by_uid = {row.uid: row for row in rows}
        try:
            for event in events:
                if event == "restart":
                    process.store.close()
                    process = Process(data, process.now + 100, *memory)
                elif isinstance(event, float):
                    process.after(event)
                elif isinstance(event, RecordRow):
                    process.record(by_uid[event.uid])
                else:
                    process.spans(event)
            process.after(700)
            found = process.verdicts()
            sheet = process.store.conservation(SPACE)
            totals = [process.total(name) for name in (TotalName.RECORDS, TotalName.SESSIONS)]
            counted = sum(
                row.passed + row.failed + row.errored + row.skipped
                for row in process.store.task_counts(TaskQuery(space=SPACE))
            )
        finally:
            process.store.close()
    offline = EvalDataset([eval_record(row) for row in rows], TASKS, spans).evaluate()
    expected = {
        (result.record_uid if result.scope == "record" else f"session {result.session_id}"): [
            (task.task_id, str(task.outcome), task.actual, task.message) for task in result.tasks
        ]
        for result in offline.records
    }
    assert {
        uid: [(task.task_id, str(task.outcome), task.actual, task.message) for task in row.tasks]
        for uid, row in found.items()
    } == expected
    assert (sheet.records.waiting, sheet.spans.late) == (0, 0)
    assert sheet.records.evaluated == len(rows)
    sessions = len({row.session_id or row.uid for row in rows})
    assert totals == [len(rows), sessions]
    assert counted == 4 * len(rows) + 3 * sessions
