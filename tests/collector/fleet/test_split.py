"""Items of the log cut by partition: nothing is lost or changed, and each is where it belongs."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.fleet.split import TOO_LARGE, Part, split, split_to_fit
from collector.items.drop_reports import pack_dropped, unpack_dropped
from collector.items.letters import make_letter, pack_letter
from collector.items.limits import Limits
from collector.log.port import Entry, Item, Kind
from collector.store.letters import DeadLetter, LetterKind
from collector.store.rows import RecordRow
from collector.worker.take import Contents, TakenSpan, read_entry
from scouter.model.protobuf_fields import tag_of
from scouter.transport.drops import Count
from scouter.transport.kafka_client import partition_of
from tests.support.otlp import any_value, field
from tests.support.worker_room import SPACE, registry_of

REGISTRY: Final = registry_of({})
LIMITS: Final = Limits()
TRACES: Final = tuple(f"{number:032x}" for number in (1, 2, 3, 10**30))
PARTITIONS: Final = st.integers(1, 7)
TEXT: Final = st.text(max_size=6)


def item_of(kind: Kind, body: bytes) -> Item:
    return Item(kind, SPACE, 1_000, body, "http", 3)


def read(*parts: Part) -> Contents:
    """What workers find in parts, all together."""
    found = Contents(space=SPACE, received_ns=1_000)
    for part in parts:
        one = read_entry(Entry(0, 1, part.item), REGISTRY, LIMITS)
        found.spans += one.spans
        found.records += one.records
        found.letters += one.letters
    return found


def spans_of(spans: Iterable[TakenSpan]) -> Counter[tuple[object, ...]]:
    """Spans in any order, with all that is stored of them."""
    return Counter((each.key, each.head, each.message, repr(each.span)) for each in spans)


def rows_of(rows: Iterable[RecordRow]) -> Counter[str]:
    return Counter(map(repr, rows))


def letters_of(letters: Iterable[DeadLetter]) -> Counter[str]:
    """Letters in any order; their ids are drawn."""
    return Counter(
        repr((each.kind, each.reason, each.message, each.payload, each.uid, each.source))
        for each in letters
    )


# --- spans --------------------------------------------------------------------------------------


@st.composite
def spans(draw: st.DrawFn, *, with_bad: bool = False) -> bytes:
    """A request of traces, as any sender might write it."""
    request = ExportTraceServiceRequest()
    number = 0
    for _ in range(draw(st.integers(0, 3))):
        group = request.resource_spans.add(schema_url=draw(TEXT))
        if draw(st.booleans()):
            group.resource.attributes.add(key="service.name", value=any_value(draw(TEXT)))
        for _ in range(draw(st.integers(0, 3))):
            scope = group.scope_spans.add()
            if draw(st.booleans()):
                scope.scope.name = draw(TEXT)
            for _ in range(draw(st.integers(0, 5))):
                number += 1
                span = scope.spans.add(
                    trace_id=bytes.fromhex(draw(st.sampled_from(TRACES))),
                    span_id=number.to_bytes(8, "big"),
                    name=draw(TEXT),
                    start_time_unix_nano=1,
                    end_time_unix_nano=draw(st.integers(1, 2**40)),
                )
                span.attributes.add(key="k", value=any_value(draw(st.text(max_size=200))))
                if with_bad and draw(st.integers(0, 4)) == 0:
                    span.trace_id = draw(st.sampled_from([b"", bytes(16), b"\x01" * 15]))
    if draw(st.integers(0, 3)) == 0:
        for group in request.resource_spans:
            group.MergeFromString(b"\xfa\x3e\x01x")  # field 1007: no version of OTLP has it
    return request.SerializeToString()


@given(body=spans(), partitions=PARTITIONS)
def test_spans_are_where_their_trace_is_and_as_they_came(body: bytes, partitions: int) -> None:
    """Key, head and message are those of the whole request, so that a resent span is known."""
    whole = item_of(Kind.SPANS, body)
    parts = split(whole, partitions)
    for part in parts:
        assert {
            partition_of(each.span.trace_id.encode(), partitions) for each in read(part).spans
        } <= {part.partition}
        assert (part.item.kind, part.item.space, part.item.behind_ns) == (Kind.SPANS, SPACE, 3)
    assert len({part.partition for part in parts}) == len(parts)
    found, wanted = read(*parts), read(Part(0, b"", whole))
    assert spans_of(found.spans) == spans_of(wanted.spans)
    assert found.letters == wanted.letters == []


@given(body=spans(with_bad=True), partitions=PARTITIONS)
def test_bad_spans_become_the_same_letters(body: bytes, partitions: int) -> None:
    whole = item_of(Kind.SPANS, body)
    found, wanted = read(*split(whole, partitions)), read(Part(0, b"", whole))
    assert Counter(repr(each.span) for each in found.spans) == Counter(
        repr(each.span) for each in wanted.spans
    )
    assert letters_of(found.letters) == letters_of(wanted.letters)


def span_bytes(trace: int, text: str = "") -> bytes:
    """A span, its trace id first."""
    attribute = field(9, field(1, b"k") + field(2, field(1, text.encode())))
    ids = field(1, bytes.fromhex(TRACES[trace])) + field(2, b"\x01" * 8)
    return ids + attribute + b"\x39" + bytes(8) + b"\x41" + bytes(8)


def test_what_is_for_one_partition_is_not_written_anew() -> None:
    body = field(1, field(2, field(2, span_bytes(0)) + field(2, span_bytes(0))))
    whole = item_of(Kind.SPANS, body)
    (part,) = split(whole, 5)
    assert part.item is whole
    assert (part.key, part.partition) == (TRACES[0].encode(), partition_of(part.key, 5))


def test_a_trace_id_anywhere_in_a_span_is_found() -> None:
    """Usual senders write it first; protobuf takes it from any place."""
    late = field(5, b"name") + field(1, bytes.fromhex(TRACES[1])) + field(2, b"\x01" * 8)
    body = field(1, field(2, field(2, span_bytes(0)) + field(2, late)))
    assert {part.key for part in split(item_of(Kind.SPANS, body), 64)} == {
        TRACES[0].encode(),
        TRACES[1].encode(),
    }


@pytest.mark.parametrize("body", [b"\xff\xff\xff", b"\x0a\x7f", field(1, b"\xff")])
def test_rubbish_stays_whole(body: bytes) -> None:
    whole = item_of(Kind.SPANS, body)
    (part,) = split(whole, 4)
    assert part.item is whole
    assert split(whole, 4) == [part]


# --- records ------------------------------------------------------------------------------------

VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
RECORDS: Final = st.fixed_dictionaries(
    {"profile": st.just("p")},
    optional={
        "uid": st.sampled_from(["u1", "u2", "u3", ""]) | st.text(max_size=4),
        "trace_id": st.sampled_from([*TRACES, TRACES[3].upper(), "", "?"]) | st.none(),
        "session_id": st.just("s"),
        "created_at": st.integers(1, 10**18),
        "context": VALUES,
    },
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """The body of `POST /v1/records`, good or bad."""
    items = draw(st.lists(RECORDS | VALUES, max_size=6))
    text = json.dumps(
        {**draw(st.dictionaries(TEXT, VALUES, max_size=2)), "records": items},
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, 1])),
    )
    return draw(st.sampled_from(["", " ", "\n\t"])).encode() + text.encode("utf-8", "replace")


def key_of(row: RecordRow) -> bytes:
    return (row.trace_id or row.uid).encode()


@given(body=bodies(), partitions=PARTITIONS)
def test_records_are_where_they_belong_and_as_they_came(body: bytes, partitions: int) -> None:
    """Also those that do not say when they were made keep their place in the request."""
    whole = item_of(Kind.RECORDS, body)
    parts = split(whole, partitions)
    for part in parts:
        for row in read(part).records:
            assert partition_of(key_of(row), partitions) == part.partition
    found, wanted = read(*parts), read(Part(0, b"", whole))
    assert rows_of(found.records) == rows_of(wanted.records)
    assert letters_of(found.letters) == letters_of(wanted.letters)


@given(body=bodies(), first=PARTITIONS, second=PARTITIONS)
def test_a_part_is_split_as_the_whole_is(body: bytes, first: int, second: int) -> None:
    """What was written for another number of partitions is appended again."""
    whole = item_of(Kind.RECORDS, body)
    twice = [part for one in split(whole, first) for part in split(one.item, second)]
    assert rows_of(read(*twice).records) == rows_of(read(Part(0, b"", whole)).records)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"records":[1,2', id="cut"),
        pytest.param(b'{"records":{"a":1}}', id="no-list"),
        pytest.param(b'{"records":[NaN,{"uid":"a"}]}', id="not-a-number"),
        pytest.param(b'{"records":[]} x', id="more-behind"),
        pytest.param(b'{"records":["\xff",1]}', id="no-text"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"{}", id="empty"),
    ],
)
def test_other_bodies_stay_whole(body: bytes) -> None:
    whole = item_of(Kind.RECORDS, body)
    (part,) = split(whole, 8)
    assert part.item is whole


def test_a_number_beyond_all_numbers_stays_one() -> None:
    """Written anew it would be a text, and be accepted."""
    good = [f'{{"profile":"p","uid":"u{number}"}}' for number in range(9)]
    body = '{"records":[{"profile":"p","uid":"big","context":1e400},' + ",".join(good) + "]}"
    found = read(*split(item_of(Kind.RECORDS, body.encode()), 8))
    assert {row.uid for row in found.records} == {f"u{number}" for number in range(9)}
    (letter,) = found.letters
    assert "1e400" in letter.message


def test_one_record_goes_by_its_trace_then_by_its_uid() -> None:
    for said, key in (
        ({"uid": "u", "trace_id": TRACES[3].upper()}, TRACES[3]),
        ({"uid": "u"}, "u"),
    ):
        (part,) = split(item_of(Kind.RECORD, json.dumps({"profile": "p", **said}).encode()), 9)
        assert part.partition == partition_of(key.encode(), 9)


# --- logs ---------------------------------------------------------------------------------------


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    request = ExportLogsServiceRequest()
    for _ in range(draw(st.integers(0, 3))):
        group = request.resource_logs.add()
        if draw(st.booleans()):
            group.resource.attributes.add(key="service.name", value=any_value(draw(TEXT)))
        for _ in range(draw(st.integers(0, 2))):
            scope = group.scope_logs.add()
            for _ in range(draw(st.integers(0, 5))):
                name = draw(st.sampled_from(
                    ["scouter.eval_record", "gen_ai.user.message", "other"]
                ))  # fmt: skip
                log = scope.log_records.add(
                    event_name=name, time_unix_nano=draw(st.sampled_from([0, 5]))
                )
                log.trace_id = bytes.fromhex(draw(st.sampled_from(["", *TRACES])))
                log.span_id = draw(st.sampled_from([b"\x02" * 8, b"", b"\x01"]))
                if name == "scouter.eval_record":
                    value = draw(RECORDS | TEXT)
                    log.body.string_value = json.dumps(value) if draw(st.booleans()) else "[]"
                else:
                    log.body.string_value = draw(TEXT)
    return request.SerializeToString()


@given(body=logs(), partitions=PARTITIONS)
def test_log_records_are_where_they_belong_and_as_they_came(body: bytes, partitions: int) -> None:
    whole = item_of(Kind.LOGS, body)
    parts = split(whole, partitions)
    for part in parts:
        one = read(part)
        keys = [each.span.trace_id.encode() for each in one.spans] + [*map(key_of, one.records)]
        assert {partition_of(key, partitions) for key in keys} <= {part.partition}
    found, wanted = read(*parts), read(Part(0, b"", whole))
    assert rows_of(found.records) == rows_of(wanted.records)
    assert spans_of(found.spans) == spans_of(wanted.spans)
    assert letters_of(found.letters) == letters_of(wanted.letters)


# --- letters and drops --------------------------------------------------------------------------


def letter_of(uid: str, payload: bytes = b"x") -> Item:
    letter = make_letter(
        SPACE, LetterKind.SPAN, "invalid_span", "why", "http", payload, 1_000, 2**24, uid
    )
    return item_of(Kind.LETTER, pack_letter(letter))


def test_a_letter_goes_to_the_trace_that_lacks_it() -> None:
    for number in range(1, 20):
        (part,) = split(letter_of(TRACES[3]), number)
        assert (part.key, part.partition) == (
            TRACES[3].encode(), partition_of(TRACES[3].encode(), number)
        )  # fmt: skip
    assert split(letter_of("no trace"), 9) == split(letter_of("no trace"), 9)


def test_drops_stay_as_they_are() -> None:
    dropped = {("sender", "full"): Count(1, 3)}
    (part,) = split(item_of(Kind.DROPS, pack_dropped(dropped)), 9)
    assert unpack_dropped(bytes(part.item.body)) == dropped


# --- limits -------------------------------------------------------------------------------------


def fits(kind: Kind, body: bytes, max_bytes: int, partitions: int = 3) -> list[Part]:
    whole = item_of(kind, body)
    found = [fit for part in split(whole, partitions) for fit in split_to_fit(part, max_bytes)]
    for part in found:
        if part.item.kind != Kind.LETTER:
            assert len(part.item.body) <= max_bytes
    return found


@given(body=spans(), max_bytes=st.integers(300, 2_000))
def test_messages_are_no_larger_than_their_limit(body: bytes, max_bytes: int) -> None:
    parts = fits(Kind.SPANS, body, max_bytes)
    good = [part for part in parts if part.item.kind != Kind.LETTER]
    found, wanted = read(*good), spans_of(read(Part(0, b"", item_of(Kind.SPANS, body))).spans)
    assert not spans_of(found.spans) - wanted
    lost = sum((wanted - spans_of(found.spans)).values())
    assert lost == len(parts) - len(good)
    for part in parts:
        if part.item.kind == Kind.LETTER:
            (letter,) = read(part).letters
            assert (letter.reason, letter.kind) == (TOO_LARGE, LetterKind.SPAN)


def test_traces_stay_whole_where_they_fit() -> None:
    """Four traces of three spans of 1 kB in messages of 4 kB: one trace each, not 3.5 spans."""
    several = [span_bytes(trace, "x" * 1_000) for _ in range(3) for trace in range(4)]
    body = field(1, field(2, b"".join(field(2, span) for span in several)))
    parts = fits(Kind.SPANS, body, 4_000, partitions=1)
    traces = [{each.span.trace_id for each in read(part).spans} for part in parts]
    assert traces == [{trace} for trace in TRACES]


def test_a_trace_that_is_too_large_is_cut_between_spans() -> None:
    several = [span_bytes(0, "x" * 1_000)] * 8
    body = field(1, field(1, b"") + field(2, b"".join(field(2, span) for span in several)))
    parts = fits(Kind.SPANS, body, 4_000)
    assert [len(read(part).spans) for part in parts] == [3, 3, 2]
    assert {part.partition for part in parts} == {partition_of(TRACES[0].encode(), 3)}


def test_records_are_cut_by_their_bytes() -> None:
    records = [{"uid": f"u{number}", "profile": "p", "context": "x" * 900} for number in range(8)]
    records.append({"uid": "large", "profile": "p", "context": "x" * 9_000})
    body = json.dumps({"records": records}).encode()
    parts = fits(Kind.RECORDS, body, 3_000, partitions=2)
    found = read(*(part for part in parts if part.item.kind != Kind.LETTER))
    assert rows_of(found.records) == rows_of(
        row for row in read(Part(0, b"", item_of(Kind.RECORDS, body))).records if row.uid != "large"
    )
    (letter,) = [part for part in parts if part.item.kind == Kind.LETTER]
    (stored,) = read(letter).letters
    assert (stored.reason, stored.kind, stored.source) == (TOO_LARGE, LetterKind.RECORD, "http")
    assert "of Kafka" in stored.message


def test_the_letter_of_a_large_span_names_its_trace() -> None:
    body = field(1, field(2, field(2, span_bytes(2, "x" * 60_000))))
    (part,) = fits(Kind.SPANS, body, 50_000)
    (letter,) = read(part).letters
    assert (letter.uid, part.partition) == (TRACES[2], partition_of(TRACES[2].encode(), 3))
    assert len(part.item.body) <= 50_000
    assert letter.payload == body[: len(letter.payload)]
    assert f"the first {len(letter.payload)} of {len(body)} bytes" in letter.message


@pytest.mark.parametrize("max_bytes", [100_000, 2_000_000])
def test_a_large_letter_keeps_its_beginning_and_its_reason(max_bytes: int) -> None:
    whole = letter_of(TRACES[1], b"y" * 5_000_000)
    (part,) = [fit for one in split(whole, 3) for fit in split_to_fit(one, max_bytes)]
    (letter,) = read(part).letters
    assert (letter.reason, letter.uid) == ("invalid_span", TRACES[1])
    assert len(part.item.body) <= max_bytes
    assert letter.payload.strip(b"y") == b""
    assert "of 5000000 bytes" in letter.message


def test_rubbish_that_is_too_large_is_one_letter() -> None:
    parts: Sequence[Part] = fits(Kind.RECORDS, b"[" * 100_000, 50_000)
    (letter,) = read(*parts).letters
    assert (letter.kind, letter.reason) == (LetterKind.RECORD, TOO_LARGE)


def test_the_tag_of_a_trace_id_is_that_of_the_first_field() -> None:
    assert span_bytes(0)[0] == tag_of(1)
