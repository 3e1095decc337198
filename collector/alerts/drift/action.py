"""An action of a person on an open alert, as data: another process may have to carry it out."""

from pydantic import BaseModel, ConfigDict

from collector.alerts.drift.alert import DriftAlertState


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
