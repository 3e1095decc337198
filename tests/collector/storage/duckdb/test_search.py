"""Searching the DuckDB store: the contract, in one step and in many, and what else it promises."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.storage.duckdb import search
from collector.storage.duckdb.commit_ranges import Stretch, within
from collector.storage.duckdb.database import FILE_NAME, run
from collector.storage.duckdb.schema import MIGRATIONS
from collector.storage.duckdb.store import DuckDBStore
from collector.storage.port.store import Store
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.span_queries import SpanQuery, TraceQuery
from collector.store.usage import UsageGroup, UsageQuery
from scouter.evaluate.outcome import Outcome
from scouter.model.span import AttributeValue
from tests.contracts.store_data import SPACE, evaluation, span
from tests.contracts.store_search import StoreSearchContract, StoreUsageContract
from tests.support.old_stores import take_texts_out


class TestDuckDBSearch(StoreSearchContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: DuckDBStore(tmp_path / "data")


class TestDuckDBUsage(StoreUsageContract):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], Store]:
        return lambda: DuckDBStore(tmp_path / "data")


class TestSearchInManySteps(StoreSearchContract):
    """The first step is of one commit, and the next ones of twice as many as before."""

    @pytest.fixture
    def open_store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Store]:
        monkeypatch.setattr(search, "_STEP", 1)
        monkeypatch.setattr(search, "_GROWTH", 2)
        return lambda: DuckDBStore(tmp_path / "data")


def test_many_conversations_take_little_memory(tmp_path: Path) -> None:
    """To estimate a quantile of each would take some 100 MB of the 56 that there are."""
    with closing(DuckDBStore(tmp_path / "data", 56 * 10**6)) as store:
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


def test_a_store_of_the_version_before(tmp_path: Path) -> None:
    """Its spans are found by name, column and trace; by other attributes those that come later.

    Its evaluations were all decided when they were made.
    """
    attributes = {"gen_ai.operation.name": "chat", "color": "red", "gen_ai.usage.input_tokens": 5}
    store = DuckDBStore(tmp_path / "data")
    store.append_spans(SPACE, [span(1, attributes=attributes)], 1).result()
    evaluations = [
        evaluation("u1", Outcome.FAILED),
        evaluation("u1", revision=2, evaluation_id="u1 again"),
        evaluation("u2"),
    ]
    store.append_evaluations(evaluations).result()
    store.close()
    take_texts_out(tmp_path / "data")
    with duckdb.connect(tmp_path / "data" / FILE_NAME) as connection:
        assert len(MIGRATIONS) >= 3
        for column in ("is_model_call", "input_tokens", "output_tokens", "attribute_hashes",
                       "genai_kind", "cached_tokens", "reasoning_tokens", "act_hash",
                       "scope_hash", "arguments_hash", "finish_reason"):  # fmt: skip
            connection.execute(f"ALTER TABLE spans DROP COLUMN {column}")
        for column in ("judge_calls", "judge_cached", "input_tokens", "output_tokens", "cost_usd",
                       "question", "answer"):  # fmt: skip
            connection.execute(f"ALTER TABLE task_results DROP COLUMN {column}")
        for column in ("pending", "was_decided"):
            connection.execute(f"ALTER TABLE evaluations DROP COLUMN {column}")
        connection.execute("DELETE FROM migrations WHERE version > 2")

    store = DuckDBStore(tmp_path / "data")
    store.append_spans(SPACE, [span(2, attributes=attributes)], 1).result()
    assert store.columns_filled.wait(120)
    by_column = store.spans(SpanQuery(space=SPACE, columns={"operation": "chat"})).items
    by_other = store.spans(SpanQuery(space=SPACE, attributes=(("color", "red"),))).items
    (usage,) = store.usage(UsageQuery(space=SPACE, group_by=UsageGroup.MODEL)).items
    (trace,) = store.traces(TraceQuery(space=SPACE)).items
    assert {row.evaluation_id: row for row in evaluations[1:]} == {
        row.evaluation_id: row for row in store.evaluations(EvaluationQuery(space=SPACE)).items
    }
    assert store.last_outcomes(SPACE, "p1", 9) == [Outcome.FAILED, Outcome.PASSED]
    assert (store.pending_evaluations(9), store.pending_count()) == ([], 0)
    store.close()
    assert [each.name for each in by_column] == ["step 2", "step 1"]
    assert [each.name for each in by_other] == ["step 2"]
    assert (usage.calls, usage.tokens[0].input_tokens) == (2, 10)
    assert (trace.spans, trace.input_tokens) == (2, 10)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@given(
    firsts=st.lists(st.integers(0, 10**6), min_size=1, max_size=200, unique=True),
    size=st.integers(0, 50),
)
def test_ranges_hold_all_that_was_asked_for(
    connection: duckdb.DuckDBPyConnection, firsts: list[int], size: int
) -> None:
    """And are few, whatever was asked for."""
    asked = [Stretch(first, first + size) for first in sorted(firsts, reverse=True)]
    disjoint = [each for at, each in enumerate(asked) if at == 0 or each.last < asked[at - 1].first]
    condition = within(disjoint)
    assert condition.count("BETWEEN") <= 32
    ends = [n for each in disjoint for n in each]
    sql = f"SELECT count(*) FROM (SELECT unnest(?::BIGINT[]) AS seq) WHERE {condition}"  # noqa: S608
    assert connection.execute(sql, [ends]).fetchall() == [(len(ends),)]
