"""Flips: whose it is that a check passes in one attempt at a scenario and not in another."""

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import JsonValue

from scouter.evaluate.api.comparison import ScenarioComparisonResults
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
from scouter.evaluate.judge.port import JudgeUsage, Message
from scouter.evaluate.judge.shorten import JudgeExchange, shorten
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.attempt import Conversation
from scouter.evaluate.results.flips import Flips, flips, flips_text
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.run import ScenarioInfo
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.model.span import Span
from tests.scouter.evaluate.spans_support import span


def task(
    passed: bool,
    *,
    kind: str = "LLMJudge",
    question: str | None = None,
    task_id: str = "check",
    stage: int = 0,
    reason: Reason | None = None,
) -> EvalTaskResult:
    """One result; a judge's with its question, if that is stored."""
    outcome = Outcome.PASSED if passed else Outcome.FAILED if reason is None else Outcome.ERRORED
    made = EvalTaskResult.of(
        task_id=task_id, task_type=kind, outcome=outcome, reason=reason, stage=stage, message="m"
    )
    if question is None:
        return made
    exchange = JudgeExchange.of([Message(role="user", content=question)], {"score": int(passed)})
    return made.using(JudgeUsage(calls=1), exchange)


def attempt(
    number: int,
    tasks: Sequence[EvalTaskResult],
    answer: JsonValue = "yes",
    said: str = "q",
    spans: Sequence[Span] = (),
    **fields: Any,
) -> ScenarioResult:
    inside = RecordResult("r", "", "", None, record_outcome(tasks), tuple(tasks), 1, 1)
    turns = () if answer is None else ({"user": said, "agent": answer},)
    own = EvalResults([inside]) if tasks else None
    found = ScenarioResult.of("s", "q", tasks, own, fields.pop("error", None), **fields)
    return found.model_copy(
        update={"attempt": number, "response": answer, "turns": turns, "traces": tuple(spans)}
    )


def run(*attempts: ScenarioResult, **fields: Any) -> ScenarioEvalResults:
    return ScenarioEvalResults(
        dataset_results={},
        scenario_results=attempts,
        metrics=EvalMetrics.of({}, attempts),
        scenarios=(ScenarioInfo(scenario_id="s", initial_query="q"),),
        repeats=len(attempts),
        **fields,
    )


def call(arguments: str) -> Span:
    """A tool call, as OpenTelemetry's conventions tell it."""
    return span(
        1,
        "execute_tool find",
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "find",
            "gen_ai.tool.call.arguments": arguments,
        },
    )


def only(found: Sequence[Flips]) -> Flips:
    (row,) = found
    return row


LONG = "x" * 9000

CASES = [
    pytest.param(
        attempt(0, [task(True, question="Rate yes")]),
        attempt(1, [task(False, question="Rate yes")]),
        "the judge's", id="the-judge-read-the-same",
    ),
    pytest.param(
        attempt(0, [task(True, question="Rate yes")]),
        attempt(1, [task(False, question="Rate no")], answer="no"),
        "the agent's", id="the-judge-read-another-answer",
    ),
    pytest.param(
        attempt(0, [task(True, question="Rate yes")], answer=None),
        attempt(1, [task(False, question="Rate no")], answer=None),
        "the agent's", id="the-question-alone-tells",
    ),
    pytest.param(
        attempt(0, [task(True)]), attempt(1, [task(False)]),
        "the judge's", id="no-question-stored-and-the-same-answer",
    ),
    pytest.param(
        attempt(0, [task(True)]), attempt(1, [task(False)], answer="no"),
        "the agent's", id="no-question-stored-and-another-answer",
    ),
    pytest.param(
        attempt(0, [task(True)], spans=[call('{"q": 1}')]),
        attempt(1, [task(False)], spans=[call('{"q": 1}')]),
        "the judge's", id="the-same-call",
    ),
    pytest.param(
        attempt(0, [task(True)], spans=[call('{"q": 1}')]),
        attempt(1, [task(False)], spans=[call('{"q": 2}')]),
        "the agent's", id="other-arguments",
    ),
    pytest.param(
        attempt(0, [task(True)], answer=None), attempt(1, [task(False)], answer=None),
        "not known", id="no-answer-stored",
    ),
    pytest.param(
        attempt(0, [task(True)]), attempt(1, [task(False)], answer=None),
        "not known", id="one-answer-not-stored",
    ),
    pytest.param(
        attempt(0, [task(True, question=LONG)], answer=None),
        attempt(1, [task(False, question=LONG)], answer=None),
        "not known", id="a-question-that-was-cut",
    ),
    pytest.param(
        attempt(0, [task(True, kind="Assertion")]),
        attempt(1, [task(False, kind="Assertion")], answer="no"),
        "the agent's", id="a-check-without-a-judge",
    ),
    pytest.param(
        attempt(0, [task(True, kind="TraceAssertion")], answer=None),
        attempt(1, [task(False, kind="TraceAssertion")], answer=None),
        "the agent's", id="only-a-judge-can-judge-otherwise",
    ),
    pytest.param(
        attempt(0, [task(True, question="a", task_id="j"), task(True, kind="Assertion", stage=1)]),
        attempt(1, [task(True, question="a", task_id="j"), task(False, kind="Assertion", stage=1)]),
        "the judge's", id="a-check-of-what-a-judge-said",
    ),
    pytest.param(
        attempt(0, [task(True, question="a")], said="q"),
        attempt(1, [task(False, question="b")], answer="no", said="please"),
        "the simulated user's", id="another-question-of-the-user",
    ),
    pytest.param(
        attempt(0, [task(True, question="a")]),
        attempt(1, [task(False, reason=Reason.PROVIDER)], answer="no"),
        "the judge's", id="a-judge-that-was-not-there",
    ),
    pytest.param(
        attempt(0, [task(True, question="a")]), attempt(1, [], error="KeyError: 'k'"),
        "the agent's", id="raised",
    ),
    pytest.param(
        attempt(0, [task(True, question="a")]),
        attempt(1, [], error="an echo", error_reason=Reason.USER),
        "the simulated user's", id="the-user-left-its-brief",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("good", "bad", "whose"), CASES)
def test_whose(good: ScenarioResult, bad: ScenarioResult, whose: str) -> None:
    row = only(flips(run(good, bad)))
    assert (row.scenario_id, row.alias, row.task_id) == ("s", None, "check")
    assert (row.is_flaky, row.text) == (True, whose)
    assert sum(row.counts.values()) == 1
    assert f"1 {whose} (" in flips_text([row])


@pytest.mark.parametrize(("good", "bad", "whose"), CASES)
def test_between_baseline_and_release(
    good: ScenarioResult, bad: ScenarioResult, whose: str
) -> None:
    """With one attempt in each only the judge's is a flip; else the release is worse."""
    found = flips(run(bad.model_copy(update={"attempt": 0})), run(good))
    if whose == "the judge's":
        row = only(found)
        assert (row.judge, row.is_flaky) == (1, False)
    else:
        assert (found, flips_text(found)) == ((), "")


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param(
            {"openinference.span.kind": "TOOL", "tool.name": "f", "input.value": '{"q": N}'},
            id="openinference",
        ),
        pytest.param(
            {
                "traceloop.span.kind": "tool", "traceloop.entity.name": "f",
                "traceloop.entity.input": '{"inputs": {"q": N}}',
            },
            id="openllmetry",
        ),
        pytest.param(
            {
                "operation.name": "ai.toolCall", "ai.operationId": "ai.toolCall",
                "ai.toolCall.name": "f", "ai.toolCall.id": "cN", "ai.toolCall.args": '{"q": N}',
            },
            id="vercel",
        ),
        pytest.param(
            {"gen_ai.tool.name": "f", "tool_arguments": '{"q": N}', "logfire.msg": "running tool"},
            id="pydantic-ai",
        ),
        pytest.param(
            {"langfuse.observation.type": "tool", "langfuse.observation.input": '{"q": N}'},
            id="langfuse",
        ),
    ],
)  # fmt: skip
def test_calls_of_other_conventions(attributes: dict[str, str]) -> None:
    """Another argument is another trajectory, whoever tells of the call."""

    def called(number: int) -> list[Span]:
        made = {name: value.replace("N", str(number)) for name, value in attributes.items()}
        return [span(1, "f", attributes=made)]

    good = attempt(0, [task(True)], spans=called(1))
    for number, whose in ((1, "the judge's"), (2, "the agent's")):
        bad = attempt(1, [task(False)], spans=called(number))
        assert only(flips(run(good, bad))).text == whose


def test_each_flip_is_named() -> None:
    """Of four attempts that do not pass, two are like one that does, one is not, one is unknown."""
    found = run(
        attempt(0, [task(True, question="Rate yes")]),
        attempt(1, [task(False, question="Rate yes")]),
        attempt(2, [task(False, question="Rate yes")]),
        attempt(3, [task(False, question="Rate no")], answer="no"),
        attempt(4, [task(False)], answer=None),
    )
    row = only(flips(found))
    assert (row.agent, row.judge, row.user, row.unknown) == (1, 2, 0, 1)
    assert row.text == "1 the agent's, 2 the judge's, 1 not known"


def test_attempts_of_which_nothing_flips() -> None:
    same = run(*(attempt(at, [task(False, question="a")]) for at in range(3)))
    assert flips(same) == ()
    assert flips(run(*(attempt(at, [task(True, question="a")]) for at in range(3))), same) == ()


def test_single_attempts_count() -> None:
    """What was repeated alone is an attempt as well."""
    again = run(attempt(0, [task(True, question="a")]))
    found = run(attempt(0, [task(False, question="a")]), reasked=again)
    assert only(flips(found)).judge == 1


@pytest.mark.parametrize(
    ("contexts", "whose"),
    [
        pytest.param([{"answer": "yes"}, {"answer": "yes"}], "the judge's", id="the-same"),
        pytest.param([{"answer": "yes"}, {"answer": "no"}], "the agent's", id="another"),
        pytest.param([None, None], "not known", id="not-stored"),
        pytest.param([shorten(LONG, 99)] * 2, "not known", id="cut"),
        pytest.param(
            [shorten(f"{at}{LONG}", 99) for at in range(2)], "the agent's", id="cut-and-another"
        ),
    ],
)
def test_records(contexts: list[JsonValue], whose: str) -> None:
    """A task of an alias reads the context of its record; two records of an attempt are two."""
    rows = [
        RecordResult(f"u{at}{n}", "", "", None, Outcome.PASSED, (task(n == 0 or at == 0),), 1, 1)
        for at in range(2)
        for n in range(2)
    ]
    datasets = {"desk": EvalResults(rows, ["s"] * 4, [0, 0, 1, 1])}
    found = ScenarioEvalResults(
        dataset_results=datasets,
        scenario_results=(),
        metrics=EvalMetrics.of(datasets, ()),
        scenarios=(ScenarioInfo(scenario_id="s", initial_query="q"),),
        conversations=tuple(
            Conversation(scenario_id="s", attempt=at, response="ok") for at in range(2)
        ),
        contexts={f"u{at}1": value for at, value in enumerate(contexts) if value is not None},
        repeats=2,
    )
    row = only(flips(found))
    assert (row.alias, row.task_id, row.text) == ("desk", "check", whose)


def test_a_comparison_holds_them() -> None:
    good, bad = (
        run(attempt(0, [task(True, question="a")])),
        run(attempt(0, [task(False, question="a")])),
    )
    comparison = ScenarioComparisonResults.of(good, bad)
    assert comparison.check_flips == flips(bad, good)
    stored = ScenarioComparisonResults.model_validate_json(comparison.model_dump_json())
    assert stored.check_flips == comparison.check_flips
