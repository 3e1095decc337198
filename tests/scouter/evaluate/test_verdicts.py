"""Verdicts of a comparison: what decides them, in numbers worked out by hand."""

import io
import json
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from random import Random

import pytest

from scouter.evaluate.compare.rates import CLUSTERED, NO_TEST, PAIRED, UNPAIRED
from scouter.evaluate.compare.results import ComparisonResults, ScenarioComparisonResults
from scouter.evaluate.compare.sentences import repeats_notes
from scouter.evaluate.compare.verdict import ALL_TASKS, WHOLE_SCENARIOS, TaskVerdict, Verdict
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.record_result import RecordResult, record_outcome
from scouter.evaluate.results import EvalResults
from scouter.evaluate.scenario_results import (
    ScenarioEvalResults,
    ScenarioInfo,
    ScenarioResult,
    scenario_result,
    sum_up,
)
from scouter.evaluate.task_result import EvalTaskResult
from scouter.model.ids import uuid7

WORDS = {"P": "passed", "F": "failed", "E": "errored", "S": "skipped"}


def tasks_of(letters: str) -> tuple[EvalTaskResult, ...]:
    """`PFE` is three tasks t0 t1 t2: passed, failed, errored; S is skipped by a gate."""
    return tuple(
        EvalTaskResult.of(
            task_id=f"t{index}",
            task_type="Assertion",
            outcome=WORDS[letter],
            reason={"E": Reason.MISSING_PATH, "S": Reason.GATE}.get(letter),
        )
        for index, letter in enumerate(letters)
    )


def record(letters: str, record_id: str = "", session_id: str | None = None) -> RecordResult:
    tasks = tasks_of(letters)
    session = uuid7() if session_id is None else session_id
    return RecordResult(uuid7(), record_id, session, None, record_outcome(tasks), tasks, 0, 0)


def plain(rows: Sequence[str]) -> EvalResults:
    """Records of conversations of their own, without ids."""
    return EvalResults([record(letters) for letters in rows])


def task(comparison: ComparisonResults | ScenarioComparisonResults, task_id: str) -> TaskVerdict:
    [row] = [row for row in comparison.task_verdicts if row.task_id == task_id]
    return row


def attempts(rows: Sequence[Sequence[str]], alias: str | None = "a") -> ScenarioEvalResults:
    """One row per scenario, one text per attempt; as records of an alias or as own tasks."""
    repeats = max(len(row) for row in rows)
    made = [(f"s{at}", try_, letter) for at, row in enumerate(rows) for try_, letter in
            enumerate(row)]  # fmt: skip
    datasets: dict[str, EvalResults] = {}
    judged: list[ScenarioResult] = []
    if alias is not None:
        datasets[alias] = EvalResults(
            [record(letter) for _, _, letter in made],
            [name for name, _, _ in made],
            [try_ for _, try_, _ in made],
        )
    else:
        judged = [
            scenario_result(name, "q", tasks_of(letter)).model_copy(update={"attempt": try_})
            for name, try_, letter in made
        ]
    return ScenarioEvalResults(
        dataset_results=datasets,
        scenario_results=tuple(judged),
        metrics=sum_up(datasets, judged),
        scenarios=tuple(
            ScenarioInfo(scenario_id=f"s{at}", initial_query="q") for at in range(len(rows))
        ),
        repeats=repeats,
    )


def test_a_regression_in_words() -> None:
    """12 of 40 fell, 1 rose: p = 2 (1 + 13) / 2^13 = 0.0034, for one task as for their sum."""
    before = plain(["P"] * 39 + ["F"])
    now = plain(["F"] * 12 + ["P"] * 28)
    comparison = now.compare_to(before)
    row = task(comparison, "t0")
    assert comparison.verdict is row.verdict is Verdict.REGRESSED
    assert (row.fell, row.rose, row.pairs, row.clusters) == (12, 1, 40, 40)
    assert row.method == PAIRED
    assert row.p_value == pytest.approx(28 / 2**13)
    assert row.adjusted_p == row.p_value
    assert row.difference == pytest.approx(-11 / 40)
    assert row.reason == (
        "12 of 40 fell, 1 rose; difference −27.5 points (95 % −44 to −12); p 0.0034"
    )
    assert comparison.verdict_reason == f"task 't0': {row.reason}"


def test_holm_over_the_tasks() -> None:
    """t0: 8 falls, p = 1/128; t1: nothing. Times two for two tasks; their sum stands alone."""
    comparison = plain(["FP"] * 8 + ["PP"] * 32).compare_to(plain(["PP"] * 40))
    row = task(comparison, "t0")
    assert row.adjusted_p == pytest.approx(2 / 128)
    assert "p 0.016 after Holm over 2 tasks" in row.reason
    assert row.verdict is Verdict.REGRESSED
    assert task(comparison, ALL_TASKS).p_value == task(comparison, ALL_TASKS).adjusted_p
    six = plain(["FPPPPPPP"] * 8 + ["P" * 8] * 32).compare_to(plain(["P" * 8] * 40))
    assert task(six, "t0").adjusted_p == pytest.approx(8 / 128)
    assert task(six, "t0").verdict is Verdict.NOT_ENOUGH_DATA


@pytest.mark.parametrize(
    ("records", "threshold", "verdict"),
    [
        (5, 0.05, Verdict.NOT_ENOUGH_DATA),
        (156, 0.05, Verdict.NOT_ENOUGH_DATA),
        (157, 0.05, Verdict.UNCHANGED),  # the fewest pairs that show a fall of 5 points
        (78, 0.1, Verdict.UNCHANGED),
        (77, 0.1, Verdict.NOT_ENOUGH_DATA),
        (157, 0.0, Verdict.UNCHANGED),  # no run can show a difference of 0
    ],
)
def test_unchanged_needs_power(records: int, threshold: float, verdict: Verdict) -> None:
    """The same results twice: it takes as many as would have shown a fall by the threshold."""
    run = plain(["P"] * records)
    comparison = run.compare_to(run, threshold)
    row = task(comparison, "t0")
    assert comparison.verdict is row.verdict is verdict
    assert (row.power >= 0.8) is (verdict is Verdict.UNCHANGED)
    if records == 5:
        assert row.smallest_difference is None
        assert row.reason.endswith("too few to see a fall of any size")


def test_the_smallest_difference_is_said() -> None:
    """40 pairs, no churn: six falls are needed; a fall of 19 points brings them in 4 of 5 runs."""
    run = plain(["P"] * 40)
    row = task(run.compare_to(run), "t0")
    assert row.smallest_difference == pytest.approx(0.1905, rel=0.005)
    assert row.reason.endswith("falls below 19.1 points would mostly go unseen, and 5 count")


def test_a_small_but_certain_fall_is_unchanged() -> None:
    """20 of 2,000 fell: no chance, and still less than the 5 points that count."""
    comparison = plain(["F"] * 20 + ["P"] * 1_980).compare_to(plain(["P"] * 2_000))
    row = task(comparison, "t0")
    assert row.adjusted_p is not None
    assert row.adjusted_p < 0.001
    assert row.verdict is Verdict.UNCHANGED
    assert task(plain(["F"] * 20 + ["P"] * 1_980).compare_to(plain(["P"] * 2_000), 0.01), "t0") \
        .verdict is Verdict.REGRESSED  # fmt: skip


def test_improved() -> None:
    comparison = plain(["P"] * 200).compare_to(plain(["F"] * 30 + ["P"] * 170))
    assert comparison.verdict is Verdict.IMPROVED
    assert not comparison.regressed


@pytest.mark.parametrize("letter", ["F", "E", "S"])
def test_errored_and_gate_skipped_did_not_pass(letter: str) -> None:
    comparison = plain([letter] * 10 + ["P"] * 30).compare_to(plain(["P"] * 40))
    row = task(comparison, "t0")
    assert (row.comparison_passed, row.comparison_count, row.fell) == (30, 40, 10)
    assert row.verdict is Verdict.REGRESSED


def test_missing_records_did_not_pass() -> None:
    """Leaving the ten bad ones out of the run helps nobody."""
    comparison = plain(["P"] * 30).compare_to(plain(["P"] * 40))
    row = task(comparison, "t0")
    assert (row.fell, row.missing, row.pairs) == (10, 10, 40)
    assert row.comparison_pass_rate == 1.0
    assert row.verdict is Verdict.REGRESSED
    assert "10 missing now, counted as not passed" in row.reason


def test_turns_of_one_conversation_are_no_single_evidence() -> None:
    """40 falls in 4 conversations: p = 2 / 2^4, not 2 / 2^40."""
    before = EvalResults([record("P", f"r{i}", f"c{i // 10}") for i in range(40)])
    now = EvalResults([record("F", f"r{i}", f"c{i // 10}") for i in range(40)])
    row = task(now.compare_to(before), "t0")
    assert row.method == CLUSTERED
    assert (row.clusters, row.pairs) == (4, 40)
    assert row.p_value == pytest.approx(2 / 2**4)
    assert row.verdict is Verdict.NOT_ENOUGH_DATA
    assert "40 of 40 fell, 0 rose in 4 conversations" in row.reason
    one = EvalResults([record("P", f"r{i}", "c") for i in range(40)])
    fell = EvalResults([record("F", f"r{i}", "c") for i in range(40)])
    assert "in 1 conversation;" in task(fell.compare_to(one), "t0").reason + ";"


def test_words_for_once_and_more_often() -> None:
    [once] = repeats_notes(1, 3)
    assert once == (
        "each scenario ran once in the baseline and 3 times now; only the first run is paired"
    )
    [more] = repeats_notes(4, 3)
    assert more.endswith("ran 4 times in the baseline and 3 times now; only the first 3 are paired")


def test_sessions_of_either_run_tell_conversations() -> None:
    """The baseline's sender named no sessions, so that each record has a random one."""
    before = EvalResults([record("P", f"r{i}") for i in range(40)])
    now = EvalResults([record("P", f"r{i}", f"c{i // 10}") for i in range(40)])
    assert task(now.compare_to(before), "t0").clusters == 4


def test_records_that_cannot_be_paired() -> None:
    """Other records: 95 % of 100 before, 60 % of 100 now; the rates can still be compared."""
    before = EvalResults([record("P" if i < 95 else "F", f"a{i}") for i in range(100)])
    now = EvalResults([record("P" if i < 60 else "F", f"b{i}") for i in range(100)])
    comparison = now.compare_to(before)
    row = task(comparison, "t0")
    assert row.method == UNPAIRED
    assert row.difference == pytest.approx(-0.35)
    assert row.verdict is Verdict.REGRESSED
    assert row.reason.startswith("95 of 100 passed before, 60 of 100 now")
    assert comparison.regressed  # every record of the baseline is missing
    same = EvalResults([record("P", f"b{i}", "one") for i in range(100)]).compare_to(before)
    assert task(same, "t0").method == UNPAIRED


def test_new_tasks_and_aliases_have_no_verdict() -> None:
    comparison = plain(["PP"] * 200).compare_to(plain(["P"] * 200))
    row = task(comparison, "t1")
    assert (row.method, row.p_value, row.verdict) == (NO_TEST, None, Verdict.NOT_ENOUGH_DATA)
    assert row.reason == "new: the baseline has no result to compare with"
    assert comparison.verdict is Verdict.UNCHANGED
    assert plain([]).compare_to(plain([])).verdict is Verdict.NOT_ENOUGH_DATA
    both = attempts(["P"] * 4, "b").compare_to(attempts(["P"] * 4, "a"))
    assert {row.alias for row in both.task_verdicts} == {"a", "b"}


def test_the_verdict_needs_data_for_the_sums_only() -> None:
    """A task that few records have leaves the verdict alone, unless it regressed."""
    rows = ["PP"] * 3 + ["P"] * 397
    assert plain(rows).compare_to(plain(rows)).verdict is Verdict.UNCHANGED


# --- repeats ---


@pytest.mark.parametrize("alias", ["a", None])
@pytest.mark.parametrize(
    ("before", "now", "regressed"),
    [
        pytest.param("P", "F", True, id="once each: every flip counts"),
        pytest.param("PPP", "FFF", True, id="a clean flip"),
        pytest.param("PP", "FF", True, id="a clean flip of two"),
        pytest.param("PPF", "FPF", False, id="flaky as before"),
        pytest.param("PPPPP", "PPPPF", False, id="one failure of five"),
        pytest.param("PPPPP", "PPFFF", True, id="more failures than chance"),
        pytest.param("PPFFF", "PPPPP", False, id="better"),
        pytest.param("PPPPP", "F", True, id="fewer attempts now"),
        pytest.param("PPPPP", "P", False, id="fewer attempts now, all pass"),
        pytest.param("P", "PPPFP", False, id="more attempts now"),
        pytest.param("P", "FFFFF", True, id="more attempts now, none passes"),
        pytest.param("PPP", "PPE", True, id="errored now"),
        pytest.param("PPE", "PEP", False, id="errored before, too"),
    ],
)
def test_repeats(before: str, now: str, regressed: bool, alias: str | None) -> None:
    """A scenario regresses beyond its own measured flakiness only; errors always count."""
    stable = "P" * len(before), "P" * len(now)
    comparison = attempts([now, stable[1]], alias).compare_to(attempts([before, stable[0]], alias))
    assert comparison.regressed is regressed
    assert bool(comparison.reasons) is regressed
    assert comparison.exit_code == int(regressed)
    if len(before) != len(now):
        assert "only the first" in comparison.notes[0]


def test_repeats_in_words() -> None:
    by_record = attempts(["FFFFP"]).compare_to(attempts(["PPPPP"]))
    assert by_record.reasons[0] == (
        "a: task 't0' passes less often than its flakiness explains in 1 record: "
        "s0 #1 (5 of 5 before, 1 of 5 now)"
    )
    by_scenario = attempts(["FFFFP"], None).compare_to(attempts(["PPPPP"], None))
    [reason] = by_scenario.reasons
    assert reason.startswith(
        "scenario 's0': passed in 5 of 5 attempts before, in 1 of 5 now: t0 failed"
    )
    [delta] = by_scenario.scenario_deltas
    assert (delta.baseline_passed_attempts, delta.comparison_passed_attempts) == (5, 1)
    assert (delta.baseline_attempts, delta.comparison_attempts) == (5, 5)
    workflows = by_record.dataset_comparisons["a"].workflow_comparisons
    assert [row.attempt for row in workflows] == [0, 1, 2, 3, 4]
    assert [row.is_regression for row in workflows] == [True, True, True, True, False]


def test_checks_that_fall_where_no_attempt_passed_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One of two tasks fell in each attempt: attempts stay 0 of 4, checks go from 50 % to 0 %."""
    comparison = attempts([["FF"] * 4], None).compare_to(attempts([["PF"] * 4], None))
    [reason] = comparison.reasons
    assert reason.startswith(
        "scenario 's0': passed in 0 of 4 attempts before, in 0 of 4 now; "
        "of its checks 50% before, 0% now: t0 failed"
    )
    comparison.as_table()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    [row] = [row for row in rows if row[:1] == ["s0"]]
    assert " ".join(row) == "s0 0% 0/4, checks 50.0% 0% 0/4, checks 0.0% -50.0 pp regressed"


def test_many_small_falls_add_up() -> None:
    """Each of 12 scenarios falls within its flakiness, all together beyond chance."""
    comparison = attempts(["PPPFF"] * 12).compare_to(attempts(["PPPPF"] * 12))
    assert not any(
        row.is_regression for row in comparison.dataset_comparisons["a"].workflow_comparisons
    )
    assert comparison.regressed
    assert comparison.reasons == (
        "a: all tasks: 80% before, 60% now, more than flakiness explains (12 of 60 fell, 0 rose)",
    )
    own = attempts(["PPPFF"] * 12, None).compare_to(attempts(["PPPPF"] * 12, None))
    assert own.reasons == (
        "scenarios: 80% before, 60% now, more than flakiness explains (12 of 60 fell, 0 rose)",
    )


def test_repeats_are_clustered_by_scenario() -> None:
    comparison = attempts(["FF"] * 3).compare_to(attempts(["PP"] * 3))
    row = task(comparison, "t0")
    assert (row.clusters, row.pairs, row.p_value) == (3, 6, pytest.approx(0.25))


def test_a_record_that_comes_and_goes() -> None:
    """A second record in two of three attempts, then in another two: flaky, not missing."""

    def run(counts: Sequence[int]) -> ScenarioEvalResults:
        rows = [try_ for try_, count in enumerate(counts) for _ in range(count)]
        results = EvalResults([record("P") for _ in rows], ["s"] * len(rows), rows)
        return ScenarioEvalResults(
            dataset_results={"a": results},
            scenario_results=(),
            metrics=sum_up({"a": results}, []),
            scenarios=(ScenarioInfo(scenario_id="s", initial_query="q"),),
            repeats=len(counts),
        )

    assert not run([1, 2, 2]).compare_to(run([2, 2, 1])).regressed
    gone = run([1, 2, 2]).compare_to(run([2, 2, 2]))
    assert gone.reasons == ("a: 1 record of the baseline missing: s #2 (attempt 1)",)


def test_an_attempt_that_raised_is_seen() -> None:
    """The agent raised, so that there are no records and no task results."""
    before = attempts(["P", "P"], None)
    broken = before.scenario_results[0].model_copy(
        update={
            "outcome": Outcome.ERRORED, "passed": False, "pass_rate": 0.0, "task_results": (),
            "error": "ValueError: no such order",
        }
    )  # fmt: skip
    now = before.model_copy(update={"scenario_results": (broken, before.scenario_results[1])})
    comparison = now.compare_to(before)
    assert comparison.regressed_scenarios == ["s0"]
    assert comparison.reasons == (
        "scenario 's0': passed before, errored now: ValueError: no such order",
    )
    row = task(comparison, WHOLE_SCENARIOS)
    assert (row.fell, row.comparison_passed, row.comparison_count) == (1, 1, 2)
    back = before.compare_to(now)
    assert not back.regressed


# --- ids that are others in every run ---


def test_random_record_ids_inside_scenarios_are_matched_by_order() -> None:
    """No id of a scenario is in both runs, so ids say nothing there."""

    def run(letters: str) -> ScenarioEvalResults:
        results = EvalResults([record(x, uuid7()) for x in letters], ["s"] * len(letters))
        return attempts(["P"], None).model_copy(update={"dataset_results": {"a": results}})

    comparison = run("PF").compare_to(run("PP"))
    inner = comparison.dataset_comparisons["a"]
    assert (inner.total_workflows, inner.regressed_workflows) == (2, 1)
    assert not inner.missing_records
    assert comparison.notes == (
        "a: the record ids of s are others in each run; records were matched by their order",
    )


# --- storing and printing ---


def test_files_of_a_time_without_verdicts_load(tmp_path: Path) -> None:
    comparison = attempts(["F"], None).compare_to(attempts(["P"], None))
    body = json.loads(comparison.model_dump_json())
    body["from_a_later_version"] = {}
    for field in ("verdict", "verdict_reason", "task_verdicts"):
        del body[field]
    for delta in body["scenario_deltas"]:
        for field in [name for name in delta if name.endswith("_attempts")]:
            del delta[field]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(body), encoding="utf-8")
    loaded = ScenarioComparisonResults.load(path)
    assert loaded.regressed
    assert loaded.verdict is Verdict.NOT_ENOUGH_DATA
    assert "compare the runs again" in loaded.verdict_reason
    with redirect_stdout(io.StringIO()) as out:
        loaded.as_table()
    assert "compare the runs again" in out.getvalue()


def test_stored_and_read_again() -> None:
    comparison = attempts(["PPF", "FFF"]).compare_to(attempts(["PPP", "PPP"]))
    text = comparison.model_dump_json()
    assert ScenarioComparisonResults.model_validate_json(text) == comparison


def test_tables_fit_into_80_columns() -> None:
    """Figures, verdicts and names up to nine letters; beyond that names fold on a terminal."""
    before = attempts(["PP"] * 40, "retriever")
    comparison = attempts(["FP"] * 12 + ["PP"] * 28, "retriever").compare_to(before)
    with redirect_stdout(io.StringIO()) as out:
        comparison.as_table()
        comparison.dataset_comparisons["retriever"].as_table()
    lines = out.getvalue().splitlines()
    start = lines.index(next(line for line in lines if line.startswith("Tasks")))
    table = lines[start : start + 8]
    assert all(len(line.rstrip()) <= 80 for line in table)
    [row] = [line.split() for line in table if line.startswith(" retriever")]
    assert row == ["retriever", "100%", "80/80", "85%", "68/80", "-15.0", "pp", "-25", "to",
                   "-9", "<0.001", "regressed"]  # fmt: skip
    assert "Statistics: regressed." in out.getvalue()


def test_verdicts_under_the_null() -> None:
    """Fixed seed, 150 unchanged runs of 30 records x 4 tasks: few are called regressed."""
    random = Random(11)

    def run() -> EvalResults:
        return plain(
            ["".join("P" if random.random() < 0.8 else "F" for _ in range(4)) for _ in range(30)]
        )

    found = [run().compare_to(run()).verdict for _ in range(150)]
    assert found.count(Verdict.REGRESSED) / len(found) <= 0.05 + 0.03
