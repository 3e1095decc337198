"""When an attempt passed: its own tasks and everything that it left for any alias."""

from collections.abc import Mapping, Sequence

import pytest

from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
from scouter.evaluate.compare.gate_counts import attempts_of, scenarios_passed
from scouter.evaluate.outcome import Reason
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.run import ScenarioInfo
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.model.ids import uuid7

WORDS = {
    "P": ("passed", None),
    "F": ("failed", None),
    "E": ("errored", Reason.MISSING_PATH),
    "G": ("skipped", Reason.GATE),
    "B": ("skipped", Reason.BUDGET),
    "S": ("skipped", Reason.SAMPLED),
}


def tasks_of(letters: str) -> list[EvalTaskResult]:
    return [
        EvalTaskResult.of(
            task_id=f"t{at}", task_type="Assertion", outcome=WORDS[letter][0],
            reason=WORDS[letter][1],
        )
        for at, letter in enumerate(letters)
    ]  # fmt: skip


def record(letters: str) -> RecordResult:
    tasks = tuple(tasks_of(letters))
    return RecordResult(uuid7(), "", uuid7(), None, record_outcome(tasks), tasks, 0, 0)


def run(
    own: Mapping[str, Sequence[str | None]],
    aliases: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
) -> ScenarioEvalResults:
    """A run of these scenarios.

    Args:
        own: Per scenario and attempt its own tasks; `!` raised, None has none.
        aliases: Per alias, scenario and attempt: the tasks of a record; empty without a record.
    """
    judged = [
        ScenarioResult.of(
            name, "q", tasks_of(letters.strip("!")), error="boom" if "!" in letters else None
        ).model_copy(update={"attempt": at})
        for name, row in own.items()
        for at, letters in enumerate(row)
        if letters is not None
    ]
    datasets: dict[str, EvalResults] = {}
    for alias, rows in (aliases or {}).items():
        made = [
            (name, at, letters)
            for name, row in rows.items()
            for at, letters in enumerate(row)
            if letters
        ]
        datasets[alias] = EvalResults(
            [record(letters) for _, _, letters in made],
            [name for name, _, _ in made],
            [at for _, at, _ in made],
        )
    return ScenarioEvalResults(
        dataset_results=datasets,
        scenario_results=tuple(judged),
        metrics=EvalMetrics.of(datasets, judged),
        scenarios=tuple(ScenarioInfo(scenario_id=name, initial_query="q") for name in own),
        repeats=max(len(row) for row in own.values()),
    )


def passed(results: ScenarioEvalResults) -> dict[str, list[bool | None]]:
    return {
        name: [attempt.passed for attempt in attempts]
        for name, attempts in attempts_of(results).items()
    }


@pytest.mark.parametrize(
    ("letters", "expected", "is_errored"),
    [
        ("PP", True, False),
        ("PF", False, False),
        ("PE", False, True),
        ("!", False, True),
        ("PP!", False, True),
        ("FG", False, False),
        ("PB", None, False),  # nobody knows what the judge would have said
        ("FB", False, False),
        ("B", None, False),
        ("PS", True, False),  # the sample says that this task is not judged here
        ("S", None, False),
        (None, None, False),
    ],
)
def test_own_tasks(letters: str | None, expected: bool | None, is_errored: bool) -> None:
    [attempt] = attempts_of(run({"s": [letters]}))["s"]
    assert (attempt.passed, attempt.is_errored) == (expected, is_errored)
    assert (attempt.scenario_id, attempt.attempt) == ("s", 0)


def test_records_of_every_alias_count() -> None:
    """One failed task of one record of one alias is enough."""
    results = run(
        {"one": ["P", "P"], "two": ["P", "F"], "bare": [None, None]},
        {
            "a": {"one": ["P", "PF"], "two": ["P", "P"], "bare": ["P", "E"]},
            "b": {"one": ["P", "P"], "two": ["P", "P"]},
        },
    )
    assert passed(results) == {
        "one": [True, False],
        "two": [True, False],
        "bare": [True, False],
    }
    assert [each.is_errored for each in attempts_of(results)["bare"]] == [False, True]


def test_an_alias_that_is_usual_and_missing() -> None:
    """The baseline's every attempt left a record for `a` in `one`, not in `two`."""
    baseline = run(
        {"one": ["P", "P"], "two": ["P", "P"]}, {"a": {"one": ["P", "P"], "two": ["P", ""]}}
    )
    new = run({"one": ["P", "P"], "two": ["P", "P"]}, {"a": {"one": ["P", ""], "two": ["", ""]}})
    assert {
        name: [attempt.passed for attempt in attempts]
        for name, attempts in attempts_of(new, baseline).items()
    } == {"one": [True, False], "two": [True, True]}
    assert passed(new) == {"one": [True, True], "two": [True, True]}


def test_scenarios_passed() -> None:
    """Every attempt that was decided has to pass; one without any is in neither number."""
    results = run({"all": ["P", "P"], "some": ["P", "F"], "one": ["P", "B"], "none": ["B", "B"]})
    assert scenarios_passed(results) == (2, 3)
    assert scenarios_passed(run({"s": ["F"]})) == (0, 1)
