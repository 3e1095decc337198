"""The definition of a task, as a person reads it."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.show.words import (
    Measure,
    Words,
    at_path,
    listed,
    measured,
    phrase,
    sentence,
)
from scouter.evaluate.tasks.journey import QUESTIONS
from scouter.evaluate.tasks.trace import TraceAssertion

_KINDS: Final[Mapping[str, str]] = {
    "Assertion": "assertion",
    "TraceAssertion": "trace assertion",
    "AgentAssertion": "agent assertion",
    "LLMJudge": "judge",
    "QA": "judge of answers (QA)",
    "Accuracy": "judge of accuracy",
    "Trajectory": "trajectory",
    "Journey": "journey",
    "Report": "report",
    "Reliability": "reliability of calls",
    "Code": "check in Python",
    "Function": "function",
    "Score": "score from outside",
}
_METRICS: Final[Mapping[str, str]] = {
    "exact_match": "exact match (1 or 0) of the calls with the expected ones",
    "in_order_match": "match in order (1 or 0) of the calls with the expected ones",
    "any_order_match": "match in any order (1 or 0) of the calls with the expected ones",
    "precision": "part of the calls that are expected",
    "recall": "part of the expected calls that were made",
}
_TIMES: Final = frozenset({"SpanDuration", "TraceDuration"})
_TEMPLATE: Final = re.compile(r"(?<!\$)\$\{([^{}]+)\}")
"""A path in an expected value; a doubled dollar stands for itself."""
_SPANS: Final = phrase("the spans of the trace")
_WORK: Final = phrase("calls, messages and tokens on the spans of the trace")
_CALLS: Final = phrase("the calls of tools on the spans of the trace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """The judge of a task."""

    model: str
    provider: str
    samples: int
    sample_rate: float
    """Part of the records that it is called for."""
    messages: Sequence[tuple[str, str]]
    """Role and text, with the variables."""
    criteria: Sequence[tuple[str, str]]
    """Id and question of each criterion of a rubric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """All that a task says, in words."""

    task_id: str
    description: str
    kind: str
    passes: Words
    """The condition of passing, behind `Passes where`."""
    reads: Words
    is_of_spans: bool
    """It reads spans of the trace, alone or beside other data."""
    unit: str
    """Of expected and actual value; empty where they have none."""
    judge: Judge | None
    depends_on: Sequence[str]
    when: Words
    """The condition on which it is judged; empty for always."""
    is_gate: bool
    is_required: bool
    is_of_session: bool
    written: Mapping[str, Any]
    """The task as the profile has it."""


def definition_of(task: Mapping[str, Any]) -> Definition:
    """Put a task into words.

    Args:
        task: As `GET /api/v1/profiles/{uid}` has it.
    """
    prompt = task.get("prompt") or task.get("prompt_without_reference")
    judge = None if prompt is None else Prompt.model_validate(prompt)
    if task.get("model"):  # of a journey
        judge = Prompt(QUESTIONS, task["model"], task["provider"])
    measure, reads = _read(task, judge)
    kind: str = task["task_type"]
    reads = _with_expected(reads, task["expected_value"])
    return Definition(
        task_id=task["id"],
        description=task.get("description") or "",
        kind=_KINDS.get(kind, kind),
        passes=_passes(task, measure),
        reads=reads,
        is_of_spans=any("spans of the trace" in each.text for each in reads)
        or _is_of_spans(task.get("when")),
        unit="ms" if _TIMES & (task.get("assertion") or {}).keys() else "",
        judge=None if judge is None else _judge(task, judge),
        depends_on=task.get("depends_on", ()),
        when=_condition(task.get("when")),
        is_gate=task.get("condition", False),
        is_required=task.get("required", False),
        is_of_session=task.get("scope", "record") == "session",
        written=task,
    )


def _passes(task: Mapping[str, Any], measure: Measure) -> Words:
    expected = task["expected_value"]
    if task["task_type"] == "Score" and expected is None:
        if labels := task.get("passed"):
            return phrase("the label is {labels}", labels=listed([*labels], " or "))
        expected = sum(task.get("scale", (0.0, 1.0))) / 2
    return sentence(measure, task["operator"], expected)


def _condition(when: Mapping[str, Any] | None) -> Words:
    if when is None:
        return ()
    assertion = when.get("assertion")
    measure = at_path(when) if assertion is None else measured(assertion)
    return sentence(measure, when["operator"], when.get("expected_value"))


def _is_of_spans(when: Mapping[str, Any] | None) -> bool:
    if when is None or not (assertion := when.get("assertion")):
        return False
    return when.get("source") == "spans" or bool(assertion.keys() & TraceAssertion.kinds.keys())


def _with_expected(reads: Words, expected: object) -> Words:
    """Add the paths that the expected value is read from."""
    paths = dict.fromkeys(_TEMPLATE.findall(json.dumps(expected, ensure_ascii=False)))
    if not paths:
        return reads
    return phrase("{reads}; expected value: {paths}", reads=reads, paths=listed([*paths]))


def _judge(task: Mapping[str, Any], prompt: Prompt) -> Judge:
    return Judge(
        model=prompt.model,
        provider=str(prompt.provider),
        samples=task.get("samples", 1),
        sample_rate=task.get("sample_rate", 1.0),
        messages=[(each.role.value, each.content) for each in prompt.all_messages],
        criteria=[(each["id"], each["text"]) for each in task.get("rubric") or ()],
    )


def _read(task: Mapping[str, Any], judge: Prompt | None) -> tuple[Measure, Words]:
    """The value that a task compares, and the data that it is read from."""
    match task["task_type"]:
        case "Assertion":
            return at_path(task), _at(task["context_path"])
        case "TraceAssertion":
            return measured(task["assertion"]), _SPANS
        case "AgentAssertion":
            path = task.get("context_path")
            reads = _at(path) if task["source"] == "context" else _WORK
            return measured(task["assertion"]), reads
        case "Trajectory":
            return _trajectory(task, judge)
        case "Reliability":
            return _reliability(task), _calls(task)
        case "Journey":
            measure = phrase("the {measure} of the journey", measure=task["measure"])
            path = task.get("messages") or task.get("turns")
            return Measure(subject=measure), _SPANS if path is None else _at(path)
        case "Code":
            measure = phrase("the result of the check {check} (true is 1)", check=task["check"])
            is_of_spans = task["source"] == "spans"
            reads = "the context and the spans of the trace" if is_of_spans else "the context"
            return Measure(subject=measure), phrase(reads)
        case "Report":
            return Measure(subject=phrase("the score of the report")), _at(task["report"])
        case "Score":
            reads = phrase("what other evaluators or people sent")
            return Measure(subject=phrase("the score")), reads
        case "Function":
            measure = phrase("the score that {name} gives", name=task["function"])
            return Measure(subject=measure), _at(None)
        case _:
            return _judged(task, judge)


def _at(path: str | None) -> Words:
    return (
        phrase("the whole context") if path is None else phrase("{path} of the context", path=path)
    )


def _calls(task: Mapping[str, Any]) -> Words:
    path = task.get("predicted")
    return _CALLS if path is None else _at(path)


def _judged(task: Mapping[str, Any], judge: Prompt | None) -> tuple[Measure, Words]:
    path = task.get("context_path")
    answer = phrase("the judge's answer")
    subject = answer if path is None else phrase("{path} of {answer}", path=path, answer=answer)
    paths = [*(() if judge is None else judge.parameters)]
    if task.get("reference") is not None:
        paths.append(task["reference"])
    reads = phrase("{paths} of the context", paths=listed(paths)) if paths else phrase("nothing")
    return Measure(subject=subject), reads


def _trajectory(task: Mapping[str, Any], judge: Prompt | None) -> tuple[Measure, Words]:
    metric, reference = task.get("metric"), task.get("reference")
    reads = _calls(task)
    if reference is not None:
        expected = _at(reference) if isinstance(reference, str) else phrase("those of the task")
        reads = phrase("{reads}; expected calls: {expected}", reads=reads, expected=expected)
    if judge is not None:
        return Measure(subject=phrase("the judge's score of the calls")), reads
    if metric == "single_tool_use":
        called = phrase("the use of {tool} (1 or 0)", tool=task["tool_name"])
        return Measure(subject=called), reads
    return Measure(subject=phrase(f"the {_METRICS.get(str(metric), str(metric))}")), reads


def _reliability(task: Mapping[str, Any]) -> Measure:
    form = "the score (1 or 0) for calls of {tools}"
    form += " in this order" if task["order_matters"] else ""
    form += " and of nothing else" if task["exact_match"] else ""
    return Measure(subject=phrase(form, tools=listed(task["expected_tool_calls"])))
