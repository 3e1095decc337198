"""The overview: every profile and task, the worst first."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Literal, TypeAlias

from collector.problem import ProblemError
from collector.web.incidents import OPEN, Incident, alerts_of, tasks_of
from collector.web.period import Window, split_of
from collector.web.source import Shown, Source
from scouter.client.models.alerts import Alert, Alerts, DriftAlert, DriftSeries, DriftSeriesList
from scouter.client.models.answer import Page
from scouter.client.models.comparison import Versions
from scouter.client.models.evaluations import RatedTask, RateLine, TaskRates
from scouter.client.models.operation import RecordStates
from scouter.client.models.records import ProfileItem
from scouter.evaluate.show.rate_plot import Plot, beginning, sketch_rates

State: TypeAlias = Literal["regressed", "alert", "unwatched", "watched"]

_URGENT: Final = {"regressed": 0, "alert": 1}
"""States whose tasks come first; the others stay in the order of the profile."""
_UNWATCHED: Final = ("learning", "never_passed")
"""States of a series in which no fall can be proven."""
FEW: Final = 30
"""Results below which a rate says little: its interval is wider than 0.3."""
_POINTS: Final = 30
_WIDTH: Final = 120.0
_HEIGHT: Final = 26.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """One task of a profile in a period."""

    task_id: str
    rate: RatedTask | None
    """As `GET /api/v1/tasks` counts it; None where nothing was evaluated."""
    plot: Plot | None
    state: State
    fall: DriftAlert | None
    """The open alert of the detectors about it."""
    series: DriftSeries | None
    """Its state by the detectors."""

    @property
    def is_seen(self) -> bool:
        """True if the detectors would see a fall."""
        return self.series is not None and self.series.state not in _UNWATCHED

    @property
    def amount(self) -> str:
        """What to know of a rate of few results, or of none; empty where they are enough."""
        total = self.rate.total if self.rate else 0
        if total >= FEW:
            return ""
        return "few results in this period" if total else "nothing evaluated in this period"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRows:
    """A profile, its alert and its tasks."""

    alias: str
    name: str
    alert: Alert | None
    incident: Incident | None
    """Its open alerts in the environment that is shown."""
    tasks: Sequence[TaskRow]
    is_firing: bool
    environments: Sequence[str]
    """Those that the detectors know, the one whose states are shown first."""


async def overview(source: Source, window: Window, profile: str = "") -> Shown:
    """Collect the overview, of all active profiles or of one.

    Args:
        source: Asks the API.
        window: That it covers.
        profile: Alias of one profile; empty for all.

    Raises:
        ProblemError: The API refused, or there is no such profile.
    """
    profiles, (rates, bucket_s), alerts, series, records = await asyncio.gather(
        source.get(Page[ProfileItem], "profiles"),
        _rates(source, {"profile": profile, **window.for_api}),
        source.get(Alerts, "alerts"),
        source.get(DriftSeriesList, "drift/series", profile=profile),
        source.get(RecordStates, "conservation/records"),
    )
    states = series.items
    shown = alerts_of(alerts, profile)
    rows = _rows(
        [each for each in profiles.items if profile in ("", each.alias)],
        rates,
        _plots(rates, window, bucket_s) if bucket_s else {},
        alerts.items,
        shown["incidents"],
        states,
        window.traffic.environment,
    )
    return {
        **window.shown,
        "profiles": sorted(rows, key=lambda each: (not each.is_firing, each.alias)),
        **shown,
        "records": records,
        "is_empty": not records.accepted,
        "versions": _versions(states),
        "environments": sorted({each.environment for each in states} - {""}),
    }


async def profile_view(source: Source, given: Mapping[str, str]) -> Shown:
    """Collect the view of one profile: its part of the overview, and where failures are parted.

    Args:
        source: Asks the API.
        given: `profile`, its alias; the window.

    Raises:
        ProblemError: The API refused, or there is no such profile.
    """
    alias, window = given.get("profile", ""), Window.of(given)
    shown, known = await asyncio.gather(
        overview(source, window, alias),
        source.get(Versions, "versions", profile=alias),
    )
    if not shown["profiles"]:
        raise ProblemError(HTTPStatus.NOT_FOUND, f"no active profile is called {alias[:100]!r}")
    (profile,) = shown["profiles"]
    here = window.traffic.environment
    return {
        **shown,
        "alias": alias,
        "profile": profile,
        "bad": [
            each
            for each in profile.tasks
            if each.rate and each.rate.failed + each.rate.errored
        ],
        "split": split_of(
            [each for each in shown["incidents"] if not here or each.is_in(here)],
            known.items, window.since_s,
        ),
        "versions": [each.version for each in known.items],
    }  # fmt: skip


def _versions(states: Sequence[DriftSeries]) -> list[str]:
    """The versions that ran last, then those before them."""
    now = [each.version for each in states]
    before = [each.version_before.version for each in states if each.version_before]
    return [name for name in dict.fromkeys([*sorted(now), *sorted(before)]) if name]


async def _rates(
    source: Source, parameters: Mapping[str, str | int]
) -> tuple[Sequence[RatedTask], int | None]:
    """The rate of each task with its line, and the seconds of a bucket of that.

    There are no lines where tasks are too many for them.
    """
    try:
        found = await source.get(TaskRates, "tasks", points=_POINTS, **parameters)
    except ProblemError as error:
        if error.status != HTTPStatus.BAD_REQUEST:
            raise
        found = await source.get(TaskRates, "tasks", **parameters)
    return found.items, found.bucket_s


def _plots(
    rates: Iterable[RatedTask], window: Window, bucket_s: float
) -> dict[tuple[str, str], Plot]:
    """The plot of each task that has a line, by alias and id."""
    since_s, until_s = window.since_s, window.now_s
    lines: dict[tuple[str, str], list[RateLine]] = defaultdict(list)
    for each in rates:
        if each.line is not None:
            lines[each.profile, each.task_id].append(each.line)
    found: dict[tuple[str, str], Plot] = {}
    for key, versions in lines.items():
        places = [
            ((start_s + min(start_s + bucket_s, until_s)) / 2, rate)
            for start_s, rate in _merged(versions)
        ]
        begin_s = beginning(places[0][0] if places else None, since_s, until_s, bucket_s)
        found[key] = sketch_rates(places, begin_s, until_s, bucket_s, _WIDTH, _HEIGHT)
    return found


def _merged(lines: Sequence[RateLine]) -> Iterable[tuple[float, float]]:
    """Begin and rate of each bucket; where versions of a profile share one, of that with more."""
    if len(lines) == 1:
        return zip(lines[0].start_s, lines[0].pass_rate, strict=True)
    most: dict[float, tuple[int, float]] = {}
    for each in lines:
        for at, rate, total in zip(each.start_s, each.pass_rate, each.total, strict=True):
            most[at] = max(most.get(at, (0, 0.0)), (total, rate))
    return [(at, rate) for at, (_, rate) in sorted(most.items())]


def _rows(
    profiles: Iterable[ProfileItem],
    rates: Iterable[RatedTask],
    plots: dict[tuple[str, str], Plot],
    alerts: Iterable[Alert],
    incidents: Sequence[Incident],
    states: Sequence[DriftSeries],
    environment: str,
) -> list[ProfileRows]:
    alert_of = {each.profile: each for each in alerts}
    rate_of = {(each.profile_version, each.task_id): each for each in rates}
    series_of = {
        (each.profile, each.task, each.environment): each
        for each in states
        if each.kind == "pass" and not each.slice
    }
    rows: list[ProfileRows] = []
    for profile in profiles:
        if not profile.is_active:
            continue
        alias = profile.alias
        environments = environments_of(alias, states, environment)
        its = [each for each in incidents if each.profile == alias]
        here = [each for each in its if not environments or each.is_in(environments[0])]
        alert, incident = alert_of.get(alias), here[0] if here else None
        fell = [each.task for each in incident.tasks] if incident else []
        fall_of = {task: one for each in here for one in each.alerts for task in tasks_of(one)}
        tasks: list[TaskRow] = []
        for task_id in profile.tasks:
            rate = rate_of.get((profile.profile_version, task_id))
            fall = fall_of.get(task_id)
            series = series_of.get((alias, task_id, environments[0])) if environments else None
            is_calm = bool(fell) and task_id not in fell
            state = state_of(rate, alert, fall, series, is_calm=is_calm)
            plot = plots.get((alias, task_id))
            tasks.append(
                TaskRow(
                    task_id=task_id, rate=rate, plot=plot, state=state, fall=fall, series=series
                )
            )
        order = {name: number for number, name in enumerate(fell)}
        tasks.sort(
            key=lambda each: (
                order.get(each.task_id, len(order)), _URGENT.get(each.state, len(_URGENT))
            )
        )  # fmt: skip
        is_firing = alert is not None and alert.state == "firing"
        rows.append(
            ProfileRows(
                alias=alias,
                name=profile.name,
                alert=alert,
                incident=incident,
                tasks=tasks,
                is_firing=is_firing or bool(its),
                environments=environments,
            )
        )
    return rows


def environments_of(alias: str, of_all: Iterable[DriftSeries], named: str) -> list[str]:
    """The environments of a profile, the one that is shown first.

    Args:
        alias: Of the profile.
        of_all: As the API has them; each series of a profile is of one environment.
        named: That a person names; without it the one with the most records is shown.

    Returns:
        Names, the empty one for results that name none; empty while the detectors know nothing.
    """
    records: Counter[str] = Counter()
    for each in of_all:
        if each.profile == alias and each.kind == "pass":
            records[each.environment] += each.records
    found = sorted(records, key=lambda name: (-records[name], name))
    return sorted(found, key=lambda name: name != named)


def state_of(
    rate: RatedTask | None,
    alert: Alert | None,
    fall: DriftAlert | None,
    series: DriftSeries | None,
    *,
    is_calm: bool,
) -> State:
    """The state of a task, the most urgent one that is true.

    Args:
        rate: Its counts in the period; None where nothing was evaluated.
        alert: The condition of its profile.
        fall: An open alert of the detectors about it.
        series: Where the detectors have it.
        is_calm: Other tasks of the profile fell with its alert, and this one did not.
    """
    if fall is not None:
        return "regressed"
    is_open = alert is not None and alert.state in OPEN and not is_calm
    if is_open and rate is not None and rate.passed < rate.total:
        return "alert"
    is_watched = series is not None and series.state not in _UNWATCHED
    return "watched" if is_watched or alert is not None else "unwatched"
