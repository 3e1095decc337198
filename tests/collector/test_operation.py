"""Erasing and backups over HTTP, on a running collector."""

import json
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from collector.care.check import check_data
from collector.receivers.replay import LetterReplay, ReplayResult
from collector.store.letters import DeadLetter, LetterKind, LetterQuery
from scouter.model.otlp import encode_request
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import TRACE, span
from tests.support.files import files_with
from tests.support.processes import wait_until

SECRET = "nobody may keep this sentence"


def send_span(service: Service, number: int, trace_id: str = TRACE, text: str = "") -> None:
    request = encode_request([span(number, trace_id=trace_id, attributes={"prompt": text})])
    head = {"Content-Type": "application/x-protobuf"}
    body = request.SerializeToString()
    answer = service.http.post("/v1/traces", headers=head, content=body)
    assert answer.status_code == 200, answer.text


def erase(service: Service, **target: object) -> Any:
    answer = service.http.post("/api/v1/erase", json=target)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_session_goes_with_its_trace_and_its_letters(
    start: Start, answers: Path, tmp_path: Path
) -> None:
    """Two records of s1 (one judged, one that waits for a profile), a span and a refused record."""
    service = start(profile=(str(answers),), deadline_s="1h")
    item = {"profile": "answers", "session_id": "s1", "context": {"answer": 42, "q": SECRET}}
    service.send({**item, "uid": "u1", "trace_id": TRACE})
    service.send({**item, "uid": "u2", "profile": "nobody"})
    service.send({"uid": "u3", "profile": "answers", "session_id": "s2", "context": {"answer": 42}})
    service.http.post("/v1/records", json={"records": [{"session_id": "s1", "oh": SECRET}]})
    send_span(service, 1, text=SECRET)
    send_span(service, 2, "f" * 32, text="stays")
    service.wait_for(2)
    assert service.sample("scouter_records_waiting") == 1

    done = erase(service, session_id="s1")

    assert done == {
        "records": 2, "spans": 1, "evaluations": 1, "dead_letters": 1, "runs": 0, "is_gone": False,
        "backups": [],
    }  # fmt: skip
    assert service.sample("scouter_records_waiting") == 0, "memory has forgotten it"
    records = service.get("/api/v1/conservation")["records"]
    assert (records["accepted"], records["erased"], records["evaluated"]) == (3, 2, 1)
    assert service.get("/api/v1/dead-letters")["items"] == []
    assert service.http.get(f"/api/v1/traces/{TRACE}").status_code == 404
    assert len(service.get(f"/api/v1/traces/{'f' * 32}")["spans"]) == 1
    wait_until(lambda: not files_with(tmp_path / "data", SECRET.encode()), what="bytes that go")
    assert erase(service, session_id="s1")["is_gone"] is True

    service.send({**item, "uid": "u1", "trace_id": TRACE})
    send_span(service, 1, text=SECRET)
    send_span(service, 3, text=SECRET)
    service.collector.worker.catch_up()
    again = service.get("/api/v1/conservation")
    assert again["records"] == records | {"duplicates": 1}
    assert again["spans"]["duplicates"] == 2
    service.collector.housekeeping.tidy()  # what came again is in the log until it is cut
    service.stop()
    assert files_with(tmp_path / "data", SECRET.encode()) == []


def test_a_record_that_waits_for_its_trace_is_never_judged(start: Start, traced: Path) -> None:
    """It waits with a span in memory; the other record of the trace is judged by what is there."""
    service = start(profile=(str(traced),), deadline_s="1h", quiet_s="2s")
    head: dict[str, object] = {"profile": "traced", "trace_id": TRACE, "context": {}}
    service.send({**head, "uid": "u1"}, {**head, "uid": "u2"})
    body = encode_request([span(1, parent_span_id="f" * 16)]).SerializeToString()
    service.http.post(
        "/v1/traces", content=body, headers={"Content-Type": "application/x-protobuf"}
    )
    assert erase(service, record_uid="u1")["records"] == 1
    service.wait_for(1)
    (item,) = service.get("/api/v1/evaluations")["items"]
    assert item["uid"] == "u2"
    assert service.get("/api/v1/conservation")["records"]["erased"] == 1


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"session_id": "a", "record_uid": "b"}, id="two"),
        pytest.param({"trace_id": "xyz"}, id="no-trace-id"),
        pytest.param({"session_id": ""}, id="empty"),
        pytest.param({"tag": {"key": "k"}}, id="half-a-tag"),
        pytest.param({"space": "other", "session_id": "a"}, id="a-space"),
    ],
)
def test_what_cannot_be_erased(untouched: Service, body: object) -> None:
    assert untouched.http.post("/api/v1/erase", json=body).status_code == 400


def test_a_trace_is_named_in_either_case(start: Start) -> None:
    """A text that is no id of a trace is refused with the form of one."""
    service = start()
    send_span(service, 1, "ab" * 16)
    assert erase(service, trace_id="AB" * 16)["spans"] == 1
    for text in ("zz", "a" * 31, "0" * 32, ""):
        answer = service.http.post("/api/v1/erase", json={"trace_id": text})
        assert answer.status_code == 400
        assert answer.json()["detail"] == "trace_id: expected 32 hex digits, not all zero"


def test_backups_are_named_until_they_are_removed(start: Start, tmp_path: Path) -> None:
    """Also one made before the record was stored; and again if somebody asks again."""
    service = start(backups=tmp_path / "backups")

    def back_up(name: str) -> Any:
        return service.http.post("/api/v1/backup", json={"folder": name})

    assert back_up("before").status_code == 201
    service.send({"uid": "u1", "profile": "later", "session_id": "s1", "context": SECRET})
    made = back_up("after")
    assert made.status_code == 201, made.text
    assert made.json()["path"] == str(tmp_path / "backups" / "after")
    listed = (tmp_path / "data" / "backups.json").read_bytes()
    assert back_up("after").status_code == 409
    assert (tmp_path / "data" / "backups.json").read_bytes() == listed
    back_up("removed")
    for each in sorted((tmp_path / "backups" / "removed").rglob("*"), reverse=True):
        each.rmdir() if each.is_dir() else each.unlink()
    (tmp_path / "backups" / "removed").rmdir()
    for records in (1, 0):
        done = erase(service, record_uid="u1")
        assert done["records"] == records
        assert [Path(each["path"]).name for each in done["backups"]] == ["before", "after"]
    assert not (tmp_path / "backups" / "after" / "access.db").exists(), "there is no token"


def test_nothing_is_erased_while_the_backups_are_not_known(start: Start, tmp_path: Path) -> None:
    service = start(backups=tmp_path / "backups", deadline_s="1h")  # it waits for its profile
    service.send({"uid": "u1", "profile": "later", "session_id": "s1"})
    (tmp_path / "data" / "backups.json").write_text("[")
    for path, body in (("erase", {"session_id": "s1"}), ("backup", {"folder": "new"})):
        refused = service.http.post(f"/api/v1/{path}", json=body)
        assert (refused.status_code, "backups.json cannot be read" in refused.text) == (409, True)
    assert service.get("/api/v1/conservation")["records"]["waiting"] == 1
    assert not (tmp_path / "backups" / "new").exists()


def test_what_came_earlier_in_another_form_is_in_a_backup_that_is_named(
    start: Start, answers: Path, tmp_path: Path
) -> None:
    """A span before its better version took its place, and a letter before it was replayed."""
    service = start(backups=tmp_path / "backups", profile=(str(answers),))
    unfinished = replace(span(1, attributes={"prompt": SECRET}), end_ns=0)
    body = encode_request([unfinished]).SerializeToString()
    head = {"Content-Type": "application/x-protobuf"}
    assert service.http.post("/v1/traces", headers=head, content=body).status_code == 200
    assert service.http.post("/api/v1/backup", json={"folder": "span"}).status_code == 201
    assert files_with(tmp_path / "backups", SECRET.encode()) != []
    send_span(service, 1, text=SECRET)
    done = erase(service, trace_id=TRACE)
    assert (done["spans"], [Path(each["path"]).name for each in done["backups"]]) == (1, ["span"])

    item = {"uid": "u1", "profile": "answers", "session_id": "s1", "context": {"answer": SECRET}}
    service.put_letter(LetterKind.RECORD, json.dumps(item).encode(), "invalid_record")
    assert service.http.post("/api/v1/backup", json={"folder": "letter"}).status_code == 201
    assert service.http.post("/api/v1/dead-letters/replay").json()["accepted"] == 1
    done = erase(service, session_id="s1")
    assert done["records"] == 1
    assert [Path(each["path"]).name for each in done["backups"]] == ["span", "letter"]


@pytest.mark.parametrize("is_taken_first", [False, True])
def test_a_letter_that_is_erased_while_it_is_replayed_does_not_come_back(
    start: Start, answers: Path, monkeypatch: pytest.MonkeyPatch, *, is_taken_first: bool
) -> None:
    """It was read; then the erasure comes before its content is taken, or while it is."""
    service = start(profile=(str(answers),))
    store, worker = service.collector.store, service.collector.worker
    ingest, space = service.collector.ingest, service.collector.settings.space
    item = {"uid": "u1", "profile": "answers", "session_id": "s1", "context": {"answer": SECRET}}
    service.put_letter(LetterKind.RECORD, json.dumps(item).encode(), "invalid_record")
    (stored,) = store.dead_letters(LetterQuery(space=space))
    take = LetterReplay._take  # pyright: ignore[reportPrivateUsage]
    with ThreadPoolExecutor(1) as pool:
        if is_taken_first:

            def slow(replayer: LetterReplay, taken: DeadLetter) -> dict[str, str]:
                erased.append(pool.submit(erase, service, session_id="s1"))
                wait(erased, 0.5)
                return take(replayer, taken)

            monkeypatch.setattr(LetterReplay, "_take", slow)
            erased: list[Future[Any]] = []
        else:
            erased = [pool.submit(erase, service, session_id="s1")]
            wait(erased)
        done = LetterReplay(store, ingest, worker, space).replay(stored)
    gone = erased[0].result()
    assert gone["records"] == is_taken_first
    assert is_taken_first or (gone["dead_letters"], done.result) == (1, ReplayResult.REFUSED)
    assert done.result is ReplayResult.ACCEPTED or "erased" in done.message
    assert store.records_of(space, ["u1"]) == []
    assert store.dead_letters(LetterQuery(space=space)) == []


def test_a_backup_made_after_an_erasure_has_nothing_of_it(start: Start, tmp_path: Path) -> None:
    """Although files of the data folder still have."""
    service = start(backups=tmp_path / "backups")
    send_span(service, 1, text=SECRET)
    send_span(service, 2, "f" * 32, text="stays")
    assert erase(service, trace_id=TRACE)["is_gone"] is False
    assert service.http.post("/api/v1/backup", json={"folder": "b"}).status_code == 201
    assert files_with(tmp_path / "backups", SECRET.encode()) == []
    assert files_with(tmp_path / "backups", b"stays") != []


def test_two_backups_at_once(start: Start, tmp_path: Path) -> None:
    """Both are whole, and both are listed."""
    service = start(backups=tmp_path / "backups")
    send_span(service, 1)
    # else it may still be in a backup's log
    wait_until(lambda: service.http.get(f"/api/v1/traces/{TRACE}").is_success, what="it is stored")
    names = ["a", "b", "c", "d"]

    def back_up(name: str) -> int:
        return service.http.post("/api/v1/backup", json={"folder": name}).status_code

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(back_up, names)) == [201] * 4
    for name in names:
        report = check_data(tmp_path / "backups" / name)
        assert (report.spans, report.problems) == (1, [])
    listed = erase(service, trace_id=TRACE)["backups"]
    assert {Path(each["path"]).name for each in listed} == set(names)


def test_a_backup_stays_below_its_folder(start: Start, tmp_path: Path) -> None:
    service = start(backups=tmp_path / "backups")
    for name in ("..", "../x", "/etc/x", "a/b", ".hidden", "", "a\x00b"):
        answer = service.http.post("/api/v1/backup", json={"folder": name})
        assert answer.status_code in (400, 409), (name, answer.text)
        assert not (tmp_path / "backups").exists(), name


def test_the_size_and_its_bounds_are_shown(start: Start) -> None:
    service = start(retention_days=2, max_store_bytes=10**9)
    assert service.sample("scouter_store_retention_seconds") == 172_800
    assert service.sample("scouter_store_size_limit_bytes") == 1e9
    assert service.sample("scouter_store_oldest_timestamp_seconds") == 0
    before = time.time()
    service.send({"uid": "u1", "profile": "later"})
    service.wait_for(1, "waiting")
    oldest = service.sample("scouter_store_oldest_timestamp_seconds")
    assert oldest is not None
    assert before - 0.001 <= oldest <= time.time()
    assert (service.sample("scouter_store_size_bytes") or 0) > 0


def test_other_spaces_learn_of_backups_without_their_places(start: Start, tmp_path: Path) -> None:
    """Their number, names and times; the collector's own space also learns their places."""
    tokens = TokenFile(tmp_path / "data")
    own, foreign = (
        {"Authorization": f"Bearer {tokens.create('', Scope, space)[1]}"}
        for space in ("default", "bank")
    )
    service = start(backups=tmp_path / "backups")

    def ask(path: str, body: object, who: dict[str, str]) -> Any:
        return service.http.post(f"/api/v1/{path}", json=body, headers=who)

    assert ask("backup", {"folder": "monday"}, own).status_code == 201
    target = {"session_id": "s1"}
    assert len(TokenFile(tmp_path / "backups" / "monday").all()) == 2
    (backup,) = ask("erase", target, own).json()["backups"]
    assert backup["path"] == str(tmp_path / "backups" / "monday")
    answer = ask("erase", target, foreign)
    assert answer.json()["backups"] == [{**backup, "name": "monday", "path": None}]
    assert str(tmp_path) not in answer.text
    (tmp_path / "data" / "backups.json").write_text("nonsense")
    for who, is_shown in ((own, True), (foreign, False)):
        answer = ask("erase", target, who)
        assert answer.status_code == 409
        assert (str(tmp_path) in answer.text) is is_shown, answer.text


def test_without_a_folder_for_them_no_request_makes_a_backup(start: Start) -> None:
    answer = start().http.post("/api/v1/backup", json={"folder": "a"})
    assert (answer.status_code, "--backups" in answer.json()["detail"]) == (409, True)


def test_a_token_erases_in_its_own_space_only(start: Start, tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "data")
    head = {
        space: {"Authorization": f"Bearer {tokens.create('', Scope, space)[1]}"}
        for space in ("shop", "bank")
    }
    service = start()
    for space in head:
        sent = {"records": [{"uid": "u1", "profile": "p", "session_id": "s1", "context": space}]}
        assert service.http.post("/v1/records", json=sent, headers=head[space]).status_code == 200
    target = {"session_id": "s1"}
    done = service.http.post("/api/v1/erase", json=target, headers=head["shop"]).json()
    assert done["records"] == 1
    sheet = service.http.get("/api/v1/conservation", headers=head["bank"]).json()["records"]
    assert (sheet["accepted"], sheet["erased"]) == (1, 0)
