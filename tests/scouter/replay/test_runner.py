"""EvalRunner: three levels over given records and spans, figures worked out by hand."""

import asyncio
import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, DataError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.judge.port import JudgeRequest
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.provenance import git_revision
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.attributes import ENTITY_PREFIX, SCENARIO_ATTEMPT, SCENARIO_ID
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from scouter.replay.runner import EvalRunner
from scouter.tracing.capture import disable_local_span_capture, enable_local_span_capture
from scouter.tracing.propagation import scenario_scope
from scouter.tracing.tracer import init_tracer, shutdown_tracer


def at_least(path: str, value: int, **more: Any) -> AssertionTask:
    return AssertionTask(
        id=path,
        context_path=path,
        operator=ComparisonOperator.GreaterThanOrEqual,
        expected_value=value,
        **more,
    )


def span(trace: int, number: int, scenario: str | None = None) -> Span:
    return Span(
        trace_id=f"{trace:032x}",
        span_id=f"{number:016x}",
        name="work",
        start_ns=0,
        end_ns=1,
        attributes={} if scenario is None else {SCENARIO_ID: scenario},
    )


def runner(
    tasks: Sequence[object], *scenarios: EvalScenario, spans: Sequence[Span] = ()
) -> EvalRunner:
    profile = AgentEvalProfile(tasks=tasks, alias="a")  # type: ignore[arg-type]
    return EvalRunner(EvalScenarios(scenarios=scenarios), {"a": profile}, spans)


def test_metrics_by_hand(tmp_path: Path) -> None:
    """Alias a: 3 of 4 task results. Scenarios: 1 of 2. Overall: the mean of .75 and .5."""
    one = EvalScenario("q", [at_least("response", 5)], id="one")
    two = EvalScenario("q", [at_least("response", 5)], id="two")
    free = EvalScenario("q", id="free")
    run = runner([at_least("x", 1), at_least("y", 1)], one, two, free)
    run.collect_scenario_data({"a": [EvalRecord({"x": 1, "y": 1})]}, 7, one)
    run.collect_scenario_data({"a": [EvalRecord({"x": 1, "y": 0})]}, 3, two)
    run.collect_scenario_data({}, None, free)
    results = run.evaluate()

    metrics = results.metrics
    assert metrics.dataset_pass_rates == {"a": 0.75}
    assert metrics.workflow_pass_rate == 0.75
    assert (metrics.total_scenarios, metrics.passed_scenarios) == (2, 1)
    assert metrics.scenario_pass_rate == 0.5
    assert metrics.overall_pass_rate == 0.625
    assert results.get_scenario_detail("two").pass_rate == 0.0
    assert results.get_scenario_detail("free").outcome is Outcome.SKIPPED  # nothing was judged
    assert not results.get_scenario_detail("free").passed
    results.save(tmp_path / "r.json")
    assert ScenarioEvalResults.load(tmp_path / "r.json") == results
    assert ScenarioEvalResults.model_validate_json(results.model_dump_json()) == results


def test_errored_records_stay_and_count(tmp_path: Path) -> None:
    """One of two errored: a rate of one half, not of one (defect 3)."""
    scenario = EvalScenario("q", [at_least("response.missing", 1)], id="s")
    run = runner([at_least("x", 1)], scenario)
    run.collect_scenario_data({"a": [EvalRecord({"x": 1}), EvalRecord({})]}, {}, scenario)
    results = run.evaluate()
    assert results.metrics.dataset_pass_rates == {"a": 0.5}
    assert results.get_scenario_detail("s").outcome is Outcome.ERRORED
    assert results.metrics.scenario_task_pass_rates == {"s": {"response.missing": 0.0}}


def test_an_alias_without_any_rate_is_in_no_mean() -> None:
    """Not sampled at all: no rate, which is not a rate of 0; the other alias' is the mean."""
    task = LLMJudgeTask(
        "j",
        Prompt("Is it? ${x}", "small-1", "openai"),
        True,
        operator="Equals",
        sample_rate=0.0,
    )
    scenario = EvalScenario("q", id="s")
    run = EvalRunner(
        EvalScenarios([scenario]),
        {
            "a": AgentEvalProfile([task], alias="a"),
            "b": AgentEvalProfile([at_least("x", 1)], alias="b"),
        },
        (),
    )
    run.collect_scenario_data(
        {"a": [EvalRecord({"x": 1})], "b": [EvalRecord({"x": 1})]}, None, scenario
    )
    metrics = asyncio.run(run.evaluate_async(judge=lambda request: True)).metrics
    assert metrics.dataset_pass_rates == {"b": 1.0}
    assert (metrics.workflow_pass_rate, metrics.overall_pass_rate) == (1.0, 1.0)


def test_a_closed_gate_counts_and_what_it_skips_does_not() -> None:
    """The gate fails, its dependent is skipped: 0 of 1."""
    gate = at_least("x", 1, condition=True)
    scenario = EvalScenario("q", id="s")
    run = runner([gate, at_least("y", 1, depends_on=["x"])], scenario)
    run.collect_scenario_data({"a": [EvalRecord({"x": 0, "y": 1})]}, None, scenario)
    assert run.evaluate().metrics.dataset_pass_rates == {"a": 0.0}
    [row] = run.evaluate().dataset_results["a"]
    assert [task.outcome for task in row.eval_set.records] == [Outcome.FAILED, Outcome.SKIPPED]


def test_spans_belong_to_their_record_and_scenario() -> None:
    """Two traces in one, one in two; a span of two inside a trace of one is not one's."""
    count = TraceAssertionTask(
        id="spans",
        assertion=TraceAssertion.span_count(SpanFilter.by_name("work")),
        operator=ComparisonOperator.Equals,
        expected_value=0,
    )
    one, two = EvalScenario("q", [count], id="one"), EvalScenario("q", [count], id="two")
    spans = [span(1, 1, "one"), span(1, 2), span(2, 3, "one"), span(3, 4, "two"), span(1, 5, "two")]
    run = runner([count], one, two, spans=spans)
    for scenario, numbers in ((one, (1, 2)), (two, (3,))):
        records = [EvalRecord({}, trace_id=f"{number:032x}") for number in numbers]
        run.collect_scenario_data({"a": records}, None, scenario)
    results = run.evaluate()
    rows = results.dataset_results["a"].records
    assert [row.tasks[0].actual for row in rows] == [2, 1, 1]
    details = [results.get_scenario_detail(name).eval_results for name in ("one", "two")]
    assert [d.records[0].tasks[0].actual for d in details if d] == [3, 2]


def test_the_original_s_errors() -> None:
    """Unknown alias, data twice, no data; and a scenario from elsewhere."""
    scenario = EvalScenario("q", [at_least("response", 1)], id="s")
    run = runner([at_least("x", 1)], scenario)
    with pytest.raises(ConfigError, match="Scenario 's' has tasks but no context"):
        run.evaluate()
    with pytest.raises(ConfigError, match=r"No profile found for alias 'b' in scenario 's'; .*'a'"):
        run.collect_scenario_data({"b": [EvalRecord()]}, "x", scenario)
    with pytest.raises(ConfigError, match="scenario 'other' is not one of this run"):
        run.collect_scenario_data({}, "x", EvalScenario("q", id="other"))
    run.collect_scenario_data({}, 1, scenario)
    with pytest.raises(ConfigError, match="Scenario 's' already has data"):
        run.collect_scenario_data({}, 1, scenario)


def test_provenance() -> None:
    """Versions, revision, times, digests and the collection's id."""
    scenario = EvalScenario("q", id="s")
    run = runner([at_least("x", 1)], scenario)
    origin = run.evaluate().provenance
    assert origin.profile_digests == {"a": run.profiles["a"].digest}
    assert origin.collection_id == run.scenarios.collection_id
    assert 0 < origin.started_ns <= origin.ended_ns
    assert origin.python_version.startswith("3.")


@pytest.mark.parametrize(
    ("files", "revision"),
    [
        ({}, None),
        ({".git/HEAD": "0" * 40}, "0" * 40),
        ({".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": "1" * 40}, "1" * 40),
        (
            {
                ".git/HEAD": "ref: refs/heads/main",
                ".git/packed-refs": f"# pack\n{'2' * 40} refs/heads/main\n{'3' * 40} refs/x\n",
            },
            "2" * 40,
        ),
        ({".git/HEAD": "ref: refs/heads/main"}, None),
        (
            {
                ".git": "gitdir: main/.git/worktrees/w\n",
                "main/.git/worktrees/w/HEAD": "ref: refs/heads/w",
                "main/.git/worktrees/w/commondir": "../..\n",
                "main/.git/refs/heads/w": "4" * 40,
            },
            "4" * 40,
        ),
    ],
    ids=["none", "detached", "branch", "packed", "no commit yet", "worktree"],
)
def test_git_revision(tmp_path: Path, files: dict[str, str], revision: str | None) -> None:
    """Read from the files that git's documentation describes, from a folder below."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    below = tmp_path / "a/b"
    below.mkdir(parents=True)
    assert git_revision(below) == revision


def test_table_of_an_empty_run() -> None:
    """No records, no tasks: the table still says what there was."""
    scenario = EvalScenario("q", id="s")
    run = runner([at_least("x", 1)], scenario)
    run.collect_scenario_data({}, None, scenario)
    with redirect_stdout(io.StringIO()) as out:
        run.evaluate().as_table(show_workflow=True)
    assert "Scenarios run" in out.getvalue()


def test_output_that_cannot_take_every_letter() -> None:
    """An ASCII stream gets escapes instead of an exception (defect 12)."""
    scenario = EvalScenario("q", [at_least("response", 1)], id="日本")
    run = runner([at_least("x", 1)], scenario)
    run.collect_scenario_data({}, 1, scenario)
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    with redirect_stdout(stream):
        run.evaluate().as_table()
    assert rb"\u65e5\u672c" in raw.getvalue()


def marked(trace: int, number: int, uid: str, start_ns: int = 0, attempt: int = 0) -> Span:
    attributes: dict[str, Any] = {
        SCENARIO_ID: "one",
        SCENARIO_ATTEMPT: attempt,
        ENTITY_PREFIX + uid: uid,
    }
    found = span(trace, number, "one")
    return replace(found, attributes=attributes, start_ns=start_ns, end_ns=start_ns + 1)


def works(count: int) -> TraceAssertionTask:
    return TraceAssertionTask(
        id="works",
        assertion=TraceAssertion.span_count(SpanFilter.by_name("work")),
        operator=ComparisonOperator.Equals,
        expected_value=count,
    )


def test_a_marked_trace_is_judged_without_a_record() -> None:
    """Trace 1 has two spans, trace 2 one, trace 3 has a record, trace 4 is another profile's."""
    profile = AgentEvalProfile(tasks=[works(2)], alias="a")
    one = EvalScenario("q", id="one")
    spans = [
        marked(2, 1, profile.uid, start_ns=20),
        marked(1, 2, profile.uid, start_ns=10),
        marked(1, 3, profile.uid, start_ns=30),
        marked(3, 4, profile.uid, start_ns=5),
        marked(4, 5, "other", start_ns=1),
    ]
    judge = EvalRunner(EvalScenarios([one]), {"a": profile}, spans)
    record = EvalRecord(id="made", trace_id=f"{3:032x}")
    judge.collect_scenario_data({"a": [record]}, "r", one)

    results = judge.evaluate().dataset_results["a"]

    assert [row.record_id for row in results] == ["made", "", ""]
    assert [row.eval_set.records[0].actual for row in results] == [1, 2, 1]
    assert results.pass_rate == pytest.approx(1 / 3)
    assert {row.scenario_id for row in results} == {"one"}


def test_a_profile_that_reads_contexts_gets_no_record_made_up() -> None:
    profile = AgentEvalProfile(tasks=[works(1), at_least("score", 1)], alias="a")
    one = EvalScenario("q", id="one")
    judge = EvalRunner(EvalScenarios([one]), {"a": profile}, [marked(1, 1, profile.uid)])
    judge.collect_scenario_data({}, "r", one)

    assert judge.evaluate().dataset_results == {}


def test_a_runner_of_ones_own_looks_at_the_capture() -> None:
    """Without spans given it reads those of the process, and says if some were lost."""
    counts = TraceAssertionTask(
        id="spans",
        assertion=TraceAssertion.trace_span_count(),
        operator=ComparisonOperator.Equals,
        expected_value=2,
    )
    scenario = EvalScenario("q", [counts], id="s")
    scenarios = EvalScenarios([scenario])
    tracer = init_tracer(service_name="runner")
    enable_local_span_capture()
    try:
        with scenario_scope("s"), tracer.start_as_current_span("a"):
            tracer.start_span("b").end()
        run = EvalRunner(scenarios, {})
        run.collect_scenario_data({}, "x", scenario)
        assert run.evaluate().get_scenario_detail("s").passed
        assert scenarios.is_evaluated()
        run.add_spans([span(9, 9, "s")])  # from now on only what is given
        [result] = run.evaluate().scenario_results
        assert result.traces == (span(9, 9, "s"),)
        assert not result.passed
    finally:
        disable_local_span_capture()
        shutdown_tracer()


def test_repeats_and_errors_of_ones_own() -> None:
    """Attempts in any order; late records; one that raised."""
    scenario = EvalScenario("q", [at_least("response", 1)], id="s")
    run = runner([at_least("x", 1)], scenario)
    run.collect_scenario_data({}, None, scenario, attempt=1, error="E: no")
    run.collect_scenario_data(
        {"a": [EvalRecord({"x": 1})]}, 1, scenario, turns=[{"user": "q", "agent": 1}]
    )
    run.add_late_records({"a": [EvalRecord({"x": 0})]}, "s", attempt=1)
    results = run.evaluate()
    assert results.repeats == 2
    assert [(r.attempt, r.passed, r.error) for r in results.scenario_results] == [
        (0, True, None),
        (1, False, "E: no"),
    ]
    assert results.scenario_results[0].turns == ({"user": "q", "agent": 1},)
    assert results.dataset_results["a"].attempts == (0, 1)
    with pytest.raises(ConfigError, match="Scenario 's', attempt 1, already has data"):
        run.collect_scenario_data({}, 1, scenario, attempt=1)
    with pytest.raises(ConfigError, match="Scenario 's' has no data yet"):
        run.add_late_records({}, "s", attempt=2)
    with pytest.raises(DataError, match=r"scenario 's', response: .* has no JSON form"):
        run.collect_scenario_data({}, object(), scenario, attempt=2)


def test_a_judge_inside_and_outside_of_a_loop() -> None:
    """The same results, judged in this loop or in another."""
    rating = LLMJudgeTask(
        id="rating",
        prompt=Prompt("Rate ${response}", "m", "openai"),
        context_path="score",
        operator=ComparisonOperator.GreaterThan,
        expected_value=3,
    )
    names = ["one", "two", "three"]
    scenarios = [EvalScenario("q", [rating], id=name) for name in names]
    run = runner([at_least("x", 1)], *scenarios)
    for scenario in scenarios:
        run.collect_scenario_data({}, scenario.id, scenario)

    def judge(request: JudgeRequest) -> JsonValue:
        return {"score": 9 if "two" in request.messages[-1]["content"] else 1}

    expected = [False, True, False]
    assert [r.passed for r in run.evaluate(judge=judge).scenario_results] == expected
    found = asyncio.run(run.evaluate_async(judge=judge, concurrency=2))
    assert [r.passed for r in found.scenario_results] == expected


def test_an_attempt_is_a_session(tmp_path: Path) -> None:
    """The records' session ids make no difference. 3 of 4 record and 2 of 6 session results."""
    rising = AssertionTask(
        "rising", "records[*].context.x", [1, 2], ComparisonOperator.Equals, scope="session"
    )
    spans_seen = TraceAssertionTask(
        "spans",
        TraceAssertion.trace_span_count(),
        3,
        ComparisonOperator.GreaterThanOrEqual,
        scope="session",
    )
    one, two = EvalScenario("q", id="one"), EvalScenario("q", id="two")
    spans = [span(1, 1), span(1, 2), span(2, 1), span(3, 1)]
    run = runner([at_least("x", 1), rising, spans_seen], one, two, spans=spans)

    def made(x: int, trace: int) -> EvalRecord:
        return EvalRecord({"x": x}, id=f"r{x}", trace_id=f"{trace:032x}", created_ns=x)

    run.collect_scenario_data({"a": [made(2, 1), made(1, 2)]}, None, one)
    run.collect_scenario_data({"a": [made(0, 3)]}, None, one, attempt=1)
    run.collect_scenario_data({"a": [made(1, 3)]}, None, two)
    results = run.evaluate()

    found = results.dataset_results["a"]
    assert found.scenario_ids == ("one", "one", "one", "two", "one", "one", "two")
    assert found.attempts == (0, 0, 1, 0, 0, 1, 0)
    assert [(row.session_id, [task.actual for task in row.tasks]) for row in found.sessions] == [
        ("one", [[1, 2], 3]),
        ("one", [[0], 1]),
        ("two", [[1], 1]),
    ]
    assert results.metrics.dataset_pass_rates == {"a": pytest.approx((3 + 2) / (4 + 6))}
    out = io.StringIO()
    with redirect_stdout(out):
        results.as_table()
    assert "4 + 3 sessions" in out.getvalue()
    results.save(tmp_path / "r.json")
    assert ScenarioEvalResults.load(tmp_path / "r.json") == results
    assert not results.compare_to(results).regressed


def test_an_attempt_is_a_session_for_a_judge_too() -> None:
    """The way through the event loop gives what the plain one gives."""
    whole = AssertionTask("n", "records", 2, ComparisonOperator.HasLengthEqual, scope="session")
    scenario = EvalScenario("q", id="s")
    run = runner([whole], scenario)
    run.collect_scenario_data({"a": [EvalRecord({}), EvalRecord({})]}, None, scenario)
    judged = run.evaluate(judge=lambda request: request.task_id)
    plain = run.evaluate()
    for results in (judged, plain):
        [row] = results.dataset_results["a"].sessions
        assert row.outcome is Outcome.PASSED
        assert results.metrics.dataset_pass_rates == {"a": 1.0}
