"""Several runs as one, and the attempts of one run apart."""

from itertools import count, product
from pathlib import Path

import pytest

from scouter.errors import ConfigError
from scouter.evaluate.api.records import AlignedEvalResult, EvalResults
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.results.pooling import joined, picked, pooled
from scouter.evaluate.results.run import Loss, Lost
from tests.support.replay_results import record, results, scenario

_TOOK = count(1)
PATTERNS = list(product([True, False], repeat=3))


def run(berlin: bool, paris: bool, record_passed: bool, name: str = "r") -> ScenarioEvalResults:
    """Two scenarios with a task each, and a record of the first one."""
    took = {"duration_ns": next(_TOOK)}  # no two runs take the same time
    made = [
        scenario("berlin", {"city": berlin}, traces=()).model_copy(update=took),
        scenario("paris", {"city": paris}, traces=()).model_copy(update=took),
    ]
    return results(
        made,
        {"answers": [("berlin", record(name, {"long": record_passed}))]},
    ).model_copy(update={"contexts": {f"uid-{name}": {"answer": name}}})


def rows(found: EvalResults) -> list[tuple[str | None, int, str, str]]:
    def row(each: AlignedEvalResult) -> tuple[str | None, int, str, str]:
        return each.scenario_id, each.attempt, each.record_id, each.outcome

    return [row(each) for each in found]


def test_three_runs_by_hand() -> None:
    """Berlin passes 2 of 3, Paris 3 of 3, the record 1 of 3."""
    found = ScenarioEvalResults.pooled(
        run(True, True, False, "r0"), run(False, True, True, "r1"), run(True, True, False, "r2")
    )
    assert (found.runs, found.repeats) == (3, 3)
    assert [(r.scenario_id, r.attempt, r.passed) for r in found.scenario_results] == [
        ("berlin", 0, True), ("berlin", 1, False), ("berlin", 2, True),
        ("paris", 0, True), ("paris", 1, True), ("paris", 2, True),
    ]  # fmt: skip
    assert rows(found.dataset_results["answers"]) == [
        ("berlin", 0, "r0", "failed"), ("berlin", 1, "r1", "passed"), ("berlin", 2, "r2", "failed"),
    ]  # fmt: skip
    assert (found.metrics.passed_scenarios, found.metrics.total_scenarios) == (1, 2)
    assert found.metrics.dataset_pass_rates == {"answers": pytest.approx(1 / 3)}
    assert found.scenario_ids == ["berlin", "paris"]
    assert found.contexts == {f"uid-{name}": {"answer": name} for name in ("r0", "r1", "r2")}
    assert found.get_scenario_detail("berlin", attempt=1).eval_results is not None


def test_runs_with_repeats_follow_each_other() -> None:
    two = pooled([run(True, True, True), run(False, True, True)], ["a", "b"])
    others = pooled([run(True, True, True), run(False, True, True)], ["c", "d"])
    five = pooled([two, run(True, True, True), others], ["two", "one", "others"])
    assert (five.runs, five.repeats) == (5, 5)
    berlin = [r for r in five.scenario_results if r.scenario_id == "berlin"]
    assert [(r.attempt, r.passed) for r in berlin] == [
        (0, True), (1, False), (2, True), (3, True), (4, False),
    ]  # fmt: skip


def test_apart_and_together_is_the_same() -> None:
    """Each attempt picked as a run of its own, then all pooled."""
    whole = pooled([run(a, b, c, f"r{at}") for at, (a, b, c) in enumerate(PATTERNS)], ["x"] * 8)
    parts = [picked(whole, {at: 0}) for at in range(8)]
    assert all(part.repeats == 1 for part in parts)
    assert [len(part.dataset_results["answers"]) for part in parts] == [1] * 8
    again = pooled([part.model_copy(update={"runs": 1}) for part in parts], ["x"] * 8)
    assert again.model_dump() == whole.model_dump()


def test_one_run_stays_what_it_is() -> None:
    one = run(True, False, True)
    assert pooled([one], ["a"]) is one


def test_a_saved_pool_is_read_back(tmp_path: Path) -> None:
    found = ScenarioEvalResults.pooled(run(True, True, False), run(False, True, True))
    found.save(tmp_path / "b.json")
    assert ScenarioEvalResults.load(tmp_path / "b.json").model_dump() == found.model_dump()


def test_scenarios_that_only_some_parts_have() -> None:
    """As rounds of asking again are: the second asks one scenario less."""
    first = picked(run(False, False, True), {0: 0})
    second = picked(results([scenario("paris", {"city": True})]), {0: 1})
    found = joined([first, second])
    assert [(r.scenario_id, r.attempt) for r in found.scenario_results] == [
        ("berlin", 0), ("paris", 0), ("paris", 1),
    ]  # fmt: skip


def test_what_was_lost_is_added_up() -> None:
    def losing(count: int) -> ScenarioEvalResults:
        lost = (Lost(reason=Loss.TOO_LATE, count=count),)
        return run(True, True, True).model_copy(update={"lost": lost})

    found = ScenarioEvalResults.pooled(losing(2), losing(3), run(True, True, True))
    assert found.lost == (Lost(reason=Loss.TOO_LATE, count=5),)


def test_what_differs_is_not_said_of_all() -> None:
    def of(revision: str, *, dirty: bool | None, start: int) -> ScenarioEvalResults:
        found = run(True, True, True)
        origin = {"git_revision": revision, "git_dirty": dirty, "started_ns": start, "judge": "j:x"}
        return found.model_copy(update={"provenance": found.provenance.model_copy(update=origin)})

    parts = [of("a", dirty=False, start=7), of("b", dirty=True, start=5)]
    origin = ScenarioEvalResults.pooled(*parts).provenance
    assert (origin.git_revision, origin.git_dirty, origin.started_ns) == (None, True, 5)
    assert origin.judge == "j:x"


def _other_query() -> ScenarioEvalResults:
    found = run(True, True, True)
    first, second = found.scenarios
    changed = first.model_copy(update={"initial_query": "And Rome?"})
    return found.model_copy(update={"scenarios": (changed, second)})


def _other_profile() -> ScenarioEvalResults:
    found = run(True, True, True)
    origin = found.provenance.model_copy(update={"profile_digests": {"answers": "e" * 64}})
    return found.model_copy(update={"provenance": origin})


@pytest.mark.parametrize(
    ("other", "field"),
    [
        pytest.param(
            results([scenario("berlin", {"city": True})]),
            "scenarios ('paris' is in one of them only)",
            id="scenario-gone",
        ),
        pytest.param(_other_query(), "the initial_query of scenario 'berlin'", id="query"),
        pytest.param(
            results([scenario("berlin", {"city": True}), scenario("paris", {"town": True})]),
            "the tasks of scenario 'paris'",
            id="tasks",
        ),
        pytest.param(_other_profile(), "provenance.profile_digests of 'answers'", id="profile"),
    ],
)
def test_other_scenarios_and_profiles_are_refused(other: ScenarioEvalResults, field: str) -> None:
    good = run(True, True, True)
    with pytest.raises(ConfigError) as caught:
        pooled([good, run(True, True, True), other], ["a.json", "b.json", "c.json"])
    assert str(caught.value).startswith(f"c.json: {field} differs from that of a.json")
    with pytest.raises(ConfigError, match=r"^run 2: "):
        ScenarioEvalResults.pooled(good, other)


def test_one_run_in_two_files_is_refused() -> None:
    one = run(True, True, True)
    pool = pooled([run(True, True, True), one], ["a", "b"])
    with pytest.raises(ConfigError, match="pool: a run in it is in an earlier file, too"):
        pooled([one, pool], ["one", "pool"])


def test_scenarios_of_another_content_are_refused() -> None:
    first, second = run(True, True, True), run(True, True, True)
    digests = ("a" * 64, "b" * 64)
    first, second = (
        each.model_copy(
            update={"provenance": each.provenance.model_copy(update={"scenarios_digest": digest})}
        )
        for each, digest in zip((first, second), digests, strict=True)
    )
    with pytest.raises(ConfigError, match="the content of the scenarios differs"):
        pooled([first, second], ["a", "b"])
