"""Rows for tests on the store of a fleet, and the means to stand still in a transaction."""

import threading
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from collector.fleet.store import FleetStore
from collector.fleet.writing import Writing
from collector.store.commit import Commit
from collector.store.reads import Connection
from collector.store.rows import EvaluationRow, RecordRow
from scouter.model.span import Span
from tests.support.processes import wait_until
from tests.support.store_commits import body_of, row_of


def rows(
    space: str,
    spans: Sequence[Span] = (),
    records: Sequence[RecordRow] = (),
    evaluations: Sequence[EvaluationRow] = (),
    received_ns: int = 1,
    offset: int | None = None,
    low_seq: int | None = None,
) -> Commit:
    """A commit; spans of each trace in a body of their own."""
    traces = {each.trace_id: [s for s in spans if s.trace_id == each.trace_id] for each in spans}
    return Commit(
        spans=[row_of(space, each, received_ns) for each in spans],
        bodies=[body_of(space, each) for each in traces.values()],
        records=list(records), evaluations=list(evaluations), offset=offset, low_seq=low_seq,
    )  # fmt: skip


@contextmanager
def frozen(store: Writing) -> Generator["Future[int]"]:
    """Have a commit stand still in its transaction, behind taking its number, until the end."""
    is_inside, go = threading.Event(), threading.Event()

    def stand(connection: Connection) -> None:
        del connection
        is_inside.set()
        assert go.wait(120)

    with ThreadPoolExecutor(1) as pool:
        try:
            done = pool.submit(store.write, {}, [stand])
            assert is_inside.wait(120)
            yield done
        finally:
            go.set()


def waits(store: FleetStore, name: str) -> None:
    """Wait until a session of some name waits for a lock."""
    sql = """
        SELECT 1 FROM pg_stat_activity
        WHERE application_name = $1 AND wait_event_type = 'Lock' AND datname = current_database()
    """
    wait_until(lambda: store.read(sql, [name]), what=f"{name} waits for a lock")
