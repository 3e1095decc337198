"""First evaluations that come late, in a fleet: in the partition of their trace, once for all."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from collector.fleet.ends import FleetLag
from collector.fleet.hand import FleetHand
from collector.fleet.store import FleetStore
from collector.fleet.whole import share_of
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.unjudged import Unjudged, UnjudgedQuery
from collector.worker.backfill import Backfiller
from collector.worker.open_trace import JoinTimes
from collector.worker.profiles import ProfileRegistry
from scouter.evaluate.spans.derived import derived_uid
from tests.collector.fleet.store_support import rows
from tests.collector.worker.test_backfill import TOGETHER, moved, trace_id, watching
from tests.collector.worker.test_watch import ANSWERED, trace
from tests.contracts.store_data import SPACE

HOUR_NS: Final = 3_600 * 10**9


class NoLag(FleetLag):
    """Everything that was acknowledged is stored."""

    def __init__(self) -> None:
        pass

    def catch_up(self, timeout_s: float) -> bool:
        del timeout_s
        return True


def test_traces_of_two_partitions_are_evaluated_once(fleet: FleetStore) -> None:
    """By two that do it at a time; a partition's owner sees its own, sessions included."""
    now_ns = time.time_ns()
    shares = [fleet.take(part, "me", "topic") for part in range(4)]
    for n in range(1, 9):
        said = moved(trace(trace_id(n), "four days", f"c{n % 2}"), now_ns - n * HOUR_NS)
        shares[n % 2].commit(rows(SPACE, said, received_ns=now_ns - HOUR_NS, offset=n))
    registry = ProfileRegistry(fleet)
    registered = registry.register(SPACE, watching(ANSWERED, TOGETHER), activate=False)

    def fill(_: int = 0) -> int:
        filler = Backfiller(fleet, registry, JoinTimes(), FleetHand(fleet, NoLag()).add)
        stored, place = 0, (0, 0)
        while place is not None:
            query = UnjudgedQuery(space=SPACE, alias="shop", names=("shop",), place=place, limit=3)
            done = filler.run(registered, query, now_ns=now_ns, is_dry=False)
            stored, place = stored + len(done.stored), done.next_before
        return stored

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(fill, range(2))) == 8 + 2
    assert fill() == 0
    assert fleet.record_sheet(SPACE).evaluated == 8
    found = fleet.evaluations(EvaluationQuery(space=SPACE, limit=100)).items
    assert (len(found), {row.is_backfill for row in found}) == (10, {True})
    for n in range(1, 9):
        uid = derived_uid(trace_id(n), "shop")
        owners = [part for part, share in enumerate(shares) if share.records_of(SPACE, [uid])]
        assert owners == [n % 2]
        assert (SPACE, uid) in shares[n % 2].latest_evaluations([(SPACE, uid)])
    for row in found:
        if row.scope == "session":
            own = shares[share_of(SPACE, row.session_id, 4)]
            assert own.latest_evaluations([(SPACE, row.record_uid)])
    left = UnjudgedQuery(space=SPACE, alias="shop", names=("shop",))
    assert fleet.unjudged(left) == []
    assert Unjudged(left.place[0]) is Unjudged.TRACES
    for share in shares:
        share.close()
