"""Comparing two runs: what counts as worse, worked out by hand."""

import io
import math
from contextlib import redirect_stdout
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.errors import FileFormatError
from scouter.evaluate.api.comparison import ComparisonResults, ScenarioComparisonResults
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
from scouter.evaluate.intervals import wilson
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.provenance import Provenance
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.run import ScenarioInfo
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.model.ids import uuid7

WORDS = {
    "P": Outcome.PASSED, "F": Outcome.FAILED, "E": Outcome.ERRORED, "S": Outcome.SKIPPED,
}  # fmt: skip


def tasks_of(letters: str) -> tuple[EvalTaskResult, ...]:
    """`PFE` is three tasks t0 t1 t2: passed, failed, errored; S is skipped by a gate."""
    return tuple(
        EvalTaskResult.of(
            task_id=f"t{index}",
            task_type="Assertion",
            outcome=WORDS[letter],
            reason={"E": Reason.MISSING_PATH, "S": Reason.GATE}.get(letter),
            message=f"message {letter}",
        )
        for index, letter in enumerate(letters)
    )


def record(letters: str, record_id: str = "") -> RecordResult:
    tasks = tasks_of(letters)
    return RecordResult(uuid7(), record_id, "", None, record_outcome(tasks), tasks, 0, 0)


def results(*rows: str) -> EvalResults:
    """One record per text, as in `a:PF` (record id a) or `PF` (no id)."""
    made: list[RecordResult] = []
    for row in rows:
        record_id, _, letters = row.rpartition(":")
        made.append(record(letters, record_id))
    return EvalResults(made)


def named(**outcomes: str) -> tuple[EvalTaskResult, ...]:
    """Tasks by name, each with its letter."""
    return tuple(
        EvalTaskResult.of(
            task_id=name,
            task_type="Assertion",
            outcome=WORDS[letter],
            reason={"E": Reason.MISSING_PATH, "S": Reason.GATE}.get(letter),
        )
        for name, letter in outcomes.items()
    )


def one_record(**outcomes: str) -> EvalResults:
    """A run of a single record with these tasks."""
    tasks = named(**outcomes)
    return EvalResults([RecordResult(uuid7(), "r", "", None, record_outcome(tasks), tasks, 0, 0)])


def one_scenario(**outcomes: str) -> ScenarioEvalResults:
    """A replay of the single scenario `s` with these tasks of its own."""
    judged = [ScenarioResult.of("s", "query", named(**outcomes))]
    return ScenarioEvalResults(
        dataset_results={},
        scenario_results=tuple(judged),
        metrics=EvalMetrics.of({}, judged),
        scenarios=(ScenarioInfo(scenario_id="s", initial_query="query"),),
    )


def replay(
    aliases: dict[str, list[tuple[str, str]]], scenarios: dict[str, str]
) -> ScenarioEvalResults:
    """Per alias its records as (scenario, `id:letters`); per scenario its own tasks, maybe none."""
    datasets = {
        alias: EvalResults(
            [
                record(letters, record_id)
                for _, letters in rows
                for record_id, _, letters in [letters.rpartition(":")]
            ],
            [name for name, _ in rows],
        )
        for alias, rows in aliases.items()
    }
    judged = [
        ScenarioResult.of(name, f"query of {name}", tasks_of(letters))
        for name, letters in scenarios.items()
        if letters
    ]
    return ScenarioEvalResults(
        dataset_results=datasets,
        scenario_results=tuple(judged),
        metrics=EvalMetrics.of(datasets, judged),
        scenarios=tuple(ScenarioInfo(scenario_id=n, initial_query=n) for n in scenarios),
    )


@pytest.mark.parametrize(
    ("before", "after", "regressed", "improved", "worse"),
    [
        pytest.param(["PP", "PP"], ["PP", "PP"], False, 0, 0, id="same"),
        pytest.param(["P", "P"], ["F", "F"], True, 0, 2, id="without ids, 100 % to 0 %"),
        pytest.param(["a:P", "b:F"], ["b:F", "a:P"], False, 0, 0, id="ids in another order"),
        pytest.param(["a:P", "a:F"], ["a:F", "a:F"], True, 0, 1, id="one id twice"),
        pytest.param(["PF"], ["PP"], False, 1, 0, id="better"),
        pytest.param(["PF"], ["FP"], False, 0, 0, id="one up, one down"),
        pytest.param(["PP"], ["PE"], True, 0, 1, id="errored"),
        pytest.param(["PF"], ["PE"], True, 0, 0, id="failed before, errored now"),
        pytest.param(["PE"], ["PE"], False, 0, 0, id="errored in both"),
        pytest.param(["PP"], ["PS"], True, 0, 1, id="gate closed now"),
        pytest.param(["P", "P"], ["P"], True, 0, 0, id="record missing"),
        pytest.param(["P"], ["P", "P"], False, 0, 0, id="new record"),
        pytest.param(["P"], ["P", "E"], True, 0, 0, id="new record that errors"),
        pytest.param([], [], False, 0, 0, id="nothing"),
    ],
)
def test_what_counts_as_worse(
    before: list[str], after: list[str], regressed: bool, improved: int, worse: int
) -> None:
    """The strict rule and the counts; a reason whenever it regressed."""
    comparison = ComparisonResults.of(results(*before), results(*after))
    assert comparison.regressed is regressed
    assert bool(comparison.reasons) is regressed
    assert (comparison.improved_workflows, comparison.regressed_workflows) == (improved, worse)
    assert comparison.baseline_workflow_count == len(before)
    assert comparison.comparison_workflow_count == len(after)


@pytest.mark.parametrize(
    ("threshold", "regressed"), [(0.0, True), (0.05, True), (0.1, True), (0.11, False), (1, False)]
)
def test_the_threshold_is_the_smallest_drop_that_counts(threshold: float, regressed: bool) -> None:
    """Nine of ten instead of ten of ten is a drop of exactly 0.1."""
    comparison = ComparisonResults.of(results("P" * 10), results("P" * 9 + "F"), threshold)
    assert comparison.regressed is regressed
    assert comparison.mean_pass_rate_delta == pytest.approx(-0.1)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, math.nan])
def test_a_threshold_is_a_share(threshold: float) -> None:
    """Percent by mistake would never fire."""
    with pytest.raises(ValueError, match="expected a share from 0 to 1"):
        ComparisonResults.of(results(), results(), threshold)


def test_statistics_per_task() -> None:
    """Task t0: 3 of 4 before, 1 of 3 now; three records in both, of which two changed."""
    comparison = ComparisonResults.of(results("P", "P", "F", "P"), results("P", "F", "F"), 0.5)
    [stats] = comparison.task_aggregate_stats
    assert (stats.baseline_passed, stats.baseline_count) == (3, 4)
    assert (stats.comparison_passed, stats.comparison_count) == (1, 3)
    assert (stats.baseline_pass_count, stats.comparison_pass_count) == (2, 1)
    assert (stats.workflows_evaluated, stats.status_changed_count) == (3, 1)
    assert stats.difference == pytest.approx(1 / 3 - 3 / 4)
    assert stats.baseline_interval == wilson(3, 4)
    assert comparison.reasons == (
        "task 't0' passed before and does not now in 1 record: #2",
        "1 record of the baseline missing: #4",
    )


def test_reasons_name_the_first_five() -> None:
    """Seven errored records: five with their message, then how many more."""
    comparison = ComparisonResults.of(results(*["P"] * 7), results(*["E"] * 7))
    assert comparison.reasons[0].endswith("in 7 records: #1, #2, #3, #4, #5, and 2 more")
    assert comparison.reasons[1] == "record #1 errored: t0: message E"
    assert comparison.reasons[-1] == "2 more records errored"
    assert len(comparison.reasons) == 7


def test_tasks_of_one_side_only() -> None:
    """A task that is new or gone is reported; it changes no rate of shared tasks."""
    comparison = ComparisonResults.of(results("a:P"), results("a:PF"))
    assert not comparison.regressed
    [missing] = comparison.missing_tasks
    assert (missing.task_id, missing.present_in) == ("t1", "comparison_only")
    assert comparison.has_missing_tasks
    with redirect_stdout(io.StringIO()) as out:
        comparison.print_missing_tasks()
    assert "comparison_only" in out.getvalue()


def test_nothing_in_common_is_no_pass() -> None:
    """All tasks were renamed: nothing of the baseline was judged again."""
    renamed = EvalResults(
        [
            RecordResult(
                uuid7(), "", "", None, Outcome.PASSED,
                (EvalTaskResult.of(task_id="x", task_type="Assertion", outcome="passed"),), 0, 0,
            )
        ]
    )  # fmt: skip
    comparison = ComparisonResults.of(results("P"), renamed)
    assert comparison.reasons == ("1 record with no task in common with the baseline: #1",)


@pytest.mark.parametrize(
    ("before", "after", "regressed", "words"),
    [
        pytest.param(
            {"a": "P", "b": "P"}, {"b": "P"}, True, "gone", id="a task that passed is gone"
        ),
        pytest.param({"a": "P", "b": "F"}, {"a": "P"}, False, "", id="one that failed is gone"),
        pytest.param({"a": "P"}, {"a": "P", "c": "P"}, False, "", id="a new task"),
        pytest.param({"a": "P"}, {"c": "P"}, True, "no task in common", id="all renamed"),
        pytest.param({"a": "F"}, {"c": "P"}, True, "no task in common", id="none in common"),
        pytest.param(
            {"gate": "P", "x": "P", "y": "P", "z": "F"},
            {"gate": "F", "x": "S", "y": "S", "z": "S"},
            True,
            "gate",
            id="the gate closed",
        ),
        pytest.param(
            {"gate": "F", "x": "S", "y": "P"},
            {"gate": "P", "x": "F", "y": "P"},
            False,
            "",
            id="the gate opened",
        ),
    ],
)
def test_lost_checks_count_for_records_and_scenarios_alike(
    before: dict[str, str], after: dict[str, str], regressed: bool, words: str
) -> None:
    """A check that is gone did not pass, with any threshold."""
    records = one_record(**after).compare_to(one_record(**before), 0.5)
    scenarios = one_scenario(**after).compare_to(one_scenario(**before), 0.5)
    for comparison in (records, scenarios):
        assert comparison.regressed is regressed
        assert bool(comparison.reasons) is regressed
        assert words in " ".join(comparison.reasons)
    [workflow], [delta] = records.workflow_comparisons, scenarios.scenario_deltas
    assert workflow.lost_tasks == delta.lost_tasks
    assert workflow.baseline_pass_rate == delta.baseline_pass_rate
    assert workflow.comparison_pass_rate == delta.comparison_pass_rate


def test_a_small_loss_counts_too() -> None:
    """One of fifty checks is two percent, below the threshold, and gone all the same."""
    before = {f"t{index}": "P" for index in range(50)}
    after = {name: letter for name, letter in before.items() if name != "t7"}
    reasons = one_record(**after).compare_to(one_record(**before)).reasons
    assert reasons == ("task 't7' passed before and is gone from 1 record: r",)
    reasons = one_scenario(**after).compare_to(one_scenario(**before)).reasons
    assert "gone, passed before: t7" in reasons[0]


def test_a_closed_gate_hides_nothing_in_any_rate() -> None:
    """One passed, the gate failed, two skipped by it: 1/4 in every place that shows a rate."""
    letters = {"a": "P", "gate": "F", "x": "S", "y": "S"}
    results = one_record(**letters)
    judged = [ScenarioResult.of("s", "query", named(**letters))]
    assert judged[0].pass_rate == results.pass_rate == 0.25
    assert EvalMetrics.of({"r": results}, judged).dataset_pass_rates == {"r": 0.25}
    comparison = results.compare_to(results)
    assert comparison.baseline_pass_rate == comparison.comparison_pass_rate == 0.25
    assert {stats.task_id: stats.baseline_count for stats in comparison.task_aggregate_stats} == {
        "a": 1, "gate": 1, "x": 1, "y": 1,
    }  # fmt: skip


def test_other_tasks_under_the_same_ids_are_mentioned() -> None:
    """The digest of an alias' tasks changed, and nobody knows which: it cannot be compared."""
    before = replay({"r": [("a", "P")], "q": [("a", "P")]}, {"a": ""})
    after = before.model_copy(
        update={"provenance": Provenance(profile_digests={"r": "b" * 64, "q": "c" * 64})}
    )
    before = before.model_copy(
        update={"provenance": Provenance(profile_digests={"r": "a" * 64, "q": "c" * 64})}
    )
    comparison = after.compare_to(before)
    assert not comparison.regressed
    assert comparison.exit_code == 3
    [change] = comparison.changes
    assert change.text == (
        "profile 'r' changed: left out of the comparison, as the baseline does not store its tasks"
    )
    with redirect_stdout(io.StringIO()) as out:
        comparison.as_table()
    assert change.text in out.getvalue()
    assert after.compare_to(before, accept_changed=["r"]).exit_code == 0


@given(st.lists(st.text("PFES", min_size=1, max_size=4), max_size=6))
def test_a_run_never_regresses_against_itself(rows: list[str]) -> None:
    """Law: same results, no reason, no change; and the verdict survives its JSON."""
    comparison = ComparisonResults.of(results(*rows), results(*rows))
    assert not comparison.regressed
    assert comparison.unchanged_workflows == len(rows)
    assert ComparisonResults.model_validate_json(comparison.model_dump_json()) == comparison


@given(
    st.lists(st.text("PFE", min_size=2, max_size=2), min_size=1, max_size=5),
    st.integers(0, 4),
    st.integers(0, 1),
)
def test_losing_any_pass_is_seen(rows: list[str], index: int, task: int) -> None:
    """Law: turn one passed task into failed or errored anywhere, and it regressed."""
    index %= len(rows)
    letters = rows[index]
    if letters[task] != "P":
        return
    for letter in "FE":
        changed = letters[:task] + letter + letters[task + 1 :]
        after = [*rows[:index], changed, *rows[index + 1 :]]
        assert ComparisonResults.of(results(*rows), results(*after)).regressed


def test_records_without_ids_match_by_their_order_in_the_scenario() -> None:
    """Scenario b lost its second record; a's two records are the same in another place."""
    before = replay({"r": [("a", "P"), ("a", "F"), ("b", "P"), ("b", "P")]}, {"a": "", "b": ""})
    after = replay({"r": [("b", "P"), ("a", "P"), ("a", "F")]}, {"b": "", "a": ""})
    comparison = after.compare_to(before)
    assert comparison.regressed_aliases == ["r"]
    assert comparison.reasons == ("r: 1 record of the baseline missing: b #2",)


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        pytest.param("x:P y:F", "y:F x:P", "", id="only the order changed"),
        pytest.param("x:P y:F", "y:P x:F", "not now in 1 record: s x", id="order and verdicts"),
        pytest.param("x:P x:F", "x:F x:F", "not now in 1 record: s x", id="first of an id"),
        pytest.param("x:F x:P", "x:F x:F", "not now in 1 record: s x #2", id="second of an id"),
        pytest.param("x:P y:P", "y:P", "baseline missing: s x", id="one id gone"),
        pytest.param("P x:P P", "x:P P F", "not now in 1 record: s #2", id="some without ids"),
    ],
)
def test_records_match_by_their_id_inside_a_scenario(before: str, after: str, reason: str) -> None:
    """Sub-agents that work at the same time finish in any order; ids say which is which."""
    runs = [
        replay({"r": [("s", row) for row in rows.split()]}, {"s": ""}) for rows in (before, after)
    ]
    comparison = runs[1].compare_to(runs[0])
    assert comparison.regressed is bool(reason)
    assert " ".join(comparison.reasons).endswith(reason)


@given(
    st.dictionaries(
        st.tuples(st.sampled_from("st"), st.text("xyz", min_size=1)), st.text("PFE", min_size=1)
    ),
    st.randoms(use_true_random=False),
)
def test_the_order_of_records_with_ids_says_nothing(
    rows: dict[tuple[str, str], str], random: Random
) -> None:
    """Law: the same records in any order, and nothing changed."""
    ordered = [(scenario, f"{name}:{letters}") for (scenario, name), letters in rows.items()]
    shuffled = random.sample(ordered, len(ordered))
    names = {"s": "", "t": ""}
    comparison = replay({"r": shuffled}, names).compare_to(replay({"r": ordered}, names))
    assert not comparison.regressed
    assert not comparison.dataset_comparisons["r"].task_status_changes


@pytest.mark.parametrize(
    ("after", "names", "reason"),
    [
        pytest.param({"a": "PP", "b": "PP"}, [], None, id="same"),
        pytest.param({"a": "PF", "b": "PP"}, ["a"], "'a': passed before, failed now", id="flip"),
        pytest.param({"a": "PE", "b": "PP"}, ["a"], "'a': passed before, errored now", id="error"),
        pytest.param({"a": "PP"}, ["b"], "'b': in the baseline, missing", id="missing"),
        pytest.param({"a": "PP", "b": ""}, ["b"], "'b': judged by tasks of its own", id="no tasks"),
        pytest.param({"a": "PP", "b": "PP", "c": "F"}, [], None, id="new and failing"),
        pytest.param({"a": "PP", "b": "PP", "c": "E"}, ["c"], "'c': new, and", id="new, errored"),
    ],
)
def test_scenarios(after: dict[str, str], names: list[str], reason: str | None) -> None:
    """A flip, an error and a missing scenario each make it regressed (defect 2)."""
    before = replay({}, {"a": "PP", "b": "PP"})
    comparison = ScenarioComparisonResults.of(before, replay({}, after))
    assert comparison.regressed_scenarios == names
    assert comparison.regressed is bool(names)
    if reason is not None:
        assert f"scenario {reason}" in comparison.reasons[0]


def test_a_failing_scenario_can_get_worse() -> None:
    """Two of three before, one of three now: no flip, but a drop of a third."""
    comparison = replay({}, {"a": "PFF"}).compare_to(replay({}, {"a": "PPF"}))
    assert comparison.reasons == (
        "scenario 'a': 67% before, 33% now: t1 failed (message F); t2 failed (message F)",
    )
    assert not comparison.scenario_deltas[0].status_changed


def test_aliases() -> None:
    """One better, one worse, one gone, one new."""
    before = replay({"up": [("s", "F")], "down": [("s", "P")], "gone": [("s", "P")]}, {"s": ""})
    after = replay({"up": [("s", "P")], "down": [("s", "F")], "new": [("s", "F")]}, {"s": ""})
    comparison = after.compare_to(before)
    assert comparison.improved_aliases == ["up"]
    assert comparison.regressed_aliases == ["down", "gone"]
    assert (comparison.new_aliases, comparison.removed_aliases) == (["new"], ["gone"])
    assert comparison.baseline_overall_pass_rate == pytest.approx(2 / 3)
    assert comparison.comparison_overall_pass_rate == pytest.approx(1 / 3)


def test_storing_and_printing(tmp_path: Path) -> None:
    """Saved under any name, loaded as it was; the table holds rates, counts and reasons."""
    before = replay({"r": [("a", "PP")]}, {"a": "P"})
    comparison = replay({"r": [("a", "PF")]}, {"a": "F"}).compare_to(before)
    comparison.save(tmp_path / "comparison.results")
    assert ScenarioComparisonResults.load(tmp_path / "comparison.results") == comparison
    with redirect_stdout(io.StringIO()) as out:
        comparison.as_table()
        comparison.dataset_comparisons["r"].as_table()
    text = out.getvalue()
    assert "0% 0/1" in text
    assert "-50.0 pp" in text
    assert "Inconclusive:" in text
    assert "One by one, these got worse" in text
    assert str(comparison) == "inconclusive: 0 of 1 scenarios passed, 1 of 1 in the baseline"


def test_files_of_another_version_or_shape_are_refused(tmp_path: Path) -> None:
    """The message names file and field."""
    path = tmp_path / "c.json"
    path.write_text('{\n"schema_version": 99}', encoding="utf-8")
    with pytest.raises(
        FileFormatError, match=r"c\.json, field 'schema_version': schema version 99"
    ):
        ScenarioEvalResults.load(path)
    path.write_text('{"schema_version": 1}', encoding="utf-8")
    with pytest.raises(FileFormatError, match="field 'dataset_results': the field is missing"):
        ScenarioEvalResults.load(path)
    path.write_text('{"alias": "a profile", "tasks": []}', encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"no results of a replay; .* eval --save"):
        ScenarioEvalResults.load(path)
