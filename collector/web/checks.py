"""The checks of a trace that did not pass, by the record that they are of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from collector.web.incidents import OPEN
from collector.web.source import Answer

FIRST: Final = 6
"""Checks that are shown at once; the others are folded, unless they are one or two."""
_MOST: Final = 200
BAD: Final = ("failed", "errored")
"""Outcomes of what did not pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check that did not pass, and the first span that it is about."""

    task: Answer
    span_id: str
    """Empty if it is about none."""
    span_name: str
    """Empty if its name is not known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The evaluation of a record, and those of its checks that did not pass."""

    evaluation: Answer
    alerts: list[Answer]
    """The open ones of its profile and version."""
    checks: list[Check]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """All checks of a trace."""

    count: int
    """Those that did not pass."""
    of: int
    first: list[Judged]
    rest: list[Judged]
    left_out: int
    """Checks that are in neither list."""
    others: list[Answer]
    """Evaluations without a check that failed or errored."""


def read_checks(
    evaluations: Sequence[Answer], names: Mapping[str, str], alerts: Sequence[Answer]
) -> Checks:
    """Sort out what did not pass.

    Args:
        evaluations: Of the records of a trace, as the API has them.
        names: Of spans, by their ids.
        alerts: Alerts of the detectors.
    """
    bad = [(each, task) for each in evaluations for task in each["tasks"] if task["outcome"] in BAD]
    shown = FIRST if len(bad) > FIRST + 2 else len(bad)
    told = {each["uid"] for each, _ in bad}
    return Checks(
        count=len(bad),
        of=sum(len(each["tasks"]) for each in evaluations),
        first=list(_grouped(bad[:shown], names, alerts)),
        rest=list(_grouped(bad[shown:_MOST], names, alerts)),
        left_out=max(0, len(bad) - _MOST),
        others=[each for each in evaluations if each["uid"] not in told],
    )


def has_bad(evaluations: Sequence[Answer]) -> bool:
    """True if a check failed or errored."""
    return any(task["outcome"] in BAD for each in evaluations for task in each["tasks"])


def _grouped(
    bad: Sequence[tuple[Answer, Answer]], names: Mapping[str, str], alerts: Sequence[Answer]
) -> Iterator[Judged]:
    groups: dict[str, Judged] = {}
    for evaluation, task in bad:
        group = groups.setdefault(
            evaluation["uid"],
            Judged(evaluation=evaluation, alerts=_alerts_of(evaluation, alerts), checks=[]),
        )
        span_id = next(iter(task["span_ids"]), "")
        group.checks.append(Check(task=task, span_id=span_id, span_name=names.get(span_id, "")))
    yield from groups.values()


def _alerts_of(evaluation: Answer, alerts: Sequence[Answer]) -> list[Answer]:
    return [
        each
        for each in alerts
        if each["state"] in OPEN
        and each["profile"] == evaluation["profile"]
        and each["version"] in ("", evaluation["service_version"])
        and each["environment"] in ("", evaluation["environment"])
    ]
