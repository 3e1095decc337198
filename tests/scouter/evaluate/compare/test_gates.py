"""Gates: what a run has to reach, read from files and worked out by hand."""

from pathlib import Path

import pytest

from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
from scouter.evaluate.compare.gate_checks import GateCheck, check_gates
from scouter.evaluate.compare.gates import AliasGates, Gates
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.provenance import Provenance
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.run import ScenarioInfo
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.scenario import EvalScenarios
from scouter.model.ids import uuid7
from scouter.replay.reports.texts import gate_cells

WORDS = {"P": "passed", "F": "failed", "E": "errored", "S": "skipped", "B": "skipped"}


def tasks(**letters: str) -> tuple[EvalTaskResult, ...]:
    """P passed, F failed, E errored, S skipped by a gate, B skipped for another reason."""
    return tuple(
        EvalTaskResult.of(
            task_id=name,
            task_type="Assertion",
            outcome=WORDS[letter],
            reason={"E": Reason.TYPE, "S": Reason.GATE, "B": Reason.ABSTAINED}.get(letter),
        )
        for name, letter in letters.items()
    )


def run(
    aliases: dict[str, list[dict[str, str]]],
    scenarios: dict[str, dict[str, str]] | None = None,
    *,
    silent: tuple[str, ...] = (),
) -> ScenarioEvalResults:
    """A replay with these records per alias and these own tasks per scenario."""
    datasets: dict[str, EvalResults] = {}
    for alias, rows in aliases.items():
        made = [tasks(**row) for row in rows]
        datasets[alias] = EvalResults(
            [RecordResult(uuid7(), "", "", None, record_outcome(r), r, 0, 0) for r in made],
            ["s"] * len(made),
        )
    judged = [ScenarioResult.of(n, "q", tasks(**t)) for n, t in (scenarios or {}).items()]
    return ScenarioEvalResults(
        dataset_results=datasets,
        scenario_results=tuple(judged),
        metrics=EvalMetrics.of(datasets, judged),
        scenarios=(ScenarioInfo(scenario_id="s", initial_query="q"),),
        provenance=Provenance(profile_digests={a: "d" for a in (*aliases, *silent)}),
    )


RUN = run(
    {"a": [{"x": "P", "y": "F"}, {"x": "P", "y": "P"}], "b": [{"x": "E", "z": "S"}]},
    {"s": {"own": "P", "y": "P"}},
)
"""a: 3 of 4; b: 0 of 2; the scenario: 2 of 2; together 5 of 8."""


def found(check: GateCheck) -> tuple[str, int, int, bool]:
    return check.name, check.passed, check.total, check.met


@pytest.mark.parametrize(
    ("gates", "expected"),
    [
        ({"min_pass_rate": 0.625}, [("pass rate of all checks", 5, 8, True)]),
        ({"min_pass_rate": 0.626}, [("pass rate of all checks", 5, 8, False)]),
        ({"aliases": {"a": 0.75, "b": 0}}, [("alias 'a'", 3, 4, True), ("alias 'b'", 0, 2, True)]),
        (
            {"aliases": {"a": {"min_pass_rate": 1, "tasks": {"y": 0.5, "X": 1}}}},
            [
                ("alias 'a'", 3, 4, False),
                ("alias 'a', task 'y'", 1, 2, True),
                ("alias 'a', task 'x'", 2, 2, True),
            ],
        ),
        (
            {"tasks": {"x": 0.6, "y": 0.6, "own": 1, "z": 0.1}},
            [
                ("task 'x'", 2, 3, True),
                ("task 'y'", 2, 3, True),
                ("task 'own'", 1, 1, True),
                ("task 'z'", 0, 1, False),
            ],
        ),
        ({}, []),
    ],
)
def test_rates(gates: object, expected: list[tuple[str, int, int, bool]]) -> None:
    """Errored and gate-skipped count as not passed."""
    assert [found(check) for check in check_gates(RUN, Gates.model_validate(gates))] == expected


def test_a_gate_without_results_is_not_met() -> None:
    """Nothing was shown; also where all results are skips that belong into no rate."""
    results = run({"a": [{"x": "B"}]}, silent=("quiet",))
    gates = Gates.model_validate(
        {"min_pass_rate": 0, "aliases": {"quiet": {"min_pass_rate": 0, "tasks": {"t": 0}}},
         "tasks": {"x": 0, "unseen": 0}}
    )  # fmt: skip
    checks = check_gates(results, gates)
    assert [check.met for check in checks] == [False] * 5
    assert checks[0].found is None
    assert checks[0].reason == "pass rate of all checks: no results, so 0.0% is not reached"


def test_an_attempt_that_raised_is_a_failure() -> None:
    """It has no task results, and must not vanish from the rate."""
    broken = ScenarioResult.of("t", "q", ()).model_copy(
        update={"outcome": Outcome.ERRORED, "passed": False, "error": "ValueError: no"}
    )
    results = RUN.model_copy(update={"scenario_results": (*RUN.scenario_results, broken)})
    [check] = check_gates(results, Gates(min_pass_rate=0.5))
    assert (check.passed, check.total) == (5, 9)


@pytest.mark.parametrize(
    ("gates", "words"),
    [
        ({"aliases": {"c": 1}}, "no alias 'c'; the run has 'a', 'b'"),
        ({"aliases": {"a": {"tasks": {"z": 1}}}}, "a: no task 'z'; the alias has 'x', 'y'"),
        ({"tasks": {"q": 1}}, "no task 'q'; the run has 'x', 'y', 'z', 'own'"),
    ],
)
def test_unknown_names_are_refused(gates: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_gates(RUN, Gates.model_validate(gates))


def test_reasons_are_words() -> None:
    [check] = check_gates(RUN, Gates(min_pass_rate=0.9))
    assert check.reason == (
        "pass rate of all checks: 62.5% (5 of 8, 95 % interval 31% to 86%), wanted at least 90.0%"
    )


def test_gates_of_a_scenario_file(tmp_path: Path) -> None:
    """Read with the scenarios, written with them, and refused by line and field."""
    path = tmp_path / "s.yaml"
    text = "gates:\n  min_pass_rate: 0.9\n  aliases:\n    a: 0.8\nscenarios:\n- initial_query: q\n"
    path.write_text(text, encoding="utf-8")
    scenarios = EvalScenarios.from_path(path)
    assert scenarios.gates is not None
    assert scenarios.gates.aliases["a"].min_pass_rate == 0.8
    copy = tmp_path / "copy.json"
    copy.write_text(scenarios.model_dump_json(), encoding="utf-8")
    assert EvalScenarios.from_path(copy).gates == scenarios.gates
    path.write_text(text.replace("0.8", "80"), encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"s.yaml, line 4, field 'gates.aliases.a"):
        EvalScenarios.from_path(path)
    path.write_text("scenarios:\n- initial_query: q\n", encoding="utf-8")
    plain = EvalScenarios.from_path(path)
    assert plain.gates is None
    assert "gates" not in plain.model_dump()


def test_means_of_scores() -> None:
    """X passed twice and errored once: a mean of 1 over 2, and at worst 2/3. y passed 2 of 3."""
    gates = Gates(min_scores={"X": 1, "y": 0.7, "z": 0})
    x, y, z = check_gates(RUN, gates)
    assert (x.found, *found(x)) == (1.0, "mean score of 'x'", 2, 2, False)
    assert x.reason == (
        "mean score of 'x': 1.0000 (of 2; 1 errored, 0 for the gate), wanted at least 1"
    )
    [x] = check_gates(RUN, Gates(min_scores={"x": 0.6}))
    assert x.met
    assert (y.found, *found(y)) == (pytest.approx(2 / 3), "mean score of 'y'", 2, 3, False)
    assert (z.found, *found(z)) == (None, "mean score of 'z'", 0, 0, False)
    assert y.reason == "mean score of 'y': 0.6667 (of 3), wanted at least 0.7"
    assert gate_cells(y) == ("0.7", "0.6667 (mean of 3)")
    assert gate_cells(z) == ("0", "– (mean of 0)")
    with pytest.raises(ConfigError, match="min_scores: no task 'w'"):
        check_gates(RUN, Gates(min_scores={"w": 1}))


def test_an_attempt_that_raised_is_no_gap_in_a_gate_on_an_alias() -> None:
    """Two records passed; of two attempts that raised, one left a record that is errored itself."""
    found = run({"a": [{"t": "P"}, {"t": "P"}, {"t": "E", "u": "P"}]})
    rows = found.dataset_results["a"]
    broken = [ScenarioResult.of(name, "q", (), None, "OSError", Reason.AGENT) for name in "xy"]
    found = found.model_copy(
        update={
            "dataset_results": {"a": EvalResults(rows.records, ["v", "w", "x"])},
            "scenario_results": tuple(broken),
        }
    )
    gates = Gates(
        min_scores={"t": 0.6},
        tasks={"t": 0.5},
        aliases={"a": AliasGates(min_pass_rate=0.6, tasks={"t": 0.5, "u": 0.4})},
    )
    alias, task, other, anywhere, mean = check_gates(found, gates)
    assert (alias.passed, alias.total) == (3, 5)  # and one of y
    assert (task.passed, task.total, task.met) == (2, 4, True)
    assert (other.passed, other.total) == (1, 3)
    assert (anywhere.passed, anywhere.total) == (2, 4)
    assert not mean.met
    assert mean.reason == (
        "mean score of 't': 1.0000 (of 2; 2 errored, 0 for the gate), wanted at least 0.6"
    )
