"""The way in, as receivers see it."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from collector.items.again import Again
from collector.items.limits import Limits
from collector.log.port import Kind
from collector.receivers.budget import ByteBudget, Lease
from collector.receivers.outcomes import Taken
from scouter.transport.drops import Dropped
from scouter.transport.in_process import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message of a broker."""

    kind: Kind
    data: bytes
    source: str
    """Its place: `kafka:TOPIC:PARTITION:OFFSET`."""
    unreadable: str = ""
    """Reason that the broker's client cannot read it; then the data is a batch of messages."""


class WayIn(Protocol):
    """Takes what came, for one space. Every method may be called from any thread.

    What is taken is durable once its futures are done. They fail with `TransientError` where the
    same may be sent again.
    """

    limits: Limits
    budget: ByteBudget

    @property
    def is_full(self) -> bool:
        """True if senders should come back later."""
        ...

    def in_space(self, space: str) -> "WayIn":
        """The same way in, for another space."""
        ...

    def lease(self) -> Lease:
        """Memory for one request, to be given back once it is answered.

        Raises:
            FullError: There is none now.
            TransientError: The disk is nearly full.
        """
        ...

    def traces(self, data: bytes, source: str, *, is_json: bool = False) -> Taken:
        """Take an OTLP request of traces, protobuf or JSON.

        Raises:
            DataError: The bytes are no such request.
            TooLargeError: It is beyond a limit as a whole.
        """
        ...

    def logs(self, data: bytes, source: str, *, is_json: bool = False) -> Taken:
        """Take an OTLP request of logs; raises as `traces` does."""
        ...

    def records(self, data: bytes, source: str) -> Taken:
        """Take the body of `POST /v1/records`; raises as `traces` does."""
        ...

    def batch(self, batch: Batch) -> Taken:
        """Take the records and spans of an agent in this process."""
        ...

    def deliver(self, deliveries: Sequence[Delivery]) -> "list[Future[Any]]":
        """Take messages of a broker. Nobody is answered: what is no good becomes a dead letter."""
        ...

    def refuse(self, delivery: Delivery, reason: str, message: str) -> "Future[Any]":
        """Make a dead letter of a whole message."""
        ...

    def again(self, again: Again) -> "Future[Any]":
        """Take a request to let an accepted record wait again that became a dead letter."""
        ...

    def take_dropped(self, dropped: Dropped) -> "Future[Any]":
        """Count what senders say that they had to drop, as far as they did not say so before."""
        ...
