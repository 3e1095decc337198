"""A thread that tells one channel of alerts, each state at least once.

It keeps no queue. It compares the alerts as they stand with what the store says of earlier
deliveries: a firing alert whose state was not sent is due. So is the end of one that was sent, and
the act of a person on it, where the channel takes acts. So nothing is lost by a crash, and an alert
that came and went while the far side was down is one message or none. That a delivery begins is
durable before its first request: after a crash it is known that the far side may have the alert,
and its end is sent too.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from collector.alerts.alert import Alert, DriftAlertState, alert_of
from collector.alerts.delivery.channel import Channel
from collector.alerts.delivery.measures import DeliveryMeasures
from collector.alerts.delivery.notice import Notice
from collector.store.alerts import DeliveryState, DriftDelivery
from collector.store.store import Store
from scouter.errors import DataError, TransientError

_log: Final = logging.getLogger(__name__)

GIVE_UP_S: Final = 6 * 3_600.0
"""A message that the far side did not take for so long is given up."""
_LONGEST_WAIT_S: Final = 3_600.0
"""Wait that a far side may ask for."""
_IDLE_S: Final = 3_600.0
_STOP_S: Final = 15.0
"""Longest wait for a request at a stop; more than a channel gives it."""
_BEATING: Final = frozenset({DriftAlertState.FIRING, DriftAlertState.ACKNOWLEDGED})
_REPORTED: Final = frozenset({DriftAlertState.FIRING, DriftAlertState.RESOLVED})
_OVER: Final = frozenset({DeliveryState.SENT, DeliveryState.GIVEN_UP})

_Name = tuple[str, str]
"""Space and id of an alert."""


class Courier:
    """See the module.

    Args:
        channel: Is notified.
        store: Has the alerts, and what was delivered.
        notice_of: Puts a message together.
        measures: Where deliveries are counted.
        now_ns: Wall clock.
        ticks_s: Clock of waits, which nobody sets.
        first_wait_s: After a failure; doubled by each one that follows, up to `longest_wait_s`.
        longest_wait_s: See there; a far side that asks for more gets up to an hour.
    """

    def __init__(
        self,
        channel: Channel,
        store: Store,
        notice_of: Callable[[Alert], Notice],
        measures: DeliveryMeasures,
        *,
        now_ns: Callable[[], int] = time.time_ns,
        ticks_s: Callable[[], float] = time.monotonic,
        first_wait_s: float = 1.0,
        longest_wait_s: float = 60.0,
    ) -> None:
        self.channel: Final = channel
        self._store, self._notice_of, self._measures = store, notice_of, measures
        self._now_ns, self._ticks_s = now_ns, ticks_s
        self._first_wait_s, self._longest_wait_s = first_wait_s, longest_wait_s
        self._deliveries: dict[_Name, DriftDelivery] = {}
        self._started_s: dict[_Name, float] = {}
        """Time at which this process began with the delivery that is under way."""
        self._alerts: dict[_Name, Alert] = {}
        self._repeated: dict[_Name, Notice] = {}
        """Messages that the heartbeat repeats."""
        self._is_stale = True
        self._not_before_s = self._beat_s = ticks_s()
        self._failures = 0
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"scouter-alerts-{channel.name}", daemon=True
        )

    def start(self) -> None:
        """Go on with what was not sent."""
        self.load()
        self._thread.start()

    def load(self) -> None:
        """Read what was delivered; `start` does it. A new start tries again what was given up."""
        reported = self._store.last_deliveries(self.channel.name)
        self._deliveries = {(each.space, each.alert_id): _tried_again(each) for each in reported}

    def wake(self) -> None:
        """Look again, as an alert has changed; from any thread, and returns at once."""
        self._is_stale = True
        self._woken.set()

    def end(self) -> None:
        """Begin nothing more; returns at once."""
        self._stopping.set()
        self._woken.set()

    def stop(self) -> None:
        """End after the request that is under way; the rest is sent after the next start."""
        self.end()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)
        if self._thread.is_alive():
            _log.warning("%s is left in the middle of a message", self.channel.name)
        self.channel.close()

    # --- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        is_failing = False
        while not self._stopping.is_set():
            try:
                wait_s = self.step()
                is_failing = False
            except Exception as error:  # noqa: BLE001 the thread outlives any fault
                if not is_failing:
                    _log.warning(
                        "alerts for %s wait: %s", self.channel.name, error,
                        exc_info=not isinstance(error, TransientError),
                    )  # fmt: skip
                is_failing, wait_s = True, self._longest_wait_s
            self._woken.wait(wait_s)
            self._woken.clear()

    def step(self) -> float:
        """Tell of one alert, or beat; says after how many seconds there may be more to do.

        Raises:
            TransientError: The store cannot be read or written now.
        """
        wait_s = self._not_before_s - self._ticks_s()
        if wait_s > 0:
            return wait_s
        if self._is_stale:
            self._is_stale = False
            self._look()
        due = [(name, alert) for name, alert in self._alerts.items() if self._is_due(name, alert)]
        if not due:
            return self._beat()
        name, alert = min(due, key=lambda each: (self._attempts(*each), each[1].changed_ns))
        if self._attempts(name, alert) and self._beat_wait_s() <= 0:
            return self._beat()  # one that fails again and again would let the others end
        self._tell(name, alert)
        return max(0.0, self._not_before_s - self._ticks_s())

    def _look(self) -> None:
        try:
            found = [alert_of(event) for event in self._store.drift_alerts()]
        except BaseException:
            self._is_stale = True
            raise
        self._alerts = {
            (each.space, each.alert_id): each
            for each in found
            if each.channel in ("", self.channel.name)
        }
        self._repeated = {
            name: notice
            for name, notice in self._repeated.items()
            if name in self._alerts and self._alerts[name].state in _BEATING
        }

    def _is_due(self, name: _Name, alert: Alert) -> bool:
        if alert.state not in _REPORTED and alert.state not in self.channel.acts:
            return False
        reported = self._deliveries.get(name)
        if reported is None:  # nobody needs the end of what was never sent, or who looks after it
            return alert.state is DriftAlertState.FIRING
        return not (_is_about(reported, alert) and reported.state in _OVER)

    def _attempts(self, name: _Name, alert: Alert) -> int:
        reported = self._deliveries.get(name)
        return reported.attempts if reported is not None and _is_about(reported, alert) else 0

    def _tell(self, name: _Name, alert: Alert) -> None:
        attempts = self._attempts(name, alert)
        if not attempts or name not in self._started_s:
            self._started_s[name] = self._ticks_s()
        if not attempts:
            self._keep(alert, DeliveryState.BEGUN, 0, "")
        try:
            notice = self._notice_of(alert)
            answer = self.channel.send(notice)
        except TransientError as error:
            self._failed(error)
            late = self._ticks_s() - self._started_s[name] >= GIVE_UP_S
            self._keep(
                alert, DeliveryState.GIVEN_UP if late else DeliveryState.WAITING,
                attempts + 1, str(error), is_stored=late or not attempts,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 else a fault of ours would hold up the others
            if not isinstance(error, DataError):
                _log.exception("a fault in the message about alert %s", alert.alert_id)
            self._keep(alert, DeliveryState.GIVEN_UP, attempts + 1, str(error))
        else:
            self._went(self.channel.pause_s)
            if alert.is_open and self.channel.heartbeat_s is not None:
                self._repeated[name] = notice
            self._keep(alert, DeliveryState.SENT, attempts + 1, answer)

    def _keep(
        self, alert: Alert, state: DeliveryState, attempts: int, answer: str,
        *, is_stored: bool = True,
    ) -> None:  # fmt: skip
        """Note a step; one that is not stored is known to this process only."""
        step = DriftDelivery(
            space=alert.space, alert_id=alert.alert_id, channel=self.channel.name,
            alert_state=alert.state.value, changed_ns=alert.changed_ns, at_ns=self._now_ns(),
            state=state, attempts=attempts, answer=answer,
        )  # fmt: skip
        if state in _OVER:
            self._started_s.pop((alert.space, alert.alert_id), None)
            self._measures.deliveries.labels(self.channel.name, state.value).inc()
        if state is DeliveryState.GIVEN_UP:
            _log.error(
                "%s is not notified that alert %s is %s: %s",
                self.channel.name, alert.alert_id, alert.state.value, answer,
            )  # fmt: skip
        if state is not DeliveryState.BEGUN:  # done; a fault of the store repeats no message
            self._deliveries[alert.space, alert.alert_id] = step
        if is_stored:
            self._store.append_deliveries([step])
        self._deliveries[alert.space, alert.alert_id] = step

    # --- the heartbeat ----------------------------------------------------------------------

    def _beat_wait_s(self) -> float:
        return _IDLE_S if self.channel.heartbeat_s is None else self._beat_s - self._ticks_s()

    def _beat(self) -> float:
        every_s, wait_s = self.channel.heartbeat_s, self._beat_wait_s()
        if every_s is None or wait_s > 0:
            return wait_s
        for name, alert in list(self._alerts.items()):
            if self._stopping.is_set():
                break
            if alert.state in _BEATING and self._was_sent(name):
                try:
                    self.channel.send(self._notice(name, alert))
                except TransientError as error:
                    self._alerts[name] = self._alerts.pop(name)  # the others come first then
                    wait_s = self._failed(error)
                    self._beat_s = self._ticks_s() + 2 * wait_s  # in between others are notified
                    return wait_s
                except DataError as error:
                    _log.warning("a heartbeat of alert %s is refused: %s", name[1], error)
        self._went(0.0)
        self._beat_s = self._ticks_s() + every_s
        return every_s

    def _was_sent(self, name: _Name) -> bool:
        reported = self._deliveries.get(name)
        return reported is not None and reported.state is DeliveryState.SENT

    def _notice(self, name: _Name, alert: Alert) -> Notice:
        if name not in self._repeated:
            self._repeated[name] = self._notice_of(alert)
        return self._repeated[name]

    # --- waits ------------------------------------------------------------------------------

    def _went(self, pause_s: float) -> None:
        self._failures = 0
        self._not_before_s = self._ticks_s() + pause_s

    def _failed(self, error: TransientError) -> float:
        self._measures.failures.labels(self.channel.name).inc()
        if not self._failures:
            _log.warning("an alert waits: %s", error)
        self._failures = min(self._failures + 1, 30)
        wait_s = min(self._first_wait_s * 2 ** (self._failures - 1), self._longest_wait_s)
        if error.retry_after_s is not None:
            wait_s = min(error.retry_after_s, _LONGEST_WAIT_S)
        self._not_before_s = self._ticks_s() + wait_s
        return wait_s


def _is_about(delivery: DriftDelivery, alert: Alert) -> bool:
    return (delivery.alert_state, delivery.changed_ns) == (alert.state.value, alert.changed_ns)


def _tried_again(delivery: DriftDelivery) -> DriftDelivery:
    """A firing alert that was given up is sent once more; its end is not."""
    if delivery.state is DeliveryState.GIVEN_UP and delivery.alert_state == DriftAlertState.FIRING:
        return delivery._replace(state=DeliveryState.WAITING, attempts=0)
    return delivery
