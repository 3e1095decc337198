"""All channels that are notified of alerts."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry

from collector.alerts.alert import Alert
from collector.alerts.delivery.channel import Channel
from collector.alerts.delivery.courier import Courier
from collector.alerts.delivery.log import LogChannel
from collector.alerts.delivery.measures import DeliveryMeasures
from collector.alerts.delivery.notice import notice_of, trial_notice
from collector.settings.model import CollectorSettings
from collector.store.store import Store
from scouter.errors import ConfigError, DataError, TransientError


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A test message, and the answer of the far side."""

    channel: str
    is_sent: bool
    answer: str


class Delivery:
    """Couriers side by side: a far side that is slow or down holds up no other.

    Args:
        channels: Channels by which people are notified.
        store: Has the alerts, and what was delivered.
        registry: Where deliveries are counted.
        public_url: Address at which people see the collector's page; empty for no links.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        store: Store,
        registry: CollectorRegistry,
        *,
        public_url: str = "",
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._public_url, self._now_ns = public_url, now_ns
        measures = DeliveryMeasures(registry)
        notice = partial(notice_of, store, public_url=public_url)
        self._couriers: Final = [Courier(each, store, notice, measures) for each in channels]

    @property
    def channels(self) -> list[str]:
        """Names of those who are notified."""
        return [each.channel.name for each in self._couriers]

    def start(self) -> None:
        """Send what was not sent yet, and what comes."""
        for each in self._couriers:
            each.start()

    def stop(self) -> None:
        """End, all at the same time; what was not sent is sent after the next start."""
        for each in self._couriers:
            each.end()
        for each in self._couriers:
            each.stop()

    def changed(self, alerts: Sequence[Alert]) -> None:
        """Be notified that alerts were opened or changed; returns at once."""
        if alerts:
            for each in self._couriers:
                each.wake()

    def test(self, channel: str | None, *, is_resolved: bool) -> list[Tried]:
        """Send a message that says it is a test, once.

        Args:
            channel: Its name; all if none is given.
            is_resolved: Say that the test is over, which ends what the first message opened.

        Raises:
            ConfigError: There is no such channel.
        """
        wanted = [each.channel for each in self._couriers if channel in (None, each.channel.name)]
        if not wanted:
            known = ", ".join(self.channels)
            raise ConfigError(f"no channel {channel!r} is set up; there are: {known}")
        return [self._test(each, is_resolved) for each in wanted]

    def _test(self, channel: Channel, is_resolved: bool) -> Tried:
        notice = trial_notice(self._now_ns(), is_resolved=is_resolved, public_url=self._public_url)
        try:
            answer, is_sent = channel.send(notice), True
        except (TransientError, DataError) as error:
            answer, is_sent = str(error), False
        return Tried(channel=channel.name, is_sent=is_sent, answer=answer)


def channels_of(settings: CollectorSettings) -> list[Channel]:
    """Open the channels that settings name; the log is always one."""
    found: list[Channel] = [LogChannel()]
    # A client of HTTP takes some megabytes, and few collectors tell anybody.
    if settings.alerts_webhook_url is not None:
        from collector.alerts.delivery.webhook import WebhookChannel

        found.append(WebhookChannel(settings.alerts_webhook_url, settings.alerts_webhook_headers))
    if settings.alerts_slack_url is not None:
        from collector.alerts.delivery.slack import SlackChannel

        found.append(SlackChannel(settings.alerts_slack_url))
    if settings.alerts_pagerduty_key is not None:
        from collector.alerts.delivery.pagerduty import PagerDutyChannel

        found.append(
            PagerDutyChannel(settings.alerts_pagerduty_key, settings.alerts_pagerduty_base)
        )
    if settings.alerts_alertmanager is not None:
        from collector.alerts.delivery.alertmanager import AlertmanagerChannel

        found.append(
            AlertmanagerChannel(
                settings.alerts_alertmanager,
                settings.alerts_alertmanager_headers,
                settings.alerts_heartbeat_s,
                time.time_ns,
            )
        )
    return found
