"""Records of conversations that nobody names: neighbours are alike, and their mean counts."""

import itertools
import json
import math
import random
from collections.abc import Iterator

import pytest

from scouter.drift.series.sample import Sample
from scouter.drift.series.series import Agent, Ancestor, Kind, Series, SeriesKey

KEY = SeriesKey("default", "p", Agent(version="2"), "", Kind.PASS)


def runs(draw: random.Random, count: int, rate: float = 0.9) -> Iterator[float]:
    """Records of conversations of five, half of which pass or fail as a whole."""
    for _ in range(count // 5):
        whole = draw.random() < rate
        for _ in range(5):
            yield float(whole if draw.random() < 0.7 else draw.random() < rate)


def sample_of(outcomes: list[float]) -> Sample:
    found = Sample()
    for each in outcomes:
        found.add(each, 1)
    return found


def correlation(outcomes: list[float]) -> float:
    """The first autocorrelation within runs of 20, and what it is beyond chance."""
    together = squares = 0.0
    for at in range(0, len(outcomes), 20):
        run = outcomes[at : at + 20]
        away = [each - sum(run) / 20 for each in run]
        together += sum(one * other for one, other in itertools.pairwise(away))
        squares += sum(each * each for each in away)
    return together / squares + 1 / 20


@pytest.mark.parametrize("seed", range(20))
def test_neighbours_are_alike_beyond_four_standard_errors(seed: int) -> None:
    """Some of these streams are alike and some are not."""
    draw = random.Random(seed)
    outcomes = [draw.random() < 0.9 for _ in range(600)]
    for at in range(0, 600, 60):  # two equal failures side by side, more often with each seed
        outcomes[at + 1 : at + 1 + seed // 4] = [False] * (seed // 4)
    scores = [round(float(each) * 0.8 + 0.1, 3) for each in outcomes]
    for values in ([float(each) for each in outcomes], scores):
        expected = correlation(values) * math.sqrt(600) > 4
        assert sample_of(values).is_alike is expected


def test_single_records_are_not_alike() -> None:
    """One of 200 samples is by chance in 0.6 % of such tests."""
    draw = random.Random(54)
    for _ in range(200):
        assert not sample_of([float(draw.random() < 0.9) for _ in range(1_000)]).is_alike
    assert not sample_of([1.0] * 1_000).is_alike


def test_a_sample_goes_on_from_what_is_stored() -> None:
    draw = random.Random(1)
    outcomes = list(runs(draw, 1_010))
    first = sample_of(outcomes[:505])
    again = Sample.from_json(json.loads(json.dumps(first.to_json())))
    other = first.copy()
    for each in outcomes[505:]:
        again.add(each, 1)
        other.add(each, 1)
    assert again == other == sample_of(outcomes)
    assert first != again
    sums = [1_000 * sum(outcomes[at : at + 20]) for at in range(0, 1_000, 20)]
    assert list(again.blocks) == sums


def test_conversations_without_ids_seldom_alarm_and_a_fall_does() -> None:
    """Record by record two of three such streams alarm within 20,000; these alarm in none of 20."""
    for seed in range(20):
        draw, series = random.Random(seed), Series(KEY)
        assert not any(
            series.take(each, 1, int(each < 1), at) for at, each in enumerate(runs(draw, 6_000))
        )
        (watch,) = series.watches
        assert watch.reference.is_alike
        assert "means of 20 are compared: give session ids" in watch.reference.sentence()
        turned = [
            at
            for at, each in enumerate(runs(draw, 1_000, 0.5))
            if series.take(each, 1, int(each < 1), 6_000 + at)
        ]
        assert len(turned) == 1
        assert turned[0] < 800
        fall = series.fall()
        assert fall is not None
        assert abs(fall.since_ns - 6_000) <= 200


def test_a_version_is_compared_with_means_too_and_goes_on_after_a_restart() -> None:
    draw = random.Random(7)
    sample = sample_of(list(runs(draw, 2_000)))
    before = Ancestor(version="1", sample=sample, oldest=sample, oldest_version="1")
    outcomes = [*runs(draw, 500), *runs(draw, 800, 0.4), *runs(draw, 3_000, 0.95)]
    whole = Series(KEY, before=before)
    turns = [at for at, each in enumerate(outcomes) if whole.take(each, 1, int(each < 1), at)]
    assert len(turns) == 2, "it fell and recovered"
    split = Series(KEY, before=before)
    again = list[int]()
    for at, each in enumerate(outcomes):
        if at % 333 == 7:
            state = json.loads(json.dumps(split.to_json()))
            split = Series.from_json(*KEY[:2], KEY.agent, state)
        if split.take(each, 1, int(each < 1), at):
            again.append(at)
    assert again == turns
    assert json.dumps(split.to_json()) == json.dumps(whole.to_json())


def test_neighbours_that_are_found_to_be_alike_later_begin_the_evidence_anew() -> None:
    draw, series = random.Random(5), Series(KEY)
    steady = [float(draw.random() < 0.9) for _ in range(1_000)]
    for at, each in enumerate([*steady, *runs(draw, 4_000)]):
        assert not series.take(each, 1, int(each < 1), at)
        if at == 4_900:
            assert not series.watches[0].reference.is_alike
    assert series.watches[0].reference.is_alike
    assert series.watches[0].detector.count == 0
