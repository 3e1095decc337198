"""Tasks, profiles, scenarios and results are the same when they are written and read again."""

import json
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
from scouter.evaluate.compare.gates import Gates
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.rows import Annotations, Histogram, RecordAnnotations
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.task import Task, TasksFile, parse_tasks, tasks_digest
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.record import EvalRecord
from tests.support.examples import examples

SLOW = settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

letters = st.characters(codec="utf-8")
words = st.text(letters, min_size=1, max_size=8)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(letters, max_size=6)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
keys = st.sampled_from(["a", "response.text", "x[0].y", "größe", '["a.b"]', None])
operators = st.sampled_from(list(ComparisonOperator))
named = st.builds(SpanFilter.by_name, words)
filters: st.SearchStrategy[SpanFilter] = st.one_of(
    named,
    st.builds(SpanFilter.with_attribute, words),
    st.builds(SpanFilter.by_name(name="x").and_, named),
)


prompts: st.SearchStrategy[Prompt] = st.fixed_dictionaries(
    {
        "messages": words.map(lambda text: "${a} or ${b}? " + text.replace("${", "$${")),
        "model": words,
        "provider": st.sampled_from(["openai", "house"]),
        "fence": st.booleans(),
        "max_value_characters": st.integers(100, 10_000_000),
    }
).map(Prompt.model_validate)
judged: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "context_path": keys,
        "samples": st.integers(1, 25),
        "vote": st.just("majority"),
        "sample_rate": st.floats(0, 1),
        "reference": st.sampled_from(["want", "x[0].y"]),
    },
).flatmap(
    lambda fields: st.sampled_from(
        [
            {},
            {"scale": (0, 0.5), "may_abstain": True, "vote": "median"},
            {"swap": {"first": "a", "second": "b", "labels": ["1", "2"], "tie": "="}},
            {"rubric": [{"id": "c", "text": "yes?", "weight": 0.1}]},
        ]
    ).map(lambda more: {**fields, **more})
)


@st.composite
def one_task(draw: st.DrawFn, name: str) -> Task:
    common: dict[str, Any] = {
        "id": name,
        "operator": draw(operators),
        "expected_value": draw(values),
        "description": draw(st.none() | words),
        "condition": draw(st.booleans()),
        "required": draw(st.booleans()),
    }
    kind = draw(st.sampled_from(["assertion", "trace", "agent", "judge"]))
    try:
        if kind == "assertion":
            return AssertionTask(context_path=draw(keys), **common)
        if kind == "trace":
            assertion = TraceAssertion.span_count(draw(filters))
            return TraceAssertionTask(assertion=assertion, **common)
        if kind == "judge":
            return LLMJudgeTask(prompt=draw(prompts), **draw(judged), **common)
        called = AgentAssertion.tool_called_with_args(
            draw(words), draw(st.dictionaries(words, values, max_size=2))
        )
        return AgentAssertionTask(assertion=called, **common)
    except ValueError:  # an expected value that this operator cannot compare with
        assume(False)
        raise


@st.composite
def task_lists(draw: st.DrawFn) -> list[Task]:
    names = draw(st.lists(words.map(lambda w: w.strip().lower()).filter(bool), min_size=1,
                          max_size=3, unique=True))  # fmt: skip
    return [draw(one_task(name)) for name in names]


class QuotingDumper(yaml.SafeDumper):
    """Quotes every text: PyYAML leaves `0E0` bare, which is a number in YAML 1.2, as read here."""


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')


QuotingDumper.add_representer(str, _quoted)


def extended(path: Path, value: Any) -> None:
    """Write a value in the form that the file's name says."""
    if path.suffix == ".yaml":
        text = yaml.dump(value, Dumper=QuotingDumper, allow_unicode=True)
        path.write_text(text, encoding="utf-8")
    else:
        path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


@given(task_lists(), st.sampled_from(["t.json", "t.yaml"]))
@SLOW
def test_tasks(tmp_path: Path, tasks: list[Task], name: str) -> None:
    wire = [task.model_dump(mode="json") for task in tasks]
    assert list(parse_tasks(json.loads(json.dumps(wire)))) == tasks
    extended(tmp_path / name, {"tasks": wire})
    again = TasksFile.from_path(tmp_path / name)
    assert list(again) == tasks
    assert tasks_digest(again) == tasks_digest(tasks)


@given(task_lists(), words)
@SLOW
def test_profiles(tmp_path: Path, tasks: list[Task], alias: str) -> None:
    try:
        profile = AgentEvalProfile(tasks=tasks, alias=alias)
    except ConfigError:
        assume(False)
        raise
    path = profile.save_to_json(tmp_path / "p.json")
    for again in (
        AgentEvalProfile.from_file(path),
        AgentEvalProfile.model_validate_json(profile.model_dump_json()),
        AgentEvalProfile.model_validate(profile.model_dump()),
    ):
        assert again == profile
        assert (again.digest, again.uid) == (profile.digest, profile.uid)


rates = st.floats(0, 1)
gates = st.fixed_dictionaries(
    {},
    optional={
        "min_scenario_pass_rate": rates,
        "min_pass_rate": rates,
        "tags": st.dictionaries(
            words, rates | st.fixed_dictionaries({}, optional={"min_pass_rate": rates}), max_size=2
        ),
        "aliases": st.dictionaries(words, rates, max_size=2),
        "tasks": st.dictionaries(words, rates, max_size=2),
    },
).map(Gates.model_validate)


@st.composite
def scenarios(draw: st.DrawFn) -> EvalScenarios:
    ids = draw(st.lists(words, min_size=1, max_size=3, unique=True))
    found: list[EvalScenario] = []
    for name in ids:
        try:
            found.append(
                EvalScenario(
                    id=name if draw(st.booleans()) else None,
                    initial_query=f"{name}: {draw(st.text(letters, max_size=9))}",
                    tasks=draw(task_lists()) if draw(st.booleans()) else None,
                    expected_outcome=draw(st.none() | words),
                    predefined_turns=draw(st.lists(words, max_size=2)),
                    simulated_user_persona=draw(st.none() | words),
                    termination_signal=draw(st.none() | words),
                    max_turns=draw(st.integers(1, 99)),
                    metadata=draw(st.none() | st.dictionaries(words, values, max_size=2)),
                    tags=draw(st.lists(words, max_size=2)),
                    required=draw(st.booleans()),
                )
            )
        except ConfigError:
            assume(False)
    return EvalScenarios(found, gates=draw(st.none() | gates))


@given(scenarios(), st.sampled_from(["s.json", "s.yaml"]))
@SLOW
def test_scenarios(tmp_path: Path, made: EvalScenarios, name: str) -> None:
    """Through JSON text, through a file, and one per line; ids that nobody gave stay."""
    assert EvalScenarios.model_validate_json(made.model_dump_json()) == made
    extended(tmp_path / name, json.loads(made.model_dump_json()))
    assert EvalScenarios.from_path(tmp_path / name) == made
    lines = "\n".join(scenario.model_dump_json() for scenario in made)
    (tmp_path / "s.jsonl").write_text(lines, encoding="utf-8")
    assert EvalScenarios.from_path(tmp_path / "s.jsonl").scenarios == made.scenarios


outcomes = st.sampled_from(
    [
        (Outcome.PASSED, None),
        (Outcome.FAILED, None),
        (Outcome.ERRORED, Reason.TYPE),
        (Outcome.SKIPPED, Reason.GATE),
    ]
)


@st.composite
def task_results(draw: st.DrawFn) -> EvalTaskResult:
    outcome, reason = draw(outcomes)
    return EvalTaskResult.of(
        task_id=draw(words), task_type="Assertion", outcome=outcome, reason=reason,
        expected=draw(values), actual=draw(values), message=draw(st.text(letters, max_size=9)),
        operator=str(draw(operators)), condition=draw(st.booleans()), stage=draw(st.integers(0, 3)),
        assertion=draw(values),
    )  # fmt: skip


@st.composite
def results(draw: st.DrawFn) -> EvalResults:
    records: list[RecordResult] = []
    for at in range(draw(st.integers(0, 4))):
        tasks = tuple(draw(st.lists(task_results(), max_size=3)))
        records.append(
            RecordResult(
                f"uid-{at}",
                draw(st.text(letters, max_size=5)),
                draw(words),
                draw(st.none() | st.just("a" * 32)),
                record_outcome(tasks),
                tasks,
                draw(st.integers(0, 2**62)),
                draw(st.integers(0, 10**12)),
            )
        )
    count = len(records)
    ids = draw(st.none() | st.lists(st.none() | words, min_size=count, max_size=count))
    found = EvalResults(records, ids if ids and any(ids) else None)
    if draw(st.booleans()):
        notes = [RecordAnnotations(similarity_scores={"a_b": 0.5})] * count
        bins = Histogram(bin_edges=(0.0, 0.5, 1.0), bin_counts=(1, 2), total=3)
        return found.with_annotations(
            Annotations(records=tuple(notes), histograms={draw(words): bins})
        )
    return found


@given(results())
@SLOW
def test_results(tmp_path: Path, made: EvalResults) -> None:
    """As text; inside a stored replay; and twice is like once."""
    text = made.model_dump_json()
    again = EvalResults.model_validate_json(text)
    assert again == made
    assert again.model_dump_json() == text
    json.loads(text, parse_constant=lambda word: 1 / 0)
    judged = [ScenarioResult.of("s", "q", task_rows(made), made)]
    run = ScenarioEvalResults(
        dataset_results={"alias": made},
        scenario_results=tuple(judged),
        metrics=EvalMetrics.of({"alias": made}, judged),
    )
    run.save(tmp_path / "run.json")
    assert ScenarioEvalResults.load(tmp_path / "run.json") == run
    assert ScenarioEvalResults.model_validate_json(run.model_dump_json()) == run


def task_rows(made: EvalResults) -> list[EvalTaskResult]:
    return [task for record in made.records for task in record.tasks][:5]


contexts = st.dictionaries(st.sampled_from(["a", "größe", "response"]), values, max_size=3)


@given(st.lists(contexts, max_size=4), task_lists())
@SLOW
def test_what_was_evaluated(found: list[dict[str, Any]], tasks: list[Task]) -> None:
    """Results of the engine itself, in columns, come back as they were."""
    try:
        made = EvalDataset([EvalRecord(context) for context in found], tasks).evaluate()
    except ConfigError:
        assume(False)
        raise
    again = EvalResults.model_validate_json(made.model_dump_json())
    assert again == made
    assert [r.outcome for r in again.records] == [r.outcome for r in made.records]
    assert again.counts == made.counts
