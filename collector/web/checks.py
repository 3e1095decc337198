"""Checks of a trace as people read them, and the words and citations of their results."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from collector.web.incidents import OPEN
from collector.web.render import cut
from scouter.client.models.alerts import DriftAlert
from scouter.client.models.evaluations import Evaluation, TaskResult

_LEAST: Final = 6
"""Letters of a citation; shorter ones stand anywhere."""
_MOST: Final = 20
_QUOTED: Final = re.compile(
    r'"([^"\n]{6,400})"|“([^”\n]{6,400})”|«([^»\n]{6,400})»|‘([^’\n]{6,400})’'
)
_CITING: Final = ("cit", "quot", "evidence", "passage", "excerpt")
"""Beginnings of names of fields whose texts are citations as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a text."""

    text: str
    number: int | None
    """Number of the citation, from 1; None for text that nobody cites."""
    is_first: bool = False
    """True for the first place of a citation, which its link leads to."""


def citations_of(answer: object) -> list[str]:
    """Find what a judge may have cited: quoted parts of its texts, and fields named so.

    Args:
        answer: The judge's whole answer, as JSON.

    Returns:
        Each once, in the answer's order; at most 20.
    """
    found = dict.fromkeys(each.strip() for each in _candidates(answer, "", 0))
    return [each for each in found if len(each) >= _LEAST][:_MOST]


def _candidates(value: object, name: str, depth: int) -> Iterator[str]:
    if depth > 8:  # deeper than any schema of a judge
        return
    if isinstance(value, str):
        if name.lower().startswith(_CITING):
            yield value
        for match in _QUOTED.finditer(value):
            yield next(filter(None, match.groups()))
    elif isinstance(value, dict):
        for key, each in cast("Mapping[str, object]", value).items():
            yield from _candidates(each, key, depth + 1)
    elif isinstance(value, list):
        for each in cast("Sequence[object]", value):
            yield from _candidates(each, name, depth + 1)


class Marker:
    """Marks citations in the texts of one view, each first place once.

    Args:
        citations: By whoever cites, what may be cited.
    """

    def __init__(self, citations: Sequence[str]) -> None:
        self._numbers = {each: at for at, each in enumerate(citations, start=1)}
        longest = sorted(self._numbers, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest))) if longest else None
        self._seen: set[int] = set()

    def pieces(self, value: object) -> tuple[list[Piece], int]:
        """Cut the shown text of a value at citations.

        Returns:
            Its pieces, and how many characters are left out behind them.
        """
        text, left_out = cut(value)
        if self._pattern is None:
            return [Piece(text=text, number=None)], left_out
        found: list[Piece] = []
        end = 0
        for match in self._pattern.finditer(text):
            if match.start() > end:
                found.append(Piece(text=text[end : match.start()], number=None))
            number = self._numbers[match.group()]
            found.append(
                Piece(text=match.group(), number=number, is_first=number not in self._seen)
            )
            self._seen.add(number)
            end = match.end()
        found.append(Piece(text=text[end:], number=None))
        return [each for each in found if each.text], left_out


def within(context: object, citations: Sequence[str]) -> list[str]:
    """Citations that a view of a context shows, in their order."""
    texts = list(_texts(context, 0))
    return [each for each in citations if any(each in text for text in texts)]


def _texts(value: object, depth: int) -> Iterator[str]:
    if depth > 40:  # no view is that deep
        return
    if isinstance(value, dict):
        for each in cast("Mapping[str, object]", value).values():
            yield from _texts(each, depth + 1)
    elif isinstance(value, list):
        for each in cast("Sequence[object]", value):
            yield from _texts(each, depth + 1)
    else:
        yield cut(value)[0]


FIRST: Final = 6
"""Checks that are shown at once; the others are folded, unless they are one or two."""
_CHECK_MOST: Final = 200
BAD: Final = ("failed", "errored")
"""Outcomes of what did not pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check that did not pass, and the first span that it is about."""

    task: TaskResult
    span_id: str
    """Empty if it is about none."""
    span_name: str
    """Empty if its name is not known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The evaluation of a record, and those of its checks that did not pass."""

    evaluation: Evaluation
    alerts: list[DriftAlert]
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
    others: list[Evaluation]
    """Evaluations without a check that failed or errored."""


def read_checks(
    evaluations: Sequence[Evaluation], names: Mapping[str, str], alerts: Sequence[DriftAlert]
) -> Checks:
    """Sort out what did not pass.

    Args:
        evaluations: Of the records of a trace, as the API has them.
        names: Of spans, by their ids.
        alerts: Alerts of the detectors.
    """
    bad = [(each, task) for each in evaluations for task in each.tasks if task.outcome in BAD]
    shown = FIRST if len(bad) > FIRST + 2 else len(bad)
    shown_uids = {each.uid for each, _ in bad}
    return Checks(
        count=len(bad),
        of=sum(len(each.tasks) for each in evaluations),
        first=list(_grouped(bad[:shown], names, alerts)),
        rest=list(_grouped(bad[shown:_CHECK_MOST], names, alerts)),
        left_out=max(0, len(bad) - _CHECK_MOST),
        others=[each for each in evaluations if each.uid not in shown_uids],
    )


def has_bad(evaluations: Sequence[Evaluation]) -> bool:
    """True if a check failed or errored."""
    return any(task.outcome in BAD for each in evaluations for task in each.tasks)


def _grouped(
    bad: Sequence[tuple[Evaluation, TaskResult]],
    names: Mapping[str, str],
    alerts: Sequence[DriftAlert],
) -> Iterator[Judged]:
    groups: dict[str, Judged] = {}
    for evaluation, task in bad:
        group = groups.setdefault(
            evaluation.uid,
            Judged(evaluation=evaluation, alerts=_alerts_of(evaluation, alerts), checks=[]),
        )
        span_id = next(iter(task.span_ids), "")
        group.checks.append(Check(task=task, span_id=span_id, span_name=names.get(span_id, "")))
    yield from groups.values()


def _alerts_of(evaluation: Evaluation, alerts: Sequence[DriftAlert]) -> list[DriftAlert]:
    return [
        each
        for each in alerts
        if each.state in OPEN
        and each.profile == evaluation.profile
        and each.version in ("", evaluation.service_version)
        and each.environment in ("", evaluation.environment)
    ]
