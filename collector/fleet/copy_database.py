"""Both ends of a copy that are the database of a fleet: one is read, the other one is filled."""

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import chain
from typing import Final

from collector.fleet.copying import (
    NOTHING,
    WHERE,
    Part,
    Plan,
    counts_of,
    parts_of,
)
from collector.fleet.database import Address, ConflictError, Session, plain, settings
from collector.fleet.schema import COPYING, DAILY, DAY_NS, NOBODY, columns_of
from collector.fleet.store import FleetStore
from collector.fleet.writing import Ends
from collector.store.reads import Rows
from collector.store.schema import COLUMNS
from scouter.errors import ConfigError, TransientError

_COPIED: Final = "copied"
"""Key in `meta` of a database that a copy has filled: what it was made of, and its last commit."""
_DONE: Final = "copied_to"
"""Key of the last commit that is there, while it is filled."""
_IDENTITY: Final = "identity"
"""Key of the number of the database, once one was requested."""
_IDLE_S: Final = 600.0
"""Rows of a part are all there before its transaction; its process may stand still inside."""
_GONE_S: Final = 5.0
"""Longest wait for connections of processes that have just ended."""
_PROCESSES: Final = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND application_name LIKE 'scouter%'
"""
_ENDS: Final = """
    SELECT
        (SELECT coalesce(
            min(p.low_seq) FILTER (WHERE p.low_seq <= p.last_seq), max(p.last_seq) + 1, 0)
        FROM public.partitions p),
        (SELECT coalesce(max(c.received_ns), 0) FROM public.commits c)
"""
_COMMITS: Final = """
    SELECT seq, 0, low_seq, received_ns FROM public.commits WHERE seq > $1 AND seq <= $2
"""
_ADD_COMMITS: Final = f"""
    INSERT INTO public.commits
    SELECT seq, 0, low_seq, received_ns, NULL, {NOBODY}
    FROM unnest($1::BIGINT[], $2::BIGINT[], $3::BIGINT[]) AS c (seq, low_seq, received_ns)
"""
_PARTITION: Final = """
    INSERT INTO public.partitions (part, epoch, owner, topic_id, low_seq, received_ns, last_seq)
    VALUES ($1, 0, 'scouter store copy', '', $2, $3, $4)
"""
"""Its first owner begins with the earliest message of the topic, whichever that is."""


class _CopyStore(FleetStore):
    """A store that a part of a copy may be in."""

    def _check_copy(self, meta: Mapping[str, str]) -> None:
        """Take it."""


class DatabaseSource:
    """The database of a fleet that is stopped.

    Args:
        url: The database, as libpq takes it.

    Raises:
        ConfigError: There is no fleet's data, a process of it runs, or something waits in Kafka.
    """

    def __init__(self, url: str) -> None:
        self._address = Address(url)
        if not _has_tables(self._address):
            raise ConfigError(f"the database {self._address} has no data of a fleet")
        self._store = self.reads = FleetStore(url)
        try:
            behind = sorted(part for part, since in self._store.lags().items() if since)
            if behind:
                raise ConfigError(
                    f"partitions {', '.join(map(str, behind))} of the fleet were behind when its"
                    " workers stopped: stop the gateways, start the workers, wait until the lag is"
                    " 0, stop them, and copy then"
                )
        except BaseException:
            self.close()
            raise

    def __str__(self) -> str:
        return f"PostgreSQL at {self._address}"

    def close(self) -> None:
        """Close all connections."""
        self._store.close()

    def plan(self) -> Plan:
        """What there is."""
        read = self._store.read_for_work
        read(
            "INSERT INTO public.meta VALUES ($1, $2) ON CONFLICT DO NOTHING",
            [_IDENTITY, str(secrets.randbits(63))],
        )
        ((identity,),) = read("SELECT value FROM public.meta WHERE key = $1", [_IDENTITY])
        return Plan(
            identity=int(identity),
            last_seq=self._store.last_seq(),
            rows=counts_of(self._store, "public.commits"),
        )

    def parts(self, after: int, last: int) -> Iterator[Part]:
        """The parts behind a commit."""
        return parts_of(self._store, "public.commits", after, last)

    def ends(self) -> Ends:
        """What the last commit leaves."""
        ((low_seq, received_ns),) = self._store.read_for_work(_ENDS)
        return Ends(offset=0, low_seq=low_seq, received_ns=received_ns)

    def rows(self, table: str, after: int, until: int) -> Rows:
        """Rows of some commits, as a folder has them."""
        if table == "offsets":
            return self._store.read_for_work(_COMMITS, [after, until])
        columns = ", ".join(name for name, _ in COLUMNS[table])
        return self._store.read_for_work(
            f"SELECT {columns} FROM public.{table} {WHERE.get(table, 'WHERE true')}"
            " AND seq > $1 AND seq <= $2",
            [after, until],
        )


class DatabaseTarget:
    """A database that gets the data of a fleet, which can be started on it once all is there.

    Args:
        url: The database, as libpq takes it; empty, or with a part of the same copy.
        partitions: Partitions of the fleet.
        beside: Copies what is beside the store, just before the end.

    Raises:
        ConfigError: It cannot be used, or a process of a fleet uses it.
    """

    def __init__(
        self, url: str, partitions: int, beside: Callable[[], None] = lambda: None
    ) -> None:
        self._address, self._partitions, self._beside = Address(url), partitions, beside
        _has_tables(self._address)
        self._store = _CopyStore(url)
        self._session = Session(self._address, settings("scouter copy", idle_s=_IDLE_S))

    def __str__(self) -> str:
        return f"the database {self._address}"

    def close(self) -> None:
        """Close all connections."""
        self._session.close()
        self._store.close()

    def begin(self, plan: Plan) -> int:
        """Make the tables, or go on with them."""
        run = self._session.read
        with self._session.transaction():
            # Another one of the same kind, also one that was just killed, is over then.
            run("LOCK TABLE public.meta IN SHARE ROW EXCLUSIVE MODE")
            found = dict(run("SELECT key, value FROM public.meta"))
            if COPYING in found:
                plan.check(found[COPYING], self)
                done = int(found[_DONE])
            elif _COPIED in found and json.loads(found[_COPIED]) == {
                "plan": plan.text(), "last_seq": self._newest(),
            }:  # fmt: skip
                return plan.last_seq + 1
            elif self._newest() > 0 or run("SELECT 1 FROM public.partitions LIMIT 1"):
                raise ConfigError(
                    f"{self} has data of its own: make an empty one (`createdb`), and copy there"
                )
            else:
                done = NOTHING
                run(
                    "INSERT INTO public.meta VALUES ($1, $2), ($3, $4)",
                    [COPYING, plan.text(), _DONE, str(done)],
                )
        self._store.fix_partitions(self._partitions)
        return done

    def _newest(self) -> int:
        ((newest,),) = self._session.read("SELECT public.newest_number()")
        return newest

    def add(self, before: int, until: int, tables: Mapping[str, Rows]) -> None:
        """Store the rows of a part."""
        days = {
            row[at] // DAY_NS
            for table in DAILY
            for at in [_place(table, "received_ns")]
            for row in tables.get(table, ())
        }
        self._store.need_days(days)
        run = self._session.read
        try:
            with self._session.transaction():
                moved = run(
                    "UPDATE public.meta SET value = $1 WHERE key = $2 AND value = $3 RETURNING 1",
                    [str(until), _DONE, str(before)],
                )
                if not moved:
                    raise ConfigError(f"another copy writes to {self}: let one of them go on")
                for table, rows in tables.items():
                    if table == "offsets":
                        run(_ADD_COMMITS, [[row[at] for row in rows] for at in (0, 2, 3)])
                    elif rows:
                        self._session.copy(table, _without_nul(rows))
        except ConflictError as error:
            raise ConfigError(f"{self} does not take a row: {error}") from error

    def finish(self, plan: Plan, ends: Ends) -> None:
        """Add a commit of each partition, so that its worker goes on where the collector ended."""
        self._beside()
        run, last = self._session.read, plan.last_seq + self._partitions
        with self._session.transaction():
            for part in range(self._partitions):
                seq = plan.last_seq + 1 + part
                run(
                    "INSERT INTO public.commits VALUES ($1, 0, $2, $3, $4, $5)",
                    [seq, ends.low_seq, ends.received_ns, ends.oldest_ns, part],
                )
                run(_PARTITION, [part, ends.low_seq, ends.received_ns, seq])
            run("SELECT setval('public.commit_numbers', $1)", [last])
            run("DELETE FROM public.meta WHERE key IN ($1, $2)", [COPYING, _DONE])
            note = json.dumps({"plan": plan.text(), "last_seq": last})
            run(
                "INSERT INTO public.meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE"
                " SET value = excluded.value",
                [_COPIED, note],
            )
        run("ANALYZE")

    def reads(self) -> FleetStore:
        """Reads of what is there."""
        return self._store

    def counts(self) -> Mapping[str, int]:
        """Rows of each table, without the last commits, which are this one's own."""
        found = counts_of(self._store, "public.commits")
        return {**found, "offsets": found["offsets"] - self._partitions}


def _has_tables(address: Address) -> bool:
    """Check that no process of a fleet has a database open; tells whether there are tables.

    Raises:
        ConfigError: One has, or the database cannot be reached.
    """
    until = time.monotonic() + _GONE_S
    with closing(Session(address, settings("copy"))) as session:
        try:
            while (number := session.read(_PROCESSES)[0][0]) and time.monotonic() < until:
                time.sleep(0.1)
            found = session.read("SELECT to_regclass('public.meta')::TEXT")
        except TransientError as error:
            raise ConfigError(f"{error}. Start it, or give the address of one that runs") from None
    if number:
        raise ConfigError(
            f"the database {address} has {number} connections of Scouter: stop gateways, workers"
            " and apis, and other copies, and run this again"
        )
    return found != [(None,)]


def _place(table: str, column: str) -> int:
    return [name for name, _ in columns_of(table)].index(column)


def _without_nul(rows: Rows) -> Rows:
    """Rows with a sign in the place of each NUL, which PostgreSQL has not."""
    if not any("\0" in each for each in chain.from_iterable(rows) if isinstance(each, str)):
        has_lists = any(isinstance(each, list) for each in rows[0])
        if not has_lists:
            return rows
    return [tuple(plain(each) for each in row) for row in rows]
