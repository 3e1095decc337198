"""The store of a fleet on PostgreSQL: for the api, and for what is about all partitions."""

import threading
import time
from collections.abc import Callable
from functools import cached_property
from typing import Final, Generic, TypeVar

from collector.fleet.database import READ_S, WRITE_S, Session, settings
from collector.fleet.retention import Retention
from collector.fleet.schema import share_schema, share_statements
from collector.fleet.share import Share
from scouter.client.models.operation import ConservationSheet, RecordStates
from scouter.errors import ConfigError

# All SQL is put together from this package's own words; values travel as parameters.

_TAKE: Final = """
    INSERT INTO public.partitions (part, epoch, owner, topic_id) VALUES ($1, 1, $2, $3)
    ON CONFLICT (part) DO UPDATE SET epoch = partitions.epoch + 1, owner = excluded.owner,
        topic_id = CASE WHEN excluded.topic_id = '' THEN partitions.topic_id
            ELSE excluded.topic_id END
    WHERE partitions.topic_id IN ('', excluded.topic_id) OR excluded.topic_id = ''
    RETURNING epoch, log_offset, low_seq, received_ns, last_seq, behind_since_ns
"""


T = TypeVar("T")
_SLOW_S: Final = 0.2
_HOLDS: Final = 30
"""Times as long as it took to make is a slow value in use: one view in thirty waits for it."""


class Recent(Generic[T]):
    """Values by name, made when they are wanted; a slow one is in use for a time.

    Args:
        make: Makes the value of a name.
        clock: Seconds.
    """

    def __init__(
        self, make: Callable[[str], T], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._make, self._clock = make, clock
        self._known: dict[str, tuple[float, T]] = {}
        self._lock = threading.Lock()
        """Callers of a slow value that is being made wait for it, and make none."""

    def get(self, name: str) -> T:
        """The value, not older than 30 times what it took to make; new if that is below 0.2 s."""
        with self._lock:
            began = self._clock()
            until, known = self._known.pop(name, (0.0, None))
            if known is None or began >= until:
                known = self._make(name)
                now = self._clock()
                if now - began < _SLOW_S:
                    return known
                until = now + (now - began) * _HOLDS
            self._known[name] = until, known
            return known


class FleetStore(Retention):
    """The whole store of a fleet.

    Its commits are of no partition, and have nothing of a log.

    Args:
        url: The database, as libpq takes it.
        idle_s: A process that stands still inside a transaction loses it after so many seconds.

    Raises:
        ConfigError: The database does not let us in, its server is too old, or its tables are of
            another version.
        TransientError: It is away.
    """

    def shown_conservation(self, space: str) -> ConservationSheet:
        """The sheet for people: counting millions of results takes long, see `Recent`."""
        return self._sheets.get(space)

    def shown_record_sheet(self, space: str) -> RecordStates:
        """The records' part of it, likewise."""
        return self._record_sheets.get(space)

    @cached_property
    def _sheets(self) -> Recent[ConservationSheet]:
        return Recent(self.conservation)

    @cached_property
    def _record_sheets(self) -> Recent[RecordStates]:
        return Recent(self.record_sheet)

    def take(self, part: int, owner: str, topic_id: str = "") -> Share:
        """Take a partition: whoever had it before writes nothing any more.

        Args:
            part: From 0 on.
            owner: Name of the process, for people.
            topic_id: Of the topic that it is a partition of; empty where that is not known.

        Raises:
            ConfigError: There is no such partition, or its offsets are of another topic.
            TransientError: PostgreSQL takes nothing now.
        """
        if not 0 <= part < self.partitions:
            raise ConfigError(
                f"there is no partition {part}: the store has {self.partitions} of them"
            )
        sessions = {
            name: Session(
                self._address,
                settings(
                    f"scouter share {part} {name}",
                    search_path=f"{share_schema(part)}, public",
                    statement_s=seconds,
                    idle_s=self._idle_s,
                ),
            )
            for name, seconds in (("write", WRITE_S), ("read", READ_S))
        }
        writer, reader = sessions["write"], sessions["read"]
        try:
            # It waits for a commit of the former owner that is on its way.
            found = writer.read(_TAKE, [part, owner, topic_id])
            if not found:
                ((known,),) = writer.read(
                    "SELECT topic_id FROM public.partitions WHERE part = $1", [part]
                )
                raise ConfigError(
                    f"partition {part} of the store in {self._address} was read from a topic with"
                    f" the id {known}, and this one has the id {topic_id}: it was made anew, or is"
                    " another one, and its offsets mean other messages. Give the topic back, or"
                    " start with an empty database"
                )
            self._need_views(part)
            return Share(self, part, found[0], writer, reader, self._address)
        except BaseException:
            writer.close()
            reader.close()
            raise

    def _need_views(self, part: int) -> None:
        sql = "SELECT 1 FROM pg_namespace WHERE nspname = $1"
        if self.read(sql, [share_schema(part)]):
            return
        with self._changing():
            if not self._maker.read(sql, [share_schema(part)]):
                for statement in share_statements(part):
                    self._maker.read(statement)
