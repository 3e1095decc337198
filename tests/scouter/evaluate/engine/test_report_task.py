"""ReportTask: a report of the context, scored field by field without a judge."""

import asyncio
import json
from typing import Any, Final

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scouter.client.expectation import carry
from scouter.drift.wire import read_wire_profile
from scouter.drift.wire_tasks import WireProfileError
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.engine.report import MOST_TEXT
from scouter.evaluate.report.report_evaluator import ReportEvaluator
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.tasks.expected_doubts import doubts
from scouter.evaluate.tasks.report import ReportTask
from scouter.evaluate.tasks.task import parse_task, parse_tasks
from scouter.model.record import EvalRecord

METRICS: Final[dict[str, Any]] = yaml.safe_load("""
Report:
  method: average
  fields:
    title: {method: exact_match}
    Facts:
      method: average
      fields:
        Id: {method: regex}
        Site: {method: f1}
        Note: {method: non_empty}
""")
REFERENCE: Final[dict[str, Any]] = {
    "title": "Collision",
    "Facts": {"Id": "R-[0-9]+", "Site": "north gate", "Note": "x"},
}
MARKDOWN: Final = """\
# Collision

## Facts

| Field | Value |
| :-- | :-- |
| Id | R-77 |
| Site | south gate |
"""
PARSED: Final[dict[str, Any]] = {
    "title": "Collision", "Facts": {"Id": "R-77", "Site": "south gate"},
}  # fmt: skip


def run(task: ReportTask, context: object) -> EvalTaskResult:
    return evaluate_record(compile_plan([task]), EvalRecord(context)).tasks[0]


@pytest.mark.parametrize("report", [MARKDOWN, PARSED])
def test_a_report_from_its_fields_up(report: Any) -> None:
    """By hand: facts (1 + 1/2 + 0) / 3 = 1/2, all (1 + 1/2) / 2."""
    result = run(ReportTask("t", METRICS, REFERENCE), {"report": report})
    assert (result.outcome, result.score, result.actual) == ("failed", 0.75, 0.75)
    assert result.message == ("report is 0.75, expected Equals 1; Facts.Site 0.5; Facts.Note 0")
    enough = ReportTask("t", METRICS, REFERENCE, operator="GreaterThanOrEqual", expected_value=0.75)
    assert run(enough, {"report": report}).passed


def test_paths() -> None:
    metrics = {"r": {"method": "average", "fields": {"a": {"method": "exact_match"}}}}
    task = ReportTask("t", metrics, "want.it", report="made[0]")
    assert run(task, {"want": {"it": {"a": 1}}, "made": [{"a": 1}]}).passed
    assert run(task, {"want": {"it": {"a": 1}}, "made": ["# Title"]}).score == 0


def test_inside_a_running_event_loop() -> None:
    async def judge() -> EvalTaskResult:
        return run(ReportTask("t", METRICS, REFERENCE), {"report": MARKDOWN})

    assert asyncio.run(judge()).score == 0.75


FIELDS: Final = st.dictionaries(
    st.sampled_from("abc"), st.none() | st.integers(0, 3) | st.sampled_from(["x y", "y", ""])
)
METHODS: Final = st.sampled_from(["exact_match", "f1", "non_empty"])


@given(FIELDS, FIELDS, st.fixed_dictionaries({"a": METHODS, "b": METHODS}))
def test_the_score_is_that_of_the_evaluator(
    reference: dict[str, Any], report: dict[str, Any], methods: dict[str, str]
) -> None:
    fields = {name: {"method": method} for name, method in methods.items()}
    metrics = {"r": {"method": "average", "fields": fields}}
    found = ReportEvaluator(metrics).score(reference, report)
    result = run(ReportTask("t", metrics, reference), {"report": report})
    assert result.score == found.section_score
    assert (result.outcome == "errored") == (found.section_score is None)


FAULTS: Final[list[tuple[dict[str, Any], Any, str, str]]] = [
    ({}, {}, "missing_path", "'report'"),
    ({}, {"report": 3}, "type", "expected Markdown or an object, got a number"),
    ({}, {"report": None}, "type", "expected Markdown or an object, got null"),
    ({}, {"report": "a" * (MOST_TEXT + 1)}, "limit", "100,001 characters; at most 100,000"),
    ({"reference": "want"}, {"report": {}, "want": [1]}, "type", "expected an object, got a list"),
    ({"reference": {}}, {"report": {}}, "type", "neither report nor reference"),
    ({"reference": {"s": 3}}, {"report": {}}, "type", "s: Reference at 'r.s' is int"),
]
TREE: Final = {
    "r": {
        "method": "average",
        "fields": {"s": {"method": "average", "fields": {"a": {"method": "f1"}}}},
    }
}


@pytest.mark.parametrize(("fields", "context", "reason", "message"), FAULTS)
def test_what_gives_no_score(
    fields: dict[str, Any], context: Any, reason: str, message: str
) -> None:
    task = ReportTask("t", TREE, fields.get("reference", {"s": {"a": "x"}}))
    result = run(task, context)
    assert (result.outcome, result.reason, result.score) == ("errored", reason, None)
    assert message in result.message


@pytest.mark.parametrize(
    ("metrics", "reference", "message"),
    [
        ({}, {}, "metrics: Config must have exactly one root key"),
        ({"r": {"method": "avg"}}, {}, "metrics: method 'avg': expected one of exact_match"),
        ({"r": {"fields": {}}}, {}, r"metrics\.r: .*at least one field"),
        ({"r": {"method": "llm_judge"}}, {}, r"metrics\.r: llm_judge.*a model and a provider"),
        (
            {"r": {"method": "average", "fields": {"a": {}}}},
            {},
            r"metrics\.r\.fields\.a: .*the field another method",
        ),
        (
            {"r": {"method": "average", "allow_dynamic_field_discovery": True}},
            {},
            r"metrics\.r: .*discovers no fields",
        ),
        ({"r": {"method": "regex"}}, "want", r"metrics\.r: regex takes its pattern"),
        (METRICS, {"Facts": {"Id": "(?=a)"}}, r"reference\.Facts\.Id: .*look-around"),
    ],
)
def test_tasks_that_are_wrong(metrics: Any, reference: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        parse_task({"id": "t", "task_type": "Report", "metrics": metrics, "reference": reference})


def test_files() -> None:
    fields = {"id": "t", "metrics": METRICS, "reference": REFERENCE}
    task = parse_task({"task_type": "Report", **fields})
    assert task == ReportTask("t", METRICS, REFERENCE)
    assert parse_tasks({"report": [fields]}) == (task,)
    assert parse_task(task.model_dump(mode="json")) == task


def test_expected_values_that_tell_nothing() -> None:
    always = ReportTask("t", METRICS, REFERENCE, operator="GreaterThanOrEqual", expected_value=0)
    [(_, doubt)] = doubts([always])
    assert "always passes" in doubt
    assert not list(doubts([ReportTask("t", METRICS, REFERENCE)]))


def _wire(metrics: Any, reference: Any) -> bytes:
    task = {"id": "t", "task_type": "Report", "metrics": metrics, "reference": reference}
    return json.dumps({"alias": "a", "tasks": [task]}).encode()


def test_profiles_of_strangers() -> None:
    fields = {f"f{number}": {"method": "f1"} for number in range(1_000)}
    with pytest.raises(WireProfileError, match="at most 1,000 report fields"):
        read_wire_profile(_wire({"r": {"method": "average", "fields": fields}}, {}))
    del fields["f0"]
    assert read_wire_profile(_wire({"r": {"method": "average", "fields": fields}}, {})).tasks
    with pytest.raises(WireProfileError, match=r"reference\.Facts\.Id.*1,000 characters"):
        read_wire_profile(_wire(METRICS, {"Facts": {"Id": "a" * 1_001}}))


def test_tasks_of_a_profile_in_scenarios() -> None:
    """A report that is the answer is read where a scenario has it."""
    context: dict[str, Any] = {"report": MARKDOWN, "other": "else", "want": {}}
    tasks = [
        ReportTask("answer", METRICS, REFERENCE),
        ReportTask("other", METRICS, REFERENCE, report="other"),
        ReportTask("of_record", {"r": {"method": "f1"}}, "want"),
    ]
    [carried] = carry(tasks, ["answer", "other", "of_record"], context, MARKDOWN)
    assert carried == ReportTask("answer", METRICS, REFERENCE, report="response")
    assert run(carried, {"response": MARKDOWN}).score == 0.75  # type: ignore[arg-type]
