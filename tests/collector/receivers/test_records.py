"""`POST /v1/records`: what is taken, what is not, and what is said about it."""

import gzip
import itertools
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.items.record_items import check_record, read_records_body
from collector.items.times import format_time, parse_query_ns, parse_time_ns
from scouter.errors import DataError
from scouter.model.json_value import plain_text
from scouter.model.otlp import encode_request
from scouter.model.record import EvalRecord
from scouter.model.short_text import tag_text
from scouter.transport.port import RecordItem, encode_record
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import span
from tests.scouter.model.test_short_text import FORMS
from tests.support.examples import examples
from tests.support.processes import wait_until

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def service(start: Start, answers: Path) -> Service:
    return start(profile=[str(answers)])


def test_every_record_is_in_one_of_three_counts(service: Service) -> None:
    good = {"uid": "u1", "profile": "answers", "context": {"answer": 42}}
    outcome = service.send(
        good,
        {"uid": "u2", "profile": "answers", "trace_id": "xyz"},
        good,
        {**good, "context": {"answer": 43}},
        "not even an object",
        {"uid": "u3", "profile": "answers"},
    )
    assert (outcome["accepted"], outcome["duplicates"], outcome["rejected"]) == (2, 1, 3)
    assert [(e["index"], e["reason"]) for e in outcome["errors"]] == [
        (1, "invalid_record"),
        (3, "conflict"),
        (4, "invalid_record"),
    ]
    assert outcome["errors"][0]["message"] == "trace_id: expected 32 hex digits, not all zero"
    assert outcome["errors"][1]["uid"] == "u1"
    assert outcome["partialSuccess"]["rejectedRecords"] == 3
    assert outcome["partialSuccess"]["errorMessage"].startswith("record 1: trace_id")

    service.wait_for(2)
    sheet = service.get("/api/v1/conservation")
    assert sheet["records"]["accepted"] == 2
    assert sheet["records"]["duplicates"] == 1
    assert sheet["dead_letters"] == {"invalid_record": 2, "conflict": 1}


def test_the_same_conflict_is_one_letter_however_often_it_comes(service: Service) -> None:
    """A record with and without the time of its creation, and one that is replayed."""
    conflicts = [
        {"uid": "u1", "profile": "answers", "context": {"answer": 43}},
        {"uid": "u1", "profile": "answers", "created_at": "2026-01-01T00:00:00Z"},
    ]
    service.send({"uid": "u1", "profile": "answers", "context": {"answer": 42}})
    for _ in range(2):
        assert service.send(*conflicts)["rejected"] == 2
    assert service.http.post("/api/v1/dead-letters/replay").json()["refused"] == 2
    assert service.get("/api/v1/conservation")["dead_letters"] == {"conflict": 2}
    letters = service.get("/api/v1/dead-letters")["items"]
    dated = [json.loads(item["payload"]).get("created_at") for item in letters]
    assert sorted(dated, key=str) == [1_767_225_600_000_000_000, None]


def test_the_profile_may_be_named_in_four_ways(service: Service) -> None:
    (profile,) = service.get("/api/v1/profiles")["items"]
    for key in ("alias", "name", "uid", "profile_version"):
        service.send({"profile": profile[key], "record_id": key, "context": {"answer": 42}})
    service.wait_for(4)
    items = service.get("/api/v1/evaluations")["items"]
    assert {item["record_id"] for item in items} == {"alias", "name", "uid", "profile_version"}
    assert {item["outcome"] for item in items} == {"passed"}


def test_a_record_without_uid_is_known_again_by_its_content(service: Service) -> None:
    record = {"profile": "answers", "context": {"answer": 42}}
    assert service.send(record, {**record, "record_id": "other"})["accepted"] == 2
    assert service.send(record)["duplicates"] == 1


def test_a_record_comes_back_as_it_was_sent(service: Service) -> None:
    service.send(
        {"uid": "u1", "profile": "answers", "record_id": "r", "session_id": "s",
         "trace_id": TRACE.upper(), "created_at": "2026-01-31T12:00:00.123456789+01:00",
         "context": {"answer": 41}, "tags": {"team": "blue"}, "unknown": "ignored"}
    )  # fmt: skip
    service.wait_for(1)
    (item,) = service.get("/api/v1/evaluations")["items"]
    assert (item["uid"], item["record_id"], item["session_id"]) == ("u1", "r", "s")
    assert (item["trace_id"], item["tags"]) == (TRACE, {"team": "blue"})
    assert item["created_at"] == "2026-01-31T11:00:00.123456Z"
    (task,) = item["tasks"]
    assert (task["outcome"], task["expected"], task["actual"]) == ("failed", 42, 41)


def test_records_of_one_request_keep_their_order_in_a_session(start: Start, tmp_path: Path) -> None:
    """They say no time; their uids, by which equal times are ordered, are hashes."""
    profile = {
        "alias": "chat",
        "tasks": [
            {"id": "order", "task_type": "Assertion", "scope": "session",
             "context_path": "records[*].context.turn", "operator": "Equals",
             "expected_value": list(range(10))},
        ],
    }  # fmt: skip
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(profile), encoding="utf-8")
    service = start(profile=[str(path)], session_quiet_s=0.2)
    service.send(
        *({"profile": "chat", "session_id": "s", "context": {"turn": n}} for n in range(10))
    )

    def sessions() -> list[Any]:
        items = service.get("/api/v1/evaluations")["items"]
        return [item for item in items if item["scope"] == "session"]

    [session] = wait_until(sessions, what="an evaluation on the session")
    [task] = session["tasks"]
    assert (task["outcome"], task["actual"]) == ("passed", list(range(10)))


def test_drops_that_senders_report_are_added_up(service: Service) -> None:
    for header in ("full=3, closed=1, no=0", "full=2,minus=-4", 'bad"label=7', "rubbish", "=,=1"):
        answer = service.http.post(
            "/v1/records", json={"records": []}, headers={"Scouter-Dropped": header}
        )
        assert answer.status_code == 200, answer.text

    def dropped(reason: str) -> float | None:
        return service.sample(f'scouter_queue_dropped_total{{reason="{reason}",space="default"}}')

    assert (dropped("full"), dropped("closed"), dropped("other")) == (5, 1, 8)
    assert dropped("no") is None


def test_gzip_is_taken_and_bounded(untouched: Service) -> None:
    def post(data: bytes, encoding: str = "gzip") -> int:
        headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
        return untouched.http.post("/v1/records", content=data, headers=headers).status_code

    body = json.dumps({"records": []}).encode()
    assert post(gzip.compress(body)) == 200
    assert post(gzip.compress(body[:5]) + gzip.compress(body[5:])) == 200  # two members
    assert post(body, "identity") == 200
    assert post(body) == 400  # not gzip
    assert post(gzip.compress(body)[:-9]) == 400  # cut off
    assert post(gzip.compress(bytes(65 * 2**20))) == 413  # 64 KiB that would be 65 MiB
    assert post(body, "br") == 415
    assert post(gzip.compress(b"") * 63 + gzip.compress(body)) == 200
    assert post(gzip.compress(b"") * 300_000) == 400  # would be copied 300,000 times


def test_a_large_body_is_refused(start: Start) -> None:
    service = start(max_body="2KiB")
    answer = service.http.post("/v1/records", json={"records": ["x" * 3000]})
    assert answer.status_code == 413
    assert "larger than 2048 bytes" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("content", "media", "status", "detail"),
    [
        (b'{"records": []}', "text/plain", 415, "expected application/json"),
        (b'{"records": []}', "", 415, "expected application/json"),
        (b'{"records": [', "application/json", 400, "not JSON"),
        (b"", "application/json", 400, "not JSON"),
        (b"\xff\xfe", "application/json", 400, "not JSON"),
        (b'{"records": [NaN]}', "application/json", 400, "not JSON"),
        (b'["records"]', "application/json", 400, "expected an object with a list of records"),
        (b'{"records": {}}', "application/json", 400, "expected an object with a list of records"),
        (b'{"records": ' + b"[" * 5000 + b"]" * 5000 + b"}", "application/json", 400, "not JSON"),
    ],
)
def test_a_body_that_is_something_else(
    untouched: Service, content: bytes, media: str, status: int, detail: str
) -> None:
    headers = {"Content-Type": media} if media else {}
    answer = untouched.http.post("/v1/records", content=content, headers=headers)
    problem = answer.json()
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert set(problem) == {"type", "title", "status", "detail"}
    assert detail in problem["detail"]


@pytest.mark.parametrize("path", ["/v1/records", "/v1/traces", "/v1/logs"])
def test_a_full_memory_asks_to_come_back(untouched: Service, path: str) -> None:
    headers = {"Content-Type": "application/json"}
    with untouched.collector.ingest.lease() as lease:
        lease.take(untouched.collector.ingest.budget.limit)  # other requests, in hand
        answer = untouched.http.post(path, content=b"{}", headers=headers)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert untouched.http.post(path, content=b"{}", headers=headers).status_code != 429


def test_a_log_that_cannot_be_written_asks_to_come_back(service: Service) -> None:
    service.collector.log.close()
    record = {"records": [{"profile": "answers"}]}
    answer = service.http.post("/v1/records", json=record)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "closed" in answer.json()["detail"]


# --- single items -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({}, "profile: Field required"),
        ({"profile": ""}, "profile: String should have at least 1 character"),
        ({"profile": 7}, "profile: Input should be a valid string"),
        ({"profile": "a\nb"}, "profile: control characters are not allowed here"),
        ({"profile": "p" * 513}, "profile: String should have at most 512 characters"),
        ({"profile": "p", "session_id": ["s"]}, "session_id: Input should be a valid string"),
        ({"profile": "p", "uid": None}, "uid: Input should be a valid string"),
        ({"profile": "p", "trace_id": "0" * 32}, "trace_id: expected 32 hex digits"),
        ({"profile": "p", "created_at": "yesterday"}, "created_at: 'yesterday' is no time"),
        ({"profile": "p", "created_at": -1}, "created_at: -1 is no time"),
        ({"profile": "p", "created_at": 2**63}, "is no time"),
        ({"profile": "p", "created_at": 1.5}, "created_at"),
        ({"profile": "p", "tags": {"k": None}}, "tags.k: Input should be a valid string"),
        ({"profile": "p", "tags": ["a=b"]}, "tags: Input should be a valid dictionary"),
        ({"profile": "p", "context": {1, 2}}, "context: Object of type set is not JSON"),
        ([], "a record has to be an object, or its JSON as text"),
        (None, "a record has to be an object, or its JSON as text"),
    ],
)
def test_an_item_that_cannot_be_used(item: object, message: str) -> None:
    with pytest.raises(DataError) as caught:
        check_record(item)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", FORMS)
def test_sender_and_collector_have_one_form(name: str) -> None:
    """Whoever sends a text: another program as it is, the SDK in the form that is stored."""
    text, form = FORMS[name]
    fields = {"uid": text, "record_id": text, "session_id": text, "tags": {text: text}}
    raw = check_record({"profile": "p", **fields, "created_at": 5}).item
    snapshot = EvalRecord(None, text, text, uid=text, tags={text: text}, created_ns=5).freeze()
    ours = check_record(json.loads(encode_record(RecordItem("p", *snapshot)) or b"")).item

    assert (raw.uid, raw.record_id, raw.session_id) == (form, form, form)
    assert (ours.uid, ours.record_id, ours.session_id) == (form, form, form)
    assert raw.tags == ours.tags == {form: tag_text(text)}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        pytest.param({"session_id": 42}, {"session_id": "42"}, id="number"),
        pytest.param({"record_id": 1.5}, {"record_id": "1.5"}, id="float"),
        pytest.param({"tags": {"turn": 3}}, {"tags": {"turn": "3"}}, id="number-as-a-tag"),
        pytest.param(
            {"tags": {str(n): "" for n in range(65)}},
            {"tags": {str(n): "" for n in range(63)} | {"scouter.truncated": "65 tags"}},
            id="too-many-tags",
        ),
    ],
)
def test_what_the_sdk_would_have_sent_is_stored(given: Any, stored: dict[str, Any]) -> None:
    item = check_record({"profile": "p", **given}).item
    assert {name: getattr(item, name) for name in stored} == stored


def test_records_meet_the_traces_that_name_their_session(start: Start, tmp_path: Path) -> None:
    """One record names the session itself, of the other one the trace does: one conversation."""
    path = tmp_path / "chat.json"
    path.write_text(
        json.dumps({"alias": "chat", "tasks": [
            {"id": "two", "task_type": "Assertion", "scope": "session",
             "context_path": "records", "operator": "HasLengthEqual", "expected_value": 2},
        ]})
    )  # fmt: skip
    service = start(profile=[str(path)], session_quiet_s=1)
    texts = {form: text for text, form in FORMS.values() if form}
    forms = {f"{n + 1:032x}": (text, form) for n, (form, text) in enumerate(texts.items())}
    spans = [
        span(1, trace_id=trace_id, attributes={"gen_ai.conversation.id": plain_text(text)})
        for trace_id, (text, _) in forms.items()
    ]
    request = encode_request(spans).SerializeToString()
    headers = {"Content-Type": "application/x-protobuf"}
    assert service.http.post("/v1/traces", content=request, headers=headers).status_code == 200
    records = [
        {"profile": "chat", "uid": uid + trace_id, **named}
        for trace_id, (text, _) in forms.items()
        for uid, named in (("own ", {"session_id": text}), ("its ", {"trace_id": trace_id}))
    ]
    body = json.dumps({"records": records})  # escapes what UTF-8 cannot carry
    outcome = service.http.post(
        "/v1/records", content=body, headers={"Content-Type": "application/json"}
    ).json()
    assert (outcome["accepted"], outcome["rejected"]) == (len(records), 0)

    def sessions() -> list[Any]:
        items = service.get("/api/v1/evaluations?limit=500")["items"]
        found = [item for item in items if item["scope"] == "session"]
        return found if len(found) == len(forms) else []

    found = wait_until(sessions, what="an evaluation on each session")
    assert {each["session_id"] for each in found} == {form for _, form in forms.values()}
    assert {each["outcome"] for each in found} == {"passed"}, "each has both records"
    for trace_id, (_, form) in forms.items():
        found = service.http.get("/api/v1/spans", params={"conversation_id": form}).json()["items"]
        assert trace_id in {each["trace_id"] for each in found}, form


def test_a_number_that_no_float_holds_is_refused(service: Service) -> None:
    """Whichever reader of JSON took it; the record beside it is taken."""
    besides = ('"plain"', '"\\ud83d\\ude00"', '"\\ud83d"')
    for n, (number, beside) in enumerate(itertools.product(("1e400", "-1e999"), besides)):
        bad = f'{{"profile": "answers", "context": {{"answer": [{number}], "x": {beside}}}}}'
        good = f'{{"profile": "answers", "record_id": "{n}", "context": {{"answer": 1e300}}}}'
        answer = service.http.post(
            "/v1/records",
            content=f'{{"records": [{bad}, {good}]}}',
            headers={"Content-Type": "application/json"},
        ).json()
        assert (answer["accepted"], answer["rejected"]) == (1, 1), (number, beside)
        assert "1e400; send it as text" in answer["errors"][0]["message"]


def test_half_a_character_is_repaired_wherever_it_stands(service: Service) -> None:
    bad = (
        '{"profile": "answers", "record_id": "r\\ud800", "session_id": "s\\udfff", '
        '"tags": {"k\\ud800": "v\\ud800"}, "context": {"answer\\ud800": ["\\ud800"]}}'
    )
    answer = service.http.post(
        "/v1/records",
        content=f'{{"records": [{bad}]}}',
        headers={"Content-Type": "application/json"},
    ).json()
    assert (answer["accepted"], answer["rejected"]) == (1, 0), answer
    item = check_record(json.loads(bad)).item
    assert (item.record_id, item.session_id) == ("r\ufffd", "s\ufffd")
    assert item.tags == {"k\ufffd": "v\ufffd"}


def test_a_context_that_is_too_deep_is_refused() -> None:
    context: Any = 1
    for _ in range(120):
        context = [context]
    with pytest.raises(DataError, match="100 levels"):
        check_record({"profile": "p", "context": context})


def test_the_digest_is_over_what_was_said() -> None:
    """The order of keys does not matter; everything else does, the uid apart."""
    base: dict[str, object] = {"profile": "p", "context": {"a": 1, "b": 2}, "tags": {"k": "v"}}
    digest = check_record(base).digest
    text = b'["p","","",null,null,{"a":1,"b":2},{"k":"v"}]'
    assert digest == sha256(text).hexdigest()  # stored ones are compared with those of new versions
    assert check_record({**base, "context": {"b": 2, "a": 1}}).digest == digest
    assert check_record({**base, "uid": "u", "trace_id": ""}).digest == digest
    others: list[dict[str, object]] = [
        {"profile": "q"}, {"context": {"a": 1, "b": "2"}}, {"tags": {}}, {"record_id": "r"},
        {"session_id": "s"}, {"trace_id": TRACE}, {"created_at": 1},
    ]  # fmt: skip
    digests = {check_record({**base, **other}).digest for other in others}
    assert len(digests) == len(others)
    assert digest not in digests


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-31t12:00:00z", 1_769_860_800_000_000_000),
        ("2026-01-31 12:00:00.5+00:00", 1_769_860_800_500_000_000),
        ("2026-01-31T12:00:00.123456789-01:30", 1_769_866_200_123_456_789),
        ("1769860800000000000", 1_769_860_800_000_000_000),
        (17, 17),
    ],
)
def test_times(text: int | str, ns: int) -> None:
    assert parse_time_ns(text) == ns


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-01-31", "2026-13-01T00:00:00Z", "2026-01-31T12:00:00", "-5", "٣",
     "1969-12-31T23:59:59Z", "9" * 19, "9" * 25],
)  # fmt: skip
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(DataError, match="no time"):
        parse_time_ns(text)


@given(st.integers(0, 2**62))
def test_times_are_written_to_the_microsecond(ns: int) -> None:
    assert parse_time_ns(format_time(ns)) == ns // 1000 * 1000


# --- rubbish ----------------------------------------------------------------------------------

_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
_fields = st.fixed_dictionaries(
    {},
    optional={
        name: _json | st.just("answers") | st.just(TRACE)
        for name in ("uid", "profile", "record_id", "session_id", "trace_id", "created_at",
                     "context", "tags")
    },
)  # fmt: skip


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(items=st.lists(_fields | _json, max_size=5), extra=_json)
def test_rubbish_gets_an_answer_and_never_5xx(
    service: Service, items: list[object], extra: object
) -> None:
    text = json.dumps({"records": items, "more": extra})
    answer = service.http.post(
        "/v1/records", content=text, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in (200, 400)
    if answer.status_code == 200:
        outcome = answer.json()
        assert outcome["accepted"] + outcome["duplicates"] + outcome["rejected"] == len(items)
    else:
        with pytest.raises(DataError):
            read_records_body(text.encode())


def _as_is(data: bytes) -> bytes:
    return data


def _compressed(data: bytes) -> bytes:
    return gzip.compress(data)


@pytest.mark.hypothesis  # it does not see what is inside of a test
@pytest.mark.parametrize("post", [_as_is, _compressed])
def test_random_bytes_never_5xx(untouched: Service, post: Callable[[bytes], bytes]) -> None:
    @settings(max_examples=examples(20), deadline=None)
    @given(st.binary(max_size=300))
    def check(data: bytes) -> None:
        for path in ("/v1/records", "/v1/traces"):
            for media in ("application/json", "application/x-protobuf", "x"):
                headers = {"Content-Type": media, "Content-Encoding": "gzip"}
                answer = untouched.http.post(path, content=post(data), headers=headers)
                assert answer.status_code in (200, 400, 415)

    check()


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("1764105055", 1764105055 * 10**9),
        ("1764105055.25", 1764105055_250_000_000),
        ("1764105055.1234567899", 1764105055_123_456_789),
        ("9223372036", 9223372036 * 10**9),
        ("9223372037", None),  # nanoseconds in 64 bits end in the year 2262
        ("1764105055123", 1764105055_123_000_000),
        ("1764105055123.5", 1764105055_123_500_000),
        ("1764105055123456", 1764105055_123_456_000),
        ("1764105055123456789", 1764105055_123_456_789),
        ("1764105055123456789.9", 1764105055_123_456_789),
        ("2025-11-25T21:10:55Z", 1764105055 * 10**9),
        ("-1", None),
        ("1e9", None),
        ("1764105055.", None),
        ("9" * 20, None),
        ("nan", None),
        ("١٢", None),
    ],
)
def test_a_number_in_a_question_is_of_the_unit_that_its_size_says(
    text: str, ns: int | None
) -> None:
    if ns is not None:
        assert parse_query_ns(text) == ns
        return
    with pytest.raises(DataError, match="no time"):
        parse_query_ns(text)
