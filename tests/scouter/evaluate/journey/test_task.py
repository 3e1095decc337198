"""Journeys as tasks: sessions and records, missing evidence, limits of foreign profiles."""

import json
from typing import Any, cast

import pytest
from pydantic import ValidationError

from scouter.drift.profile import AgentEvalProfile
from scouter.drift.wire import read_wire_profile
from scouter.errors import ConfigError
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.journey.case_faults import faults_of
from scouter.evaluate.judge.port import JudgeError, JudgeRequest
from scouter.evaluate.outcome import Reason
from scouter.evaluate.scenario import EvalScenario
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.evaluate.tasks.task import Task, parse_task
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from tests.scouter.evaluate.spans_support import MS, span
from tests.support.journeys import ANSWER, ASSIGNMENT, GOOD, SCHEDULE, hr, one_tool, says, user
from tests.support.watsonx_vectors import expected_metrics, stub_judge, vectors

FIRST, SECOND = f"{1:032x}", f"{2:032x}"


def chat(id: int, text: str, at: tuple[float, float], trace_id: str) -> Span:
    said = [{"role": "assistant", "parts": [{"type": "text", "content": text}]}]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.output.messages": json.dumps(said),
    }
    return span(id, "chat m", 1, at, attributes, trace=trace_id)


def tool(id: int, call: tuple[str, dict[str, Any]], at: tuple[float, float], trace_id: str) -> Span:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call[0],
        "gen_ai.tool.call.arguments": json.dumps(call[1]),
        "gen_ai.tool.call.result": "ok",
    }
    return span(id, f"execute_tool {call[0]}", 1, at, attributes, trace=trace_id)


def conversation(*, is_early: bool = False) -> list[Span]:
    """Two turns: a question back, then both calls and the answer; or the answer first."""
    return [
        span(1, "turn", None, (0, 20), trace=FIRST),
        chat(2, ANSWER if is_early else "Who are you?", (5, 10), FIRST),
        span(1, "turn", None, (100, 200), trace=SECOND),
        tool(2, ASSIGNMENT, (110, 120), SECOND),
        tool(3, SCHEDULE, (130, 140), SECOND),
        chat(4, "Done." if is_early else ANSWER, (150, 160), SECOND),
    ]


RECORDS = [
    EvalRecord({}, session_id="s", trace_id=trace_id, uid=f"u{at}", created_ns=at * MS)
    for at, trace_id in ((0, FIRST), (100, SECOND))
]


def evaluated(tasks: list[Task], spans: list[Span]) -> EvalResults:
    return EvalDataset(RECORDS, tasks, spans).evaluate()


def only(results: EvalResults) -> Any:
    """The result of the one session-scoped task."""
    (session,) = results.sessions
    (task,) = session.tasks
    return task


def test_a_session_is_one_conversation() -> None:
    good = only(evaluated([JourneyTask("j", hr())], conversation()))
    assert (str(good.outcome), good.score) == ("passed", 1.0)
    assert "every goal is met, in order" in good.message
    early = only(evaluated([JourneyTask("j", hr())], conversation(is_early=True)))
    assert (str(early.outcome), early.score) == ("failed", 0.0)
    assert "has to come before 'summarize'" in early.message


@pytest.mark.parametrize(
    ("measure", "score"),
    [("success", 0.0), ("completion", 2 / 3), ("recall", 0.5), ("precision", 0.5),
     ("parameter_f1", 0.9)],
)  # fmt: skip
def test_measures(measure: Any, score: float) -> None:
    """A call has one of three arguments wrong, so 4 / 5 of it is right; the other call is right."""
    wrong = (SCHEDULE[0], {**SCHEDULE[1], "end_date": "2025-02-28"})
    spans = conversation()
    spans[4] = tool(3, wrong, (130, 140), SECOND)
    task = JourneyTask("j", hr(), measure, operator="GreaterThan", expected_value=0.45)
    found = only(evaluated([task], spans))
    assert found.score == pytest.approx(score)
    assert str(found.outcome) == ("passed" if score > 0.45 else "failed")


def test_one_record_and_messages_of_the_context() -> None:
    task = JourneyTask("j", hr(), messages="chat", scope="record")
    context = {"chat": GOOD}
    (result,) = EvalDataset([EvalRecord(context)], [task]).evaluate().records
    assert result.tasks[0].score == 1.0
    (wrong,) = EvalDataset([EvalRecord({"chat": "hi"})], [task]).evaluate().records
    assert (str(wrong.tasks[0].outcome), str(wrong.tasks[0].reason)) == ("errored", "type")
    assert "expected a list of messages" in wrong.tasks[0].message


def test_missing_evidence_is_no_evidence() -> None:
    """A parent that is not here tells of spans that are not; what is met stands, the rest not."""
    lost = [span(9, "part", 77, (141, 142), trace=SECOND)]
    calls_only = one_tool(ASSIGNMENT[1])
    calls_only["goal_details"][0]["tool_name"] = ASSIGNMENT[0]
    stands = only(evaluated([JourneyTask("j", calls_only)], [*conversation(), *lost]))
    assert (str(stands.outcome), stands.score) == ("passed", 1.0)
    unsure = only(evaluated([JourneyTask("j", hr())], [*conversation(), *lost]))
    assert (str(unsure.outcome), str(unsure.reason), unsure.score) == (
        "errored", "incomplete", None,
    )  # fmt: skip
    nothing = only(evaluated([JourneyTask("j", hr())], []))
    assert str(nothing.reason) == "no_spans"


def test_it_asks_no_model() -> None:
    """A fuzzy value is compared by tokens, the same everywhere."""
    dataset = one_tool({"x": "time off schedule information"}, {"x": "fuzzy"})
    spans = [
        span(1, "turn", None, (100, 200), trace=SECOND),
        tool(2, ("t", {"x": "time off schedule"}), (110, 120), SECOND),
        chat(4, "Done.", (150, 160), SECOND),
    ]
    assert only(evaluated([JourneyTask("j", dataset)], spans)).score == 1.0
    strict = JourneyTask("j", dataset, enable_fuzzy_matching=False)
    assert only(evaluated([strict], spans)).score == 0.0
    with pytest.raises(ValidationError, match="assert_llm asks a judge; give model and provider"):
        JourneyTask("j", polite())


def polite() -> dict[str, Any]:
    """The dataset with a statement."""
    case = hr()
    case["goal_details"].append({"type": "assert_llm", "kind": "policy", "check": "is polite"})
    return case


@pytest.mark.parametrize(
    ("said", "outcome", "reason", "words"),
    [
        pytest.param({"verdict": True}, "passed", "None", "every goal is met", id="true"),
        pytest.param({"verdict": False, "reason": "rude"}, "failed", "None",
                     "not true: is polite (rude)", id="false"),
        pytest.param("no idea", "errored", "parse", "undecided: is polite", id="no-verdict"),
        pytest.param(JudgeError(Reason.BUDGET, "spent"), "skipped", "budget", "spent", id="budget"),
        pytest.param(JudgeError(Reason.REFUSAL, "no"), "errored", "refusal", "no", id="refused"),
    ],
)  # fmt: skip
def test_a_judge_decides_about_statements(said: Any, outcome: str, reason: str, words: str) -> None:
    """Called once, through the engine; what it answered and what that took is in the result."""
    requests: list[JudgeRequest] = []

    def judge(request: JudgeRequest) -> Any:
        requests.append(request)
        if isinstance(said, JudgeError):
            raise said
        return said

    task = JourneyTask("j", polite(), messages="chat", scope="record", model="m", provider="p")
    (result,) = EvalDataset([EvalRecord({"chat": GOOD}, uid="u")], [task]).evaluate(judge=judge)
    found = result.record.tasks[0]
    assert (str(found.outcome), str(found.reason)) == (outcome, reason), found.message
    assert words in found.message
    (request,) = (
        requests  # the text says what is wanted, word for word, so no judge is called for it
    )
    assert (request.model, request.provider, request.record_uid) == ("m", "p", "u")
    assert json.loads(request.messages[-1]["content"])["check"] == "is polite"
    if outcome in ("passed", "failed"):
        assert found.usage is not None
        assert found.usage.calls == 1
        assert found.exchange is not None
        assert found.exchange.answer == [
            {"question": "journey_assert", "check": "is polite", "answer": said}
        ]


def test_questions_are_put_together_and_bounded() -> None:
    """Two texts that say it otherwise, and a statement: one round, in which all are put."""
    chat = [user("hi"), says("one"), says("two")]
    dataset: dict[str, Any] = {
        "story": "s", "goals": {"g": []},
        "goal_details": [
            {"type": "text", "name": "g", "response": "two of them"},
            {"type": "assert_llm", "kind": "observed", "check": "c"},
        ],
    }  # fmt: skip
    task_ids: list[str] = []

    def judge(request: JudgeRequest) -> Any:
        task_ids.append(request.task_id)
        return {"verdict": "two" in request.messages[-1]["content"] or request.task_id[-1] == "t"}

    def judged(most: int) -> Any:
        task = JourneyTask("j", dataset, messages="chat", scope="record", model="m",
                           provider="p", max_questions=most)  # fmt: skip
        (row,) = EvalDataset([EvalRecord({"chat": chat})], [task]).evaluate(judge=judge)
        return row.record.tasks[0]

    assert judged(3).score == 1.0
    assert sorted(task_ids) == ["journey_assert", "journey_semantic", "journey_semantic"]
    assert str(judged(2).reason) == "limit"
    assert len(task_ids) == 3  # no judge is called where it would be too much


def test_the_numbers_of_the_original_are_those_of_the_task() -> None:
    """Vectors as records, judged by the engine with the vectors' judge."""
    ran = 0
    for vector in vectors()["trajectory_vectors"]:
        spec: Any = vector.get("judge") or {}
        expected = vector["expected"]["1.6.9"]
        is_plain = isinstance(spec, dict) and "assert" not in spec and not faults_of(
            vector["dataset"]
        )  # fmt: skip
        others = ("resource_map", "conversational_search_data", "metrics")
        has_more = any(vector.get(each) for each in others) or "fuzzy" in str(vector["dataset"])
        if not is_plain or has_more or "dataset_error" in expected or expected.get("errors"):
            continue
        task = JourneyTask("j", vector["dataset"], messages="chat", scope="record",
                           compat="wxo-1.6.9", model="m", provider="p", max_questions=1000,
                           max_retries=0)  # fmt: skip
        data = EvalDataset([EvalRecord({"chat": vector["messages"]})], [task])
        (row,) = data.evaluate(judge=stub_judge(vector.get("judge") or {}))
        found = row.record.tasks[0]
        wanted, actual = expected_metrics(vector), cast("dict[str, Any]", found.actual)
        assert {name: actual[name] for name in wanted} == wanted, vector["id"]
        assert found.score == float(wanted["is_success"])
        ran += 1
    assert ran >= 40


def test_turns_without_times_leave_the_order_open() -> None:
    """A call of the second turn could belong to the first as well."""
    turns: list[Any] = [{"user": "a", "agent": "b"}, {"user": "c", "agent": ANSWER}]
    task = JourneyTask("j", hr(), turns="turns", scope="record")

    def outcome(given: list[Any]) -> tuple[str, str]:
        record = EvalRecord({"turns": given}, trace_id=SECOND)
        (row,) = EvalDataset([record], [task], conversation()[2:]).evaluate()
        return str(row.record.tasks[0].outcome), str(row.record.tasks[0].reason)

    assert outcome(turns) == ("errored", "incomplete")
    times = [
        {"asked_ns": 0, "answered_ns": 99 * MS},
        {"asked_ns": 100 * MS, "answered_ns": 200 * MS},
    ]
    timed = [{**turn, **time} for turn, time in zip(turns, times, strict=True)]
    assert outcome(timed) == ("passed", "None")
    assert outcome(["no turn"]) == ("errored", "type")


def test_a_wrong_dataset_is_refused_with_its_place() -> None:
    with pytest.raises(ValidationError, match=r"goals\.summarize: 'x' is no list"):
        JourneyTask("j", hr(goals={**hr()["goals"], "summarize": "x"}))


def test_it_is_read_as_it_is_written() -> None:
    task = JourneyTask("j", hr(), "recall", operator="GreaterThan", expected_value=0.5)
    assert parse_task(task.model_dump(mode="json")) == task


def test_a_scenario_has_it_by_record() -> None:
    with pytest.raises(ConfigError, match="has the scope session"):
        EvalScenario("hi", [JourneyTask("j", hr())])
    assert EvalScenario("hi", [JourneyTask("j", hr(), scope="record")]).has_tasks()


def many_goals(count: int) -> dict[str, Any]:
    goals = [{"type": "tool_call", "name": f"g{n}", "tool_name": "t"} for n in range(count)]
    return {"story": "s", "goals": {f"g{n}": [] for n in range(count)}, "goal_details": goals}


def test_what_a_profile_of_the_network_may_ask() -> None:
    def wire(count: int) -> bytes:
        profile = AgentEvalProfile([JourneyTask("j", many_goals(count))], alias="a")
        return json.dumps(profile.model_dump(mode="json")).encode()

    assert read_wire_profile(wire(200)).alias == "a"
    with pytest.raises(ConfigError, match="at most 200 journey goals"):
        read_wire_profile(wire(201))


def test_a_conversation_beyond_the_limit() -> None:
    spans = [span(1, "turn", None, (100, 200), trace=SECOND)]
    spans += [tool(n, ("t", {}), (110, 120), SECOND) for n in range(2, 110)]
    found = only(evaluated([JourneyTask("j", many_goals(200))], spans))
    assert str(found.reason) == "limit"
    assert "at most 20,000 are compared" in found.message
