"""Searching the DuckDB store: the contract, over blocks of a few rows too, and the blocks."""

import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.storage.duckdb import block_filters
from collector.storage.duckdb import blocks as duckdb_blocks
from collector.storage.duckdb.block_filters import (
    BLOCK,
    BlockFilters,
    BlockQuery,
    Stretch,
    value_hash,
    within,
)
from collector.storage.duckdb.block_values import BlockValues
from collector.storage.duckdb.database import FILE_NAME, Database, run
from collector.storage.duckdb.schema import BLOCK_PARTS, MIGRATIONS
from collector.storage.duckdb.store import DuckDBStore
from collector.storage.port.lists import EvaluationQuery
from collector.storage.port.search import SpanQuery, UsageGroup, UsageQuery
from collector.storage.port.store import Store
from scouter.evaluate.outcome import Outcome
from scouter.model.span import AttributeValue
from tests.contracts.store_data import SPACE, record, span, verdict
from tests.contracts.store_search import StoreSearchContract
from tests.support.old_stores import take_texts_out
from tests.support.processes import wait_until


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of five rows, and shelves of three."""
    monkeypatch.setattr(duckdb_blocks, "_BLOCK_ROWS", 5)
    monkeypatch.setattr(block_filters, "_WIDTH", 3)


class TestDuckDBSearch(StoreSearchContract):
    """One block would hold more than all that a test puts in."""

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: DuckDBStore(tmp_path / "data")


@pytest.mark.usefixtures("few")
class TestSearchOverBlocks(StoreSearchContract):
    """Every commit or two has a block of its own."""

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: DuckDBStore(tmp_path / "data")


def test_many_conversations_take_little_memory(tmp_path: Path) -> None:
    """To estimate a quantile of each would take some 200 MB of the 56 that there are."""
    with closing(DuckDBStore(tmp_path / "data", 56 * 10**6)) as store:
        for first in range(0, 40_000, 5_000):
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
    """Three blocks of it, of which the page has a hundredth; all columns of all took 30 MB."""
    attributes: dict[str, AttributeValue] = {
        key: f"a value of {key} that takes some room"
        for key in ("gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.conversation.id")
    }
    with closing(DuckDBStore(tmp_path / "data", 56 * 10**6)) as store:
        for first in range(0, 24_000, 8_000):
            spans = [
                span(n + 1, trace_id=f"{n + 1:032x}", attributes=attributes)
                for n in range(first, first + 8_000)
            ]
            store.append_spans(SPACE, spans, 1).result()
        database = store._database  # pyright: ignore[reportPrivateUsage]
        run(database.connection(), "SET memory_limit = '22MB'")
        operation = {"operation": str(attributes["gen_ai.operation.name"])}
        page = store.spans(SpanQuery(space=SPACE, columns=operation, limit=1000))
        assert [each.position.trace_id for each in page.items] == [
            f"{n:032x}" for n in range(24_000, 23_000, -1)
        ]


@pytest.fixture
def store(tmp_path: Path, few: None) -> Iterator[DuckDBStore]:
    store = DuckDBStore(tmp_path / "data")
    yield store
    store.close()


def filters(store: DuckDBStore) -> BlockFilters:
    """Those that it asks itself."""
    return store._filters  # pyright: ignore[reportPrivateUsage]


def stretches(store: DuckDBStore, *values: tuple[str, object], table: str = "spans") -> set[int]:
    """The commits that a search for some values looks at; of what has no block the first one."""
    query = BlockQuery(table=table, values=[[value_hash(SPACE, *each)] for each in values])
    found = filters(store).stretches(query)
    return {n for each in found for n in range(each.first, min(each.last, each.first + 99) + 1)}


def fill(store: DuckDBStore, count: int = 8) -> list[int]:
    """Commits of five spans, each with a trace, a name and an agent of its own."""
    commits: list[int] = []
    for n in range(count):
        attributes = {"gen_ai.agent.name": f"agent {n}"}
        spans = [
            span(5 * n + k + 1, trace_id=f"{n + 1:032x}", name=f"name {n}", attributes=attributes,
                 start_ns=100 * n)
            for k in range(5)
        ]  # fmt: skip
        commits.append(store.append_spans(SPACE, spans, n).result().seq)
    everything = BlockQuery(table="spans")
    wait_until(lambda: len(filters(store).stretches(everything)) == count + 1, what="the blocks")
    return commits


def test_a_search_looks_only_where_the_values_are(store: DuckDBStore) -> None:
    """Two of the eight commits at most are looked at for nothing: 1 of 8,000 would be usual."""
    commits = fill(store)
    behind = set(range(commits[-1] + 1, commits[-1] + 101))
    for n, commit in enumerate(commits):
        of_name = stretches(store, ("name", f"name {n}")) - behind
        assert commit in of_name
        assert len(of_name & set(commits)) <= 3
        assert commit in stretches(store, ("trace_id", f"{n + 1:032x}"))
        assert commit in stretches(store, ("agent_name", f"agent {n}"), ("name", f"name {n}"))
    assert len(stretches(store, ("name", "nobody")) & set(commits)) <= 2
    both = stretches(store, ("name", "name 1"), ("agent_name", "agent 2"))
    assert len(both & set(commits)) <= 2
    assert stretches(store) >= set(commits)


def test_of_many_values_a_block_needs_one(store: DuckDBStore) -> None:
    """Traces 2 to 7 of 8, among more values than are looked for in memory."""
    commits = fill(store)
    hashes = [value_hash(SPACE, "trace_id", f"{n:032x}") for n in range(2, 8)]
    hashes = [*hashes[:1], *hashes * 3]
    assert len(hashes) > 16
    found = filters(store).stretches(BlockQuery(table="spans", values=[hashes]))
    looked_at = {each.last for each in found}
    assert looked_at >= set(commits[1:7])
    assert not {commits[0], commits[7]} <= looked_at
    assert [each.first for each in found] == sorted((e.first for e in found), reverse=True)


def test_times_and_commits_bound_a_search(store: DuckDBStore) -> None:
    commits = fill(store)
    query = BlockQuery(table="spans", since_ns=200, until_ns=400, last=commits[-1])
    found = filters(store).stretches(query)
    assert [each.last for each in found] == [commits[3], commits[2]]
    query = BlockQuery(table="spans", first=commits[4], last=commits[5])
    found = filters(store).stretches(query)
    assert (found[0].last, found[-1].first) == (commits[5], commits[4])


def test_what_every_record_is_looked_up_by_is_a_piece_of_its_own(store: DuckDBStore) -> None:
    """Finding traces reads nothing of what other searches need, which so takes no memory."""
    commits = fill(store)
    asked = filters(store)
    expected = stretches(store, ("trace_id", f"{3:032x}"))
    for block in asked._known["spans"].blocks:  # pyright: ignore[reportPrivateUsage]
        assert 2 * len(block.ids) < len(block.others)
        block.others.release()  # reading it is an error from here on
    assert commits[2] in expected
    assert stretches(store, ("trace_id", f"{3:032x}")) == expected
    with pytest.raises(ValueError, match="released"):
        stretches(store, ("name", "name 2"))


def test_verdicts_are_found_by_their_trace(store: DuckDBStore) -> None:
    for n in range(1, 7):
        rows = [verdict(f"u{n}-{k}", trace_id=f"{n:032x}", evaluation_id=f"e{n}-{k}")
                for k in range(5)]  # fmt: skip
        store.append_evaluations(rows).result()
    everything = BlockQuery(table="evaluations")
    wait_until(lambda: len(filters(store).stretches(everything)) == 7, what="the blocks")
    looked_at = stretches(store, ("trace_id", f"{3:032x}"), table="evaluations")
    assert len(looked_at) < len(stretches(store, table="evaluations"))
    page = store.evaluations(EvaluationQuery(space=SPACE, trace_id=f"{3:032x}"))
    assert {row.record_uid for row in page.items} == {f"u3-{k}" for k in range(5)}
    assert store.trace(SPACE, f"{3:032x}", 100).verdicts == page.items


def test_memory_and_the_database_say_the_same_of_a_value(store: DuckDBStore) -> None:
    """Of those that are stored, and of a thousand others; a restart changes nothing."""
    fill(store)
    own = [value_hash(SPACE, "name", f"name {n}") for n in range(8)]
    rng = random.Random(4)
    asked = [*own, *(rng.getrandbits(64) for _ in range(1_000))]
    found: dict[int, set[int]] = {}
    with closing(BlockFilters(store._database)) as fresh:  # pyright: ignore[reportPrivateUsage]
        for value in asked:
            query = BlockQuery(table="spans", values=[[value]])
            found[value] = {each.last for each in filters(store).stretches(query)[1:]}
            in_fresh = [each.last for each in fresh.stretches(query)[1:]]
            assert in_fresh == sorted(found[value], reverse=True)
    assert all(found[value] for value in own)
    assert 0 < sum(map(len, found.values())) - len(own) < 200
    for at in range(0, len(asked), 17):
        part = asked[at : at + 17]
        query = BlockQuery(table="spans", values=[[*part, *part]])
        in_database = {each.last for each in filters(store).stretches(query)[1:]}
        assert in_database == set[int]().union(*(found[value] for value in part))


def test_filters_need_no_room_on_the_disk(tmp_path: Path) -> None:
    """Where no file can be made for them they are in memory."""
    with closing(Database(tmp_path / "data", 56 * 10**6)) as database:
        database.path = tmp_path / "gone" / FILE_NAME
        with closing(BlockFilters(database)) as filters:
            filters.add("spans", [1, 5, 0, 10, *[b"\xff" * 8] * BLOCK_PARTS])
            query = BlockQuery(table="spans", values=[[value_hash(SPACE, "name", "any")]])
            assert filters.stretches(query)[1:] == [(1, 5)]


@pytest.mark.parametrize("per_checkpoint", [50, 1_200], ids=["as they came", "written anew"])
def test_a_start_reads_more_filters_than_duckdb_has_memory_for(
    tmp_path: Path, per_checkpoint: int
) -> None:
    """1,200 blocks: those of ten million records, each a session of its own."""
    with closing(Database(tmp_path, 56 * 10**6)) as database:
        connection = database.connection()
        for first in range(1, 1_201, per_checkpoint):
            connection.execute("BEGIN")
            for last in range(first, first + per_checkpoint):
                bits = random.Random(last).randbytes(1 << 15)
                row = [last, "records", last, 0, 10, bits, *[b"\xff" * 8] * (BLOCK_PARTS - 1)]
                connection.execute("INSERT INTO blocks VALUES (" + "?, " * 12 + "?)", row)
            connection.execute("COMMIT")
            connection.execute("CHECKPOINT")
    with (
        closing(Database(tmp_path, 56 * 10**6)) as database,
        closing(BlockFilters(database)) as filters,
    ):
        every = filters.stretches(BlockQuery(table="records"))[1:]
        assert every == [(last, last) for last in range(1_200, 0, -1)]


def test_a_block_leaves_little_in_the_queues_of_duckdb(store: DuckDBStore) -> None:
    """Four buffers, with the commit itself; 200 bytes of each stay, until a queue has 37,000."""
    buffers = "SELECT sum(total_insertions) FROM duckdb_eviction_queues() WHERE queue_index > 1"
    read = store._database.read  # pyright: ignore[reportPrivateUsage]
    ((before,),) = read(buffers)
    fill(store, 8)
    assert (read(buffers)[0][0] - before) / 8 < 8


def test_blocks_go_with_what_they_are_of(store: DuckDBStore) -> None:
    """Received at 0 to 7; a record holds the trace of the fourth; a new block ends the others."""
    commits = fill(store)
    store.append_records([record("u1", trace_id=f"{4:032x}")]).result()
    store.remove_before(6)
    for n in range(100, 105):
        store.append_spans(SPACE, [span(n, name="new")], 99).result()
    store.append_records([record("u2")]).result()
    oldest = "SELECT min(seq) FROM blocks WHERE of_table = 'spans'"
    wait_until(
        lambda: store._database.read(oldest) == [(commits[3],)],  # pyright: ignore[reportPrivateUsage]
        what="the blocks",
    )
    everything = filters(store).stretches(BlockQuery(table="spans"))
    assert [each.last for each in everything[2:]] == commits[:2:-1]
    query = SpanQuery(space=SPACE, until_ns=1000)
    left = {each.name for each in store.spans(query).items} - {"new"}
    assert left == {"name 3", "name 6", "name 7"}
    for n in (3, 6, 7):
        assert len(store.spans(SpanQuery(space=SPACE, name=f"name {n}")).items) == 5


def test_a_store_without_blocks_gets_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an earlier process one by one, each behind a commit; all is found meanwhile."""
    store = DuckDBStore(tmp_path / "data")
    for n in range(40):
        store.append_spans(SPACE, [span(n + 1, name=f"name {n}")], 1).result()
    store.close()
    monkeypatch.setattr(duckdb_blocks, "_BLOCK_ROWS", 5)
    store = DuckDBStore(tmp_path / "data")
    for n in range(10):
        assert len(store.spans(SpanQuery(space=SPACE, name=f"name {4 * n}")).items) == 1
        store.append_records([record(f"u{n}")]).result()
    counted = "SELECT count(*), min(first_seq) FROM blocks"
    wait_until(lambda: store._database.read(counted)[0][0] >= 7, what="the blocks")  # pyright: ignore[reportPrivateUsage]
    found = [store.spans(SpanQuery(space=SPACE, name=f"name {n}")).items for n in range(40)]
    assert [len(each) for each in found] == [1] * 40
    store.close()


def test_filters_are_the_same_collected_or_read(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of spans are collected while they are stored; after a start they are read."""
    reading = duckdb_blocks._read  # pyright: ignore[reportPrivateUsage]

    def not_spans(
        connection: duckdb.DuckDBPyConnection, table: str, stretch: Stretch
    ) -> BlockValues:
        assert table != "spans"
        return reading(connection, table, stretch)

    monkeypatch.setattr(duckdb_blocks, "_read", not_spans)
    rng = random.Random(8)
    for n in range(60):
        spans = [
            span(
                100 * n + k + 1,
                trace_id=f"{rng.randrange(1, 20):032x}",
                name=rng.choice(["chat", "ä", "tool"]),
                attributes={"gen_ai.request.model": f"m{n}"} if rng.random() < 0.5 else {},
                start_ns=rng.randrange(10**9),
            )
            for k in range(rng.randint(1, 4))
        ]
        store.append_spans(rng.choice([SPACE, "other"]), spans, n).result()
    store.append_records([record("u1")]).result()
    store.append_records([record("u2")]).result()
    database = store._database  # pyright: ignore[reportPrivateUsage]
    stored = database.read(f"SELECT {', '.join(BLOCK)} FROM blocks ORDER BY seq")  # noqa: S608
    assert len(stored) > 20
    with database.in_use() as connection:
        for row in stored:
            stretch = Stretch(*row[:2])
            assert reading(connection, "spans", stretch).row(stretch) == row


def test_long_names_take_little_memory() -> None:
    """While nothing but their block could have a use for them."""
    values = BlockValues()
    tracemalloc.start()
    try:
        for n in range(200):
            values.add(SPACE, "name", [f"{n}" * 50_000])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100_000


def test_a_store_of_the_version_before(tmp_path: Path) -> None:
    """Its spans are found by name, column and trace; by other attributes those that come later.

    Its verdicts were all decided when they were made.
    """
    attributes = {"gen_ai.operation.name": "chat", "color": "red", "gen_ai.usage.input_tokens": 5}
    store = DuckDBStore(tmp_path / "data")
    store.append_spans(SPACE, [span(1, attributes=attributes)], 1).result()
    verdicts = [
        verdict("u1", Outcome.FAILED),
        verdict("u1", revision=2, evaluation_id="u1 again"),
        verdict("u2"),
    ]
    store.append_evaluations(verdicts).result()
    store.close()
    take_texts_out(tmp_path / "data")
    with duckdb.connect(tmp_path / "data" / FILE_NAME) as connection:
        assert len(MIGRATIONS) >= 3
        for column in ("is_model_call", "input_tokens", "output_tokens", "attribute_hashes",
                       "genai_kind", "cached_tokens", "reasoning_tokens", "act_hash",
                       "scope_hash"):  # fmt: skip
            connection.execute(f"ALTER TABLE spans DROP COLUMN {column}")
        for column in ("judge_calls", "judge_cached", "input_tokens", "output_tokens", "cost_usd",
                       "question", "answer"):  # fmt: skip
            connection.execute(f"ALTER TABLE task_results DROP COLUMN {column}")
        for column in ("pending", "was_decided"):
            connection.execute(f"ALTER TABLE evaluations DROP COLUMN {column}")
        connection.execute("DROP TABLE blocks")
        connection.execute("DELETE FROM migrations WHERE version > 2")

    store = DuckDBStore(tmp_path / "data")
    store.append_spans(SPACE, [span(2, attributes=attributes)], 1).result()
    assert store.columns_filled.wait(30)
    by_column = store.spans(SpanQuery(space=SPACE, columns={"operation": "chat"})).items
    by_other = store.spans(SpanQuery(space=SPACE, attributes=(("color", "red"),))).items
    (usage,) = store.usage(UsageQuery(space=SPACE, group_by=UsageGroup.MODEL)).items
    (trace,) = store.traces(SpanQuery(space=SPACE)).items
    assert {row.evaluation_id: row for row in verdicts[1:]} == {
        row.evaluation_id: row for row in store.evaluations(EvaluationQuery(space=SPACE)).items
    }
    assert store.last_outcomes(SPACE, "p1", 9) == [Outcome.FAILED, Outcome.PASSED]
    assert (store.pending_verdicts(9), store.pending_count()) == ([], 0)
    store.close()
    assert [each.name for each in by_column] == ["step 2", "step 1"]
    assert [each.name for each in by_other] == ["step 2"]
    assert (usage.calls, usage.tokens[0].input_tokens) == (2, 10)
    assert (trace.spans, trace.input_tokens) == (2, 10)


def test_blocks_that_know_no_sessions_are_made_anew(
    tmp_path: Path, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of verdicts, by an earlier version; else no verdict of a session would be found."""
    tables = duckdb_blocks._TABLES  # pyright: ignore[reportPrivateUsage]
    earlier = tables["evaluations"]._replace(columns={"trace_id": "trace_id"})
    monkeypatch.setattr(duckdb_blocks, "_TABLES", {**tables, "evaluations": earlier})
    store = DuckDBStore(tmp_path / "data")
    for n in range(20):
        row = verdict(f"u{n}", session_id=f"s{n}", trace_id=f"{n:032x}")
        store.append_evaluations([row]).result()
    counted = "SELECT count(*) FROM blocks WHERE of_table = 'evaluations'"
    wait_until(lambda: store._database.read(counted)[0][0] >= 3, what="the blocks")  # pyright: ignore[reportPrivateUsage]
    store.close()
    monkeypatch.setattr(duckdb_blocks, "_TABLES", tables)
    take_texts_out(tmp_path / "data")
    with duckdb.connect(tmp_path / "data" / FILE_NAME) as connection:
        step = next(at for at, sql in enumerate(MIGRATIONS, start=1) if "FROM blocks" in sql)
        connection.execute("DELETE FROM migrations WHERE version >= ?", [step])
    store = DuckDBStore(tmp_path / "data")
    for n in range(20):
        query = EvaluationQuery(space=SPACE, session_id=f"s{n}")
        assert [each.record_uid for each in store.evaluations(query).items] == [f"u{n}"]
        store.add_totals({}).result()
    wait_until(lambda: store._database.read(counted)[0][0] >= 3, what="the blocks")  # pyright: ignore[reportPrivateUsage]
    query = EvaluationQuery(space=SPACE, session_id="s0")
    assert [each.record_uid for each in store.evaluations(query).items] == ["u0"]
    store.close()


def test_a_filter_that_cannot_be_written_is_written_later(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Commits go on, searches find everything, and the program's log says it once."""
    write = duckdb_blocks._write_block  # pyright: ignore[reportPrivateUsage]

    def fail(*_: object) -> None:
        raise duckdb.OutOfMemoryException("no room")

    monkeypatch.setattr(duckdb_blocks, "_write_block", fail)
    for n in range(4):
        spans = [span(5 * n + k + 1, name=f"name {n}") for k in range(5)]
        store.append_spans(SPACE, spans, 1).result()
    store.append_records([record("u1")]).result()
    wait_until(lambda: "no room" in caplog.text, what="the warning")
    assert len(store.spans(SpanQuery(space=SPACE, name="name 1")).items) == 5
    monkeypatch.setattr(duckdb_blocks, "_write_block", write)
    for n in range(5):
        store.append_records([record(f"v{n}")]).result()
    wait_until(
        lambda: (
            store._database.read("SELECT count(*) FROM blocks WHERE of_table = 'spans'")  # pyright: ignore[reportPrivateUsage]
            == [(4,)]
        ),
        what="the blocks",
    )
    assert caplog.text.count("no room") == 1


@given(
    firsts=st.lists(st.integers(0, 10**6), min_size=1, max_size=200, unique=True),
    size=st.integers(0, 50),
)
def test_ranges_hold_all_that_was_asked_for(firsts: list[int], size: int) -> None:
    """And are few, whatever was asked for."""
    asked = [Stretch(first, first + size) for first in sorted(firsts, reverse=True)]
    disjoint = [each for at, each in enumerate(asked) if at == 0 or each.last < asked[at - 1].first]
    condition = within(disjoint)
    assert condition.count("BETWEEN") <= 32
    with duckdb.connect() as connection:
        ends = [n for each in disjoint for n in each]
        sql = f"SELECT count(*) FROM (SELECT unnest(?::BIGINT[]) AS seq) WHERE {condition}"  # noqa: S608
        assert connection.execute(sql, [ends]).fetchall() == [(len(ends),)]


def test_hashes_are_those_of_the_database(tmp_path: Path) -> None:
    """What is asked for is what SQL has written, in stores of earlier versions too."""
    database = Database(tmp_path, 10**8)
    rng = random.Random(3)
    for _ in range(50):
        space, value = (rng.choice(["", "ä", "a\0b", "\U0001f600", "x" * 500]) for _ in range(2))
        for column in ("name", "trace_id"):
            hashed = "md5_number_lower(? || chr(0) || ? || chr(0) || ?) AS h"
            numbered = f"h - h % {BLOCK_PARTS} + if(is_id, 0, 1 + (h >> 56) % {BLOCK_PARTS - 1})"
            sql = f"SELECT {numbered} FROM (SELECT {hashed}, ? AS is_id)"  # noqa: S608
            found = database.read(sql, [space, column, value, column == "trace_id"])
            assert found == [(value_hash(space, column, value),)]
            assert (found[0][0] % BLOCK_PARTS == 0) is (column == "trace_id")
    database.close()
