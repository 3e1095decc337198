"""`/api/v1/dead-letters`: listed, and replayed once what was wrong is mended."""

import base64
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.items.record_items import json_bytes
from collector.log.port import Kind
from collector.receivers import replay as replay_module
from collector.receivers.budget import FullError
from collector.receivers.intake import Delivery
from collector.receivers.kafka.intake import KafkaIntake
from collector.receivers.message_servers.receiver import MessageReceiver
from collector.store.letters import LetterKind, LetterQuery, StoredLetter
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import TransientError
from scouter.model.otlp import encode_request
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import TRACE, span

URL = "/api/v1/dead-letters"
PROTOBUF = {"Content-Type": "application/x-protobuf"}
STATES = ("waiting", "evaluated", "skipped", "expired", "dead_lettered", "erased")


def replay(service: Service, letter_id: str) -> Any:
    answer = service.http.post(f"{URL}/{letter_id}/replay")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_letters_are_listed_by_reason_and_kind_page_by_page(start: Start) -> None:
    service = start()
    for n in range(5):
        service.send({"uid": f"bad {n}", "profile": 7})
        service.get(URL)  # waits for its commit: letters of one commit have no order
    request = encode_request([span(1)])
    request.resource_spans[0].scope_spans[0].spans[0].span_id = b"short"
    data = request.SerializeToString()
    service.http.post("/v1/traces", content=data, headers=PROTOBUF)

    (letter,) = service.get(URL, kind="span")["items"]
    assert (letter["reason"], letter["source"], letter["was_accepted"]) == (
        "invalid_span", "http", False,
    )  # fmt: skip
    assert "span id" in letter["message"]
    stored = letter["payload"].encode() or base64.b64decode(letter["payload_base64"])
    assert ExportTraceServiceRequest.FromString(stored).resource_spans[0].scope_spans == (
        request.resource_spans[0].scope_spans
    )

    uids: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(3):
        page = service.get(URL, reason="invalid_record", limit=2, **cursor)
        uids += [each["payload"] for each in page["items"]]
        cursor = {"cursor": page["next_cursor"]}
    assert [f'"bad {n}"' in text for n, text in zip((4, 3, 2, 1, 0), uids, strict=True)] == [
        True
    ] * 5
    assert cursor == {"cursor": None}


def test_few_letters_are_in_memory_at_a_time(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """40 letters, read 16 at most at a time; the pages hold each once."""
    service = start()
    service.send(*({"uid": f"bad {n}", "profile": 7} for n in range(40)))
    store, queries = service.collector.store, list[int]()
    read = store.dead_letters

    def watched(query: LetterQuery) -> list[StoredLetter]:
        queries.append(query.limit)
        return read(query)

    monkeypatch.setattr(store, "dead_letters", watched)
    for limit in (15, 16, 17, 39, 40, 1000):
        sizes, ids = list[int](), set[str]()
        page: Any = {"next_cursor": ""}
        while (cursor := page["next_cursor"]) is not None:
            page = service.get(URL, limit=limit, **({"cursor": cursor} if cursor else {}))
            sizes.append(len(page["items"]))
            ids |= {each["letter_id"] for each in page["items"]}
        whole, rest = divmod(40, limit)
        assert sizes == [limit] * whole + [rest] * bool(rest)
        assert (len(ids), max(queries)) == (40, 16)


@pytest.mark.parametrize("cursor", ["x", "MTIz", "é", "a" * 99])
def test_a_tampered_cursor(untouched: Service, cursor: str) -> None:
    assert untouched.http.get(URL, params={"cursor": cursor}).status_code == 400


def test_an_accepted_record_waits_again_and_is_judged(start: Start, answers: Path) -> None:
    """A record of a profile that nobody knew, until the collector is started with it."""
    service = start(deadline_s="100ms")
    service.send({"uid": "u1", "profile": "answers", "context": {"answer": 42}})
    service.wait_for(1, "dead_lettered")
    (letter,) = service.get(URL)["items"]
    assert (letter["reason"], letter["uid"], letter["was_accepted"]) == (
        "unknown_profile", "u1", True,
    )  # fmt: skip

    service = start(profile=[str(answers)])
    assert replay(service, letter["letter_id"])["result"] == "waiting"
    service.wait_for(1)
    records = service.get("/api/v1/conservation")["records"]
    assert records["accepted"] == sum(records[state] for state in STATES) == 1
    assert service.get(URL)["items"] == []
    assert service.http.post(f"{URL}/{letter['letter_id']}/replay").status_code == 404


def test_a_record_that_waits_again_survives_a_restart(start: Start, answers: Path) -> None:
    service = start(deadline_s="100ms")
    service.send({"uid": "u1", "profile": "answers", "context": {"answer": 42}})
    service.wait_for(1, "dead_lettered")
    (letter,) = service.get(URL)["items"]
    service = start(deadline_s="1h")
    assert replay(service, letter["letter_id"])["result"] == "waiting"
    assert AgentEvalProfile.from_file(str(answers)).alias == "answers"
    service = start(profile=[str(answers)])
    service.wait_for(1)


def test_a_span_beyond_a_limit_is_no_letter(start: Start) -> None:
    """Of 20 attributes where 10 are taken it keeps nine, and the mark."""
    service = start(max_attributes=10)
    wide = span(2, attributes={f"a{n}": n for n in range(20)})
    data = encode_request([span(1), wide]).SerializeToString()
    assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).status_code == 200
    assert service.get(URL)["items"] == []
    sheet = service.get("/api/v1/conservation")["spans"]
    assert (sheet["accepted"], sheet["stored"], sheet["dead_lettered"]) == (2, 2, 0)


def test_replay_by_filter_tells_of_each_and_leaves_what_is_still_refused(start: Start) -> None:
    service = start(deadline_s="60s")
    good = {"uid": "u1", "profile": "p", "context": 1}
    service.send(good, {**good, "context": 2}, {"profile": 7}, "rubbish")
    answer = service.http.post(f"{URL}/replay", params={"kind": "record"}).json()
    assert (answer["accepted"], answer["waiting"], answer["refused"]) == (0, 0, 3)
    assert all(item["message"] for item in answer["items"])
    assert service.get("/api/v1/conservation")["dead_letters"] == {
        "conflict": 1, "invalid_record": 2,
    }  # fmt: skip
    assert service.sample('scouter_dead_letters_total{reason="conflict",space="default"}') == 1


@pytest.mark.parametrize(
    ("fault", "status", "retry_after"),
    [(FullError("no room"), 429, "1"), (TransientError("no commit within 60 s", 5), 503, "5")],
)
def test_replay_by_filter_tells_what_was_done_before_a_fault(
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    fault: TransientError,
    status: int,
    retry_after: str,
) -> None:
    service = start()
    bodies = [b'{"uid": "u%d", "profile": "p"}' % n for n in range(5)]
    for each in bodies:
        service.put_letter(LetterKind.RECORD, each)
    replayed: list[str] = []
    replay_one = replay_module.LetterReplay.replay

    def replay_two(self: replay_module.LetterReplay, stored: StoredLetter) -> Any:
        if len(replayed) in (2, 3):  # the third letter, and it again
            replayed.append("")
            raise fault
        replayed.append(stored.letter_id)
        return replay_one(self, stored)

    monkeypatch.setattr(replay_module.LetterReplay, "replay", replay_two)
    first = service.http.post(f"{URL}/replay").json()
    assert [item["letter_id"] for item in first["items"]] == replayed[:2]
    full = service.http.post(f"{URL}/replay", params={"cursor": first["next_cursor"]})
    assert (full.status_code, full.headers["retry-after"]) == (status, retry_after)
    rest = service.http.post(f"{URL}/replay", params={"cursor": first["next_cursor"]}).json()
    assert (rest["accepted"], rest["next_cursor"]) == (3, None)
    # On a slow machine the records may have waited in vain for their profile by now.
    assert service.get(URL, reason="unstorable")["items"] == []


def test_replay_by_filter_tells_what_was_done_before_the_list_could_not_be_read(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read 16 letters at a time."""
    service = start()
    service.send(*({"uid": f"bad {n}", "profile": 7} for n in range(20)))
    store, queries = service.collector.store, list[LetterQuery]()
    read = store.dead_letters

    def busy(query: LetterQuery) -> list[StoredLetter]:
        if query.letter_id is None:  # else one is looked up
            queries.append(query)
            if len(queries) == 2:
                raise TransientError("too many readers", 5)
        return read(query)

    monkeypatch.setattr(store, "dead_letters", busy)
    first = service.http.post(f"{URL}/replay").json()
    assert first["refused"] == 16
    rest = service.http.post(f"{URL}/replay", params={"cursor": first["next_cursor"]}).json()
    assert (rest["refused"], rest["next_cursor"]) == (4, None)


def test_a_message_of_records_that_the_store_could_not_hold(start: Start) -> None:
    """As Redis and RabbitMQ bring it: the body of a request."""
    service = start()
    body = b'{"records": [{"uid": "u1", "profile": "p"}, {"uid": "u2", "profile": "p"}]}'
    service.put_letter(LetterKind.RECORDS_MESSAGE, body, source="redis:r:1-0")
    (item,) = service.get(URL)["items"]
    assert replay(service, item["letter_id"])["result"] == "accepted"
    assert service.collector.store.conservation("default").records.accepted == 2
    assert service.get(URL)["items"] == []


@pytest.mark.parametrize(("more", "result"), [(0, "accepted"), (1, "refused")])
def test_a_letter_is_replayed_if_all_of_it_was_stored(start: Start, more: int, result: str) -> None:
    """A mebibyte is stored, of whatever is larger."""
    service = start()
    frame = b'{"uid": "u1", "profile": "p", "context": ""}'
    body = frame.replace(b'""', b'"' + b"x" * (2**20 - len(frame) + more) + b'"')
    assert len(body) == 2**20 + more
    service.put_letter(LetterKind.RECORD, body)
    (item,) = service.get(URL)["items"]
    answer = replay(service, item["letter_id"])
    assert answer["result"] == result
    assert service.collector.store.conservation("default").records.accepted == 1 - more
    assert more == 0 or "first 1048576 bytes" in answer["message"]


def test_a_large_message_of_a_broker_is_stored_whole_and_replayed(start: Start) -> None:
    """No sender is left to send it again; in HTTP's place the request would be refused."""
    service = start(max_items=1)
    ingest = service.collector.ingest
    records = [{"uid": f"u{n}", "profile": "p", "context": "x" * 2**20} for n in range(2)]
    data = json.dumps({"records": records}).encode()
    receiver = Silent("redis", "nowhere", ingest)
    message = Delivery(kind=Kind.RECORDS, data=data, source="redis:r:1-0")
    assert receiver.store([message])
    item = {**records[0], "trace_id": "?"}
    kafka = SimpleNamespace(topic="r", partition=0, offset=7, headers=(), value=json_bytes(item))
    intake = KafkaIntake(ingest, "s", threading.Event())
    intake.take([kafka])
    intake.finish()

    one, whole = service.get(URL)["items"]
    assert (whole["kind"], whole["reason"]) == ("records_message", "invalid_message")
    assert (whole["size_bytes"], whole["payload"]) == (len(data), data[: 64 * 2**10].decode())
    assert (one["kind"], one["reason"]) == ("records_message", "invalid_record")
    assert one["size_bytes"] == len(kafka.value)
    assert "bytes are stored" not in one["message"] + whole["message"]
    service = start(max_items=2)
    assert replay(service, whole["letter_id"])["result"] == "accepted"
    assert service.collector.store.conservation("default").records.accepted == 2


def test_many_large_letters_are_listed_erased_and_replayed(start: Start) -> None:
    """Six of them are more than the store may hold in memory at a time."""
    service = start()
    for n in range(6):
        noise = os.urandom(3 * 2**19).hex()  # it cannot be compressed
        records = [{"uid": f"u{n}-{m}", "profile": "p", "context": noise} for m in range(4)]
        body = json.dumps({"records": records}).encode()
        service.put_letter(LetterKind.RECORDS_MESSAGE, body, source="redis")
        service.put_letter(LetterKind.RECORD, b"{%d" % n, source="redis")
    items = service.get(URL)["items"]
    assert [item["size_bytes"] > 2**23 for item in items].count(True) == 6
    assert len(items) == 12
    gone = service.http.post("/api/v1/erase", json={"record_uid": "u3-1"})
    assert gone.status_code == 200, gone.text
    answer = service.http.post(f"{URL}/replay", params={"kind": "records_message"}).json()
    assert (answer["accepted"], answer["refused"]) == (5, 0), answer["items"][0]


class Silent(MessageReceiver):
    """Reads from nowhere."""

    def consume(self) -> None:
        raise AssertionError


def test_a_commit_that_takes_too_long_may_be_tried_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start()
    service.put_letter(LetterKind.RECORD, b'{"uid": "u1", "profile": "p"}')
    (item,) = service.get(URL)["items"]

    def never(offset: int, timeout_s: float) -> bool:
        del offset, timeout_s
        return False

    monkeypatch.setattr(service.collector.worker, "wait_for", never)
    answer = service.http.post(f"{URL}/{item['letter_id']}/replay")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "not stored within 60 s" in answer.text


@pytest.mark.parametrize("is_reopened", [False, True])
def test_what_was_refused_of_something_erased_does_not_come_back(
    start: Start, is_reopened: bool
) -> None:
    """Both batches come again as a sender's spool sends them; another trace's letter stays."""
    service = start(deadline_s="1h")  # or the waiting record is a letter of its own

    def batch(trace_id: str) -> bytes:
        request = encode_request([span(1, trace_id=trace_id), span(2, trace_id=trace_id)])
        request.resource_spans[0].scope_spans[0].spans[1].end_time_unix_nano = 2**64 - 1
        return request.SerializeToString()

    def send() -> None:
        for trace_id in (TRACE, "9" * 32):
            data = batch(trace_id)
            assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success
        service.send({"uid": "u1", "profile": 7, "context": "secret"}, {"uid": "u2", "profile": 7})

    service.send({"uid": "u1", "profile": "answers"})
    send()
    assert len(service.get(URL)["items"]) == 4
    for target in ({"trace_id": TRACE}, {"record_uid": "u1"}, {"record_uid": "u2"}):
        assert service.http.post("/api/v1/erase", json=target).json()["dead_letters"] == 1
    if is_reopened:
        service = start(deadline_s="1h")
    send()

    (letter,) = service.get(URL)["items"]
    assert letter["kind"] == "span"
    payload = base64.b64decode(letter["payload_base64"])
    assert bytes.fromhex("9" * 32) in payload
    sheet = service.get("/api/v1/conservation")
    assert sheet["spans"] == {
        "accepted": 2, "stored": 1, "expired": 0, "erased": 1, "lost": 0, "duplicates": 3,
        "late": 0, "dead_lettered": 1,
    }  # fmt: skip
    records = sheet["records"]
    assert (records["accepted"], records["erased"], records["duplicates"]) == (1, 1, 2)
