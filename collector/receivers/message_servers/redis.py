"""Spans and records from Redis Streams. Entries leave a stream after the store has them."""

import logging
from typing import Any, Final

from redis import exceptions

from collector.log.brokers import Brokers
from collector.log.port import Kind
from collector.metrics import OVERTAKEN
from collector.receivers.intake import Delivery, Intake
from collector.receivers.message_servers.receiver import (
    MessageReceiver,
    ReadSize,
    member_name,
)
from collector.receivers.telemetry import IngestTelemetry
from collector.settings.model import CollectorSettings
from scouter.transport.drops import DROPPED_HEADER, Count
from scouter.transport.redis import DATA_FIELD, open_client

_log: Final = logging.getLogger(__name__)
_TIMEOUT_S: Final = 10.0
_BLOCK_MS: Final = 200
_CLAIM_EVERY: Final = 100
"""Reads between two looks for what other consumers took and never acknowledged."""
_CLAIM_IDLE_MS: Final = 60_000

_Entry = tuple[str, bytes]
"""Stream and id."""


class RedisReceiver(MessageReceiver):
    """Reads both streams as one consumer of a group, named after machine and data folder.

    The streams are Scouter's own: an acknowledged entry is deleted, so that they stay small.

    Args:
        settings: Address, streams, group, credentials.
        ingest: The way in.
        inputs: Is notified whether there are spans that were not read yet.
        telemetry: Counts what was lost by stream.
    """

    def __init__(
        self,
        settings: CollectorSettings,
        ingest: Intake,
        inputs: Brokers | None = None,
        telemetry: IngestTelemetry | None = None,
    ) -> None:
        super().__init__("redis", settings.redis or "", ingest, inputs)
        self._settings, self._telemetry = settings, telemetry
        self._group, self._consumer = settings.redis_group, ""
        self._size = ReadSize()
        self._streams = (settings.redis_spans_stream, settings.redis_records_stream)

    def consume(self) -> None:
        """Take up what was read and not acknowledged, then what comes."""
        self._consumer = member_name(self._settings)
        password = self._settings.redis_password
        secret = password.get_secret_value() if password else None
        ca_file = self._settings.redis_ssl_cafile
        client = open_client(
            self.where, self._settings.redis_username, secret,
            str(ca_file) if ca_file else None, _TIMEOUT_S,
        )  # fmt: skip
        try:
            for stream in self._streams:
                self._join(client, stream)
            self.is_connected = True
            self._drain_own(client)
            reads = 0
            while not self.stopping.is_set():
                self.report_lag(lambda: self._look(client))
                if self.ingest.is_full:
                    self.stopping.wait(_BLOCK_MS / 1000)
                    continue
                if reads % _CLAIM_EVERY == 0:
                    self._claim(client)
                reads += 1
                self._settle(client, self._read(client, ">"))
        finally:
            client.close()

    def behind_s(self, client: Any) -> float:  # noqa: ANN401 - see `open_client`
        """Age of the oldest entry with spans: what is stored, by whichever consumer, is deleted.

        Entries that somebody else acknowledged and left in the stream count as not stored.
        """
        oldest = client.xrange(self._streams[0], count=1)
        if not oldest:
            return 0.0
        seconds, micros = client.time()
        written_ms = int(oldest[0][0].split(b"-")[0])  # the server's own clock, see XADD
        return max(0.0, seconds + micros / 1e6 - written_ms / 1000)

    def _look(self, client: Any) -> float:  # noqa: ANN401 - see `open_client`
        """Count what was lost, and tell how far this consumer is behind."""
        for stream in self._streams:
            try:
                self._count_lost(client, stream)
            except exceptions.WatchError:
                continue  # somebody read or wrote meanwhile: the next look finds it
            except exceptions.ResponseError as error:  # a user may not be let look
                _log.debug("redis: what is lost of %s is not known: %r", stream, error)
        return self.behind_s(client)

    def _count_lost(self, client: Any, stream: str) -> None:  # noqa: ANN401 - see `open_client`
        """Count entries that were deleted before the group had them, each once for ever.

        Redis, from version 7 on, counts the entries that were added and those that the group had.
        Entries are trimmed from the oldest on. So where none is left of those that the group had,
        all that were added are had, waiting or lost; and what was counted as lost is added to those
        that the group had.
        """
        with client.pipeline() as pipe:
            pipe.watch(stream)
            about = pipe.xinfo_stream(stream)
            (group,) = [
                each for each in pipe.xinfo_groups(stream) if each["name"] == self._group.encode()
            ]
            had, last, first = group.get("entries-read"), group["last-delivered-id"], None
            if about["first-entry"] is not None:
                first = about["first-entry"][0]
            if had is None or (first is not None and _id(first) <= _id(last)):
                return
            lost = about["entries-added"] - had - about["length"]
            if lost <= 0:
                return
            sender = f"redis:{self._group}:{stream}:{last.decode()}"
            self.ingest.take_dropped({(sender, OVERTAKEN): Count(0, lost)}).result()
            pipe.multi()
            pipe.xgroup_setid(stream, self._group, last, entries_read=had + lost)
            pipe.execute()
        if self._telemetry is not None:
            self._telemetry.lost("redis", stream, lost)
        _log.error(
            "redis: %d entries of the stream %s were deleted before they were read; do not bound "
            "it (MAXLEN), or not below what comes while the collector is away or behind",
            lost, stream,
        )  # fmt: skip

    def _join(self, client: Any, stream: str) -> None:  # noqa: ANN401 - see `open_client`
        try:
            client.xgroup_create(stream, self._group, id="0", mkstream=True)
        except exceptions.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):  # it exists
                raise

    def _read(self, client: Any, since: str) -> list[tuple[_Entry, Delivery]]:  # noqa: ANN401 - see `open_client`
        found = client.xreadgroup(
            self._group, self._consumer, dict.fromkeys(self._streams, since),
            count=self._size.count, block=_BLOCK_MS,
        )  # fmt: skip
        return [
            self._message(stream.decode(), name, fields)
            for stream, entries in found
            for name, fields in entries
        ]

    def _drain_own(self, client: Any) -> None:  # noqa: ANN401 - see `open_client`
        while not self.stopping.is_set():
            batch = self._read(client, "0")
            if not batch or not self._settle(client, batch):
                return

    def _claim(self, client: Any) -> None:  # noqa: ANN401 - see `open_client`
        for stream in self._streams:
            _, entries, *_ = client.xautoclaim(
                stream, self._group, self._consumer, _CLAIM_IDLE_MS, count=self._size.count
            )
            self._settle(client, [self._message(stream, *entry) for entry in entries])

    def _settle(self, client: Any, batch: list[tuple[_Entry, Delivery]]) -> bool:  # noqa: ANN401 - see `open_client`
        """Store entries, then take them out of their streams; False if the service ends."""
        if not batch:
            return True
        self._size.saw([len(message.data) for _, message in batch])
        if not self.store([message for _, message in batch]):
            return False
        with client.pipeline(transaction=True) as pipe:
            for (stream, name), _ in batch:
                pipe.xack(stream, self._group, name)
                pipe.xdel(stream, name)
            pipe.execute()
        return True

    def _message(
        self, stream: str, name: bytes, fields: dict[bytes, bytes] | None
    ) -> tuple[_Entry, Delivery]:
        found = fields or {}  # none: somebody deleted the entry while it was pending
        return (stream, name), Delivery(
            kind=Kind.SPANS if stream == self._streams[0] else Kind.RECORDS,
            data=found.get(DATA_FIELD.encode(), b""),
            dropped=found.get(DROPPED_HEADER.encode(), b"").decode("ascii", "replace"),
            source=f"redis:{stream}:{name.decode()}",
        )


def _id(name: bytes) -> tuple[int, int]:
    milliseconds, _, number = name.partition(b"-")
    return int(milliseconds), int(number)
