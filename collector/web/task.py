"""One task: its rate over time, and the results that did not pass, in groups that look alike."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from collector.web.overview import points_of
from collector.web.period import Period
from collector.web.source import Answer, Source
from scouter.evaluate.show.rate_plot import beginning, plot_rates

_WIDTH: Final = 860.0
_HEIGHT: Final = 180.0
_EXAMPLES: Final = 3
_LOOKED_AT: Final = 200
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Results that did not pass and whose messages differ in values only."""

    outcome: str
    reason: str
    message: str
    """Of the newest."""
    count: int
    examples: Sequence[Answer]
    """Their evaluations, newest first; a few."""
    first_seen: str


async def task_view(
    source: Source, profile: str, task_id: str, period: Period, version: str, now_s: float
) -> Answer:
    """Collect the view of a task.

    Args:
        source: Asks the API.
        profile: Alias of the profile.
        task_id: Of the task.
        period: That it covers.
        version: Of the service; empty for all.
        now_s: The end of the period.

    Raises:
        AskError: The API refused, or there is no such profile or task.
    """
    since = period.since(now_s)
    asked = {"profile": profile, "since": since, "service_version": version}
    rates = [
        each for each in (await source.get("tasks", **asked))["items"] if each["task_id"] == task_id
    ]
    series = await source.get("tasks/series", task_id=task_id, bucket=period.bucket, **asked)
    points = points_of(series["items"], period.bucket_s)
    until_s = now_s + period.bucket_s
    begin_s = beginning(points, since, until_s, period.bucket_s)
    bad: list[Answer] = []
    for outcome in ("failed", "errored"):
        page = await source.get(
            "evaluations", task_id=task_id, task_outcome=outcome, limit=_LOOKED_AT, **asked
        )
        bad += page["items"]
    alerts = (await source.get("alerts"))["items"]
    return {
        "rates": rates,
        "plot": plot_rates(points, begin_s, until_s, period.bucket_s, _WIDTH, _HEIGHT),
        "plot_since": _clock(begin_s) if begin_s > since else "",
        "groups": groups_of(bad, task_id),
        "looked_at": len(bad),
        "alert": next((each for each in alerts if each["profile"] == profile), None),
    }


def _clock(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M")


def groups_of(evaluations: Iterable[Answer], task_id: str) -> list[Group]:
    """Put results of a task into groups, the largest first.

    Two results are alike where outcome, reason and message are the same but for quoted texts and
    numbers: which field was looked at and how it was compared stay.
    """
    found: dict[tuple[str, str, str], list[tuple[Answer, Answer]]] = defaultdict(list)
    for evaluation in evaluations:
        for task in evaluation["tasks"]:
            if task["task_id"] == task_id:
                shape = _NUMBER.sub("#", _QUOTED.sub("…", task["message"]))
                key = task["outcome"], task["reason"] or "", shape
                found[key].append((evaluation, task))
    groups = [
        Group(
            outcome=outcome,
            reason=reason,
            message=pairs[0][1]["message"],
            count=len(pairs),
            examples=[evaluation for evaluation, _ in pairs[:_EXAMPLES]],
            first_seen=min(evaluation["evaluated_at"] for evaluation, _ in pairs),
        )
        for (outcome, reason, _), pairs in found.items()
    ]
    return sorted(groups, key=lambda each: -each.count)
