"""Scores from outside in series, in the order of what they are about."""

from dataclasses import replace

from scouter.drift.series.group import Group
from scouter.drift.series.observed import Observed, Place, waits, yardsticks
from scouter.drift.series.series import Agent, Kind
from scouter.drift.series.series_set import SeriesSet
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.score import FEEDBACK, ScoreTask

SECOND = 10**9
TASK = ScoreTask("thumb", wait_s=100)
RULED = ScoreTask("thumb", operator="GreaterThanOrEqual", expected_value=0.5, wait_s=100)


def score(
    number: int, created_s: int, came_s: int, *, good: bool = True, session: str = "",
    task: ScoreTask = TASK, value: float | None = None,
) -> Observed:  # fmt: skip
    number_of = float(good) if value is None else value
    return Observed(
        place=Place(number, 0), space="s", profile_uid="p", agent=Agent(version="1"),
        session=session, at_ns=came_s * SECOND, created_ns=created_s * SECOND,
        evaluation_id=f"e{number}", score_type=FEEDBACK,
        outcomes=(("thumb", Outcome.PASSED if good else Outcome.FAILED),),
        numbers=(("thumb", number_of),), yardsticks=yardsticks([task]), waits=waits([task]),
    )  # fmt: skip


def units(series: SeriesSet, kind: Kind = Kind.SCORE) -> list[tuple[int, float]]:
    """Units and the sum of the outcomes of the one series of a kind."""
    return [(each.units, each.total) for each in series.series() if each.key.kind is kind]


def test_scores_are_taken_so_long_after_what_they_are_about() -> None:
    """Of traces at 10 s and 20 s the later one is scored first; each is taken 100 s behind."""
    series = SeriesSet()
    series.take(score(1, 20, 25, good=False))
    series.take(score(2, 10, 90))
    assert units(series) == []

    series.advance(110 * SECOND)
    assert units(series) == [(1, 1.0)]
    series.advance(120 * SECOND)
    assert units(series) == [(2, 1.0)]


def test_scores_of_a_conversation_are_one_unit() -> None:
    series = SeriesSet()
    for number, good in enumerate([True, True, False], 1):
        series.take(score(number, 10, 10 + number, good=good, session="chat"))

    series.advance(200 * SECOND)

    assert units(series) == [(1, 2 / 3)]


def test_without_a_rule_the_mean_is_watched_and_with_one_the_passes() -> None:
    for task, kinds in ((TASK, {Kind.SCORE, Kind.ERROR}),
                        (RULED, {Kind.PASS, Kind.SCORE, Kind.ERROR})):  # fmt: skip
        series = SeriesSet()
        series.take(score(1, 10, 11, task=task, value=0.7))
        series.advance(200 * SECOND)

        assert {each.key.kind for each in series.series()} == kinds
        assert units(series) == [(1, 0.7)]


def test_what_waits_survives_a_restart() -> None:
    series = SeriesSet()
    series.take(score(1, 10, 11, good=False, session="chat"))
    [group] = series.groups.values()
    again = SeriesSet()
    again.restore(series.to_json(), [group.to_json()])
    for each in (series, again):
        each.take(score(2, 12, 13, session="chat"))
        each.advance(200 * SECOND)

    assert units(again) == units(series) == [(1, 0.5)]
    [one], [other] = series.groups.values(), again.groups.values()
    assert Group.from_json(one.to_json()).to_json() == other.to_json()


def test_after_an_alert_was_resolved_earlier_things_are_left_out() -> None:
    """A person resolves it at 151 s: what was created by then says nothing about what comes."""
    series = SeriesSet()
    series.take(score(1, 5, 6))
    series.advance(150 * SECOND)
    [found] = [each for each in series.series() if each.key.kind is Kind.SCORE]
    series.take(score(2, 140, 151, good=False))

    series.restart(found.key, accept=False)
    series.take(score(3, 145, 160, good=False))
    series.take(replace(score(4, 155, 161), created_ns=155 * SECOND))
    series.advance(400 * SECOND)

    assert units(series) == [(2, 2.0)]
