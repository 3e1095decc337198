"""Routes on alerts and on the conservation of records and spans."""

from functools import cache

from fastapi import APIRouter, Depends

from collector.alerts.drift.alert import DriftAlert, TroubleAlert
from collector.alerts.drift.trouble import Finding
from collector.alerts.monitor import AlertStatus
from collector.api import models
from collector.api.drift import drift_alerts
from collector.api.parameters import (
    COMMON,
    PROBLEMS,
    Reader,
    caught_up,
)
from collector.api.parts import TheHealth, TheMonitor, TheRegistry, TheStore, TheWatcher
from collector.items.times import format_time
from collector.store.conservation import RecordSheet
from collector.store.rows import AlertState
from collector.worker.profiles import RegisteredProfile
from scouter.client.models.alerts import UnwatchedAlert
from scouter.client.models.operation import ConservationSheet, EventStates, RecordStates, SpanStates


@cache
def api_router() -> APIRouter:
    """Make the routes below `/api/v1`."""
    router = APIRouter(
        prefix="/api/v1",
        responses=PROBLEMS,
        dependencies=[*COMMON, Depends(caught_up)],
    )

    @router.get("/conservation", tags=["operation"])
    def conservation(store: TheStore, caller: Reader) -> ConservationSheet:
        """Every record, span and log event that came in, and what became of it."""
        sheet = store.shown_conservation(caller.space)
        spans = {name: getattr(sheet.spans, name) for name in SpanStates.model_fields}
        events = {name: getattr(sheet.events, name) for name in EventStates.model_fields}
        return ConservationSheet(
            records=_record_states(sheet.records),
            spans=SpanStates(**spans),
            events=EventStates(**events),
            dead_letters=dict(sheet.dead_letters),
            has_uncounted_losses=sheet.has_uncounted_losses,
        )

    @router.get("/conservation/records", tags=["operation"])
    def record_states(store: TheStore, caller: Reader) -> RecordStates:
        """The records of the sheet alone: quick, as no spans are looked at."""
        return _record_states(store.shown_record_sheet(caller.space))

    @router.get("/alerts", tags=["results"])
    def alerts(
        store: TheStore,
        monitor: TheMonitor,
        watcher: TheWatcher,
        health: TheHealth,
        registry: TheRegistry,
        caller: Reader,
    ) -> models.Alerts:
        """The alerts of profiles' own conditions, and those of the detectors."""
        troubles = {each.key: each for each in watcher.troubles(caller.space)}
        conditions = {
            each.profile_uid: each for each in watcher.alerts(caller.space) if each.condition
        }
        statuses = monitor.statuses(caller.space)
        return models.Alerts(
            items=[_alert(each, conditions.get(each.profile.uid)) for each in statuses],
            drift=drift_alerts(watcher, store, caller.space, statuses),
            trouble=[
                _trouble(each, troubles.get(each.key)) for each in health.findings(caller.space)
            ],
            unwatched=[_unwatched(each) for each in registry.unwatched(caller.space)],
        )

    return router


def _record_states(sheet: RecordSheet) -> RecordStates:
    return RecordStates(**{name: getattr(sheet, name) for name in RecordStates.model_fields})


def _trouble(each: Finding, alert: TroubleAlert | None) -> models.Trouble:
    return models.Trouble(
        trouble=each.trouble.value,
        alert_id="" if alert is None else alert.alert_id,
        state="" if alert is None else alert.state.value,
        profile=each.subject,
        message=each.message,
        since=format_time(each.since_ns),
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
    return models.Alert(
        space=status.space,
        profile=status.profile.alias,
        profile_name=status.profile.name,
        profile_version=status.profile.digest,
        alias=status.profile.alias,
        state=state,
        alert_id=alert_id,
        since=None if status.since_ns is None else format_time(status.since_ns),
        condition=status.condition,
        pass_rate=status.pass_rate,
        lower=status.lower,
        upper=status.upper,
        passed=status.passed,
        n=status.n,
        window=config.window,
        min_samples=config.min_samples,
    )
