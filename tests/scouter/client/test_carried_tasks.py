"""Tasks of a profile that mean the same in a scenario."""

from typing import Any

import pytest
from pydantic import JsonValue

from scouter.client.expectation import carry
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
        (spans("t", expected_value="${final}"), None),
        (spans("t", expected_value=["as ${steps[0]}"]), None),
        (JUDGE, None),
    ],
)
def test_each_kind(task: dict[str, Any], carried: dict[str, Any] | None) -> None:
    (before,) = parse_tasks([task])
    found = carry([before], ["t"], CONTEXT, ANSWER)
    assert found == ([] if carried is None else [before.model_copy(update=carried)])


@pytest.mark.parametrize(
    "value", ["long " * 100_000, {"deep": [1, None]}, [], None, 7, "", "costs $5"]
)
def test_a_template_is_replaced_by_the_whole_value(value: JsonValue) -> None:
    """A verdict would have two ends of it, or its text; of an erased one, nothing."""
    tasks = parse_tasks([spans("t", expected_value={"as": ["${city}"]})])
    (found,) = carry(tasks, ["t"], {"city": value}, None)
    assert found == tasks[0].model_copy(update={"expected_value": {"as": [value]}})


@pytest.mark.parametrize("context", [None, {}, {"city": "${other}"}, "text"])
def test_a_template_without_a_value_is_left_to_the_profile(context: JsonValue) -> None:
    """Nothing is there, also not the record; or what is there would be read as a template."""
    tasks = parse_tasks([spans("t", expected_value="${city}")])
    assert carry(tasks, ["t"], context, ANSWER) == []


def test_what_another_task_found_is_not_in_the_record() -> None:
    """`${city}` is what the task `city` found, whatever the record has under that name."""
    tasks = parse_tasks([spans("city"), spans("t", expected_value="${city}", depends_on=["city"])])
    assert carry(tasks, ["t"], CONTEXT, ANSWER) == []


def test_a_context_that_is_no_object_has_a_name_beside_dependencies() -> None:
    tasks = parse_tasks([spans("t", expected_value="${context[0]}", depends_on=["a"]), spans("a")])
    found = carry(tasks, ["t"], ["Berlin"], ANSWER)
    assert [task.expected_value for task in found] == ["Berlin", True]


@pytest.mark.parametrize("answer", [None, ""])
def test_no_answer_is_no_place(answer: str | None) -> None:
    tasks = parse_tasks([reads("t", "final")])
    assert carry(tasks, ["t"], {"final": answer}, answer) == []


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
    found = carry(tasks, ["not_without", "late"], CONTEXT, ANSWER)
    assert [task.id for task in found] == ["late", "gate", "first"]
