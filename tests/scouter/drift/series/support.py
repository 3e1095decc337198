"""Streams of final results, short to write."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from scouter.drift.series.group import Pace, Turn
from scouter.drift.series.observed import RECORD, Observed, Place
from scouter.drift.series.series import Agent, Kind, Series
from scouter.drift.series.series_set import SeriesSet
from scouter.evaluate.outcome import Outcome

SECOND = 10**9
PACE = Pace(60 * SECOND, 3_600 * SECOND)
PASSED, FAILED, ERRORED = Outcome.PASSED, Outcome.FAILED, Outcome.ERRORED


def observed(
    number: int,
    outcome: Outcome = PASSED,
    *,
    version: str = "1",
    session: str = "",
    at_s: float | None = None,
    **fields: Any,
) -> Observed:
    """The result with a number, which is its commit, its second and its id."""
    given: dict[str, Any] = {
        "space": "default", "profile_uid": "p", "agent": Agent("bot", "prod", version),
        "evaluation_id": f"e{number}", "outcomes": ((RECORD, outcome),),
    }  # fmt: skip
    at_ns = int((number if at_s is None else at_s) * SECOND)
    given["created_ns"] = at_ns
    return Observed(place=Place(number, 0), session=session, at_ns=at_ns, **(given | fields))


def outcomes(bits: Iterable[int]) -> list[Outcome]:
    return [PASSED if bit else FAILED for bit in bits]


def feed(series: SeriesSet, results: Iterable[Observed]) -> list[Turn]:
    return [turn for each in results for turn in series.take(each)]


def run(series: SeriesSet, bits: Iterable[int], first: int = 1, **fields: Any) -> list[Turn]:
    """Feed passes and fails, numbered from `first` on."""
    numbered = enumerate(outcomes(bits), first)
    return feed(series, (observed(n, outcome, **fields) for n, outcome in numbered))


def state(series: SeriesSet) -> tuple[Any, list[Any]]:
    """Everything, as it is stored: through JSON."""
    groups = [json.loads(json.dumps(group.to_json())) for group in series.groups.values()]
    return json.loads(json.dumps(series.to_json())), groups


def restarted(series: SeriesSet, alpha: float = 0.01) -> SeriesSet:
    """The series that a new process makes from the stored state."""
    found = SeriesSet(alpha, PACE)
    whole, groups = state(series)
    found.restore(whole, groups[::-1])
    return found


def the_series(
    series: SeriesSet, version: str = "1", task: str = RECORD, kind: Kind = Kind.PASS
) -> Series:
    (found,) = (
        each for each in series.series()
        if each.key.agent.version == version and (each.key.task, each.key.kind) == (task, kind)
    )  # fmt: skip
    return found


def every(passes: int, fails: int, times: int) -> Sequence[int]:
    """A regular stream, so many passes then so many fails, so many times."""
    return ([1] * passes + [0] * fails) * times
