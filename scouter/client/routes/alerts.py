"""Routes of alerts."""

from pydantic import JsonValue

from scouter.client.call import Call, get, post
from scouter.client.models.alerts import Alerts, DriftAlert, DriftAlertLook, TriedChannels


def alerts() -> Call[Alerts]:
    """The alerts of profiles' own conditions, and those of the detectors."""
    return get("/alerts", Alerts)


def alert(alert_id: str) -> Call[DriftAlertLook]:
    """One alert of the detectors with examples and history.

    Args:
        alert_id: Its id.
    """
    return get("/alerts/{alert_id}", DriftAlertLook, at={"alert_id": alert_id})


def promote_alert(alert_id: str, note: str = "", name: str = "") -> Call[DriftAlert]:
    """Let an alert that is on trial fire, so that people are told. Needs the scope profile.

    Args:
        alert_id: Its id.
        note: Why, for others.
        name: Who says so; without it the name of the token.
    """
    path, at = "/alerts/{alert_id}/promote", {"alert_id": alert_id}
    return post(path, DriftAlert, at=at, body=_said(note, name), is_repeatable=False)


def acknowledge_alert(alert_id: str, note: str = "", name: str = "") -> Call[DriftAlert]:
    """Say that somebody looks after an open alert. Needs the scope profile.

    Args:
        alert_id: Its id.
        note: Why, for people.
        name: Who says so; without it the name of the token.
    """
    path, at = "/alerts/{alert_id}/acknowledge", {"alert_id": alert_id}
    return post(path, DriftAlert, at=at, body=_said(note, name))


def silence_alert(
    alert_id: str, seconds: float, note: str = "", name: str = ""
) -> Call[DriftAlert]:
    """Tell nobody of an open alert for a while. Needs the scope profile.

    Args:
        alert_id: Its id.
        seconds: It fires again after so long.
        note: Why, for people.
        name: Who says so; without it the name of the token.
    """
    path, at = "/alerts/{alert_id}/silence", {"alert_id": alert_id}
    return post(path, DriftAlert, at=at, body={**_said(note, name), "seconds": seconds})


def resolve_alert(
    alert_id: str, note: str = "", name: str = "", *, accept: bool = False
) -> Call[DriftAlert]:
    """End an open alert; evidence is gathered anew from here on. Needs the scope profile.

    Args:
        alert_id: Its id.
        note: Why, for people.
        name: Who says so; without it the name of the token.
        accept: Take what comes from now on for healthy; otherwise a fall that goes on alarms again.
    """
    path, at = "/alerts/{alert_id}/resolve", {"alert_id": alert_id}
    body: JsonValue = {**_said(note, name), "accept": accept}
    return post(path, DriftAlert, at=at, body=body, is_repeatable=False)


def send_test_alert(channel: str | None = None, *, resolved: bool = False) -> Call[TriedChannels]:
    """Send a test message to a channel of alerts, or to all. Needs the scope admin.

    Args:
        channel: Such as `slack`.
        resolved: Say that the test is over, which ends what the first message opened.
    """
    body: JsonValue = {"channel": channel, "resolved": resolved}
    return post("/alerts/test", TriedChannels, body=body, is_repeatable=False)


def _said(note: str, name: str) -> dict[str, JsonValue]:
    return {"note": note, "name": name} if name else {"note": note}
