"""Routes of alerts, of the detectors behind them, and of decisions on candidates."""

from collections.abc import Iterator
from typing import TypedDict, Unpack

from pydantic import JsonValue

from scouter.client.connection import Connection
from scouter.client.models.alerts import (
    Alerts,
    Canary,
    DriftAlert,
    DriftAlertLook,
    DriftExplanation,
    DriftResult,
    DriftSeriesList,
    TriedChannels,
)
from scouter.client.request import Moment, arguments


def _said(note: str, name: str) -> dict[str, JsonValue]:
    return {"note": note, "name": name} if name else {"note": note}


class CanaryTerms(TypedDict, total=False):
    """Results that are compared, and the bounds of the decision."""

    profile: str | None
    task: str | None
    service: str | None
    environment: str | None
    since: Moment | None
    margin: float | None
    alpha: float | None
    share: float | None


class AlertRoutes(Connection):
    """Routes of alerts, of the detectors behind them, and of decisions on candidates."""

    def alerts(self) -> Alerts:
        """The alerts of profiles' own conditions, and those of the detectors."""
        return self._get(Alerts, "/alerts")

    def alert(self, alert_id: str) -> DriftAlertLook:
        """One alert of the detectors with examples and history.

        Args:
            alert_id: Its id.
        """
        return self._get(DriftAlertLook, "/alerts/{alert_id}", arguments(locals()))

    def promote_alert(self, alert_id: str, note: str = "", name: str = "") -> DriftAlert:
        """Let an alert that is on trial fire, so that people are notified. Needs the scope profile.

        Args:
            alert_id: Its id.
            note: Why, for others.
            name: Who says so; without it the name of the token.
        """
        return self._post(
            DriftAlert,
            "/alerts/{alert_id}/promote",
            {"alert_id": alert_id},
            body=_said(note, name),
            is_repeatable=False,
        )

    def acknowledge_alert(self, alert_id: str, note: str = "", name: str = "") -> DriftAlert:
        """Say that somebody looks after an open alert. Needs the scope profile.

        Args:
            alert_id: Its id.
            note: Why, for people.
            name: Who says so; without it the name of the token.
        """
        return self._post(
            DriftAlert,
            "/alerts/{alert_id}/acknowledge",
            {"alert_id": alert_id},
            body=_said(note, name),
        )

    def silence_alert(
        self, alert_id: str, seconds: float, note: str = "", name: str = ""
    ) -> DriftAlert:
        """Tell nobody of an open alert for a while. Needs the scope profile.

        Args:
            alert_id: Its id.
            seconds: It fires again after so long.
            note: Why, for people.
            name: Who says so; without it the name of the token.
        """
        return self._post(
            DriftAlert,
            "/alerts/{alert_id}/silence",
            {"alert_id": alert_id},
            body={**_said(note, name), "seconds": seconds},
        )

    def resolve_alert(
        self, alert_id: str, note: str = "", name: str = "", *, accept: bool = False
    ) -> DriftAlert:
        """End an open alert; evidence is gathered anew from here on. Needs the scope profile.

        Args:
            alert_id: Its id.
            note: Why, for people.
            name: Who says so; without it the name of the token.
            accept: Take what comes from now on for healthy; otherwise a fall that goes on alarms
                again.
        """
        body: JsonValue = {**_said(note, name), "accept": accept}
        return self._post(
            DriftAlert,
            "/alerts/{alert_id}/resolve",
            {"alert_id": alert_id},
            body=body,
            is_repeatable=False,
        )

    def send_test_alert(
        self, channel: str | None = None, *, resolved: bool = False
    ) -> TriedChannels:
        """Send a test message to a channel of alerts, or to all. Needs the scope admin.

        Args:
            channel: Such as `slack`.
            resolved: Say that the test is over, which ends what the first message opened.
        """
        body: JsonValue = {"channel": channel, "resolved": resolved}
        return self._post(TriedChannels, "/alerts/test", body=body, is_repeatable=False)

    def drift_series(self, profile: str | None = None) -> DriftSeriesList:
        """The state of every task of every active profile, with its reference.

        Args:
            profile: Alias, name, uid or digest; None for all.
        """
        return self._get(DriftSeriesList, "/drift/series", arguments(locals()))

    def drift_results(
        self,
        *,
        profile: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
    ) -> Iterator[DriftResult]:
        """First final results in the order of completion; detectors take them in that of creation.

        Args:
            profile: Alias, name, uid or digest.
            since: Evaluated at this time or later.
            until: Evaluated before this time.
            limit: Items per page, 1 to 1000; all pages are read, one after the other.
        """
        return self._pages(DriftResult, "/drift/results", arguments(locals()))

    def drift_explanation(
        self,
        uid: str,
        since: Moment | None = None,
        task: str = "",
        service: str | None = None,
        environment: str | None = None,
    ) -> DriftExplanation:
        """Say what a change of a series comes from: other traffic, or another behaviour.

        Args:
            uid: Of one version of a profile.
            since: The moment; without it no result is before.
            task: Empty for the whole record.
            service: Of its results only; the empty text stands for those without one.
            environment: The same.
        """
        return self._get(DriftExplanation, "/drift/explanation/{uid}", arguments(locals()))

    def canary(self, stable: str, candidate: str, **search: Unpack[CanaryTerms]) -> Canary:
        """Hold a candidate against the stable version: promote, hold or roll back.

        Args:
            stable: Its `service.version`.
            candidate: That of the candidate.
            profile: Alias, name, uid or digest; the only active one by default.
            task: The whole record by default.
            service: Any by default.
            environment: Any by default.
            since: The first result of the candidate by default.
            margin: Fall of the rate that is accepted, in (0, 1); 0.05 by default.
            alpha: Chance of either wrong decision, in (0, 1); 0.05 by default.
            share: Of the conversations, planned for the candidate, in (0, 1); not checked by
                default.
        """
        return self._get(Canary, "/canary", arguments(locals(), CanaryTerms))

    def canary_gate(
        self, decision: str, stable: str, candidate: str, **search: Unpack[CanaryTerms]
    ) -> Canary:
        """Ask whether this is the decision on a candidate; an error 409 says no. Needs profile.

        Args:
            decision: `promote` or `roll_back`.
            stable: As for `canary`, like the rest.
            candidate: Its `service.version`.
            profile: Alias, name, uid or digest.
            task: Its id.
            service: Its name.
            environment: Its name.
            since: Results from then on.
            margin: Fall of the rate that is accepted, in (0, 1).
            alpha: Chance of either wrong decision, in (0, 1).
            share: Of the conversations, planned for the candidate, in (0, 1).
        """
        return self._post(Canary, "/canary/{decision}", arguments(locals(), CanaryTerms))
