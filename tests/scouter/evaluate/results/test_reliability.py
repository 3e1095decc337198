"""pass@k, pass^k and flakiness, compared with every subset there is."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.results.reliability import (
    MAX_K,
    flakiness_of,
    pass_at_k,
    pass_hat_k,
    reliability_of,
)
from scouter.evaluate.results.run import ScenarioInfo
from scouter.evaluate.results.task_result import EvalTaskResult

SIZES = [(n, c) for n in range(1, 8) for c in range(n + 1)]


@pytest.mark.parametrize(("n", "c"), SIZES)
def test_against_all_subsets(n: int, c: int) -> None:
    """The share of the subsets of k attempts with one that passed, and with no other ones."""
    attempts = [True] * c + [False] * (n - c)
    for k in range(1, n + 1):
        subsets = list(combinations(attempts, k))
        assert pass_at_k(n, c, k) == sum(map(any, subsets)) / len(subsets)
        assert pass_hat_k(n, c, k) == sum(map(all, subsets)) / len(subsets)


@pytest.mark.parametrize(("n", "c"), SIZES)
def test_flakiness_against_all_pairs(n: int, c: int) -> None:
    """The share of the pairs that disagree; none with one attempt."""
    pairs = list(combinations([True] * c + [False] * (n - c), 2))
    disagreeing = sum(one != other for one, other in pairs)
    assert flakiness_of(n, c) == (disagreeing / len(pairs) if pairs else 0.0)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("p", [Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(1)])
def test_unbiased(n: int, p: Fraction) -> None:
    """The mean over all that n attempts can bring is what holds for k fresh attempts."""

    def mean(values: Sequence[Fraction]) -> Fraction:
        weights = [comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
        return sum((w * v for w, v in zip(weights, values, strict=True)), Fraction(0))

    for k in range(1, n + 1):
        at = [Fraction(comb(n, k) - comb(n - c, k), comb(n, k)) for c in range(n + 1)]
        hat = [Fraction(comb(c, k), comb(n, k)) for c in range(n + 1)]
        assert [pass_at_k(n, c, k) for c in range(n + 1)] == list(map(float, at))
        assert [pass_hat_k(n, c, k) for c in range(n + 1)] == list(map(float, hat))
        assert mean(at) == 1 - (1 - p) ** k
        assert mean(hat) == p**k
    if n > 1:
        disagree = [Fraction(2 * c * (n - c), n * (n - 1)) for c in range(n + 1)]
        assert [flakiness_of(n, c) for c in range(n + 1)] == list(map(float, disagree))
        assert mean(disagree) == 2 * p * (1 - p)


def test_published_example() -> None:
    """The product form in the paper of Chen et al.: 1 - prod(1 - k / i), i from n-c+1 to n."""
    for n, c, k in [(200, 3, 10), (100, 50, 7), (20, 20, 1)]:
        product_form = 1.0
        for i in range(n - c + 1, n + 1):
            product_form *= 1 - k / i
        assert pass_at_k(n, c, k) == pytest.approx(1 - product_form, abs=1e-12)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_laws(sizes: tuple[int, int]) -> None:
    """More chances help pass@k and hurt pass^k; with one attempt both are the pass rate."""
    n, c = sizes
    row = reliability_of("s", None, "t", [True] * c + [False] * (n - c))
    assert (row.attempts, row.passed, row.flaky) == (n, c, 0 < c < n)
    at, hat = list(row.pass_at.values()), list(row.pass_hat.values())
    assert list(row.pass_at) == list(row.pass_hat) == list(range(1, min(n, MAX_K) + 1))
    assert at[0] == hat[0] == c / n
    assert at == sorted(at)
    assert hat == sorted(hat, reverse=True)
    assert all(0 <= value <= 1 for value in (*at, *hat, row.flakiness))
    assert (row.flakiness > 0) == row.flaky


@pytest.mark.parametrize(("n", "c", "k"), [(0, 0, 1), (2, 3, 1), (2, -1, 1), (2, 1, 0), (2, 1, 3)])
def test_numbers_that_do_not_fit(n: int, c: int, k: int) -> None:
    """Refused, not worked out."""
    for estimate in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match="expected 0 <= passed <= attempts"):
            estimate(n, c, k)


def task(task_id: str, outcome: str, reason: str | None = None) -> EvalTaskResult:
    return EvalTaskResult.of(task_id=task_id, task_type="Assertion", outcome=outcome, reason=reason)


def record(*tasks: EvalTaskResult) -> RecordResult:
    return RecordResult("u", "", "", None, Outcome.PASSED, tasks, 0, 0)


def results(
    rows: Sequence[tuple[str, int, RecordResult]], details: Sequence[ScenarioResult], repeats: int
) -> ScenarioEvalResults:
    names, attempts, records = zip(*rows, strict=True) if rows else ((), (), ())
    datasets = {"a": EvalResults(records, names, attempts)} if rows else {}
    return ScenarioEvalResults(
        dataset_results=datasets,
        scenario_results=tuple(details),
        metrics=EvalMetrics.of(datasets, details),
        scenarios=tuple(ScenarioInfo(scenario_id=name, initial_query="q") for name in ("s", "t")),
        repeats=repeats,
    )


def passed(found: ScenarioEvalResults) -> dict[tuple[str, str | None, str], tuple[int, int]]:
    rows = found.reliability()
    return {(r.scenario_id, r.alias, r.task_id): (r.passed, r.attempts) for r in rows}


def test_all_records_of_an_attempt_must_pass() -> None:
    """Attempt 0: both pass. 1: one of two fails. 2: there is no record. So one of three."""
    good, bad = record(task("x", "passed")), record(task("x", "failed"))
    rows = [("s", 0, good), ("s", 0, good), ("s", 1, good), ("s", 1, bad)]
    assert passed(results(rows, [], 3)) == {("s", "a", "x"): (1, 3)}


def test_what_counts_follows_the_pass_rate() -> None:
    """Behind a closed gate: not passed. Skipped for another reason: no attempt at all."""
    rows = [
        ("s", 0, record(task("x", "passed"))),
        ("s", 1, record(task("x", "skipped", Reason.GATE))),
        ("s", 2, record(task("x", "errored", Reason.TYPE))),
    ]
    assert passed(results(rows, [], 3)) == {("s", "a", "x"): (1, 3)}
    rows[1] = ("s", 1, record(task("x", "skipped", Reason.NO_SPANS)))
    assert passed(results(rows, [], 3)) == {("s", "a", "x"): (1, 2)}


def test_the_scenario_as_a_whole() -> None:
    """All of its own tasks; an attempt that raised passed none of them."""
    details = [
        ScenarioResult.of("s", "q", [task("x", "passed"), task("y", "passed")]),
        ScenarioResult.of("s", "q", [task("x", "passed"), task("y", "failed")]),
        ScenarioResult.of("s", "q", [task("x", "errored"), task("y", "errored")], None, "E: no"),
        ScenarioResult.of("t", "q", [], None, "E: no"),
    ]
    details = [
        detail.model_copy(update={"attempt": at if detail.scenario_id == "s" else 1})
        for at, detail in enumerate(details)
    ]
    assert passed(results([], details, 3)) == {
        ("s", None, ""): (1, 3),
        ("s", None, "x"): (2, 3),
        ("s", None, "y"): (1, 3),
        ("t", None, ""): (2, 3),  # it has no tasks; two attempts did not raise
    }
    assert [row.task_id for row in results([], details, 3).reliability()] == ["", "x", "y", ""]


def test_an_attempt_that_no_judge_has_seen_is_in_no_rate() -> None:
    """Of four attempts one passed, one failed without its judge, one raised, one is not decided."""
    unseen = task("j", "skipped", Reason.BUDGET)
    details = [
        ScenarioResult.of("s", "q", [task("x", "passed"), task("j", "passed")]),
        ScenarioResult.of("s", "q", [task("x", "failed"), unseen]),
        ScenarioResult.of("s", "q", [task("x", "errored"), task("j", "errored")], None, "E: no"),
        ScenarioResult.of("s", "q", [task("x", "passed"), unseen]),
    ]
    assert [(each.outcome, each.passed) for each in details] == [
        ("passed", True), ("failed", False), ("errored", False), ("skipped", False)
    ]  # fmt: skip
    details = [each.model_copy(update={"attempt": at}) for at, each in enumerate(details)]
    found = results([], details, 4)
    assert passed(found) == {
        ("s", None, ""): (1, 3), ("s", None, "x"): (2, 4), ("s", None, "j"): (1, 2),
    }  # fmt: skip
    metrics = EvalMetrics.of({}, details)
    assert (metrics.passed_scenarios, metrics.total_scenarios) == (0, 1), "one failed, one raised"
    assert metrics.scenario_task_pass_rates == {"s": {"x": 0.5, "j": 0.5}}

    alone = EvalMetrics.of({}, [ScenarioResult.of("t", "q", [unseen])])
    assert (alone.total_scenarios, alone.overall_pass_rate) == (0, 0.0)


def test_a_spent_budget_is_no_regression_and_no_improvement() -> None:
    """Tasks with an outcome in both runs are compared: a failure is one without its judge, too."""
    unseen = task("j", "skipped", Reason.BUDGET)

    def run(**tasks: list[EvalTaskResult]) -> ScenarioEvalResults:
        return results([], [ScenarioResult.of(name, "q", each) for name, each in tasks.items()], 1)

    good = [task("x", "passed"), task("j", "passed")]
    bad = [task("x", "failed"), unseen]
    before = run(a=good, b=good, c=[task("x", "passed"), task("j", "failed")])
    now = run(a=[task("x", "passed"), unseen], b=bad, c=[task("x", "passed"), unseen])
    found = now.compare_to(before)
    assert found.regressed_scenarios == ["b"]
    a, b, c = found.scenario_deltas
    assert [each.is_regression for each in (a, b, c)] == [False, True, False]
    assert (a.baseline_pass_rate, a.comparison_pass_rate, a.status_changed) == (1, 1, False)
    assert (b.baseline_pass_rate, b.comparison_pass_rate, b.status_changed) == (1, 0, True)
    assert (c.comparison_outcome, c.status_changed) == ("skipped", False)
    assert run(a=good).compare_to(run(a=[task("x", "passed"), unseen])).regressed_scenarios == []


def test_a_scenario_without_tasks_that_raised_once() -> None:
    """Attempt 0 raised, 1 has a record that fails, 2 one that passes."""
    raised = ScenarioResult.of("s", "q", [], None, "E: no")
    rows = [("s", 1, record(task("x", "failed"))), ("s", 2, record(task("x", "passed")))]
    found = passed(results(rows, [raised], 3))
    assert found == {("s", None, ""): (1, 3), ("s", "a", "x"): (1, 3)}


def test_a_single_run() -> None:
    """Its figures are its verdicts; nothing can be flaky."""
    for outcome, value in product(("passed", "failed"), (1,)):
        [row] = results([("s", 0, record(task("x", outcome)))], [], 1).reliability()
        assert row.pass_at == row.pass_hat == {1: float(outcome == "passed")}
        assert (row.flaky, row.flakiness, row.attempts) == (False, 0.0, value)
