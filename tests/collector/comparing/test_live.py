"""Two live sides as samples of conversations, by hand and over simulated traffic."""

import random
from collections.abc import Sequence

import pytest

from collector.comparing.live import (
    LEVEL,
    Passed,
    Samples,
    compare_live,
    passed_of,
)
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.evaluate.statistics.likeness import conversations_of
from scouter.model.score import score_uid

SPECS = [TaskSpec(task_id=f"t{at}", task_type="Assertion", operator="Equals") for at in range(20)]


def record(session: str, passed: Sequence[bool], at: int) -> RecordResult:
    tasks = tuple(
        EvalTaskResult(spec, Outcome.PASSED if ok else Outcome.FAILED, None, 1, 1)
        for spec, ok in zip(SPECS, passed, strict=False)
    )
    return RecordResult(f"u{at}", f"u{at}", session, None, record_outcome(tasks), tasks, at, 0)


def side(conversations: Sequence[Sequence[bool]], *, has_ids: bool = True) -> EvalResults:
    """Conversations of records with one task each."""
    flat = [
        (f"s{number}" if has_ids else "", passed)
        for number, records in enumerate(conversations)
        for passed in records
    ]
    return EvalResults([record(name, [passed], at) for at, (name, passed) in enumerate(flat)])


def compared(before: EvalResults, after: EvalResults, *, is_open: bool = False) -> Samples:
    return compare_live(before, after, is_open=is_open, require_ruled_out=None)


def drawn(rng: random.Random, conversations: int, turns: tuple[int, int]) -> list[list[bool]]:
    """Conversations whose own rates differ: mean 0.9, correlation 0.2."""
    found: list[list[bool]] = []
    for _ in range(conversations):
        rate = rng.betavariate(3.6, 0.4)
        found.append([rng.random() < rate for _ in range(rng.randint(*turns))])
    return found


def test_longer_conversations_of_one_quality_are_no_regression() -> None:
    """100 comparisons: 2 to 4 turns before, 5 to 9 now; as wholes far fewer pass now."""
    rng = random.Random(7)
    regressed = fewer = 0
    for _ in range(100):
        found = compared(side(drawn(rng, 80, (2, 4))), side(drawn(rng, 80, (5, 9))))
        assert any(note.startswith("Conversations are longer now") for note in found.notes)
        records, whole, *_ = found.rates
        assert (records.label, whole.label) == ("records passed", "conversations passed")
        regressed += found.decision.exit_code == 1
        fewer += whole.interval[1] < 0
    assert regressed <= 5
    assert fewer >= 40


def scored(results: EvalResults, scores: int) -> EvalResults:
    """The same with so many scores from outside on each record."""
    spec = TaskSpec(task_id="helpful", task_type="Score", operator="")
    task = EvalTaskResult(spec, Outcome.PASSED, None, None, 1)
    found: list[RecordResult] = []
    for at, each in enumerate(results.records):
        uids = [score_uid(f"{at} {number}") for number in range(scores)]
        session = each.session_id or f"trace {at}"
        found += [
            RecordResult(uid, uid, session, None, Outcome.SKIPPED, (task,), each.created_ns, 0)
            for uid in uids
        ]
    return EvalResults([*results.records, *found])


def test_scores_from_outside_are_no_records_of_a_conversation() -> None:
    """40 of 50 conversations passed, whoever scores them; three scores make none longer."""
    plain = side([[True, True]] * 40 + [[True, False]] * 10)
    found = compared(scored(plain, 1), scored(plain, 3))
    records, whole, *_, score = found.rates
    assert (records.baseline_passed, records.baseline_count) == (90, 100)
    assert (whole.label, whole.baseline_passed, whole.baseline_count) == (
        "conversations passed", 40, 50
    )  # fmt: skip
    assert (score.baseline_count, score.comparison_count) == (100, 300)
    single = side([[True]] * 50, has_ids=False)
    found = compared(scored(single, 1), scored(single, 3))
    assert "conversations passed" not in {row.label for row in found.rates}
    assert not any("longer" in note for note in found.notes)


def test_sides_of_scores_alone_have_the_rates_of_their_tasks() -> None:
    single = side([[True]] * 50, has_ids=False)
    alone = EvalResults(scored(single, 2).records[50:])
    _, *tasks = compared(alone, alone).rates
    assert [(row.label, row.baseline_count) for row in tasks] == [("task 'helpful'", 100)]


def test_nothing_of_equal_versions_with_twenty_tasks_is_named() -> None:
    """40 comparisons of 200 records with 20 tasks that pass in 95 %."""
    rng = random.Random(8)

    def one() -> EvalResults:
        return EvalResults(
            [record("", [rng.random() < 0.95 for _ in SPECS], at) for at in range(200)]
        )

    named = sum(any(row.word for row in compared(one(), one()).rates) for _ in range(40))
    assert named <= 2


def test_a_task_that_fell_is_named_by_holm() -> None:
    """One of twenty: 60 of 60, then 30 of 60; the headline falls with it, as records need all."""
    before = [record("", [True] * 20, at) for at in range(60)]
    after = [record("", [at % 2 == 0, *[True] * 19], at) for at in range(60)]
    found = compared(EvalResults(before), EvalResults(after))
    assert [row.label for row in found.rates if row.word] == ["records passed", "task 't0'"]
    (row,) = [row for row in found.rates if row.task_id == "t0"]
    assert row.adjusted_p is not None
    assert row.p_value is not None
    assert row.adjusted_p == pytest.approx(20 * row.p_value)
    assert row.adjusted_p <= LEVEL
    assert "fell by 50.0 points" in row.reason
    assert "after Holm over 20 tasks" in row.reason


def test_a_conversation_without_a_name_is_found_by_its_neighbours() -> None:
    """Forty conversations of five records that pass or fail together, and nobody named them."""
    rng = random.Random(9)
    many = [[rng.random() < 0.8] * 5 for _ in range(40)]
    records = [Passed("", passed) for each in many for passed in each]
    assert len(set(conversations_of(records))) == 10
    found = compared(side(many, has_ids=False), side(many, has_ids=False))
    assert sum("neighbours are more alike than by chance" in note for note in found.notes) == 2
    assert found.rates[0].clusters == 10


def test_records_are_conversations_of_their_own_where_neighbours_are_not_alike() -> None:
    records = [Passed("a", True), Passed("", False), Passed("a", True), Passed("", True)]
    assert conversations_of(records) == [0, 1, 0, 2]


def test_ten_looks_are_seldom_wrong() -> None:
    """30 comparisons of equal versions, each looked at after every 40 of 400 records."""
    rng = random.Random(10)
    wrong = 0
    for _ in range(30):
        sides = [drawn(rng, 400, (1, 1)) for _ in range(2)]
        looks = [
            compared(*(side(each[:count]) for each in sides), is_open=True)
            for count in range(40, 401, 40)
        ]
        wrong += any(look.decision.exit_code == 1 for look in looks)
    assert wrong <= 2


@pytest.mark.parametrize(
    ("outcome", "reason", "passed"),
    [
        (Outcome.PASSED, None, True),
        (Outcome.PASSED, Reason.BUDGET, None),
        (Outcome.FAILED, Reason.BUDGET, False),
        (Outcome.ERRORED, None, False),
        (Outcome.SKIPPED, None, None),
    ],
)
def test_a_record_that_nobody_judged_counts_neither_way(
    outcome: Outcome, reason: Reason | None, passed: bool | None
) -> None:
    task = EvalTaskResult(SPECS[0], Outcome.SKIPPED, reason, None, None)
    made = RecordResult("u", "u", "", None, outcome, (task,), 0, 0)
    assert passed_of(made) is passed


def test_what_is_not_ruled_out_is_inconclusive() -> None:
    same = side([[True]] * 50)
    found = compare_live(same, same, is_open=False, require_ruled_out=5)
    assert found.ruled_out is not None
    assert found.ruled_out > 5
    assert found.decision.word == "inconclusive"
    assert "5 are required" in found.decision.reasons[0]
    found = compare_live(same, same, is_open=False, require_ruled_out=10)
    assert found.decision.word == "no regression seen"
    assert "a fall of more than 7.1 points is ruled out" in found.decision.headline
