"""A collector with something on each view: healthy, failing, waiting, and hostile records."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.otlp import encode_request
from scouter.model.span import Span, StatusCode
from tests.collector.conftest import Service, save_answers
from tests.support.browser import kept_browser
from tests.support.served import serve

HOSTILE: Final = [
    line.encode().decode("unicode_escape")
    for line in (Path(__file__).parents[2] / "cases" / "hostile.txt")
    .read_text(encoding="utf-8")
    .splitlines()
    if line and not line.startswith("#")
]
PROTOBUF: Final = {"Content-Type": "application/x-protobuf"}


@dataclass
class Shown:
    """A collector and the addresses of its views."""

    service: Service
    url: str
    addresses: list[str]


def trace_of(number: int) -> str:
    """The trace of a text of `HOSTILE`; 0 is that of a plain one."""
    return f"{number + 1:032x}"


def send_text(service: Service, number: int, text: str) -> None:
    """Send a trace and a record with one text in every place that a sender fills."""
    attributes = {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": text, "gen_ai.agent.name": text,
        text or "empty": text,
        "gen_ai.output.messages": f'[{{"role": "assistant", "content": {json.dumps(text)}}}]',
    }  # fmt: skip
    tool = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": text,
        "gen_ai.tool.call.arguments": json.dumps({text or "empty": text}),
    }  # fmt: skip
    spans = [
        Span(trace_id=trace_of(number), span_id=f"{1:016x}", name=text, start_ns=0,
             end_ns=10**9, attributes=attributes),
        Span(trace_id=trace_of(number), span_id=f"{2:016x}", parent_span_id=f"{1:016x}",
             name=text, start_ns=10**8, end_ns=10**9, attributes=tool, status=StatusCode.ERROR,
             status_message=text),
    ]  # fmt: skip
    data = encode_request(spans).SerializeToString()
    assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success
    record = {
        "uid": f"u{number}", "profile": "answers", "trace_id": trace_of(number),
        "context": {"answer": text, text or "empty": [text]},
    }  # fmt: skip
    service.send(record)


def register_texts(service: Service) -> None:
    """Register a profile, which is not active, with each text in every place that it has."""
    tasks = [
        AssertionTask(f"t{at}", expected_value=text, operator="Equals", description=text,
                      depends_on=["t0"] if at else [])
        for at, text in enumerate(filter(is_utf8, HOSTILE))
    ]  # fmt: skip
    body = AgentEvalProfile(
        tasks, alias="hostile", description="".join(filter(is_utf8, HOSTILE[:9]))
    )
    headers = {"Content-Type": "application/json"}
    answer = service.http.post("/api/v1/profiles", content=body.model_dump_json(), headers=headers)
    assert answer.is_success, answer.text


def is_utf8(text: str) -> bool:
    """Tell whether a text has no half surrogates, which no profile has."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


@pytest.fixture(scope="module", autouse=True)
def one_browser() -> Iterator[None]:
    """Pages of a module's tests are of one browser."""
    with kept_browser():
        yield


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """A collector with each text of `HOSTILE`, served on a port of its own."""
    folder = tmp_path_factory.mktemp("page")
    service = Service(folder, profile=[str(save_answers(folder))])
    for number, text in enumerate(["plain", *HOSTILE]):
        send_text(service, number, text)
    register_texts(service)
    service.send({"uid": "good", "profile": "answers", "context": {"answer": 42}})
    service.wait_for(len(HOSTILE) + 2)
    addresses = [
        "/", "/?range=1h", "/task?profile=answers&task=right", "/profile?profile=answers",
        "/profile/tasks?profile=hostile", "/task?profile=hostile&task=t0", "/evaluations",
        "/records", "/traces", "/conversations", "/records?text=%3C", "/traces?text=%3C&since=1",
        "/conversations?text=%3C", "/alerts", "/health", "/login", "/records/none",
        "/facets/evaluations", "/facets/records", "/facets/traces", "/facets/conversations",
        *(f"/records/u{number}" for number in range(len(HOSTILE) + 1)),
        *(f"/conversations/u{number}" for number in range(len(HOSTILE) + 1)),
        *(f"/traces/{trace_of(number)}?span={2:016x}" for number in range(len(HOSTILE) + 1)),
    ]  # fmt: skip
    with serve(service.collector.app) as url:
        yield Shown(service, url, addresses)
    service.stop()
