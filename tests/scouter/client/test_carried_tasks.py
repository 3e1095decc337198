"""Which tasks of a profile mean the same in a scenario."""

from typing import Any

import pytest
from pydantic import JsonValue

from scouter.client.carried_tasks import carry
from scouter.client.models import TaskResult
from scouter.evaluate.tasks.task import parse_tasks

CONTEXT: JsonValue = {"final": "From 9 to 18.", "city": "Berlin", "steps": ["From 9 to 18."]}
ANSWER = "From 9 to 18."


def spans(id: str, **fields: Any) -> dict[str, Any]:
    return {
        "task_type": "AgentAssertion", "id": id, "assertion": {"ToolCalled": {"name": "look"}},
        "operator": "Equals", "expected_value": True, "source": "spans", **fields,
    }  # fmt: skip


def reads(id: str, path: str | None, **fields: Any) -> dict[str, Any]:
    return {
        "task_type": "Assertion", "id": id, "context_path": path, "operator": "Contains",
        "expected_value": "9", **fields,
    }  # fmt: skip


def result(id: str, expected: Any = True) -> TaskResult:
    return TaskResult.model_validate(
        {
            "task_id": id, "task_type": "", "outcome": "failed", "message": "",
            "expected": expected,
        }
    )  # fmt: skip


TRACE: dict[str, Any] = {
    "task_type": "TraceAssertion", "id": "t", "assertion": {"TraceErrorCount": {}},
    "operator": "Equals", "expected_value": 0,
}  # fmt: skip
JUDGE: dict[str, Any] = {
    "task_type": "LLMJudge", "id": "t", "operator": "Equals", "expected_value": 1,
    "prompt": {"messages": "How good is ${final}?", "model": "m", "provider": "openai"},
    "context_path": "score",
}  # fmt: skip


@pytest.mark.parametrize(
    ("task", "carried"),
    [
        (spans("t"), {}),
        (TRACE, {}),
        (reads("t", "final"), {"context_path": "response"}),
        (reads("t", "city"), None),
        (reads("t", "gone"), None),
        (reads("t", "steps[0]"), {"context_path": "response"}),
        (reads("t", "steps", item_context_path="[0]"), None),
        (reads("t", None), None),
        (spans("t", source="context"), None),
        (spans("t", scope="session"), None),
        (spans("t", expected_value="${city}"), {"expected_value": "Berlin"}),
        (JUDGE, None),
    ],
)
def test_each_kind(task: dict[str, Any], carried: dict[str, Any] | None) -> None:
    (before,) = parse_tasks([task])
    found = carry([before], ["t"], {"t": result("t", "Berlin")}, CONTEXT, ANSWER)
    assert found == ([] if carried is None else [before.model_copy(update=carried)])


@pytest.mark.parametrize("results", [{}, {"t": result("t", "${city}")}])
def test_a_template_without_a_value_is_left_to_the_profile(results: dict[str, Any]) -> None:
    """The task was not judged, or what it wanted was not there."""
    tasks = parse_tasks([spans("t", expected_value="${city}")])
    assert carry(tasks, ["t"], results, CONTEXT, ANSWER) == []


@pytest.mark.parametrize("answer", [None, ""])
def test_no_answer_is_no_place(answer: str | None) -> None:
    tasks = parse_tasks([reads("t", "final")])
    assert carry(tasks, ["t"], {}, {"final": answer}, answer) == []


def test_what_a_task_depends_on_comes_along_or_neither_does() -> None:
    tasks = parse_tasks(
        [
            spans("late", depends_on=["gate"]),
            spans("gate", condition=True, depends_on=["first"]),
            spans("first"),
            spans("other"),
            reads("lost", "city"),
            spans("not_without", depends_on=["first", "lost"]),
        ]
    )
    found = carry(tasks, ["not_without", "late"], {}, CONTEXT, ANSWER)
    assert [task.id for task in found] == ["late", "gate", "first"]
