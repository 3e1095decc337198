"""Alerts of the live detectors: looked at, acknowledged, silenced, resolved."""

import time
from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import Body, Depends, Path
from pydantic import BaseModel, ConfigDict, Field

from collector.access.caller import Caller
from collector.access.tokens import Tokens
from collector.alerts.alert import (
    Alert,
    AlertAction,
    DriftAlert,
    DriftAlertState,
    Figures,
    Finding,
    Part,
    TroubleAlert,
    alert_of,
    evidence,
    headline,
    proof,
    worse,
)
from collector.alerts.conditions import AlertStatus, figures_of
from collector.alerts.evidence import (
    CurrentSeries,
    error_of,
    errored_of,
    examples_of,
    explained,
    stands_of,
)
from collector.alerts.watcher import DriftWatcher
from collector.api.comparison import explanation_of
from collector.api.parameters import (
    NOT_FOUND,
    Admin,
    Profile,
    Profiler,
    Reader,
    answer_of,
    api_router,
    caught_up,
)
from collector.api.parts import Parts, TheParts
from collector.items.times import time_at
from collector.problem import ProblemError, problems
from collector.store.alerts import DriftDelivery
from collector.store.rows import AlertState, EvaluationRow
from collector.worker.profiles import RegisteredProfile
from scouter.client.models import alerts as models
from scouter.client.models.alerts import (
    DriftExample,
    DriftSeries,
    DriftSeriesList,
    FallenTask,
    TriedChannel,
    TriedChannels,
    UnwatchedAlert,
)
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.series import Kind
from scouter.errors import ConfigError

RESOLVED: Final = 100
"""Resolved alerts that a listing has."""
_REFUSED: Final = problems(404, 409)
_NS: Final = 10**9
_LONGEST_S: Final = 365 * 86_400.0


class _Test(BaseModel):
    model_config = ConfigDict(extra="forbid")

    channel: str | None = Field(max_length=64, description="Such as `slack`; null for all.")
    resolved: bool = Field(
        default=False, description="Say that the test is over: ends what the first message opened."
    )


AlertId = Annotated[str, Path(max_length=64)]


class _Act(BaseModel):
    model_config = ConfigDict(extra="forbid")

    note: str = Field(default="", max_length=1_000, description="Why, for people.")
    name: str = Field(
        default="", max_length=100, description="Who says so; by default the name of the token."
    )


class _Silence(_Act):
    seconds: float = Field(gt=0, le=_LONGEST_S, description="It fires again after so long.")


class _Resolve(_Act):
    accept: bool = Field(
        default=False,
        description="Take what comes from now on for healthy; otherwise a fall that goes on alarms "
        "again.",
    )


router = api_router(is_caught_up=False)


@router.get("/drift/series", responses=NOT_FOUND)
def series(parts: TheParts, caller: Reader, profile: Profile = None) -> DriftSeriesList:
    """The state of every task of every active profile, with its reference."""
    found = sorted(parts.watcher.current_series(caller.space), key=lambda each: each.key)
    # Evidence is weighed against that of all series, requested or not.
    stands = stands_of(found, parts.watcher.alpha)
    chosen = [
        (series, stand)
        for series, stand in zip(found, stands, strict=True)
        if profile is None or profile in _names_of(series.profile)
    ]
    if not chosen:
        parts.names.check(caller.space, profile)
    return DriftSeriesList(
        items=tuple(_series(*each) for each in chosen),
        promise=parts.watcher.promise(caller.space),
        left_out=tuple(parts.watcher.left_out(caller.space)),
    )


@router.get("/alerts", dependencies=[Depends(caught_up)])
def alerts(parts: TheParts, caller: Reader) -> models.Alerts:
    """The alerts of profiles' own conditions, and those of the detectors."""
    space = caller.space
    troubles = {each.key: each for each in parts.watcher.troubles(space)}
    conditions = {each.profile_uid: each for each in parts.watcher.alerts(space) if each.condition}
    statuses = parts.monitor.statuses(space)
    findings = parts.health.findings(space)
    return models.Alerts(
        items=tuple(_alert(each, conditions.get(each.profile.uid)) for each in statuses),
        drift=tuple(_drift_alerts(parts, space, statuses)),
        trouble=tuple(_trouble(each, troubles.get(each.key)) for each in findings),
        unwatched=tuple(_unwatched(each) for each in parts.registry.unwatched(space)),
    )


@router.get("/alerts/{alert_id}", responses=NOT_FOUND)
def alert(parts: TheParts, caller: Reader, alert_id: AlertId) -> models.DriftAlertLook:
    """One alert with examples and history."""
    events = parts.store.drift_history(caller.space, alert_id)
    if not events:
        raise _unknown(alert_id)
    # Of what joined an alert, or ended in it, between two changes of its state only the last.
    changes = {(each.state, each.changed_ns): each for each in map(alert_of, events)}
    history = list(changes.values())
    newest, store = history[-1], parts.store
    opened, conditions = parts.watcher.alerts(caller.space), parts.monitor.statuses(caller.space)
    why = explained(store, newest)
    (shown,) = _shown(parts.watcher, [newest], opened, conditions)
    return models.DriftAlertLook(
        **shown.model_dump(),
        examples=tuple(
            _example(newest, each)
            for each in (*examples_of(store, newest), *errored_of(store, newest))
        ),
        explanation=None if why is None else explanation_of(why),
        deliveries=tuple(_delivery(each) for each in store.deliveries_of(caller.space, alert_id)),
        history=tuple(_item(each) for each in history),
    )


@router.post("/alerts/{alert_id}/promote", responses=_REFUSED)
def promote(
    parts: TheParts, caller: Profiler, alert_id: AlertId, said: Annotated[_Act, Body()]
) -> models.DriftAlert:
    """Let an alert that is on trial fire, so that people are notified of it."""
    return _acted(parts, caller, alert_id, said, DriftAlertState.FIRING)


@router.post("/alerts/{alert_id}/acknowledge", responses=_REFUSED)
def acknowledge(
    parts: TheParts, caller: Profiler, alert_id: AlertId, said: Annotated[_Act, Body()]
) -> models.DriftAlert:
    """Say that somebody looks after an open alert."""
    return _acted(parts, caller, alert_id, said, DriftAlertState.ACKNOWLEDGED)


@router.post("/alerts/{alert_id}/silence", responses=_REFUSED)
def silence(
    parts: TheParts, caller: Profiler, alert_id: AlertId, said: Annotated[_Silence, Body()]
) -> models.DriftAlert:
    """Tell nobody of an open alert for a while."""
    until_ns = time.time_ns() + int(said.seconds * _NS)
    return _acted(parts, caller, alert_id, said, DriftAlertState.SILENCED, until_ns=until_ns)


@router.post("/alerts/{alert_id}/resolve", responses=_REFUSED)
def resolve(
    parts: TheParts, caller: Profiler, alert_id: AlertId, said: Annotated[_Resolve, Body()]
) -> models.DriftAlert:
    """End an open alert; evidence is gathered anew from here on."""
    return _acted(parts, caller, alert_id, said, DriftAlertState.RESOLVED, accept=said.accept)


@router.post("/alerts/test", responses=NOT_FOUND)
def send_test(parts: TheParts, caller: Admin, test: Annotated[_Test, Body()]) -> TriedChannels:
    """Send a message that says it is a test, to one channel or to all.

    For tokens of the collector's own space only.
    """
    if caller.space != parts.space:
        raise ProblemError(403, f"channels are of all spaces: it needs a token of {parts.space!r}")
    try:
        found = parts.delivery.test(test.channel, is_resolved=test.resolved)
    except ConfigError as error:
        raise ProblemError(404, str(error)) from error
    return TriedChannels(
        items=tuple(answer_of(TriedChannel, each, sent=each.is_sent) for each in found)
    )


def _drift_alerts(
    parts: Parts, space: str, conditions: Sequence[AlertStatus]
) -> list[models.DriftAlert]:
    """The open alerts of a space, then those that were resolved last."""
    latest = [alert_of(event) for event in parts.store.drift_alerts(space)]
    closed = [each for each in latest if isinstance(each, DriftAlert) and not each.is_open]
    opened = parts.watcher.alerts(space)
    return _shown(parts.watcher, [*opened, *closed[:RESOLVED]], opened, conditions)


def _shown(
    watcher: DriftWatcher,
    alerts: Sequence[Alert],
    opened: Sequence[DriftAlert],
    conditions: Sequence[AlertStatus],
) -> list[models.DriftAlert]:
    """Alerts with the figures of now; `stands` is among all open ones."""
    looks = ((each.alert_id, watcher.current_of(each)) for each in opened)
    current_series = {name: series for name, series in looks if series is not None}
    falls = {name: series.fall for name, series in current_series.items()}
    by_condition = {each.profile.uid: figures_of(each) for each in conditions}
    now = falls | {
        each.alert_id: by_condition.get(each.profile_uid) for each in opened if each.condition
    }
    fell = {each.alert_id: watcher.falls_with(each) for each in opened}
    every = {each.key: each for each in watcher.current_series(opened[0].space)} if opened else {}
    every |= {each.key: each for each in current_series.values()}
    by_key = dict(zip(every, stands_of(list(every.values()), watcher.alpha), strict=True))
    stands = {name: by_key[each.key] for name, each in current_series.items()}
    return [
        _item(
            each,
            now.get(each.alert_id) if each.is_open else None,
            fell.get(each.alert_id, ()),
            stands=stands.get(each.alert_id, False),
        )
        for each in alerts
    ]


def _item(
    alert: Alert,
    now: Figures | None = None,
    fell: Sequence[FallenTask] = (),
    *,
    stands: bool = False,
) -> models.DriftAlert:
    until_ns = alert.silenced_until_ns
    parts = alert.parts if isinstance(alert, DriftAlert) else ()
    return answer_of(
        models.DriftAlert,
        alert,
        profile=alert.alias,
        profile_version=alert.profile_digest,
        kind=str(alert.kind),
        trouble=alert.trouble.value if isinstance(alert, TroubleAlert) else "",
        state=alert.state.value,
        opened_at=time_at(alert.opened_ns),
        changed_at=time_at(alert.changed_ns),
        silenced_until=None if until_ns is None else time_at(until_ns),
        title=headline(alert),
        opened=_opened(alert),
        now=None if now is None else _figures(now, evidence(now, Kind(alert.kind))),
        together=tuple(_part(each) for each in parts),
        fell=tuple(fell),
        changed=tuple(
            answer_of(models.SetupChange, each, first_at=time_at(each.first_ns))
            for each in (isinstance(alert, DriftAlert) and alert.changed) or ()
        ),
        stands=stands,
    )


def _opened(alert: Alert) -> models.DriftFigures:
    """Figures that an alert was opened for; trouble has no counts."""
    if isinstance(alert, DriftAlert):
        return _figures(alert.opened, proof(alert))
    return models.DriftFigures(
        since=time_at(alert.opened_ns), records=0, failed=0, evidence=0.0, mean=None,
        healthy=None, healthy_lower=None, against="", first_days=False, message=proof(alert),
    )  # fmt: skip


def _figures(figures: Figures, message: str) -> models.DriftFigures:
    return answer_of(
        models.DriftFigures,
        figures,
        since=time_at(figures.since_ns),
        healthy_lower=figures.lower,
        message=message,
    )


def _part(each: Part) -> models.DriftPart:
    return answer_of(
        models.DriftPart,
        each,
        kind=each.kind.value,
        title=worse(each),
        message=evidence(each.opened, each.kind),
        proven_at=time_at(each.proven_ns),
        ended_at=None if each.ended_ns is None else time_at(each.ended_ns),
    )


def _example(alert: Alert, row: EvaluationRow) -> DriftExample:
    kind, name = ("traces", row.trace_id) if row.trace_id else ("records", row.record_uid)
    return answer_of(
        DriftExample,
        row,
        uid=row.record_uid,
        link=f"/api/v1/{kind}/{name}",
        reason=error_of(row, alert.task),
    )


def _delivery(each: DriftDelivery) -> models.DriftDelivery:
    return answer_of(
        models.DriftDelivery,
        each,
        told=each.alert_state,
        state=each.state.value,
        at=time_at(each.at_ns),
    )


def _names_of(profile: AgentEvalProfile) -> tuple[str, ...]:
    return (profile.alias, profile.config.name, profile.config.uid, profile.digest)


def _series(each: CurrentSeries, stands: bool) -> DriftSeries:
    key = each.key
    return answer_of(
        DriftSeries,
        each,
        profile=each.profile.alias,
        profile_version=each.profile.digest,
        task=key.task,
        kind=key.kind.value,
        slice=key.slice,
        service=key.agent.service,
        environment=key.agent.environment,
        version=key.agent.version,
        version_before=each.before,
        against=each.words,
        summary=each.summary,
        state=each.state.value,
        stands=stands,
    )


def _acted(
    parts: Parts,
    caller: Caller,
    alert_id: str,
    said: _Act,
    state: DriftAlertState,
    *,
    until_ns: int | None = None,
    accept: bool = False,
) -> models.DriftAlert:
    """Change an alert for a caller; 409 where it does not take that, 404 where it is not open."""
    action = AlertAction(
        space=caller.space, alert_id=alert_id, state=state, by=caller.token_id, note=said.note,
        name=_name(said, caller, parts.tokens), until_ns=until_ns, accept=accept,
    )  # fmt: skip
    try:
        found = parts.watcher.act(action)
    except ConfigError as error:
        raise ProblemError(409, str(error)) from error
    if found is None:
        raise _unknown(alert_id)
    return _item(found)


def _name(said: _Act, caller: Caller, tokens: Tokens) -> str:
    """The name that was given, or else that of the token; empty where none was required."""
    if said.name or not caller.token_id:
        return said.name
    return next((each.name for each in tokens.all() if each.id == caller.token_id), "")


def _unknown(alert_id: str) -> ProblemError:
    return ProblemError(
        404, f"no open alert {alert_id[:64]!r}; GET /api/v1/alerts lists those that there are"
    )


def _trouble(each: Finding, alert: TroubleAlert | None) -> models.Trouble:
    return models.Trouble(
        trouble=each.trouble.value,
        alert_id="" if alert is None else alert.alert_id,
        state="" if alert is None else alert.state.value,
        profile=each.subject,
        message=each.message,
        since=time_at(each.since_ns),
    )


def _unwatched(each: RegisteredProfile) -> UnwatchedAlert:
    profile = each.profile
    return UnwatchedAlert(
        space=each.space,
        profile=profile.alias,
        profile_name=profile.name,
        profile_version=profile.digest,
        uid=each.uid,
        condition=str(profile.config.alert_config.alert_condition),
    )


def _alert(status: AlertStatus, alert: DriftAlert | None) -> models.Alert:
    config = status.profile.config.alert_config
    state, alert_id = status.state.value, ""
    if alert is not None and status.state is AlertState.FIRING:
        state, alert_id = alert.state.value, alert.alert_id
    return answer_of(
        models.Alert,
        status,
        profile=status.profile.alias,
        profile_name=status.profile.name,
        profile_version=status.profile.digest,
        alias=status.profile.alias,
        state=state,
        alert_id=alert_id,
        since=None if status.since_ns is None else time_at(status.since_ns),
        window=config.window,
        min_samples=config.min_samples,
    )
