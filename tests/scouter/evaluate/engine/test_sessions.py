"""Session-scoped tasks: what they see, what they give, and what is refused. Figures by hand."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.annotate.config import EvaluationConfig
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.execute import execute_trace_assertion_tasks
from scouter.evaluate.engine.plan import compile_plan, plan_text
from scouter.evaluate.engine.sessions import is_session_uid, session_uid
from scouter.evaluate.judge.port import JudgeRequest
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.scenario import EvalScenario
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.task import Task, parse_task, tasks_digest
from scouter.evaluate.tasks.trace import (
    AttributeFilterTask,
    MultiResponseMode,
    TraceAssertion,
    TraceAssertionTask,
)
from scouter.model.record import EvalRecord
from scouter.model.span import Span

TRACES = [f"{n:032x}" for n in range(1, 6)]
STEPS = TraceAssertion.span_count(SpanFilter.by_name("step"))


def record(
    uid: str, session: str, answer: object, at: int, trace: int | None = None, **fields: Any
) -> EvalRecord:
    trace_id = None if trace is None else TRACES[trace]
    return EvalRecord(
        {"answer": answer}, id=f"id of {uid}", session_id=session, trace_id=trace_id, uid=uid,
        created_ns=at, **fields,
    )  # fmt: skip


def span(trace: int, number: int, name: str = "step", start_ns: int = 0) -> Span:
    return Span(
        trace_id=TRACES[trace], span_id=f"{number:016x}", name=name, start_ns=start_ns,
        end_ns=start_ns + 1_000_000,
    )  # fmt: skip


RECORDS = [
    record("u4", "s1", "d", 20, 0),
    record("u2", "s2", "x", 5, 2),
    record("u1", "s1", "b", 10, 0),
    record("u0", "s1", "a", 10, 1, tags={"lang": "de"}),
    record("u3", "", "z", 1),
]
"""Two sessions and a record without one, neither in order; two records of s1 share a trace."""
SPANS = [
    span(0, 1, start_ns=0),
    span(0, 2, "other", start_ns=2_000_000),
    span(1, 1, start_ns=7_000_000),
    span(2, 1, start_ns=9_000_000),
    span(4, 1),
]
"""Span ids repeat between traces; the last trace has no record."""


def session_check(path: str | None, expected: object, operator: Op = Op.Equals) -> AssertionTask:
    return AssertionTask("t", path, expected, operator, scope="session")


def session_rows(tasks: Sequence[Task], **more: Any) -> dict[str, Any]:
    found = EvalDataset(RECORDS, tasks, SPANS, **more).evaluate()
    return {each.session_id: each for each in found.sessions}


@pytest.mark.parametrize(
    ("task", "s1", "s2", "alone"),
    [
        pytest.param(
            session_check("records[*].context.answer", ["a", "b", "d"]),
            ["a", "b", "d"], ["x"], ["z"], id="by-time-then-uid",
        ),
        pytest.param(session_check("records[-1].record_id", ""), "id of u4", "id of u2", "id of u3",
                     id="last"),
        pytest.param(session_check("records[0].tags", {}), {"lang": "de"}, {}, {}, id="tags"),
        pytest.param(session_check("session_id", ""), "s1", "s2", "u3", id="its-id"),
        pytest.param(session_check("records", 3, Op.HasLengthEqual), 3, 1, 1, id="length"),
        pytest.param(
            TraceAssertionTask("t", STEPS, 2, Op.Equals, scope="session"), 2, 1, Reason.NO_SPANS,
            id="spans-of-all-traces",
        ),
        pytest.param(
            TraceAssertionTask(
                "t", TraceAssertion.trace_span_count(), 3, Op.Equals, scope="session"
            ),
            3, 1, Reason.NO_SPANS, id="no-span-of-another-trace",
        ),
        pytest.param(
            TraceAssertionTask("t", TraceAssertion.trace_duration(), 8, Op.Equals, scope="session"),
            8, 1, Reason.NO_SPANS, id="from-first-start-to-last-end",
        ),
    ],
)  # fmt: skip
def test_what_a_session_is(task: Task, s1: object, s2: object, alone: object) -> None:
    rows = session_rows([task])
    assert list(rows) == ["s1", "s2", "u3"]
    for name, expected in (("s1", s1), ("s2", s2), ("u3", alone)):
        (result,) = rows[name].tasks
        assert (result.reason or result.actual) == expected, name


def test_records_and_sessions_are_rows_that_share_no_result() -> None:
    """5 records x 1 task: a, b and d are not x, z; 3 sessions x 2 tasks, of which a gate."""
    tasks: list[Task] = [
        AssertionTask("late", "answer", "[xz]", Op.Matches),
        AssertionTask(
            "talk", "records", 1, Op.HasLengthGreaterThan, condition=True, scope="session"
        ),
        AssertionTask(
            "end", "records[-1].context.answer", "d", Op.Equals, depends_on=["talk"],
            scope="session",
        ),
    ]  # fmt: skip
    found = EvalDataset(RECORDS, tasks).evaluate()
    assert [(each.scope, each.record_id, each.outcome.value) for each in found.records] == [
        ("record", "id of u4", "failed"),
        ("record", "id of u2", "passed"),
        ("record", "id of u1", "failed"),
        ("record", "id of u0", "failed"),
        ("record", "id of u3", "passed"),
        ("session", "session s1", "passed"),
        ("session", "session s2", "failed"),
        ("session", "session u3", "failed"),
    ]
    assert found.counts == {
        Outcome.PASSED: 2 + 2, Outcome.FAILED: 3 + 2, Outcome.ERRORED: 0, Outcome.SKIPPED: 2
    }  # fmt: skip
    assert found.pass_rate == 4 / 11
    assert found["session s1"].eval_set.records[1].actual == "d"
    assert repr(found) == (
        "EvalResults(5 records, 3 sessions: 3 passed, 5 failed, 0 errored, 0 skipped; "
        "11 task results: 4 passed, 5 failed, 0 errored, 2 skipped)"
    )
    frame = found.to_dataframe()
    assert list(frame["scope"]) == ["record"] * 5 + ["session"] * 6
    assert list(frame["task_id"]) == ["late"] * 5 + ["talk", "end"] * 3
    assert [row.created_ns for row in found.sessions] == [10, 5, 1]


def test_records_without_a_task_of_their_own_are_skipped() -> None:
    found = EvalDataset(RECORDS, [session_check("session_id", "s1")]).evaluate()
    assert [each.outcome.value for each in found.records] == ["skipped"] * 5 + [
        "passed", "failed", "failed",
    ]  # fmt: skip
    assert found.counts[Outcome.SKIPPED] == 0
    assert found.pass_rate == 1 / 3
    assert len(found.to_dataframe()) == 3


def test_the_order_of_records_and_spans_does_not_matter() -> None:
    tasks = [session_check("records[*].context.answer", ["a"])]
    first = session_rows(tasks)
    again = {
        each.session_id: each
        for each in EvalDataset(RECORDS[::-1], tasks, SPANS[::-1]).evaluate().sessions
    }
    assert set(again) == set(first)
    for name, row in first.items():
        assert again[name].tasks == row.tasks
        assert again[name].record_uid == row.record_uid
        assert again[name].created_ns == row.created_ns


def test_sessions_that_are_named_by_the_caller() -> None:
    """One attempt is one session, whatever session id its records have."""
    keys = [("a", 0), ("a", 1), ("a", 0), ("b", 0), ("a", 1)]
    tasks = [session_check("records[*].context.answer", [])]
    found = EvalDataset(RECORDS, tasks, sessions=keys).evaluate().sessions
    assert [(row.session_id, row.record_id, row.tasks[0].actual) for row in found] == [
        ("a", "session", ["b", "d"]),
        ("a", "session", ["z", "x"]),
        ("b", "session", ["a"]),
    ]
    assert len({row.record_uid for row in found}) == 3
    with pytest.raises(ValueError, match="1 sessions for 5 records"):
        EvalDataset(RECORDS, tasks, sessions=[("a", 0)])


def test_saved_and_loaded(tmp_path: Path) -> None:
    tasks = [session_check("session_id", "s1"), AssertionTask("r", "answer", "a", Op.Equals)]
    found = EvalDataset(RECORDS, tasks).evaluate()
    found.save(tmp_path / "results.json")
    back = EvalResults.load(tmp_path / "results.json")
    assert back == found
    assert [row.session_id for row in back.sessions] == ["s1", "s2", "u3"]
    rows = json.loads((tmp_path / "results.json").read_text())["results"]
    assert [row.get("scope") for row in rows] == [None] * 5 + ["session"] * 3


@pytest.mark.parametrize(
    "names", [("s1", "s2"), ("q7", "q8")], ids=["same-session-ids", "new-session-ids"]
)
def test_compared_with_a_baseline(names: tuple[str, str]) -> None:
    """Sessions are found again by id, else by place; one more record changes no session's place."""
    tasks = [session_check("records[*].context.answer", ["b"], Op.ContainsAny)]

    def run(answers: Sequence[str], one: str, two: str) -> EvalResults:
        made = [
            EvalRecord({"answer": answer}, session_id=session, created_ns=at)
            for at, (answer, session) in enumerate(zip(answers, [one, one, two, two], strict=False))
        ]
        return EvalDataset(made, tasks).evaluate()

    comparison = run("xxbb", *names).compare_to(run("abb", "s1", "s2"))
    changed = {
        each.comparison_id: (each.baseline_id, each.baseline_pass_rate, each.comparison_pass_rate)
        for each in comparison.workflow_comparisons
        if each.task_comparisons
    }
    place = "" if names[0] == "s1" else " #2"
    assert changed == {
        f"session {names[0]}": ("session s1", 1.0, 0.0),
        f"session {names[1]}{place}": (f"session s2{place}", 1.0, 1.0),
    }


def test_a_config_is_about_records() -> None:
    config = EvaluationConfig(
        embedder=lambda texts: [[float(len(text))] for text in texts],
        embedding_targets=["answer"],
        compute_histograms=True,
    )
    tasks = [session_check("session_id", "s1"), AssertionTask("r", "answer", "a", Op.Equals)]
    found = EvalDataset(RECORDS, tasks).evaluate(config)
    assert [dict(each.mean_embeddings) for each in found] == [{"answer": 1.0}] * 5 + [{}] * 3
    assert found.histograms is not None
    assert found.histograms["r"].total == 5


def test_a_judge_is_called_once_per_session() -> None:
    prompt = Prompt(
        messages="${session_id}: ${records[*].context.answer}",
        provider="openai",
        model="m",
        fence=False,
    )
    tasks = [LLMJudgeTask("t", prompt, "ok", operator=Op.Equals, scope="session")]
    questions: list[str] = []

    def judge(request: JudgeRequest) -> str:
        questions.append(str(request.messages[-1]["content"]))
        return "ok"

    found = EvalDataset(RECORDS, tasks).evaluate(judge=judge)
    assert sorted(questions) == ['s1: ["a", "b", "d"]', 's2: ["x"]', 'u3: ["z"]']
    assert [row.outcome.value for row in found.sessions] == ["passed"] * 3
    again = asyncio.run(EvalDataset(RECORDS, tasks).evaluate_async(judge=judge))
    assert again.sessions[0].tasks == found.sessions[0].tasks
    assert len(questions) == 6


def test_a_context_without_json_form_costs_its_session_only() -> None:
    rows = [*RECORDS, record("u9", "s2", object(), 30)]
    found = EvalDataset(rows, [session_check("records", 3, Op.HasLengthEqual)]).evaluate()
    by_id = {row.session_id: row.tasks[0] for row in found.sessions}
    assert by_id["s1"].outcome is Outcome.PASSED
    assert by_id["s2"].outcome is Outcome.ERRORED
    assert "records.1.context.answer" in by_id["s2"].message


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        (
            [AssertionTask("a", "x", 1, Op.Equals),
             AssertionTask("b", "x", 1, Op.Equals, depends_on=["a"], scope="session")],
            "'b': its scope is session, that of 'a' in its depends_on is record",
        ),
        (
            [AssertionTask("a", "x", 1, Op.Equals, scope="session", condition=True),
             AssertionTask("b", "x", 1, Op.Equals, depends_on=["a"])],
            "'b': its scope is record, that of 'a' in its depends_on is session",
        ),
        (
            [AssertionTask("a", "x", 1, Op.Equals),
             AssertionTask("a", "x", 1, Op.Equals, scope="session")],
            "'a' is taken",
        ),
        (
            [AgentAssertionTask("a", AgentAssertion.tool_called("f"), True, Op.Equals,
                                scope="session")],
            "'a': a session's context is no response; give the context_path",
        ),
        ([AssertionTask("a", "x..y", 1, Op.Equals, scope="session")], r"'a'.*x\.\.y"),
        (
            [TraceAssertionTask(
                "a",
                TraceAssertion.attribute_filter(
                    "k", AttributeFilterTask.assertion(session_check(None, 1)),
                    MultiResponseMode.All,
                ),
                True, Op.Equals,
            )],
            "'a': the task inside AttributeFilter.*no scope",
        ),
    ],
)  # fmt: skip
def test_refused_when_the_profile_is_built(tasks: list[Task], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        AgentEvalProfile(tasks, alias="p")


def test_refused_where_there_is_no_session() -> None:
    task = TraceAssertionTask("steps", STEPS, 1, Op.Equals, scope="session")
    with pytest.raises(ConfigError, match="'steps' has the scope session; there is no session"):
        execute_trace_assertion_tasks([task], SPANS)
    with pytest.raises(ConfigError, match=r"'steps' has the scope session.*once per attempt"):
        EvalScenario("hello", tasks=[task])
    with pytest.raises(ValueError, match="scope"):
        parse_task({**task.model_dump(mode="json"), "scope": "trace"})


def test_agent_tasks_read_one_response_or_the_spans() -> None:
    calls = [{"type": "function", "id": "1", "function": {"name": "f", "arguments": "{}"}}]
    answer = {"choices": [{"message": {"role": "assistant", "tool_calls": calls}}]}
    task = AgentAssertionTask(
        "t", AgentAssertion.tool_called("f"), True, Op.Equals,
        context_path="records[-1].context.response", scope="session",
    )  # fmt: skip
    records = [
        EvalRecord({"response": each}, session_id="s", created_ns=at)
        for at, each in enumerate([{"choices": []}, answer])
    ]
    (row,) = EvalDataset(records, [task]).evaluate().sessions
    assert row.tasks[0].actual is True


def test_the_scope_is_in_the_wire_form_and_the_digest() -> None:
    """A scope that is not written down is the record's, and changes no digest of before."""
    of_record, of_session = AssertionTask("t", "x", 1, Op.Equals), session_check("x", 1)
    wire = of_record.model_dump(mode="json")
    assert "scope" not in wire
    assert of_session.model_dump(mode="json") == {**wire, "scope": "session"}
    assert parse_task({**wire, "scope": None}) == of_record
    assert parse_task(of_session.model_dump(mode="json")) == of_session
    assert tasks_digest([of_record]) != tasks_digest([of_session])
    before = "dab2e2d32dd75d08b712885544783b16474a4c16d60feb909ff4192e2ebdc67e"
    assert tasks_digest([of_record]) == before
    profile = AgentEvalProfile([of_record, AssertionTask("s", "x", 1, Op.Equals, scope="session")],
                               alias="p")  # fmt: skip
    assert AgentEvalProfile.model_validate_json(profile.model_dump_json()) == profile
    assert profile.digest == tasks_digest(profile.tasks)


def test_a_plan_of_both_scopes() -> None:
    tasks: list[Task] = [
        AssertionTask("b", "x", 1, Op.Equals, scope="session"),
        AssertionTask("a", "x", 1, Op.Equals, condition=True, required=True),
        TraceAssertionTask("c", STEPS, 1, Op.Equals, depends_on=["b"], scope="session"),
    ]
    plan = compile_plan(tasks)
    assert plan.session is not None
    assert (plan.stages, plan.session.stages) == ((("a",),), (("b",), ("c",)))
    assert (plan.reads_spans, plan.session.reads_spans, plan.needs_spans) == (False, True, True)
    assert plan_text(plan) == (
        "stage 0\n  a (Assertion Equals, gate, required)\n"
        "session, stage 0\n  b (Assertion Equals)\n"
        "session, stage 1\n  c (TraceAssertion Equals, after b)"
    )


def test_the_uids_that_are_stored_for_sessions() -> None:
    uid = session_uid("p", "s")
    assert is_session_uid(uid)
    assert uid == session_uid("p", "s")
    assert len({session_uid("p", "s"), session_uid("ps", ""), session_uid("p", "s", "")}) == 3
    for other in ("session:1", uid[:-1], uid + "0", uid.upper(), f"x{uid}", uid[8:], ""):
        assert not is_session_uid(other)
