"""Alerts of the live watch, as data and in words: their subject, their state and the evidence."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, TypeAdapter

from collector.store.alerts import DriftEvent
from collector.store.setups import SetupChange
from scouter.drift.series.causes import Proven, specificity
from scouter.drift.series.group import Turn
from scouter.drift.series.series import Agent, Kind, SeriesKey
from scouter.drift.series.watch import Fall


class Trouble(StrEnum):
    """Kinds of findings, each with its words in the headline of an alert."""

    headline: str

    def __new__(cls, value: str, headline: str) -> "Trouble":
        """Make a kind, which has a headline in any case."""
        made = str.__new__(cls, value)
        made._value_, made.headline = value, headline
        return made

    NOT_EVALUATED = "not_evaluated", "records are not evaluated"
    """Records were accepted long ago and have no evaluation."""
    BEHIND = "behind", "evaluation is behind"
    """There is more to be evaluated than the collector gets through."""
    JUDGE_WAITS = "judge_waits", "tasks wait for a judge"
    JUDGE_BUDGET = "judge_budget", "a judge's budget is spent"
    ERRORED = "errored", "most results of a task are errors"
    UNKNOWN_PROFILE = "unknown_profile", "records name no profile that can evaluate them"
    INCOMPLETE = "incomplete", "traces lack spans"
    """They lacked them at their deadline."""
    DEAD_LETTERS = "dead_letters", "much of what comes in cannot be used"
    DROPPED = "dropped", "senders give up records or spans"
    OVERTAKEN = "overtaken", "a broker deleted messages before they were read"
    LOST = "lost", "accepted records or spans are gone"
    """They are gone from the store."""
    SILENT = "silent", "results have stopped"
    """No result in an hour that mostly has some."""


class TroubleKey(NamedTuple):
    """The name of a cause: two findings with one name are the same."""

    space: str
    trouble: Trouble
    subject: str
    """Alias of the profile, where it is about one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that should not be."""

    space: str
    trouble: Trouble
    subject: str = ""
    """Alias of the profile, where it is about one."""
    message: str
    """The finding, and the remedy."""
    since_ns: int
    """Time at which it was found first."""

    @property
    def key(self) -> TroubleKey:
        """Its cause."""
        return TroubleKey(self.space, self.trouble, self.subject)


NOBODY: Final = "nobody"
"""Channel of an alert that is listed and not delivered."""


class ConditionKey(NamedTuple):
    """The name of a profile's own alert condition."""

    space: str
    profile_uid: str


class CauseKey(NamedTuple):
    """The name of falls that came together."""

    space: str
    alert_id: str


AlertKey: TypeAlias = CauseKey | TroubleKey | ConditionKey
"""The name of what an alert is about; each has one open alert at most."""


class DriftAlertState(StrEnum):
    """The state of an alert."""

    SHADOW = "shadow"
    """Proven, and sent to nobody: the watch is on trial."""
    FIRING = "firing"
    ACKNOWLEDGED = "acknowledged"
    """Somebody looks after it."""
    SILENCED = "silenced"
    """Sent to nobody until a stated time."""
    RESOLVED = "resolved"
    """Over: by evidence of recovery, by a person, or as something else runs now."""


ATTENDED: Final = frozenset({DriftAlertState.ACKNOWLEDGED, DriftAlertState.SILENCED})
"""States of an open alert that a person has put it in, after others were notified."""


class Figures(BaseModel):
    """Evidence of a fall at one moment."""

    model_config = ConfigDict(frozen=True)

    since_ns: int
    """Time at which the change most likely began."""
    records: int
    failed: int
    evidence: float
    healthy: float
    """Mean of what it is compared with."""
    lower: float
    """Lower bound of that mean."""
    against: str
    """The reference, in words."""
    units: int = 0
    """Conversations, single records, or stretches with and without errors since the change."""
    mean: float | None = None
    """Mean outcome of these; None where a condition holds."""
    run_length: float | None = None
    """Units between two false alarms on average, where that is the promise in place of a chance."""
    halves: str = ""
    """The half of the day of which `healthy` and `lower` are; empty for the whole one."""
    other_lower: float | None = None
    """Lower bound of the other half."""
    first_days: bool = False
    """It may be the time of day, as two days are not known yet."""

    @staticmethod
    def of(fall: Fall) -> "Figures":
        """Take the figures of a proven fall."""
        known, other = fall.reference.baseline, fall.reference.other
        return Figures(
            since_ns=fall.since_ns, records=fall.records, failed=fall.failed,
            evidence=fall.evidence, healthy=known.mean, lower=known.lower,
            against=fall.reference.sentence(), units=fall.units, mean=fall.mean,
            run_length=fall.run_length, first_days=fall.reference.is_early,
            halves="" if other is None else str(fall.reference.halves),
            other_lower=None if other is None else other.lower,
        )  # fmt: skip


class _AlertBase(BaseModel):
    """One alert from its opening to its end; each change makes a new one with the same id."""

    model_config = ConfigDict(frozen=True)

    alert_id: str
    space: str
    profile_uid: str = ""
    profile_name: str = ""
    alias: str
    """Alias of the profile; empty where the alert is about none."""
    profile_digest: str = ""
    task: str = ""
    """Empty for the whole record."""
    slice: str = ""
    """Part of the records, such as `tool search`; empty for all of them."""
    service: str = ""
    environment: str = ""
    version: str = ""
    state: DriftAlertState
    opened_ns: int
    changed_ns: int
    silenced_until_ns: int | None = None
    by: str = ""
    """Id of the token that changed it last; empty for the collector itself."""
    name: str = ""
    """Name of the person or token that changed it last."""
    note: str = ""
    """Why, in words."""
    condition: str = ""
    """The condition of a profile that holds; empty where a detector has proven a fall."""
    channel: str = ""
    """The only channel that is notified; empty for all, `NOBODY` for none."""

    @property
    def is_open(self) -> bool:
        """False once it is resolved."""
        return self.state is not DriftAlertState.RESOLVED

    def event(self) -> DriftEvent:
        """The alert as the store keeps it."""
        return DriftEvent(
            space=self.space,
            alert_id=self.alert_id,
            at_ns=self.changed_ns,
            state=self.state.value,
            body=self.model_dump_json(),
        )


class Part(BaseModel):
    """The fall of one series, as a part of an alert."""

    model_config = ConfigDict(frozen=True)

    task: str
    """Empty for the whole record."""
    kind: Kind
    slice: str = ""
    """Part of the records, such as `tool search`; empty for all of them."""
    opened: Figures
    """As it was proven."""
    proven_ns: int
    """Time of the result that proved it."""
    examples: tuple[str, ...]
    """Evaluations that failed, the newest first."""
    ended_ns: int | None = None
    """Time at which it was over; None while it goes on."""

    @staticmethod
    def of(turn: Turn, fall: Fall) -> "Part":
        """Take the fall of a series."""
        key = turn.series.key
        return Part(
            task=key.task, kind=key.kind, slice=key.slice, opened=Figures.of(fall),
            proven_ns=turn.at_ns, examples=turn.examples,
        )  # fmt: skip


class DriftAlert(_AlertBase):
    """Tasks fail more, err more, or have lower scores; or the condition of a profile holds.

    Series that fell together are its parts. The most specific one that goes on is its headline: its
    task, slice and figures are those of the alert.
    """

    kind: Kind
    opened: Figures
    """As it was proven."""
    examples: tuple[str, ...]
    """Evaluations that failed, the newest first."""
    parts: tuple[Part, ...] = ()
    """The headline of the first message, then the others as they were proven; empty of a
    condition."""
    changed: tuple[SetupChange, ...] | None = None
    """Changes of the records' setup just before the fall; None until they were looked for."""

    @property
    def key(self) -> CauseKey | ConditionKey:
        """The falls, or the condition, that it is about."""
        if self.condition:
            return ConditionKey(self.space, self.profile_uid)
        return CauseKey(self.space, self.alert_id)

    @property
    def agent(self) -> Agent:
        """The agent and its version."""
        return Agent(self.service, self.environment, self.version)

    @property
    def series(self) -> SeriesKey:
        """The series of its headline."""
        return self.key_of(self)

    @property
    def falling(self) -> list[Proven]:
        """The parts that go on."""
        return [
            Proven(self.key_of(part), part.opened.since_ns, part.proven_ns)
            for part in self.parts
            if part.ended_ns is None
        ]

    @property
    def others(self) -> list[Part]:
        """The parts beside the headline."""
        return [each for each in self.parts if self.key_of(each) != self.series]

    def key_of(self, part: "Part | DriftAlert") -> SeriesKey:
        """The series of a part."""
        return SeriesKey(
            self.space, self.profile_uid, self.agent, part.task, part.kind, part.slice
        )  # fmt: skip

    def settled(self, name: SeriesKey) -> Self:
        """The same, where the fall of a series is not the time of day."""
        parts = [
            each.model_copy(update={"opened": each.opened.model_copy(update={"first_days": False})})
            if self.key_of(each) == name
            else each
            for each in self.parts
        ]
        return self.with_parts(parts)

    def joined(self, part: Part, *, is_reported: bool) -> Self:
        """Take a fall with the same cause, in place of an earlier one of the same series.

        Args:
            part: The fall.
            is_reported: Others may know the alert by its first part, which then stays first.
        """
        parts = {(each.task, each.kind, each.slice): each for each in self.parts}
        found = self.with_parts([*(parts | {(part.task, part.kind, part.slice): part}).values()])
        if is_reported:
            return found
        ordered = sorted(found.parts, key=lambda each: found.key_of(each) != found.series)
        return found.model_copy(update={"parts": tuple(ordered)})

    def with_parts(self, parts: Sequence[Part]) -> Self:
        """Take parts, and the most specific one that goes on for a headline.

        Of several it is the one that fell furthest.
        """
        going_on = [each for each in parts if each.ended_ns is None] or parts
        headline = max(
            going_on,
            key=lambda each: (
                specificity(self.key_of(each)),
                each.opened.healthy - (each.opened.mean or 0.0),
                each.slice,
                each.task,
            ),
        )
        names = ("task", "kind", "slice", "opened", "examples")
        update = {name: getattr(headline, name) for name in names}
        return self.model_copy(update={**update, "parts": tuple(parts)})


class TroubleAlert(_AlertBase):
    """Something keeps results from being made, or from being complete."""

    kind: Literal["trouble"] = "trouble"
    trouble: Trouble
    message: str
    """The finding as it was when the alert was opened, and the remedy."""

    @property
    def key(self) -> TroubleKey:
        """The cause that it is about."""
        return TroubleKey(self.space, self.trouble, self.alias)


Alert: TypeAlias = DriftAlert | TroubleAlert
_ALERT: Final[TypeAdapter[Alert]] = TypeAdapter(Alert)


def alert_of(event: DriftEvent) -> Alert:
    """Read what `event` of an alert wrote."""
    return read_alert(event.body)


def read_alert(body: str) -> Alert:
    """Read an alert from the JSON of its model."""
    return _ALERT.validate_json(body)


def alert_id(key: SeriesKey | TroubleKey | ConditionKey, number: int) -> str:
    """Name the alert that a series opens with its outcome of this number, or a cause at this time.

    For a series it follows from the results alone, so that a collector which takes them again
    after a crash opens the same alert and not a second one.
    """
    identity = json.dumps([*key, number])
    return blake2b(identity.encode(), digest_size=8).hexdigest()


class AlertAction(BaseModel):
    """An open alert gets another state, as a person wants it.

    Args:
        space: Of the alert.
        alert_id: Its id.
        state: From now on.
        by: Id of the token.
        name: Of the person or token.
        note: The reason.
        until_ns: End of a silence, in ns since 1970.
        accept: With `resolved`: take what comes from now on for healthy.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    space: str
    alert_id: str
    state: DriftAlertState
    by: str = ""
    name: str = ""
    note: str = ""
    until_ns: int | None = None
    accept: bool = False


_ODDS: Final = 1e9
"""Odds beyond which nobody tells one number from the next."""
_ROUNDING: Final = 1e-9
"""A tenth of 400 is 40, although 1 - 0.9 is a little less than 0.1."""


_WORSE: Final = {
    Kind.PASS: ("more records fail", "fails more"),
    Kind.ERROR: ("more records err", "errs more"),
    Kind.SCORE: ("records have lower scores", "has lower scores"),
    Kind.AMOUNT: ("", "is exceeded more often"),
}
"""Of the whole record, and of a task."""


def headline(alert: Alert) -> str:
    """Say in one line what got worse, of whom, and since when."""
    if isinstance(alert, TroubleAlert):
        where = alert.alias or f"space {alert.space}"
        return f"{where}: {alert.trouble.headline} since {moment(alert.opened_ns)}"
    if alert.condition:
        at = moment(alert.opened_ns)
        return f"{alert.alias}: {alert.condition}, the condition of its profile, since {at}"
    version = f" in version {alert.version}" if alert.version else ""
    service = f" {'of' if version else 'in'} {alert.service}" if alert.service else ""
    return f"{alert.alias}: {worse(alert)}{version}{service} since {moment(alert.opened.since_ns)}"


def worse(part: Part | DriftAlert) -> str:
    """Say in a few words what a part of an alert is about."""
    of_record, of_task = _WORSE[part.kind]
    if part.slice:
        return f"more records with {part.slice} fail"
    if part.kind is Kind.AMOUNT:
        return f"{part.task} {of_task}"
    return f"task {part.task!r} {of_task}" if part.task else of_record


def fell_with(alert: Alert) -> str:
    """Say in one line what fell together with the headline of an alert; empty for nothing."""
    others = alert.others if isinstance(alert, DriftAlert) else []
    return "; ".join(f"{worse(each)}{' (over)' if each.ended_ns else ''}" for each in others)


def changed_words(alert: Alert) -> list[str]:
    """Say for each value of the setup that changed just before a fall what changed, and when."""
    changed = (alert.changed or ()) if isinstance(alert, DriftAlert) else ()
    return [
        f"{each.kind} {each.name} since {moment(each.first_ns)}: {each.before:.0%} of the records "
        f"before, {each.share:.0%} since"
        for each in changed
    ]


def proof(alert: Alert) -> str:
    """Say in one line what an alert was opened for."""
    if isinstance(alert, TroubleAlert):
        return alert.message
    return evidence(alert.opened, alert.kind)


def evidence(figures: Figures, kind: Kind) -> str:
    """Say in one line what was counted, what would be healthy, and how likely chance is."""
    if not figures.evidence:  # a condition that holds at a scheduled time proves nothing
        passed = figures.records - figures.failed
        return f"{passed:,} of the last {figures.records:,} records passed"
    if kind is Kind.SCORE:
        return (
            f"mean {figures.mean:.3f} of {figures.records:,} records since "
            f"{moment(figures.since_ns)}; a healthy agent has at least "
            f"{_by_half(figures, lambda lower: f'{lower:.3f}')}; {_sureness(figures)}"
        )
    if kind is Kind.ERROR:
        units, mean = figures.units, figures.mean or 0.0
        return (
            f"{figures.failed:,} of {figures.records:,} errored since {moment(figures.since_ns)}, "
            f"in {round(units * (1 - mean)):,} of {units:,} separate stretches; a healthy agent in "
            f"at most {_by_half(figures, lambda lower: _most(lower, units))}; {_sureness(figures)}"
        )
    records, is_amount = figures.records, kind is Kind.AMOUNT
    failed, fails = ("exceeded it", "exceeds it in") if is_amount else ("failed", "fails")
    return (
        f"{figures.failed:,} of {records:,} {failed} since {moment(figures.since_ns)}; "
        f"a healthy agent {fails} at most "
        f"{_by_half(figures, lambda lower: _most(lower, records))}; "
        f"{_sureness(figures)}"
    )


def _most(lower: float, count: int) -> str:
    """The most of so many that are bad while the agent is healthy."""
    return f"{math.floor(count * (1 - lower) + _ROUNDING):,} of {count:,}"


def _by_half(figures: Figures, words: Callable[[float], str]) -> str:
    """The healthy bound in words, by half of the day where there are two."""
    if figures.other_lower is None:
        return words(figures.lower)
    return f"{words(figures.lower)} {figures.halves}, {words(figures.other_lower)} at other times"


def bad_word(alert: Alert, reason: str = "") -> str:
    """Say in a word what happened to a record that is an example."""
    match alert.kind:
        case Kind.ERROR:
            return f"errored ({reason})" if reason else "errored"
        case Kind.SCORE:
            return "low score"
        case Kind.AMOUNT:
            return "over the limit"
        case _:
            return "failed"


def _sureness(figures: Figures) -> str:
    if figures.first_days:
        return (
            "it may be the time of day, as two days are not known yet, or else chance: "
            f"{odds(figures.evidence)}"
        )
    if figures.run_length is None:
        return f"chance of this while nothing is wrong: {odds(figures.evidence)}"
    return f"while nothing is wrong it comes once in {figures.run_length:,.0f} on average"


def odds(evidence: float) -> str:
    """Say an e-value as the chance of getting so far while nothing is wrong."""
    if evidence >= _ODDS:
        return "less than 1 in a billion"
    return f"1 in {max(1, math.floor(evidence)):,}"


def rfc3339(at_ns: int) -> str:
    """Write a time as programs read it, to the second, in UTC."""
    return f"{datetime.fromtimestamp(at_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"


def moment(at_ns: int) -> str:
    """Say a time to the minute, in UTC."""
    return f"{datetime.fromtimestamp(at_ns // 10**9, UTC):%Y-%m-%d %H:%M} UTC"
