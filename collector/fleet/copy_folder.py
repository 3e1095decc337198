"""Both ends of a copy that are data folders: one is read, the other one is made."""

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import duckdb

from collector.care.data_folder import LOG_FOLDER
from collector.fleet.copying import (
    NOTHING,
    Part,
    Plan,
    counts_of,
    parts_of,
)
from collector.fleet.schema import NOBODY
from collector.fleet.whole import share_of
from collector.fleet.writing import Ends
from collector.log.offline import check_log
from collector.store.commit import stored_table
from collector.store.conservation import ConservationReads
from collector.store.database import CHECKPOINT_BYTES, ROW_GROUP, duck_config, insert
from collector.store.files import (
    FIRST_FILE,
    OfflineReads,
    explain,
    store_files,
    sync_folder,
)
from collector.store.opening import read_mark
from collector.store.reads import Rows
from collector.store.schema import COLUMNS, COPYING, VERSION, duckdb_tables
from collector.store.totals import TotalReads
from scouter.errors import ConfigError, TransientError
from scouter.evaluate.engine.sessions import session_uid
from scouter.transport.kafka_client import partition_of

NOTE: Final = "copied.json"
"""File of a folder that a copy has made: what it was made of."""
_MEMORY: Final = 256 * 2**20
"""That DuckDB may use."""
_OF_RECORD: Final = """
    SELECT {columns}, {key}, NULL FROM {table} t
    LEFT JOIN records r ON r.space = t.space AND r.uid = t.{uid}
    WHERE t.seq > $1 AND t.seq <= $2
"""
_SQL: Final[Mapping[str, str]] = {
    "spans": "SELECT {columns}, t.trace_id, NULL FROM spans t WHERE t.seq > $1 AND t.seq <= $2",
    "bodies": """
        SELECT {columns}, coalesce(s.received_ns, o.received_ns, $3), t.trace_id, NULL
        FROM bodies t LEFT JOIN (
            SELECT seq, space, trace_id, max(received_ns) AS received_ns FROM spans
            WHERE seq > $1 AND seq <= $2 GROUP BY seq, space, trace_id
        ) s ON s.seq = t.seq AND s.space = t.space AND s.trace_id = t.trace_id
        LEFT JOIN offsets o ON o.seq = t.seq
        WHERE t.seq > $1 AND t.seq <= $2
    """,
    "records": """
        SELECT {columns}, coalesce(t.trace_id, t.uid), NULL FROM records t
        WHERE t.seq > $1 AND t.seq <= $2
    """,
    "evaluations": """
        SELECT {columns},
            CASE t.scope WHEN 'session' THEN t.session_id
                ELSE coalesce(r.trace_id, r.uid, t.trace_id, t.record_uid) END,
            CASE t.scope WHEN 'session' THEN t.space END
        FROM evaluations t
        LEFT JOIN records r ON r.uid_hash = t.uid_hash AND r.space = t.space
            AND r.uid = t.record_uid
        WHERE t.seq > $1 AND t.seq <= $2
    """,
    "task_results": """
        SELECT {columns},
            CASE e.scope WHEN 'session' THEN e.session_id
                ELSE coalesce(r.trace_id, r.uid, e.trace_id, t.record_uid) END,
            CASE e.scope WHEN 'session' THEN e.space END
        FROM task_results t
        LEFT JOIN evaluations e ON e.seq = t.seq AND e.evaluation_id = t.evaluation_id
            AND e.seq > $1 AND e.seq <= $2
        LEFT JOIN records r ON r.uid_hash = e.uid_hash AND r.space = t.space
            AND r.uid = t.record_uid
        WHERE t.seq > $1 AND t.seq <= $2
    """,
    "dead_letters": _OF_RECORD.format(
        columns="{columns}", table="dead_letters", uid="uid",
        key="coalesce(r.trace_id, r.uid, nullif(t.uid, ''))",
    ),
    "begun": _OF_RECORD.format(
        columns="{columns}", table="begun", uid="uid", key="coalesce(r.trace_id, r.uid)"
    ) + " AND t.space <> ''",
}  # fmt: skip
"""Rows of tables that a fleet parts, with what the partition follows from: the key of the log, or
of sessions their id behind their space. Rows without a key are of no partition."""
_STARTED_SESSIONS: Final = "SELECT DISTINCT uid FROM begun WHERE starts_with(uid, 'session:')"
_SESSIONS: Final = """
    SELECT DISTINCT r.space, p.uid, coalesce(nullif(r.session_id, ''), r.uid)
    FROM records r JOIN profiles p ON p.space = r.space
"""
_COMMITS: Final = (
    "SELECT seq, 0::BIGINT, low_seq, received_ns FROM offsets WHERE seq > $1 AND seq <= $2"
)
_ENDS: Final = "SELECT low_seq, received_ns FROM offsets ORDER BY seq DESC LIMIT 1"
_OLDEST: Final = """
    SELECT min(received_ns) FROM (
        SELECT min(received_ns) AS received_ns FROM spans WHERE seq >= $1
        UNION ALL SELECT min(received_ns) FROM records WHERE seq >= $1
        UNION ALL SELECT min(received_ns) FROM dead_letters WHERE seq >= $1
    ) s
"""


class FolderReads(OfflineReads, ConservationReads, TotalReads):
    """The store of a data folder, read without changing it; see `OfflineReads`."""


class FolderSource:
    """A data folder that no collector has open, as a fleet of some partitions would have it.

    Args:
        folder: The data folder.
        partitions: Their number.

    Raises:
        ConfigError: There is no store, a collector has it open, or something of it is not read yet,
            gone or damaged.
    """

    def __init__(self, folder: Path, partitions: int) -> None:
        self._folder, self._partitions = folder, partitions
        self.reads = FolderReads(folder)
        self._parts: dict[tuple[str | None, str | None], int] = {(None, None): NOBODY}
        self._newest_ns = self.ends().received_ns
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def __str__(self) -> str:
        return str(self._folder)

    def close(self) -> None:
        """Let others have the file."""
        self.reads.__exit__(None, None, None)

    def _check(self) -> None:
        mark = read_mark(self._folder)
        if mark is not None and mark.seq > self.reads.last_seq():
            raise ConfigError(
                f"something of {self._folder} is gone: see `scouter collector check --data"
                f" {self._folder}`"
            )
        rows = self.reads.read("SELECT log_offset FROM offsets ORDER BY seq DESC LIMIT 1")
        offset = rows[0][0] if rows else 0
        for segment in check_log(self._folder / LOG_FOLDER):
            if segment.damaged_bytes or segment.end > offset:
                raise ConfigError(
                    f"the log in {self._folder} has something that is not in the store yet: start"
                    f" a collector on it (`scouter collector --data {self._folder}`), wait until"
                    " `lag.log_bytes` of /api/v1/status is 0, stop it, and copy then"
                )

    def plan(self) -> Plan:
        """What there is."""
        ((identity,),) = self.reads.read("SELECT folder FROM identity")
        return Plan(
            identity=identity,
            last_seq=self.reads.last_seq(),
            rows=counts_of(self.reads, "offsets"),
        )

    def parts(self, after: int, last: int) -> Iterator[Part]:
        """The parts behind a commit."""
        return parts_of(self.reads, "offsets", after, last)

    def ends(self) -> Ends:
        """State after the last commit; the oldest arrival is of what the join needs."""
        found = self.reads.read(_ENDS)
        low_seq, received_ns = found[0] if found else (0, 0)
        ((oldest_ns,),) = self.reads.read(_OLDEST, [low_seq])
        return Ends(offset=0, low_seq=low_seq, received_ns=received_ns, oldest_ns=oldest_ns)

    def rows(self, table: str, after: int, until: int) -> Rows:
        """Rows of some commits, those of parted tables with their partition."""
        if table == "offsets":
            return self.reads.read(_COMMITS, [after, until])
        columns = ", ".join(f"t.{name}" for name, _ in COLUMNS[table])
        sql = _SQL.get(table)
        if sql is None:
            sql = f"SELECT {columns} FROM {table} t WHERE t.seq > $1 AND t.seq <= $2"
            return self.reads.read(sql, [after, until])
        values = [after, until, *([self._newest_ns] if table == "bodies" else [])]
        found = self.reads.read(sql.format(columns=columns), values)
        part = self._part
        if table == "begun":
            return [(*row[:-2], self._part_of_start(row[1], row[2], row[-2])) for row in found]
        return [(*row[:-2], part(row[-2], row[-1])) for row in found]

    def _part_of_start(self, space: str, uid: str, key: str | None) -> int:
        """The partition of what was started; a session has there a hash of its id."""
        return self._part(key, None) if key is not None else self._shares.get((space, uid), NOBODY)

    @cached_property
    def _shares(self) -> Mapping[tuple[str, str], int]:
        """The shares of the sessions that were started, by space and `record_uid`.

        Cost: linear in sessions and profiles, if there is any such session.
        """
        wanted = {uid for (uid,) in self.reads.read(_STARTED_SESSIONS)}
        rows = self.reads.read(_SESSIONS) if wanted else []
        return {
            (space, uid): share_of(space, session_id, self._partitions)
            for space, profile_uid, session_id in rows
            if (uid := session_uid(profile_uid, session_id)) in wanted
        }

    def _part(self, key: str | None, space: str | None) -> int:
        known = self._parts.get((key, space))
        if known is not None:
            return known
        if key is None:
            return NOBODY
        if space is not None:
            found = share_of(space, key, self._partitions)
        else:
            found = partition_of(key.encode("utf-8", "replace"), self._partitions)
        if len(self._parts) > 100_000:
            self._parts.clear()
        self._parts[key, space] = found
        return found


class FolderTarget:
    """A data folder that gets a store; a collector can be started on it once all is there.

    Args:
        folder: Is empty or not there, or has a part of the same copy.
        beside: Copies what is beside the store, just before the end.

    Raises:
        ConfigError: It has something else, or cannot be written.
    """

    def __init__(self, folder: Path, beside: Callable[[], None] = lambda: None) -> None:
        self._folder, self._path, self._beside = folder, folder / FIRST_FILE, beside
        self._duck: duckdb.DuckDBPyConnection | None = None
        self._sheet: FolderReads | None = None

    def __str__(self) -> str:
        return str(self._folder)

    def close(self) -> None:
        """Let others have the file."""
        if self._duck is not None:
            self._duck.close()
            self._duck = None
        if self._sheet is not None:
            self._sheet.__exit__(None, None, None)
            self._sheet = None

    def begin(self, plan: Plan) -> int:
        """Make the folder and its file, or go on with them."""
        try:
            if self._is_whole(plan):
                return plan.last_seq + 1
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return self._open(plan)
        except (OSError, duckdb.Error) as error:
            raise ConfigError(f"cannot write {self._folder}: {explain(error)}") from error

    def _is_whole(self, plan: Plan) -> bool:
        """Tell whether the copy is finished already.

        Raises:
            ConfigError: There is something else.
        """
        if not self._folder.exists():
            return False
        files = store_files(self._folder)
        note = self._folder / NOTE
        if not files:
            if any(self._folder.iterdir()):
                raise ConfigError(f"{self._folder} is not empty: give an empty or a new folder")
            return False
        try:
            with FolderReads(self._folder) as reads:
                last_seq = reads.last_seq()
        except ConfigError:
            if files == [self._path]:
                return False
            raise
        if note.exists():
            found = json.loads(note.read_text(encoding="utf-8"))
            if found == {"plan": plan.text(), "last_seq": last_seq}:
                return True
        raise ConfigError(f"{self._folder} has a store of its own: give an empty or a new folder")

    def _open(self, plan: Plan) -> int:
        self._path.touch(mode=0o600)
        if not self._path.stat().st_size:
            self._path.unlink()  # DuckDB makes it
        config = duck_config(self._folder / "spill-copy", _MEMORY) | {"threads": 2}
        config["checkpoint_threshold"] = f"{CHECKPOINT_BYTES}B"
        self._duck = duckdb.connect(config=config)
        duck, quoted = self._duck, str(self._path).replace("'", "''")
        duck.execute(f"ATTACH '{quoted}' AS store (ROW_GROUP_SIZE {ROW_GROUP})")
        duck.execute("USE store")
        self._path.chmod(0o600)
        tables = {name for (name,) in duck.execute("SHOW TABLES").fetchall()}
        if not tables:
            duck.execute("BEGIN")
            for statement in duckdb_tables():
                duck.execute(statement)
            duck.execute(f"CREATE TABLE {COPYING} (plan TEXT, done BIGINT)")
            duck.execute(f"INSERT INTO {COPYING} VALUES ($1, $2)", [plan.text(), NOTHING])
            duck.execute("COMMIT")
            return NOTHING
        if COPYING not in tables:
            raise ConfigError(f"{self._path} is no part of a copy: give an empty or a new folder")
        ((text, done),) = duck.execute(f"SELECT plan, done FROM {COPYING}").fetchall()
        plan.check(text, self)
        return done

    def add(self, before: int, until: int, tables: Mapping[str, Rows]) -> None:
        """Store the rows of a part."""
        self._transact(
            [(f"UPDATE {COPYING} SET done = $1 WHERE done = $2", [until, before])],
            tables,
        )

    def finish(self, plan: Plan, ends: Ends) -> None:
        """Add a commit behind the others, from which a new log goes on."""
        self._beside()
        last = plan.last_seq + 1
        note = json.dumps({"plan": plan.text(), "last_seq": last})
        try:
            (self._folder / NOTE).touch(mode=0o600)
            (self._folder / NOTE).write_text(note, encoding="utf-8")
            statements: list[tuple[str, list[Any]]] = [
                ("INSERT INTO identity VALUES (0, $1, $2)", [secrets.randbits(63), VERSION]),
                (f"DROP TABLE {COPYING}", []),
                ("INSERT INTO whole VALUES (0)", []),
            ]
            self._transact(statements, {"offsets": [(last, 0, ends.low_seq, ends.received_ns)]})
            self._connection.execute("CHECKPOINT store")
            self.close()
            sync_folder(self._folder)
        except OSError as error:
            raise ConfigError(f"cannot write {self._folder}: {explain(error)}") from error

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        if self._duck is None:
            raise TransientError(f"{self._folder} is not open")
        return self._duck

    def _transact(
        self, statements: Iterable[tuple[str, list[Any]]], tables: Mapping[str, Rows]
    ) -> None:
        duck = self._connection
        try:
            duck.execute("BEGIN")
            for sql, values in statements:
                duck.execute(sql, values)
            for table, rows in tables.items():
                if rows:
                    insert(duck, table, stored_table(table, rows))
            duck.execute("COMMIT")
        except duckdb.Error as error:
            raise TransientError(f"{self._folder} takes nothing: {explain(error)}") from error

    def reads(self) -> FolderReads:
        """Reads of what is there."""
        if self._sheet is None:
            self._sheet = FolderReads(self._folder)
        return self._sheet

    def counts(self) -> Mapping[str, int]:
        """Rows of each table, without the last commit, which is this one's own."""
        found = counts_of(self.reads(), "offsets")
        return {**found, "offsets": found["offsets"] - 1}
