"""A canary's decision from counts, and conversations from results."""

import pytest

from scouter.drift.canary import Canary, Decision, Plan, Result, Version, decide, version_of
from scouter.drift.detect.two_samples import Sample
from scouter.drift.series.group import Pace

PACE = Pace(quiet_ns=10, deadline_ns=25)


def version(
    name: str, passed: int, failed: int, errors: int = 0, skipped: int = 0, *, is_cut: bool = False
) -> Version:
    rated = passed + failed
    total = rated + errors + skipped
    return Version(
        name=name, units=total, records=total, passes=Sample({1.0: passed, 0.0: failed}),
        decided=Sample({1.0: rated, 0.0: errors}),
        answered=Sample({1.0: rated + errors, 0.0: skipped}), is_cut=is_cut,
    )  # fmt: skip


def canary(stable: Version, candidate: Version, **plan: float) -> Canary:
    return decide(Plan(**plan), stable, candidate)


STABLE = version("1", 1_900, 100)


@pytest.mark.parametrize(
    ("candidate", "decision", "reason"),
    [
        (version("2", 1_900, 100), "promote", "any fall is smaller than 5 points"),
        (version("2", 1_700, 300), "roll_back", "the candidate passes less"),
        (version("2", 19, 1), "hold", "neither a fall nor its absence, to 5 points, is proven yet"),
        (
            version("2", 0, 0), "hold",
            "no complete conversation of version 2 since the canary began",
        ),
        (version("2", 950, 50, 1_000), "roll_back", "the candidate has more errors"),
        (
            version("2", 0, 1_000, 1_000), "roll_back",
            "the candidate passes less and has more errors",
        ),
        (version("2", 400, 0, 0, 800), "roll_back", "the candidate has fewer results"),
        (version("2", 0, 0, 0, 800), "roll_back", "the candidate has fewer results"),
        (
            version("2", 1_900, 0, 0, 100), "hold",
            "it is not proven that the share of records with a result falls by less than 5 points; "
            "the task was skipped in the others, as by a gate",
        ),
        # A fall of two points is proven, and that it is less than five.
        (version("2", 93_000, 7_000), "promote", "any fall is smaller than 5 points"),
    ],
)  # fmt: skip
def test_the_decision(candidate: Version, decision: str, reason: str) -> None:
    found = canary(STABLE, candidate)
    assert (found.decision, found.reason) == (decision, reason)


def test_skips_of_both_versions_are_no_fall() -> None:
    stable, candidate = (version(name, 3_800, 200, 0, 8_000) for name in ("1", "2"))
    assert canary(stable, candidate).decision is Decision.PROMOTE


def test_where_results_are_no_longer_read_nothing_is_promoted() -> None:
    """Also where the first ones would do: nobody knows about the later ones."""
    cut = version("1", 1_900, 100, is_cut=True)
    found = canary(cut, version("2", 1_900, 100), share=0.1)
    assert (found.decision, found.is_cut) == (Decision.HOLD, True)
    assert found.reason == (
        "any fall is smaller than 5 points, but this rests on the first 2,000 results of version 1:"
        " later ones are not read; ask with a later start"
    )
    # It stands still while the other version goes on, which says nothing about the split.
    assert found.split is None
    worse = canary(cut, version("2", 1_700, 300))
    assert worse.decision is Decision.ROLL_BACK
    assert worse.reason.startswith("the candidate passes less, but this rests on the first 2,000")


def test_a_smaller_margin_takes_longer() -> None:
    found = canary(STABLE, version("2", 1_900, 100), margin=0.01)
    assert found.decision is Decision.HOLD


def test_missing_results_are_no_promotion() -> None:
    """Half of the conversations were planned, and a quarter of all is there."""
    found = canary(version("1", 5_700, 300), version("2", 1_900, 100), share=0.5)
    assert (found.decision, found.is_split_wrong) == (Decision.HOLD, True)
    assert found.reason.startswith("the candidate has 25.0% of the conversations, and 50.0% were")
    as_planned = canary(version("1", 5_700, 300), version("2", 1_900, 100), share=0.25)
    assert as_planned.decision is Decision.PROMOTE
    assert as_planned.split == 1


def test_missing_results_do_not_keep_a_bad_version() -> None:
    found = canary(version("1", 5_700, 300), version("2", 1_500, 500), share=0.5)
    assert (found.decision, found.reason) == (Decision.ROLL_BACK, "the candidate passes less")


@pytest.mark.parametrize("margin", [0, 1, -0.1])
def test_a_margin_of_nothing_is_refused(margin: float) -> None:
    with pytest.raises(ValueError, match="expected a share between 0 and 1"):
        canary(STABLE, STABLE, margin=margin)


def result(at_ns: int, session: str = "", outcome: str = "passed") -> Result:
    return Result(
        session=session, at_ns=at_ns, is_error=outcome == "errored",
        is_passed=outcome == "passed", is_skipped=outcome == "skipped",
    )  # fmt: skip


def test_records_without_a_session_are_units() -> None:
    found = version_of("1", [result(1), result(2, outcome="failed"), result(3)], PACE, 3)
    assert (found.units, found.records) == (3, 3)
    assert found.passes.mean == pytest.approx(2 / 3)


def test_a_conversation_counts_once_it_is_quiet() -> None:
    turns = [result(1, "s"), result(5, "s", "failed"), result(6, "s", "errored"), result(7, "t")]
    at_15 = version_of("1", turns, PACE, 15)
    assert (at_15.units, at_15.passes.size) == (2, 0)
    at_16 = version_of("1", turns, PACE, 16)
    assert (at_16.passes.size, at_16.passes.mean) == (1, 0.5)
    assert at_16.decided.mean == pytest.approx(2 / 3)


def test_a_skipped_result_is_started_and_in_no_rate_of_outcomes() -> None:
    outcomes = ("passed", "errored", "skipped", "skipped")
    turns = [result(1, "s", outcome) for outcome in outcomes]
    found = version_of("1", [*turns, result(2, outcome="skipped")], PACE, 50)
    assert (found.units, found.records) == (2, 5)
    assert (found.passes.size, found.passes.mean) == (1, 1.0)
    assert (found.decided.size, found.decided.mean) == (1, 0.5)
    assert (found.answered.size, found.answered.mean) == (2, 0.25)  # a half, and none


def test_the_first_results_are_read() -> None:
    results = [result(1), result(2), result(3, outcome="failed")]
    found = version_of("1", results, PACE, 3, most=2)
    assert (found.is_cut, found.records, found.passes.mean) == (True, 2, 1.0)
    assert not version_of("1", results, PACE, 3, most=3).is_cut


def test_a_conversation_that_goes_on_later_is_another_one() -> None:
    """A unit that was counted never changes: a later look only adds to it."""
    first = [result(1, "s"), result(5, "s")]
    later = [*first, result(15, "s", "failed")]
    assert version_of("1", later, PACE, 15).passes.size == 1
    found = version_of("1", later, PACE, 30)
    assert (found.units, found.passes.size, found.passes.mean) == (2, 2, 0.5)


def test_a_long_conversation_is_cut_at_its_deadline() -> None:
    turns = [result(at, "s") for at in range(0, 26, 5)]
    found = version_of("1", turns, PACE, 26)
    assert (found.units, found.passes.size) == (2, 1)


def test_a_conversation_of_errors_has_no_rate() -> None:
    found = version_of("1", [result(1, "s", "errored")], PACE, 50)
    assert (found.passes.size, found.decided.mean) == (0, 0)
