"""FunctionTask: numbers, objects and faults of a function of the running program."""

import math
from typing import Any

import pytest
from pydantic import ValidationError

from scouter.drift.profile import AgentEvalProfile
from scouter.drift.wire import read_wire_profile
from scouter.drift.wire_tasks import WireProfileError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.show.definition import definition_of
from scouter.evaluate.show.words import plain
from scouter.evaluate.tasks.function import FunctionTask
from scouter.evaluate.tasks.task import parse_task
from scouter.model.record import EvalRecord


def run(task: FunctionTask, context: object = None) -> EvalTaskResult:
    return evaluate_record(compile_plan([task]), EvalRecord(context or {})).tasks[0]


def letters(context: Any) -> int:
    return len(context["answer"])


@pytest.mark.parametrize(
    ("given", "outcome", "score", "message"),
    [
        (1, "passed", 1.0, ""),
        (True, "passed", 1.0, ""),
        (0.5, "failed", 0.5, "own is 0.5, expected Equals 1"),
        ({"own": 1, "note": "x"}, "passed", 1.0, ""),
        ({"score": 0.5, "note": "x"}, "failed", 0.5, ""),
        (None, "skipped", None, "gave no score"),
        (math.nan, "skipped", None, "gave no score"),
        ("1", "errored", None, "DataError: it is no number but str"),
        ({"note": 1}, "errored", None, "DataError: it gave the keys note; expected 'own'"),
        ({"own": "x"}, "errored", None, "DataError: 'own' is no number but str"),
        (object(), "errored", None, "DataError"),
    ],
)
def test_what_a_function_gives(
    given: object, outcome: str, score: float | None, message: str
) -> None:
    found = run(FunctionTask("own", lambda _: given))
    assert (found.outcome, found.score) == (outcome, score)
    assert message in found.message


def test_its_exception_is_its_own() -> None:
    """The other task of the record stands; what it says is its task's error."""
    tasks = [FunctionTask("raises", letters), FunctionTask("one", lambda _: 1)]
    results = EvalDataset([EvalRecord({})], tasks).evaluate()
    raises, one = results.records[0].tasks
    assert (raises.outcome, raises.message) == ("errored", "KeyError: 'answer'")
    assert one.passed


def test_a_comparison_and_a_session() -> None:
    """Three letters are more than two; a session of two records has six."""
    context = {"answer": "yes"}
    assert run(FunctionTask("n", letters, operator="GreaterThan", expected_value=2), context).passed

    def every(session: Any) -> int:
        return sum(letters(each["context"]) for each in session["records"])

    task = FunctionTask("n", every, scope="session", operator="Equals", expected_value=6)
    records = [EvalRecord(context, session_id="s") for _ in range(2)]
    (session,) = EvalDataset(records, [task]).evaluate().sessions
    assert session.tasks[0].passed


def test_a_function_cannot_change_the_record() -> None:
    def spoils(context: Any) -> int:
        context["answer"] = ""
        return 1

    tasks = [FunctionTask("spoils", spoils), FunctionTask("n", letters, expected_value=3)]
    record = evaluate_record(compile_plan(tasks), EvalRecord({"answer": "yes"}))
    assert [each.outcome for each in record.tasks] == ["passed", "passed"]


def test_stored_it_is_a_name_that_nobody_runs() -> None:
    task = FunctionTask("n", letters)
    wire = task.model_dump(mode="json")
    assert wire["function"] == f"{__name__}:letters"
    assert FunctionTask("n", str.upper).model_dump(mode="json")["function"] == "builtins:str.upper"
    with pytest.raises(ValidationError, match="a file cannot hold one"):
        parse_task(wire)
    profile = AgentEvalProfile([task], alias="a").model_dump_json()
    with pytest.raises(WireProfileError, match="a file cannot hold one"):
        read_wire_profile(profile.encode())


def test_its_definition_names_the_function() -> None:
    found = definition_of(FunctionTask("n", letters).model_dump(mode="json"))
    assert found.kind == "function"
    assert f"{__name__}:letters" in plain(found.passes)
