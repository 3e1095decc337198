"""The store in little memory, whatever there is much of."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from collector.store.database import Database
from collector.store.reads import TooLargeError
from collector.store.span_queries import SpanQuery
from collector.store.usage import UsageGroup, UsageQuery
from scouter.model.span import AttributeValue
from tests.contracts.store_data import SPACE, span
from tests.support.store_appends import AppendingStore


def test_many_conversations_take_little_memory(tmp_path: Path) -> None:
    """To estimate a quantile of each would take some 100 MB of the 56 that there are."""
    with closing(AppendingStore(tmp_path / "data", 56 * 10**6)) as store:
        for first in range(0, 20_000, 5_000):
            spans = [
                span(
                    n + 1,
                    attributes={"gen_ai.operation.name": "chat", "gen_ai.conversation.id": f"c{n}"},
                )
                for n in range(first, first + 5_000)
            ]
            store.append_spans(SPACE, spans, 1).result()
        query = UsageQuery(space=SPACE, group_by=UsageGroup.CONVERSATION)
        assert {each.calls for each in store.usage(query).items} == {1}


def test_what_every_span_has_is_found_in_little_memory(tmp_path: Path) -> None:
    """Of which the page has a hundredth; all columns of all took 30 MB."""
    attributes: dict[str, AttributeValue] = {
        key: f"a value of {key} that takes some room"
        for key in ("gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.conversation.id")
    }
    with closing(AppendingStore(tmp_path / "data", 56 * 10**6)) as store:
        for first in range(0, 24_000, 8_000):
            spans = [
                span(n + 1, trace_id=f"{n + 1:032x}", attributes=attributes)
                for n in range(first, first + 8_000)
            ]
            store.append_spans(SPACE, spans, 1).result()
        operation = {"operation": str(attributes["gen_ai.operation.name"])}
        page = store.spans(SpanQuery(space=SPACE, columns=operation, limit=1000))
        assert [each.position.trace_id for each in page.items] == [
            f"{n:032x}" for n in range(24_000, 23_000, -1)
        ]


def test_very_long_texts_pass_a_checkpoint(tmp_path: Path) -> None:
    """Ten different texts of 10 MB in a store that may use 128 MB."""
    rng = random.Random(4)
    store = AppendingStore(tmp_path, 128 * 10**6)
    texts = {f"{n + 1:016x}": rng.randbytes(5 * 10**6).hex() for n in range(10)}
    for n, text in enumerate(texts.values()):
        own = span(n + 1, trace_id=f"{n + 1:032x}", attributes={"text": text})
        store.append_spans(SPACE, [own], 1).result(120)
    store.close()  # writes the last of them into the file proper
    store = AppendingStore(tmp_path, 128 * 10**6)
    ids = [f"{n + 1:032x}" for n in range(len(texts))]
    with pytest.raises(TooLargeError, match="64 MiB"):
        store.spans_of(SPACE, ids)
    found = [store.spans_of(SPACE, [trace_id])[trace_id][0] for trace_id in ids]
    store.close()

    assert {each.span_id: each.attributes["text"] for each in found} == texts
    assert store.fault() == ""


def test_many_readers_at_once_have_memory_enough(tmp_path: Path) -> None:
    """Each query takes up to 20 MB of 80; sixteen at once took more than there are."""
    file = Database(tmp_path, 80 * 10**6)
    rows = "SELECT range, hash(range) AS h FROM range(400000) ORDER BY h"
    sql = f"SELECT len(found) FROM (SELECT list(range) AS found FROM ({rows}))"  # noqa: S608
    counts: list[int] = []

    def read() -> None:
        ((found,),) = file.read(sql)
        counts.append(found)

    readers = [threading.Thread(target=read) for _ in range(16)]
    for each in readers:
        each.start()
    for each in readers:
        each.join()
    assert counts == [400_000] * 16
    file.close()


def test_reads_that_fit_only_one_at_a_time_all_end(tmp_path: Path) -> None:
    """Each takes more than half of the memory; where two meet, one is repeated alone."""
    sql = (
        "SELECT sum(length(x))::BIGINT FROM"
        " (SELECT repeat(i::TEXT, 900000) AS x FROM range(1, 10) t(i) ORDER BY x)"
    )
    with closing(Database(tmp_path, 40 * 10**6)) as database, ThreadPoolExecutor(3) as pool:
        sums = list(pool.map(database.read, [sql] * 40))
    assert sums == [[(9 * 900_000,)]] * 40
