"""Answers of every store about records that hold a text."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.store.record_queries import RecordQuery
from collector.store.rows import RecordState
from tests.contracts.store_data import SPACE, evaluation, record
from tests.contracts.store_opened import IN_CLASS, OpenedStore
from tests.support.store_appends import AppendingStore


def never() -> bool:
    return False


def found(store: AppendingStore, text: str, **filters: Any) -> list[str]:
    page = store.records(RecordQuery(space=SPACE, **filters), never, [text])
    assert page.looked_until_ns is None
    return [each.record.uid for each in page.items]


class StoreTextContract(OpenedStore):
    """Subclass it and give the fixture `open_store`."""

    @pytest.mark.parametrize(
        ("context", "text", "is_found"),
        [
            ({"answer": "The refund is late"}, "refund", True),
            ({"answer": "The refund is late"}, "REFUND IS", True),
            ({"answer": "The refund is late"}, "refund  is", False),
            ({"order_id": 7}, "order", True),
            ({"order_id": 7}, "7", True),
            ({"a": "line\nname"}, "name", True),
            ({"a": "line\nothing"}, "nothing", False),
            ({"a": "line\nothing"}, "\n", True),
            ({"a": "c:\\nothing"}, "\n", False),
            ({"a": "c:\\nothing"}, "nothing", True),
            ({"a": "c:\\nothing"}, "\\no", True),
            ({"a": 'say "yes"'}, '"yes"', True),
            ({"a": {"b": "c"}}, '"b":"c"', False),
            ({"a": "São Paulo"}, "SÃO", True),
            ({"a": "é", "half": "\ud800"}, "é", True),
            ({"a": "100% (a.b)*"}, "% (a.b)*", True),
            ({"a": "axb"}, "a.b", False),
            ({"a": "\x00\x1b"}, "\x00\x1b", True),
            ({"a": "🙂"}, "🙂", True),
        ],
    )
    def test_texts(
        self, store: AppendingStore, context: dict[str, Any], text: str, is_found: bool
    ) -> None:
        """Texts have characters that JSON escapes, and characters with a meaning in a pattern."""
        store.append_records([record(context=context)]).result()
        assert found(store, text) == ["u1"] * is_found

    @pytest.mark.parametrize(
        ("context", "text", "match"),
        [
            ({"a": "The refund is late"}, "REFUND", ("a", "The ", "refund", " is late")),
            ({"x": "no", "a": {"b": ["no", "blue <b>"]}}, "e <B", ("a.b[1]", "blu", "e <b", ">")),
            ({"order_id": 7}, "order", ("order_id", "", "order", "_id")),
            ({"order_id": 712}, "1", ("order_id", "7", "1", "2")),
            ("plain refund", "refund", ("", "plain ", "refund", "")),
            ({"a": "x" * 70 + "Y" + "z" * 61}, "y", ("a", "…" + "x" * 60, "Y", "z" * 60 + "…")),
            ({"a": "x" * 60 + "Y" + "z" * 60}, "y", ("a", "x" * 60, "Y", "z" * 60)),
            ({"n" * 101: "y"}, "y", ("n" * 100 + "…", "", "y", "")),
        ],
    )  # fmt: skip
    def test_a_record_tells_where_its_text_is(
        self, store: AppendingStore, context: Any, text: str, match: tuple[str, ...] | None
    ) -> None:
        """On each of many rows; the contexts of those before have another text."""
        rows = [record(f"u{n}", context={"a": f"{text} {n}"}) for n in range(9)]
        store.append_records([*rows, record("u9", context=context)]).result()
        page = store.records(RecordQuery(space=SPACE), never, [text])
        found = {
            each.record.uid: each.match and tuple(dict(each.match).values()) for each in page.items
        }
        others = {f"u{n}": ("a", "", text, f" {n}") for n in range(9)}
        assert found == {**others, "u9": match}

    @IN_CLASS
    @given(said=st.text(max_size=12), text=st.text(min_size=1, max_size=3))
    def test_a_text_is_found_where_python_finds_it(
        self, store: AppendingStore, said: str, text: str
    ) -> None:
        """Of one value; letters whose upper case is another one's are left to the table."""
        if not (said + text).isascii() and (said + text).lower() != said + text:
            return
        uid = f"u{store.last_seq()}"
        store.append_records([record(uid, record_id=uid, context=[said])]).result()
        if text in "[]":
            return  # a list is written with them
        assert found(store, text, record_id=uid) == [uid] * (text.lower() in said.lower())

    def test_other_filters_and_pages_join_the_text(self, store: AppendingStore) -> None:
        """Every third of 100 records has the word; every second of all was evaluated."""
        for first in range(0, 100, 4):
            said = {n: "red" if n % 3 else "blue" for n in range(first, first + 4)}
            rows = [record(f"u{n}", received_ns=n, context={"a": said[n]}) for n in said]
            store.append_records(rows).result()
            store.append_evaluations([evaluation(f"u{n}") for n in said if n % 2 == 0]).result()
        query = RecordQuery(
            space=SPACE, limit=4, since_ns=10, until_ns=90, state=RecordState.EVALUATED
        )
        uids: list[str] = []
        while True:
            page = store.records(query, never, ["blue"])
            assert len(page.items) <= 4
            uids += [each.record.uid for each in page.items]
            if page.next_before is None:
                break
            query = replace(query, before=page.next_before)
        assert uids == [f"u{n}" for n in range(84, 11, -6)]
        assert found(store, "blue", profile="other") == []

    def test_a_search_that_ends_early_goes_on_where_it_ended(self, store: AppendingStore) -> None:
        """Time is always up: each page has read one part more, and all of them are the whole."""
        for first in range(0, 200, 4):
            said = {n: "rare" if n in (3, 150) else "common" for n in range(first, first + 4)}
            rows = [record(f"u{n}", received_ns=n, context={"a": said[n]}) for n in said]
            store.append_records(rows).result()
        query, uids, reached = RecordQuery(space=SPACE), list[str](), list[int]()
        while True:
            page = store.records(query, lambda: True, ["rare"])
            uids += [each.record.uid for each in page.items]
            if page.next_before is None:
                break
            assert page.looked_until_ns is not None
            reached.append(page.looked_until_ns)
            query = replace(query, before=page.next_before)
        assert uids == ["u150", "u3"]
        assert len(reached) >= 2
        assert reached == sorted(set(reached), reverse=True)
