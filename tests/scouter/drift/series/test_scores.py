"""Scores and measures: which are watched, on what scale, and that healthy ones seldom alarm."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.drift.detect.detector import Design
from scouter.drift.series.observed import RECORD, Yardstick, yardsticks
from scouter.drift.series.sample import Sample
from scouter.drift.series.series import Agent, Ancestor, Kind, Series, SeriesKey
from scouter.drift.series.series_set import SeriesSet
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.trace import SpanFilter, TraceAssertion, TraceAssertionTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from tests.scouter.drift.series.support import FAILED, PACE, PASSED, SECOND, observed, the_series

KEY = SeriesKey("default", "p", Agent(version="2"), "t", Kind.SCORE)
AT_LEAST, AT_MOST = ComparisonOperator.GreaterThanOrEqual, ComparisonOperator.LessThanOrEqual
PROMPT: Any = {"provider": "openai", "model": "m", "messages": "?", "output_type": "Score"}


def judge(expected: Any, operator: ComparisonOperator, **fields: Any) -> LLMJudgeTask:
    given: dict[str, Any] = {
        "id": "t", "prompt": PROMPT, "expected_value": expected, "operator": operator,
        "context_path": "score",
    }  # fmt: skip
    return LLMJudgeTask(**(given | fields))


def measured(assertion: Any, operator: ComparisonOperator = AT_MOST) -> TraceAssertionTask:
    return TraceAssertionTask("t", assertion, 2_000, operator)


UNIT = Yardstick(0.0, 1.0)
OBJECTIVE = Yardstick(0.0, 2_000.0, is_objective=True)


@pytest.mark.parametrize(
    ("task", "yardstick"),
    [
        (judge(4, AT_LEAST, scale=(1, 5)), Yardstick(1, 5)),
        (judge(2, AT_MOST, scale=(1, 5)), Yardstick(1, 5, is_falling=True)),
        (judge(0.7, AT_LEAST), UNIT),
        (judge(0.2, AT_MOST), Yardstick(0.0, 1.0, is_falling=True)),
        pytest.param(judge(4, AT_LEAST), None, id="a scale that nobody stated"),
        pytest.param(judge(True, ComparisonOperator.Equals), None, id="yes or no"),
        (TrajectoryTask("t", "precision"), UNIT),
        (TrajectoryTask("t", model="m", provider="openai"), UNIT),
        (TrajectoryTask("t", "exact_match"), None),
        (measured(TraceAssertion.trace_duration()), OBJECTIVE),
        (measured(TraceAssertion.span_duration(SpanFilter.ByName(name="s"))), OBJECTIVE),
        (measured(TraceAssertion.trace_duration(), AT_LEAST), None),
        (measured(TraceAssertion.trace_max_depth()), None),
        (AssertionTask("t", "x", 1, AT_MOST), None),
    ],
)
def test_which_tasks_have_a_yardstick(task: Any, yardstick: Yardstick | None) -> None:
    assert yardsticks([task]) == ({} if yardstick is None else {"t": yardstick})


@pytest.mark.parametrize(
    ("yardstick", "number", "outcome"),
    [
        (Yardstick(1, 5), 4, 0.75),
        (Yardstick(1, 5, is_falling=True), 4, 0.25),
        (Yardstick(1, 5), 9, 1.0),
        (Yardstick(1, 5), -1, 0.0),
        (OBJECTIVE, 0, 1.0),
        (OBJECTIVE, 2_000, 1.0),
        (OBJECTIVE, 4_000, 0.5),
    ],
)
def test_a_number_on_its_scale(yardstick: Yardstick, number: float, outcome: float) -> None:
    assert yardstick.outcome(number) == outcome


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=20),
    st.floats(0.01, 0.999),
    st.integers(0, 20),
)
def test_no_bet_wins_on_average_while_scores_are_healthy(
    hundredths: list[int], healthy: float, lift: int
) -> None:
    """For every distribution: the law that makes the evidence an e-process (Ville 1939)."""
    scores = [min(100, each + lift) / 100 for each in hundredths]
    mean = math.fsum(scores) / len(scores)
    design = Design(healthy=min(mean, healthy) if min(mean, healthy) > 0 else healthy)
    if mean < design.healthy:
        return
    for factors in zip(*(design.factors(score) for score in scores), strict=True):
        assert min(factors) >= 0
        assert math.fsum(factors) / len(factors) <= 1 + 1e-12


def healthy_alarms(streams: int, baseline: int, spread: float, seed: int) -> int:
    """Streams of 1,000 beta scores with mean 0.8 that ever alarm."""
    random, alarms = np.random.default_rng(seed), 0
    for _ in range(streams):
        sample = Sample()
        for score in random.beta(0.8 * spread, 0.2 * spread, baseline).tolist():
            sample.add(score, 1)
        before = Ancestor(version="1", sample=sample, oldest=sample, oldest_version="1")
        series = Series(KEY, before=before)
        drawn = random.beta(0.8 * spread, 0.2 * spread, 1_000).tolist()
        alarms += any(series.take(score, 1, 0, at) for at, score in enumerate(drawn))
    return alarms


@pytest.mark.parametrize("spread", [0.1, 2.0, 30.0], ids=["nearly 0 or 1", "wide", "narrow"])
def test_healthy_scores_seldom_alarm(spread: float) -> None:
    """At 1 % three alarms or more among 40 streams have a chance of 0.7 %."""
    assert healthy_alarms(40, 300, spread, seed=3) <= 2


def test_a_fall_that_passes_and_fails_hide_is_seen() -> None:
    """Scores of 0.8 ± 0.07 fall to 0.7; all of them still pass a bound of 0.5."""
    random = np.random.default_rng(4)
    sample = Sample()
    for score in random.beta(24, 6, 1_000).tolist():
        sample.add(score, 1)
    before = Ancestor(version="1", sample=sample, oldest=sample, oldest_version="1")
    series = Series(KEY, before=before)
    drawn = random.beta(21, 9, 300).tolist()
    at = next(at for at, score in enumerate(drawn, 1) if series.take(score, 1, 0, at))
    # The best bet, 1 / (1 - 0.8), wins about 0.5 x 0.1 a time and loses a little to its spread:
    # ln(200 x 8) nats of 0.3 or so each would take 25; the bound of the mean doubles that.
    assert at <= 75
    fall = series.fall()
    assert fall is not None
    assert fall.mean == pytest.approx(0.7, abs=0.03)


def test_scores_are_series_of_their_own_by_conversation() -> None:
    series = SeriesSet(pace=PACE)
    given: dict[str, Any] = {"yardsticks": {"t": Yardstick(1, 5)}, "session": "s"}
    for number, (outcome, score) in enumerate([(PASSED, 5), (FAILED, 2), (PASSED, 4)], 1):
        results = ((RECORD, outcome), ("t", outcome))
        numbers = (("t", float(score)), ("other", 3.0))
        series.take(observed(number, outcomes=results, numbers=numbers, **given))
    series.advance(1_000 * SECOND)
    found = the_series(series, task="t", kind=Kind.SCORE)
    assert (found.units, found.records, found.failed) == (1, 3, 1)
    assert found.total == pytest.approx((1 + 0.25 + 0.75) / 3)
    assert found.examples == ("e3",)  # the last one that was not as good as can be
    assert {(each.key.task, each.key.kind) for each in series.series()} == {
        (task, kind) for task in (RECORD, "t") for kind in (Kind.PASS, Kind.ERROR)
    } | {("t", Kind.SCORE)}
