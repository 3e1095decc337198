"""Actions on alerts in a fleet: any api takes them, and the one with the duties carries them out.

That one alone has the detectors in memory. An action carried out elsewhere would be undone by its
next commit.
"""

import json
import time
import uuid
from collections.abc import Callable
from typing import Final

from collector.alerts.alert import Alert, AlertAction, read_alert
from collector.fleet.database import Session
from collector.store.reads import Rows
from scouter.errors import ConfigError, TransientError

WAIT_S: Final = 15.0
"""Longest wait for the api with the duties. An action that is older is carried out by nobody."""
_LOOK_S: Final = 0.1
_SEND: Final = (
    "INSERT INTO alert_actions (action_id, action) VALUES ($1, $2) ON CONFLICT DO NOTHING"
)
_ANSWER: Final = (
    "DELETE FROM alert_actions WHERE action_id = $1 AND (answer <> '' OR (answer IS NULL AND $2))"
    " RETURNING answer"
)
_DUE: Final = (
    "SELECT action_id, action FROM alert_actions WHERE answer IS NULL"
    " AND sent > now() - make_interval(secs => $1) ORDER BY number"
)
_TAKE: Final = (
    "UPDATE alert_actions SET answer = '' WHERE action_id = $1 AND answer IS NULL RETURNING number"
)
"""From now on nobody gives it up; one that was given up meanwhile is gone."""
_DONE: Final = "UPDATE alert_actions SET answer = $2 WHERE action_id = $1"
_CLEAR: Final = "DELETE FROM alert_actions WHERE sent < now() - make_interval(secs => $1)"


class FleetActions:
    """Actions of people on alerts, on their way to the api with the duties.

    Args:
        session: A connection to the database.
        wait_s: See `WAIT_S`.
        clock: Monotonic seconds.
        sleep: Waits for some seconds.
    """

    def __init__(
        self,
        session: Session,
        *,
        wait_s: float = WAIT_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._session, self._wait_s, self._clock, self._sleep = session, wait_s, clock, sleep

    def send(self, action: AlertAction) -> Alert | None:
        """Have an action carried out, and wait for the answer.

        Returns:
            The alert as it is then; None where it is not open.

        Raises:
            ConfigError: The alert does not take it.
            TransientError: No api has the duties now, or it does not answer. It may have been
                carried out only if that api ended meanwhile, or is slow; the text says so.
        """
        name = uuid.uuid4().hex
        self._read(_SEND, name, action.model_dump_json())
        start = self._clock()
        while not (found := self._read(_ANSWER, name, self._clock() >= start + self._wait_s)):
            if self._clock() >= start + 2 * self._wait_s:
                raise TransientError(
                    "the api with the duties has started with it and does not answer: see what the "
                    "alert is now, before you send it again"
                )
            self._sleep(_LOOK_S)
        if found[0][0] is None:
            raise TransientError(
                "no api with the duties has answered: nothing was changed; send it again"
            )
        answer = json.loads(found[0][0])
        if "refused" in answer:
            raise ConfigError(answer["refused"])
        return None if answer["alert"] is None else read_alert(answer["alert"])

    def carry_out(self, act: Callable[[AlertAction], Alert | None]) -> None:
        """Carry out what was sent, in order; for the api with the duties.

        Args:
            act: Carries one out. It returns the alert, None where it is not open, and raises
                `ConfigError` where the alert does not take it.

        Raises:
            TransientError: The store takes nothing now; the next call tries it again.
        """
        for name, text in self._read(_DUE, self._wait_s):
            if not self._read(_TAKE, name):
                continue
            try:
                alert = act(AlertAction.model_validate_json(text))
            except TransientError:
                self._read(_DONE, name, None)
                raise
            except ConfigError as error:
                answer: dict[str, str | None] = {"refused": str(error)}
            else:
                answer = {"alert": None if alert is None else alert.model_dump_json()}
            self._read(_DONE, name, json.dumps(answer))
        self._read(_CLEAR, 4 * self._wait_s)

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def _read(self, sql: str, *parameters: object) -> Rows:
        return self._session.run(lambda each: each.read(sql, parameters))
