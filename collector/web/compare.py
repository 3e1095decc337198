"""Two sides side by side: runs, versions or periods, their calls, tasks and values."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import Final, Literal, TypeAlias, cast

from collector.problem import ProblemError
from collector.store.reads import NOT_PASSED
from collector.web.period import PERIODS
from collector.web.render import text_of, took
from collector.web.source import Shown, Source
from scouter.client.models.answer import Page
from scouter.client.models.comparison import (
    ComparedChange,
    ComparedPart,
    ComparedRate,
    Comparison,
    Look,
    LookedTask,
    RunItem,
    VersionItem,
    Versions,
)
from scouter.client.models.records import ProfileItem, ToolCall

Kind: TypeAlias = Literal["same", "changed", "gone", "new"]
_MOST_VALUES: Final = 200
_SLOWER_MS: Final = 10
_LEVELS: Final = 12
"""Levels of a value that are taken apart; what is deeper is one text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aligned:
    """One line: a call of both sequences, or of one of them."""

    kind: Kind
    """`changed` is the same tool with other arguments."""
    before: ToolCall | None
    after: ToolCall | None

    @property
    def is_slower(self) -> bool:
        """True if the call takes more than twice the time of the one before, and 10 ms more."""
        before, after = _took(self.before), _took(self.after)
        if before is None or after is None:
            return False
        return after > max(2 * before, before + _SLOWER_MS)


def _took(call: ToolCall | None) -> float | None:
    return None if call is None else call.duration_ms


def align(before: Sequence[ToolCall], after: Sequence[ToolCall]) -> list[Aligned]:
    """Lay two sequences of calls side by side, by the tools' names.

    Args:
        before: Each with `name` and `arguments`, None for any.
        after: The same.

    Cost: at worst the product of the lengths.
    """
    matcher = SequenceMatcher(None, _names(before), _names(after), autojunk=False)
    lines: list[Aligned] = []
    for operation, begin, end, start, stop in matcher.get_opcodes():
        if operation == "equal":
            lines += map(_pair, before[begin:end], after[start:stop])
        else:
            lines += [Aligned(kind="gone", before=each, after=None) for each in before[begin:end]]
            lines += [Aligned(kind="new", before=None, after=each) for each in after[start:stop]]
    return lines


def _names(calls: Sequence[ToolCall]) -> list[str]:
    return [each.name for each in calls]


def _pair(before: ToolCall, after: ToolCall) -> Aligned:
    is_same = before.arguments in (None, after.arguments)
    return Aligned(kind="same" if is_same else "changed", before=before, after=after)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedTask:
    """One task on both sides; None where a side has no such task."""

    task_id: str
    before: LookedTask | None
    after: LookedTask | None

    @property
    def is_changed(self) -> bool:
        """True if it ends otherwise."""
        return _outcome(self.before) != _outcome(self.after)


def align_tasks(before: Sequence[LookedTask], after: Sequence[LookedTask]) -> list[AlignedTask]:
    """Lay the results of tasks side by side, those that end otherwise first."""
    sides = [{each.task_id: each for each in side} for side in (before, after)]
    lines = [
        AlignedTask(task_id=name, before=sides[0].get(name), after=sides[1].get(name))
        for name in dict.fromkeys([*sides[1], *sides[0]])
    ]
    return sorted(lines, key=lambda line: not line.is_changed)


def _outcome(result: LookedTask | None) -> str | None:
    return None if result is None else result.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedValue:
    """One value on both sides, as text; None where a side has none."""

    path: str
    kind: Kind
    before: str | None
    after: str | None


def align_values(before: Shown, after: Shown) -> tuple[list[AlignedValue], int]:
    """Lay two objects side by side, value by value.

    Returns:
        The first 200 values, and how many are left out.
    """
    was, now = (dict(_values(side, "", _LEVELS)) for side in (before, after))
    paths = dict.fromkeys([*was, *now])
    lines = [
        AlignedValue(
            path=path,
            kind=_kind(was.get(path), now.get(path)),
            before=was.get(path),
            after=now.get(path),
        )
        for path in islice(paths, _MOST_VALUES)
    ]
    return lines, len(paths) - len(lines)


def _kind(before: str | None, after: str | None) -> Kind:
    if before is None or after is None:
        return "new" if before is None else "gone"
    return "same" if before == after else "changed"


def _values(value: object, path: str, levels: int) -> Iterator[tuple[str, str]]:
    """The values inside of a value, as texts, with their paths."""
    if levels and isinstance(value, dict) and value:
        for key, each in cast("Mapping[str, object]", value).items():
            yield from _values(each, f"{path}.{key}" if path else key, levels - 1)
    elif levels and isinstance(value, list) and value:
        for at, each in enumerate(cast("list[object]", value)):
            yield from _values(each, f"{path}[{at}]", levels - 1)
    elif path:
        yield path, text_of(cast("object", value))


_NOTHING: Final = (404, 409)
"""Statuses of a comparison of which a side is empty or gone: no fault, but something to say."""
_WIDTH: Final = 120.0
_REACHES: Final = (5, 10, 25, 50, 100)
_EXACT: Final = ("before_since", "before_until", "since", "until")
_SWAPPED: Final[Mapping[str, str]] = dict(zip(_EXACT, (*_EXACT[2:], *_EXACT[:2]), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of both sides' traces, as text."""

    label: str
    before: str
    after: str
    difference: str


_TIMES: Final = 2
"""Multiple from which a difference is shown as such."""
_FIGURES: Final[Sequence[tuple[str, str, Callable[[float], str]]]] = (
    ("median_ms", "Duration of a trace, median", took),
    ("p95_ms", "Duration, 95th percentile", took),
    ("input_tokens", "Input tokens, mean", "{:,.0f}".format),
    ("output_tokens", "Output tokens, mean", "{:,.0f}".format),
    ("cost", "Cost in USD, mean", "{:,.4f}".format),
)


async def compare_view(source: Source, given: Mapping[str, str]) -> Shown:
    """Collect the view of a comparison.

    Args:
        source: Asks the API.
        given: `profile`, `before` and `after`; without the last two, the last two versions, or
            else the last day and the one before it. The last period ends now.

    Raises:
        ProblemError: The API refused.
    """
    named, now_s = given.get("profile", ""), time.time()
    listed, stored, first_versions = await asyncio.gather(
        source.get(Page[ProfileItem], "profiles"),
        source.get(Page[RunItem], "runs"),
        _versions(source, named),
    )
    aliases = sorted({each.alias for each in listed.items if each.is_active})
    runs = stored.items
    profile = named or (aliases[0] if len(aliases) == 1 else "")
    versions = first_versions if profile == named else await _versions(source, profile)
    before, after = _sides(given, versions, runs)
    exact = {name: given[name] for name in _EXACT if given.get(name)}
    comparison, problem = None, ""
    if (profile or (before.startswith("run:") and after.startswith("run:"))) and before and after:
        chosen = {
            **_parameters(before, "before_", now_s), **_parameters(after, "", now_s), **exact,
            "environment": given.get("environment", ""),
        }  # fmt: skip
        try:
            comparison = await source.get(Comparison, "comparison", profile=profile, **chosen)
        except ProblemError as error:
            if error.status not in _NOTHING:
                raise
            problem = error.detail
    rates = comparison.rates if comparison is not None else ()
    why = comparison.explanation if comparison is not None else None
    parts = why.parts if why is not None else ()
    reach, why_reach = reach_of(rates), reach_of(parts)
    swapped = {_SWAPPED[name]: value for name, value in exact.items()}
    environment = given.get("environment", "")
    return {
        "profiles": aliases,
        "profile": profile,
        "before": before,
        "after": after,
        "exact": exact,
        "swapped": {
            "profile": profile, "before": after, "after": before, "environment": environment,
            **swapped,
        },
        "environment": environment,
        "choices": _choices(versions, runs),
        "runs": runs,
        "comparison": comparison,
        "figures": [] if comparison is None else _figures(comparison),
        "bars": [bar(each, reach) for each in rates],
        "reach": reach,
        "why_bars": [bar(each, why_reach) for each in parts],
        "why_reach": why_reach,
        "better": sum(each.lower is not None and each.lower > 0 for each in rates),
        "changes": [] if comparison is None else [_change(each) for each in comparison.changes],
        "failed": [
            {"when": when, "query": found}
            for when, side, times in (("now", after, exact), ("before", before, swapped))
            if (found := _failed(side, profile, environment, times, now_s))
        ],
        "problem": problem,
    }  # fmt: skip


async def _versions(source: Source, profile: str) -> Sequence[VersionItem]:
    """The versions of a profile, the newest first; none without a profile."""
    return (await source.get(Versions, "versions", profile=profile)).items if profile else ()


def _sides(
    given: Mapping[str, str], versions: Sequence[VersionItem], runs: Sequence[RunItem]
) -> tuple[str, str]:
    """The sides that were chosen; of what was not, the last version and the one before it."""
    before, after = given.get("before", ""), given.get("after", "")
    named = [f"version:{each.version}" for each in versions]
    stored = [f"run:{each.run_id}" for each in runs]
    if not after:
        is_several = len(named) > 1 or (before and named)
        after = named[0] if is_several and before != named[0] else "last:24h"
    if not before:
        known = stored if after in stored else named
        older = known[known.index(after) + 1 :] if after in known else named[:1]
        before = older[0] if older and after != "last:24h" else "before:24h"
    return before, after


def _parameters(side: str, prefix: str, now_s: float) -> dict[str, str]:
    """A side as parameters of the API."""
    kind, _, text = side.partition(":")
    if kind in ("run", "version"):
        return {f"{prefix}{kind}": text}
    period = next((each for each in PERIODS if each.name == text), None)
    if kind not in ("last", "before") or period is None:
        raise ProblemError(
            400, f"{side[:100]!r} is no side; expected version:…, run:…, last:24h or before:24h"
        )
    end = int(now_s) - (period.seconds if kind == "before" else 0)
    found = {f"{prefix}since": str(end - period.seconds)}
    return found if kind == "last" else {**found, f"{prefix}until": str(end)}


def _choices(versions: Sequence[VersionItem], runs: Sequence[RunItem]) -> Shown:
    """Sides that a reader may choose, by their kind: each as the address has it, and a label."""
    return {
        "Versions": [
            (f"version:{each.version}", f"{each.version} ({each.records:,} records)")
            for each in versions
        ],
        "Periods": [
            (f"{kind}:{each.name}", f"{words} {each.label}")
            for each in PERIODS
            for kind, words in (("last", "last"), ("before", "the one before the last"))
        ],
        "Offline runs": [
            (f"run:{each.run_id}", f"{each.name}, {each.added_at:%Y-%m-%dT%H:%M}") for each in runs
        ],
    }


def reach_of(rates: Iterable[ComparedRate | ComparedPart]) -> int:
    """Points on either side of 0 that a line needs to hold the intervals of all differences."""
    ends = [end for each in rates for end in (each.lower, each.upper) if end is not None]
    most = 100 * max(map(abs, ends), default=1.0)
    return next((each for each in _REACHES if most <= each), 100)


def bar(rate: ComparedRate | ComparedPart, reach: int) -> tuple[float, float, float] | None:
    """Left end, dot and right end of a difference on a line.

    Args:
        rate: With the difference and its interval.
        reach: Points on either side of 0 that the line has.

    Returns:
        In units of a line of 120; None where there is no interval.
    """
    if rate.lower is None or rate.upper is None:
        return None
    low, middle, high = (
        (1 + 100 * each / reach) / 2 * _WIDTH for each in (rate.lower, rate.difference, rate.upper)
    )
    return low, middle, high


def _failed(
    side: str, profile: str, environment: str, times: Mapping[str, str], now_s: float
) -> Shown:
    """The filters of a side's evaluations that did not pass; of a run there are none."""
    if side.startswith("run:"):
        return {}
    parameters = _parameters(side, "", now_s)
    if version := parameters.pop("version", ""):
        parameters["service_version"] = version
    parameters |= {name: times[name] for name in ("since", "until") if name in times}
    return {"profile": profile, "outcome": NOT_PASSED, "environment": environment, **parameters}


def _figures(comparison: Comparison) -> list[Figure]:
    """Length and tokens of both sides' traces; a line that neither side knows is left out."""
    before, after = (
        dict(side.figures) if side.figures else {} for side in (comparison.before, comparison.after)
    )
    return [
        _figure(label, shown, before.get(name), after.get(name))
        for name, label, shown in _FIGURES
        if before.get(name) is not None or after.get(name) is not None
    ]


def _figure(
    label: str, shown: Callable[[float], str], before: float | None, after: float | None
) -> Figure:
    was, now = ("–" if each is None else shown(each) for each in (before, after))
    return Figure(label=label, before=was, after=now, difference=_difference(before, after))


def _difference(before: float | None, after: float | None) -> str:
    """A difference as a part or a multiple of what was before; a dash where that says nothing."""
    if not before or after is None:
        return "–"
    if after >= _TIMES * before:
        return f"{after / before:,.1f} times"
    return f"{after / before - 1:+.0%}".replace("-", "\u2212")


def _change(change: ComparedChange) -> Shown:
    """A change with both sides' tasks, values and calls side by side."""
    before, after = change.before, change.after
    values, left_out = align_values(_shown(before), _shown(after))
    return {
        **dict(change),
        "tasks": align_tasks(before.tasks, after.tasks),
        "values": values,
        "values_left_out": left_out,
        "calls": None
        if before.calls is None or after.calls is None
        else align(before.calls, after.calls),
    }


def _shown(look: Look) -> Shown:
    """The content that a side shows: of a record its context."""
    context = look.shown.get("context")
    return dict(context if isinstance(context, dict) else look.shown)
