"""The receivers of HTTP, Kafka and message servers before a log: answered once it is synced."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from kafka.structs import TopicPartition
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from collector.access.caller import ALL_SCOPES, CALLER, Caller
from collector.log.brokers import Brokers
from collector.log.port import Kind
from collector.receivers.http.receiver import HttpReceiver, give_receiver, ingest
from collector.receivers.intake import Intake
from collector.receivers.kafka.intake import KafkaIntake
from collector.receivers.message_servers.receiver import Message, MessageReceiver
from collector.receivers.telemetry import IngestTelemetry
from scouter.model.otlp import encode_request
from tests.support.worker_room import SPACE, WorkerRoom, record, span, stored_span_ids

PROTOBUF: Final = {"Content-Type": "application/x-protobuf"}
DATA: Final = encode_request([span(0, 0)]).SerializeToString()
RECORD: Final = record("u1", "nobody", answer=42)


class LetIn:
    """Lets everybody in."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        scope[CALLER] = Caller(space=SPACE, scopes=ALL_SCOPES)
        await self._app(scope, receive, send)


class Room:
    """A way in, and the receiver of HTTP on it."""

    def __init__(self, folder: Path, **given: Any) -> None:
        self.room = WorkerRoom(folder, {})
        self.way = Intake(
            self.room.log, self.room.store, folder, space="other", brokers=Brokers(), **given
        )
        self.spaced = self.way.in_space(SPACE)
        app = FastAPI()
        app.include_router(ingest)
        telemetry = IngestTelemetry(CollectorRegistry(), lambda: self.way.budget.used)
        give_receiver(app, HttpReceiver(self.way, telemetry))
        app.add_middleware(LetIn)
        self.http = TestClient(app)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path)
    with room.http:
        yield room
    room.room.close()


def test_http(here: Room) -> None:
    """In the space of the token, with the count of what was refused."""
    bad = encode_request([span(1, 0)])
    bad.resource_spans[0].scope_spans[0].spans[0].span_id = b"x"
    for data, refused in ((DATA, 0), (bad.SerializeToString(), 1)):
        answer = here.http.post("/v1/traces", content=data, headers=PROTOBUF)
        outcome = ExportTraceServiceResponse.FromString(answer.content).partial_success
        assert (answer.status_code, outcome.rejected_spans) == (200, refused)
    headers = {"Scouter-Dropped": "full=3"}
    answer = here.http.post("/v1/records", json={"records": [RECORD, RECORD, 7]}, headers=headers)
    outcome = answer.json()
    assert (outcome["accepted"], outcome["duplicates"], outcome["rejected"]) == (1, 1, 1)
    kinds = [each.item.kind for each in here.room.log.read(0, 2**20).entries]
    assert kinds == [Kind.SPANS, Kind.SPANS, Kind.RECORDS, Kind.DROPS]
    here.room.work()
    assert (len(stored_span_ids(here.room, 0)), here.room.count("records")) == (1, 1)
    assert here.http.post("/v1/traces", content=b"\xff", headers=PROTOBUF).status_code == 400


def test_http_where_nothing_can_be_taken(tmp_path: Path) -> None:
    """429 while too much waits for the worker; 503 while the log cannot be written."""
    here = Room(tmp_path, max_behind=10)
    with here.http:
        for status in (200, 429):
            answer = here.http.post("/v1/traces", content=DATA, headers=PROTOBUF)
            assert answer.status_code == status
        here.room.work()
        here.room.log.close()
        answer = here.http.post("/v1/traces", content=DATA, headers=PROTOBUF)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    here.room.close()


def test_kafka(here: Room) -> None:
    """Offsets may be committed once the messages are in the log."""
    intake = KafkaIntake(here.spaced, "spans", threading.Event(), logs_topic="logs")
    values = [("spans", DATA), ("records", json.dumps(RECORD).encode()), ("logs", b"\xff")]
    messages: list[Any] = [
        SimpleNamespace(topic=topic, partition=0, offset=7, value=value, headers=())
        for topic, value in values
    ]
    intake.take(messages)
    intake.finish()
    assert intake.durable_offsets() == {
        TopicPartition(topic, 0): 8 for topic in ("spans", "records", "logs")
    }
    here.room.work()
    assert (len(stored_span_ids(here.room, 0)), here.room.count("records")) == (1, 1)
    assert here.room.letters() == [("invalid_message", "")]


class Silent(MessageReceiver):
    """Is only called to store."""

    def consume(self) -> None:
        raise NotImplementedError


def test_message_servers(here: Room) -> None:
    receiver = Silent("redis", "nowhere", here.spaced)
    body = json.dumps({"records": [RECORD]}).encode()
    messages = [
        Message(is_spans=True, data=DATA, dropped="", source="redis:spans:1-0"),
        Message(is_spans=False, data=body, dropped="full=2", source="redis:records:1-0"),
    ]
    assert receiver.store(messages)
    here.room.work()
    assert (len(stored_span_ids(here.room, 0)), here.room.count("records")) == (1, 1)
