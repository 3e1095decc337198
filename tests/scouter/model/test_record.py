"""EvalRecord: open until it is inserted, a snapshot afterwards."""

import datetime
import json
import uuid
from typing import Any

import pytest

from scouter.errors import DataError
from scouter.model.record import EvalRecord

TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_defaults() -> None:
    record = EvalRecord()

    assert record.context == {}
    assert record.record_id == ""
    assert record.trace_id is None
    assert record.tags == []
    assert uuid.UUID(record.uid).version == 7
    assert uuid.UUID(record.session_id).version == 7
    assert record.uid != EvalRecord().uid


def test_the_original_order_of_arguments() -> None:
    record = EvalRecord({"a": 1}, "r1", "s1", TRACE.upper())

    assert (record.context, record.record_id, record.session_id) == ({"a": 1}, "r1", "s1")
    assert record.trace_id == TRACE


@pytest.mark.parametrize("text", ["", "abc", "0" * 32, TRACE + "0", "g" * 32])
def test_a_bad_trace_id_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="32 hex digits"):
        EvalRecord(trace_id=text)


def test_time_is_stored_to_the_nanosecond_and_shown_in_utc() -> None:
    record = EvalRecord(created_ns=1_700_000_000_123_456_789)

    assert record.created_ns == 1_700_000_000_123_456_789
    assert record.created_at == datetime.datetime(
        2023, 11, 14, 22, 13, 20, 123456, tzinfo=datetime.UTC
    )


def test_tags() -> None:
    record = EvalRecord(tags={"tier": "gold"})
    record.add_tag("lang", "en")
    record.add_tag("tier", "base")

    assert record.tags == ["tier=base", "lang=en"]
    assert dict(record.tag_map) == {"tier": "base", "lang": "en"}


def test_freezing_takes_a_snapshot() -> None:
    context: dict[str, Any] = {"items": (1, 2)}
    record = EvalRecord(context)
    record.update_context_field("more", {"a": 1})
    record.freeze()
    context["items"] = "changed"

    assert record.context == {"items": [1, 2], "more": {"a": 1}}
    with pytest.raises(DataError, match="was inserted"):
        record.update_context_field("late", 1)
    frozen = record.context
    record.freeze()
    assert record.context is frozen


def test_only_a_dict_has_fields() -> None:
    with pytest.raises(DataError, match="has no fields"):
        EvalRecord([1]).update_context_field("a", 1)


def test_freezing_refuses_what_has_no_json_form() -> None:
    with pytest.raises(DataError, match=r"a\.b"):
        EvalRecord({"a": {"b": object()}}).freeze()


def test_names_are_made_text_or_refused() -> None:
    """Database keys and uuids are what people have at hand; anything else would not travel."""
    key = uuid.UUID(int=7)
    record = EvalRecord({}, id=key, session_id=12, tags={"k": key})  # type: ignore[arg-type]

    assert (record.record_id, record.session_id) == (str(key), "12")
    assert record.tags == [f"k={key}"]
    wrongs: list[dict[str, Any]] = [
        {"id": object()}, {"session_id": b"x"}, {"tags": {"k": []}}, {"trace_id": 1.5},
    ]  # fmt: skip
    for wrong in wrongs:
        with pytest.raises(DataError, match=r"expected (text|32 hex)"):
            EvalRecord({}, **wrong)


def test_a_name_that_was_set_later_is_checked_when_the_record_freezes() -> None:
    record = EvalRecord({})
    record.record_id = uuid.UUID(int=7)  # type: ignore[assignment]
    record.freeze()
    assert record.record_id == str(uuid.UUID(int=7))


def test_record_id_is_another_word_for_id() -> None:
    assert EvalRecord(record_id="r").record_id == "r"
    assert EvalRecord(id="r", record_id="r").record_id == "r"
    with pytest.raises(DataError, match="two words for one thing"):
        EvalRecord(id="a", record_id="b")


def test_tags_can_be_given_as_they_are_shown() -> None:
    record = EvalRecord(tags=["run=1", "query=a=b"])

    assert record.tag_map == {"run": "1", "query": "a=b"}
    assert EvalRecord(tags=record.tags).tags == record.tags
    assert EvalRecord(tags=EvalRecord(tags={"a=b": "c"}).tags).tag_map == {"a=b": "c"}


@pytest.mark.parametrize("tags", ["run=1", ["run"], ["=1"]])
def test_a_tag_without_its_sign_is_refused(tags: Any) -> None:
    with pytest.raises(DataError, match="key=value"):
        EvalRecord(tags=tags)


def test_a_record_is_written_as_json() -> None:
    record = EvalRecord({"a": (1, 2)}, "r", "s", TRACE, tags={"k": "v"}, uid="u", created_ns=10**18)

    assert json.loads(record.model_dump_json()) == {
        "uid": "u",
        "record_id": "r",
        "session_id": "s",
        "trace_id": TRACE,
        "created_at": "2001-09-09T01:46:40+00:00",
        "context": {"a": [1, 2]},
        "tags": {"k": "v"},
    }
