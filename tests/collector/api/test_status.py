"""`/api/v1/status`, and the view of it."""

import html
from pathlib import Path
from typing import Any

import pytest

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from scouter.model.otlp import encode_request
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import span

SPACE = "default"
PROTOBUF = {"Content-Type": "application/x-protobuf"}


def shown(service: Service, **more: Any) -> str:
    answer = service.http.get("/health", **more)
    assert answer.is_success, answer.text
    return " ".join(html.unescape(answer.text).split())


def test_the_state_of_store_work_and_receivers(start: Start, answers: Path) -> None:
    service = start(profile=[str(answers)], retention_days=3, max_store_bytes=2 * 10**9)
    empty = service.get("/api/v1/status")
    assert empty["store"]["oldest_at"] is None
    assert (empty["receivers"], empty["tokens"], empty["token_id"]) == ([], [], "")

    data = encode_request([span(1)]).SerializeToString()
    assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success
    assert service.http.post("/v1/traces", content=b"\xff", headers=PROTOBUF).is_client_error
    service.send({"uid": "a", "profile": "answers", "context": {"answer": 42}})
    service.send({"uid": "b", "profile": "later", "context": {}})
    service.wait_for(1)
    found = service.get("/api/v1/status")
    assert set(found["scopes"]) == set(Scope)
    assert found["store"]["size_bytes"] > 0
    assert (found["store"]["retention_s"], found["store"]["limit_bytes"]) == (3 * 86_400, 2 * 10**9)
    assert found["store"]["oldest_at"] is not None
    assert found["lag"]["records_waiting"] == 1
    assert found["lag"]["brokers_s"] == {}
    by_signal = {(each["receiver"], each["signal"]): each for each in found["receivers"]}
    traces = by_signal["http", "traces"]
    assert traces["size_bytes"] >= len(data)
    assert sum(traces["refused"].values()) == 1
    assert by_signal["http", "records"]["requests"] == 2

    text = shown(service)
    for wanted in ("Store: ", "3 days", "2.0 GB", "records waiting", "http", "There is no token"):
        assert wanted in text


def test_a_token_shows_what_its_space_and_scopes_open(start: Start, tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "data")
    own, own_text = tokens.create("ada", [Scope.READ, Scope.ADMIN], SPACE)
    reader = tokens.create("reader", [Scope.READ], SPACE)[1]
    foreign, foreign_text = tokens.create("eve", [Scope.READ, Scope.ADMIN], "bank")
    gone, _ = tokens.create("gone", [Scope.READ], SPACE)
    tokens.revoke(gone.id)
    service = start()

    def status(token: str) -> Any:
        return service.http.get(
            "/api/v1/status", headers={"Authorization": f"Bearer {token}"}
        ).json()

    everything = status(own_text)
    assert everything["token_id"] == own.id
    assert [each["name"] for each in everything["tokens"]] == ["ada", "reader", "eve"]
    assert own_text[-20:] not in str(everything)
    assert status(reader)["tokens"] is None
    assert status(reader)["store"] is not None
    other = status(foreign_text)
    assert (other["space"], other["store"], other["lag"], other["receivers"]) == (
        "bank", None, None, None,
    )  # fmt: skip
    assert [each["token_id"] for each in other["tokens"]] == [foreign.id]
    text = shown(service, headers={"Authorization": f"Bearer {reader}"})
    assert "Receivers" in text
    assert "ada" not in text


def test_a_dead_letter_is_taken_in_again_from_the_page(start: Start, answers: Path) -> None:
    """Two records of a profile that nobody knew, until the collector is started with it."""
    service = start(deadline_s="100ms")
    for uid in ("a", "b"):
        service.send({"uid": uid, "profile": "answers", "context": {"answer": 42}})
    service.wait_for(2, "dead_lettered")
    assert "Take in again" in shown(service)
    letter, _ = service.get("/api/v1/dead-letters")["items"]

    service = start(profile=[str(answers)])
    one = service.http.post("/health/replay", data={"letter_id": letter["letter_id"]})
    assert "Waiting again to be evaluated: 1" in one.text
    service.wait_for(1)
    rest = service.http.post("/health/replay", data={})
    assert "Waiting again to be evaluated: 1" in rest.text
    service.wait_for(2)
    text = shown(service, params={"accepted": "<b>", "waiting": "1", "refused": "0"})
    assert "There are none" in text
    assert "Taken in again" not in text


@pytest.mark.parametrize("letter_id", ["none", "../../erase"])
def test_an_unknown_letter_is_reported(start: Start, letter_id: str) -> None:
    answer = start().http.post("/health/replay", data={"letter_id": letter_id})
    assert answer.status_code == 404
