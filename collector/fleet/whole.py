"""What is stored by all partitions of a fleet, on PostgreSQL."""

import threading
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from collector.fleet.database import (
    IDLE_S,
    READ_S,
    Address,
    ConflictError,
    Pool,
    Session,
    plain,
    settings,
)
from collector.fleet.schema import (
    COPYING,
    DAILY,
    DUTIES,
    MAKE,
    NOBODY,
    OLDEST_SERVER,
    SCHEMA,
    day_statements,
    day_table,
    statements,
)
from collector.fleet.writing import Writing
from collector.key_filter import KeyFilter
from collector.metrics import TotalKey, TotalName, Totals
from collector.store.commit import Columns, Commit, text_hash
from collector.store.json_text import decode_evaluation
from collector.store.reads import Rows
from collector.store.records import RECORD_COLUMNS, record_row
from collector.store.retention import UpkeepReads
from collector.store.rows import EvaluationRow, RecordRow, Scope
from collector.store.schema import COLUMNS
from scouter.errors import ConfigError, TransientError
from scouter.model.log_event import RESULT_EVENT
from scouter.transport.kafka_client import fnv1a_32

_READERS: Final = 4
"""Reads of people at a time, in each process."""
_PLANNED: Final = {"plan_cache_mode": "force_custom_plan"}
"""A plan for any values takes the commits of a page for a tenth of all."""
_CHANGE_S: Final = 600.0
"""Longest statement of who is alone: an erasure looks at all that is stored."""
_NEWS: Final = f"""
    SELECT {RECORD_COLUMNS} FROM session_news n
    JOIN records r ON r.space = n.space AND r.uid = n.uid
    WHERE n.share = $1 AND n.seq > $2 AND n.seq <= $3
    ORDER BY n.seq, r.space, r.uid
"""
_SPANS: Final = f"""
    SELECT space, trace_id, max(seq) FROM spans
    WHERE seq > $1 AND seq <= $2 AND NOT (is_event = 1 AND name = '{RESULT_EVENT}')
    GROUP BY space, trace_id
"""
_HAS_DUTIES: Final = "SELECT 1 FROM public.meta WHERE key = $1 AND value = $2 FOR SHARE"
"""The next owner of the duties waits for the end of the transaction."""
_MADE: Final = """
    SELECT body FROM evaluations WHERE seq > $1 AND seq <= $2 ORDER BY seq, ordinal
"""
_SUBJECTS: Final = {
    "evaluations": "record_uid",
    "task_results": "record_uid",
    "dead_letters": "uid",
}
"""Columns with the uid of the record, or session, that rows are about."""
_PARTS_OF: Final = """
    SELECT space, record_uid, part FROM public.evaluations WHERE uid_hash = ANY($1::BIGINT[])
    UNION ALL
    SELECT space, uid, part FROM public.records WHERE uid_hash = ANY($1::BIGINT[])
"""
_PARTS_OF_TRACES: Final = """
    SELECT DISTINCT trace_id, part FROM public.spans WHERE trace_id = ANY($1::TEXT[])
"""
_TOTALS: Final = """
    SELECT (SELECT value::BIGINT FROM public.meta WHERE key = 'added_up'),
        t.name, t.space, t.profile, t.alias, t.task, t.label, sum(t.n)::BIGINT
    FROM (SELECT 1) one
    LEFT JOIN public.totals t ON t.seq > $1 AND t.seq <= $2
    GROUP BY t.name, t.space, t.profile, t.alias, t.task, t.label
"""
"""One row at least: it says which commit has put the rows before it together."""


def share_of(space: str, session_id: str, partitions: int) -> int:
    """The share that evaluates a session; of a record without one its uid stands for it."""
    text = f"{space}\0{session_id}".encode("utf-8", "surrogatepass")
    return fnv1a_32(text) % partitions


class Whole(Writing, UpkeepReads):
    """The store of a fleet but for its shares; see `FleetStore`.

    Args:
        url: The database, as libpq takes it.
        idle_s: A process that stands still inside a transaction loses it after so many seconds.

    Raises:
        ConfigError: The database does not let us in, its server is too old, or its tables are of
            another version.
        TransientError: It is away.
    """

    def __init__(self, url: str, *, idle_s: float = IDLE_S) -> None:
        address = Address(url)
        self._idle_s: Final = idle_s
        super().__init__(
            address,
            Session(address, settings("scouter", statement_s=_CHANGE_S, idle_s=idle_s)),
        )
        self._maker: Final = Session(address, settings("scouter schema", idle_s=idle_s))
        self._making: Final = threading.Lock()
        self._epoch: str | None = None
        self._days: set[int] = set()
        """Days that have tables."""
        self._counting: Final = threading.Lock()
        self._totals: Totals = dict[TotalKey, int]()
        self._totals_seq = self._added_up = 0
        people = settings("scouter read", statement_s=READ_S, idle_s=idle_s) | _PLANNED
        self._people: Final = Pool(lambda: Session(address, people), _READERS)
        try:
            self._partitions = self._open()
        except BaseException:
            self.close()
            raise

    # --- opening -----------------------------------------------------------------------------

    def _open(self) -> int:
        """Make what is not there; returns the number of partitions, 0 where nobody fixed it."""
        self._address.check()
        ((version, text, may_make),) = self._maker.read(
            "SELECT current_setting('server_version_num')::INTEGER,"
            " current_setting('server_version'), has_schema_privilege('public', 'CREATE')"
        )
        if version < OLDEST_SERVER:
            raise ConfigError(f"PostgreSQL at {self._address} is {text}: upgrade it to 15 or newer")
        if not may_make:
            raise ConfigError(
                f"the user of {self._address} may make no tables: make it the owner, or"
                " GRANT CREATE ON SCHEMA public"
            )
        with self._changing():
            return self._make()

    def _make(self) -> int:
        """Make the tables, or look at those that are there, inside a transaction."""
        maker = self._maker
        if maker.read("SELECT to_regclass('public.meta')") == [(None,)]:
            taken = maker.read(
                "SELECT 1 FROM pg_tables WHERE schemaname = 'public' AND tablename = 'spans'"
            )
            if taken:
                raise ConfigError(
                    f"the database {self._address} has tables of another program: give an empty one"
                )
            for statement in statements():
                maker.read(statement)
            maker.read(
                "INSERT INTO public.meta VALUES ('version', $1), ('added_up', '0')", [SCHEMA]
            )
        found = dict(maker.read("SELECT key, value FROM public.meta"))
        if found.get("version") != SCHEMA:
            raise ConfigError(
                f"the database {self._address} has tables of version {found.get('version')}, and"
                f" this program has those of {SCHEMA}: start the program that made them, and copy"
                " its data into an empty database of this one"
            )
        self._check_copy(found)
        return int(found.get("partitions", 0))

    def _check_copy(self, meta: Mapping[str, str]) -> None:
        """Refuse a database of which a part is missing, as `scouter store copy` was ended.

        Raises:
            ConfigError: It is such a one.
        """
        if COPYING in meta:
            raise ConfigError(
                f"the data in {self._address} is half of a copy: run the same `scouter store copy`"
                " again, which goes on with it"
            )

    @contextmanager
    def _changing(self) -> Generator[None]:
        """A transaction in which this process alone changes tables, and in it one thread."""
        with self._making, self._maker.transaction():
            self._maker.read(f"SELECT pg_advisory_xact_lock({MAKE})")
            yield

    @property
    def partitions(self) -> int:
        """The number of partitions; 0 where nobody has fixed it."""
        if not self._partitions:
            rows = self._read("SELECT value FROM public.meta WHERE key = 'partitions'", ())
            self._partitions = int(rows[0][0]) if rows else 0
        return self._partitions

    def fix_partitions(self, number: int) -> None:
        """Store the number of partitions, once: the partition of a trace follows from it.

        Raises:
            ConfigError: Another number is stored.
            TransientError: PostgreSQL takes nothing now.
        """
        with self._changing():
            self._maker.read(
                "INSERT INTO public.meta VALUES ('partitions', $1) ON CONFLICT DO NOTHING",
                [str(number)],
            )
            ((stored,),) = self._maker.read(
                "SELECT value FROM public.meta WHERE key = 'partitions'"
            )
        self._partitions = int(stored)
        if self._partitions != number:
            raise ConfigError(
                f"the store in {self._address} has {stored} partitions, and the topic {number}:"
                f" start with a topic of {stored} partitions, or with an empty database"
            )

    def lags(self) -> Mapping[int, int]:
        """Since when each partition has been behind, in ns since the epoch; 0 if it is not.

        Partitions that nobody ever took are left out.
        """
        return dict(self._read("SELECT part, behind_since_ns FROM public.partitions", ()))

    # --- reads -------------------------------------------------------------------------------

    def _read(self, sql: str, parameters: Sequence[object]) -> Rows:
        return self._people.read(sql, parameters)

    def last_seq(self) -> int:
        """The newest commit up to which every one is over: what is read up to it stays as it is."""
        if self._is_alone:
            return self._newest()
        ((seq,),) = self.read("SELECT public.last_commit()")
        return seq

    def recorded_traces(self, since_ns: int) -> KeyFilter:
        """Nothing: it is a share that judges."""
        del since_ns
        return KeyFilter(8)

    def session_news(self, share: int, after: int, until: int) -> Iterator[RecordRow]:
        """Records of the sessions of a share, without contexts, in the order of their commits.

        Args:
            share: The share of the sessions; see `collector.fleet.share.share_of`.
            after: Only of later commits.
            until: And not of later ones than this.
        """
        return map(record_row, self.read(_NEWS, [share, after, until]))

    def spans_between(self, after: int, until: int) -> Rows:
        """Space, trace and last commit of traces with spans of some commits, in any order.

        Args:
            after: Only of later commits.
            until: And not of later ones than this.
        """
        return self.read(_SPANS, [after, until])

    def offsets(self) -> Mapping[int, int]:
        """By partition the offset before which everything is stored.

        Partitions that nobody ever took are left out.
        """
        return dict(self._read("SELECT part, log_offset FROM public.partitions", ()))

    def evaluations_between(self, after: int, until: int) -> Iterator[EvaluationRow]:
        """The evaluations of some commits, in their order.

        Args:
            after: Only of later commits.
            until: And not of later ones than this.
        """
        return (decode_evaluation(body) for (body,) in self.read(_MADE, [after, until]))

    # --- totals ------------------------------------------------------------------------------

    def totals(self) -> Totals:
        """All counts as of the last commit. Cost: linear in the rows since they were read last."""
        with self._counting:
            last = self.last_seq()
            found = self.read(_TOTALS, [self._totals_seq, last])
            if found[0][0] != self._added_up:
                self._totals_seq, self._totals = 0, dict[TotalKey, int]()
                found = self.read(_TOTALS, [0, last])
            totals = dict(self._totals)
            for _, name, *parts, n in found:
                if name is not None:
                    key = TotalKey(TotalName(name), *parts)
                    totals[key] = totals.get(key, 0) + n
            self._totals, self._totals_seq, self._added_up = totals, last, found[0][0]
            return totals

    def add_up(self) -> None:
        """Put the rows of each total and of each rollup into one; nothing that is read changes.

        Raises:
            TransientError: The store takes nothing now; nothing has changed.

        Cost: linear in the rows of both; commits wait for it.
        """
        with self.alone():
            seq = self.write(*self.sums(self.stored_totals()))
            self._writer.read(
                "UPDATE public.meta SET value = $1 WHERE key = 'added_up'", [str(seq)]
            )

    # --- days --------------------------------------------------------------------------------

    def need_days(self, days: Collection[int]) -> None:
        """Have tables for days since 1970.

        Raises:
            TransientError: PostgreSQL takes nothing now.
        """
        if self._days.issuperset(days):
            return
        with self._changing():
            for day in sorted(days):
                name = f"public.{day_table(DAILY[0], day)}"
                if self._maker.read("SELECT to_regclass($1)", [name]) == [(None,)]:
                    for statement in day_statements(day):
                        self._maker.read(statement)
        self._days.update(days)

    def forget_days(self) -> None:
        """Look again which days have tables."""
        self._days.clear()

    _need_days, _forget_days = need_days, forget_days

    def have_duties(self, epoch: str) -> None:
        """Write from now on only as long as nobody else has the duties of the fleet; see `Leader`.

        Args:
            epoch: That of the duties of this process.
        """
        self._epoch = epoch

    def _fence(self) -> None:
        if self._epoch is not None and not self._writer.read(_HAS_DUTIES, [DUTIES, self._epoch]):
            raise TransientError("another api has the duties now: nothing is written here")

    def need_from(self, seq: int) -> None:
        """Nothing: it is a share that joins."""

    def commit(self, rows: Commit) -> int:
        """Store rows; those about a record are of its partition.

        Raises:
            DataError: A value cannot be stored, however often it is tried.
            TransientError: The store takes nothing now, or others have stored the same meanwhile:
                whoever reads anew and tries again may succeed.
        """
        try:
            return super().commit(rows)
        except ConflictError as error:
            raise TransientError(str(error)) from None

    def _parts(self, table: str, columns: Columns) -> Iterable[int]:
        named = dict(zip((each for each, _ in COLUMNS[table][1:]), columns, strict=False))
        if table == "records":  # derived ones: they are where the spans of their traces are
            ids = named["trace_id"]
            of_trace = dict(self.read_for_work(_PARTS_OF_TRACES, [list(set(ids))]))
            return [of_trace.get(each, NOBODY) for each in ids]
        name = _SUBJECTS.get(table)
        if name is None:
            return super()._parts(table, columns)
        spaces, uids = named["space"], named[name]
        hashes = [text_hash(each) for each in set(uids)]
        found = {(space, uid): part for space, uid, part in self.read_for_work(_PARTS_OF, [hashes])}
        keys = list(zip(spaces, map(plain, uids), strict=True))
        if table == "evaluations":  # of a session without one: they are of its share
            rows = zip(keys, named["scope"], named["session_id"], strict=True)
            found |= {
                key: share_of(key[0], session_id, self.partitions)
                for key, scope, session_id in rows
                if scope == Scope.SESSION and key not in found
            }
        return [found.get(key, NOBODY) for key in keys]

    def _need_again(self, low_seq: int) -> None:
        # Whoever owns it sees that, and begins anew from there.
        self._writer.read(
            "UPDATE public.partitions SET low_seq = $1 WHERE low_seq > $1 AND part IN"
            " (SELECT part FROM public.records WHERE seq = $1)",
            [low_seq],
        )

    def close(self) -> None:
        """Close all connections; shares have their own."""
        for each in (self._writer, self._maker, self._people):
            each.close()
