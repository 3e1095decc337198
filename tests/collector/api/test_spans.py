"""Spans, traces and the use of models over HTTP."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from collector.api.spans import read_span_cursor, write_span_cursor
from collector.problem import ProblemError
from collector.store.span_queries import SpanPosition
from scouter.model.otlp import encode_request
from scouter.model.span import AttributeValue, Resource, Span, SpanEvent, SpanKind, StatusCode
from tests.collector.conftest import Service, Start, save_traced
from tests.contracts.store_data import TRACE, span

_MS = 10**6
_START = 1_700_000_000 * 10**9
"""2023-11-14T22:13:20Z."""


def sent(service: Service, *spans: Span) -> None:
    answer = service.http.post(
        "/v1/traces",
        content=encode_request(spans).SerializeToString(),
        headers={"content-type": "application/x-protobuf"},
    )
    assert answer.status_code == 200, answer.text


def trace(number: int, model: str = "gpt-4o") -> list[Span]:
    """An agent that calls a model (100 ms, 1,000 tokens in, 200 out), and a tool that fails."""
    resource = Resource(attributes={"service.name": "shop", "service.version": f"1.{number}"})
    trace_id, start_ns = f"{number:032x}", _START + number * 1000 * _MS
    root = f"{number:08x}{1:08x}"
    common: dict[str, Any] = {"trace_id": trace_id, "resource": resource}
    chat = {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": model, "shop.customer": number,
        "gen_ai.usage.input_tokens": 1000, "gen_ai.usage.output_tokens": 200,
        "gen_ai.response.finish_reasons": ("end_turn" if model == "gpt-4o" else "max_tokens",),
    }  # fmt: skip
    return [
        Span(span_id=root, name="invoke_agent shop", start_ns=start_ns,
             end_ns=start_ns + 400 * _MS, kind=SpanKind.SERVER, **common,
             attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}),
        Span(span_id=f"{number:08x}{2:08x}", parent_span_id=root, name=f"chat {model}",
             start_ns=start_ns + 10 * _MS, end_ns=start_ns + 110 * _MS, kind=SpanKind.CLIENT,
             status=StatusCode.OK, attributes=chat, **common),
        Span(span_id=f"{number:08x}{3:08x}", parent_span_id=root, name="execute_tool pay",
             start_ns=start_ns + 120 * _MS, end_ns=start_ns + 320 * _MS,
             status=StatusCode.ERROR, **common,
             attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay",
                         "error.type": "Timeout", "shop.is_test": True}),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Four traces; the fourth is of a model without a price, and a record was judged on it.

    One for all tests: they only ask.
    """
    folder = tmp_path_factory.mktemp("traces")
    service = Service(folder, profile=[str(save_traced(folder))], price_file=prices(folder))
    send_four(service)
    service.send({"uid": "u4", "profile": "traced", "trace_id": f"{4:032x}"})
    service.wait_for(1)
    yield service
    service.stop()


def prices(folder: Path) -> Path:
    file = folder / "prices.yaml"
    file.write_text("gpt-4o: {input: 2.5, output: 10}\n")
    return file


def send_four(service: Service) -> None:
    for number in range(1, 4):
        sent(service, *trace(number))
    sent(service, *trace(4, "local"))


@pytest.mark.parametrize(
    ("query", "spans"),
    [
        ("", ["43", "42", "41", "33", "32", "31", "23", "22", "21", "13", "12", "11"]),
        ("name=execute_tool pay", ["43", "33", "23", "13"]),
        ("name=execute_tool", []),
        ("request_model=local", ["42"]),
        ("operation=chat&service_version=1.2", ["22"]),
        ("service_name=shop&status=ok", ["42", "32", "22", "12"]),
        ("status=unset&since=2023-11-14T22:13:23Z", ["41", "31"]),
        ("status=error&until=2023-11-14T22:13:22Z", ["13"]),
        ("agent_name=shop&limit=1000", ["41", "31", "21", "11"]),
        ("tool_name=pay&error_type=Timeout&until=1700000002500000000", ["23", "13"]),
        ("provider=openai", []),
        ("response_model=x", []),
        ("conversation_id=x", []),
        ("session_id=x", []),
        ("finish_reason=stop", ["32", "22", "12"]),
        ("finish_reason=length", ["42"]),
        ("finish_reason=max_tokens", []),
        ("environment=prod", []),
        ("attribute=shop.customer=2", ["22"]),
        ("attribute=shop.customer=2&attribute=gen_ai.operation.name=chat", ["22"]),
        ("attribute=shop.customer=2&attribute=shop.customer=3", []),
        ("attribute=shop.is_test=true&service_version=1.3", ["33"]),
        ("min_duration_ms=200.5", ["41", "31", "21", "11"]),
        ("min_duration_ms=200&status=error", ["43", "33", "23", "13"]),
        ("min_duration_ms=0&request_model=local", ["42"]),
        ("min_tokens=1200", ["42", "32", "22", "12"]),
        ("min_tokens=1201", []),
    ],
)
def test_filters(service: Service, query: str, spans: list[str]) -> None:
    """By number of the trace and of the span in it; the last sent first, the last started first."""

    def items(path: str) -> list[dict[str, str]]:
        quoted = quote(query, safe="=&")
        return service.http.get(f"/api/v1/{path}{quoted}").json()["items"]

    assert [f"{each['span_id'][7]}{each['span_id'][15]}" for each in items("spans?")] == spans
    assert [each["trace_id"][31] for each in items("traces?same_span=true&")] == list(
        dict.fromkeys(n[0] for n in spans)
    )


@pytest.mark.parametrize(
    ("query", "traces"),
    [
        ("agent_name=shop&tool_name=pay", "4321"),
        ("agent_name=shop&tool_name=pay&same_span=true", ""),
        ("agent_name=shop&status=error&request_model=local", "4"),
        ("agent_name=shop&tool_name=pay&text=PAY", "4321"),
        ("text=pay&agent_name=shop&same_span=true", ""),
        ("text=pay&tool_name=pay&same_span=true", "4321"),
        ("agent_name=shop&attribute=shop.customer=2&attribute=shop.is_test=true", "2"),
        ("service_name=shop&service_version=1.2&status=error", "2"),
        ("service_name=bank&service_version=1.2", ""),
        ("without_tool=pay", ""),
        ("without_tool=refund&request_model=local", "4"),
        ("text=pay&without_tool=pay", ""),
    ],
)
def test_each_filter_is_met_by_some_span_of_a_trace(
    service: Service, query: str, traces: str
) -> None:
    """By number of the trace; agent, model and tool are spans of their own."""
    quoted = quote(f"since=2023-11-14T00:00:00Z&{query}", safe="=&")
    found = service.http.get(f"/api/v1/traces?{quoted}").json()["items"]
    assert "".join(each["trace_id"][31] for each in found) == traces
    if "text" not in query:
        facets = service.http.get(f"/api/v1/facets/traces?{quoted}").json()["items"]
        counted = {each["name"]: each["values"] for each in facets}.get("service_name", [])
        assert sum(each["count"] for each in counted) == len(traces)


def test_what_a_span_and_a_trace_look_like(service: Service) -> None:
    (item,) = service.get("/api/v1/spans", request_model="local")["items"]
    assert item == {
        "trace_id": f"{4:032x}", "span_id": f"{4:08x}{2:08x}", "parent_span_id": f"{4:08x}{1:08x}",
        "name": "chat local", "kind": "client", "status": "ok",
        "start": "2023-11-14T22:13:24.010000Z", "duration_ms": 100.0, "service_name": "shop",
        "service_version": "1.4", "operation": "chat", "request_model": "local",
        "finish_reason": "length",
    }  # fmt: skip
    root = service.get("/api/v1/spans", agent_name="shop", limit=1)["items"][0]
    assert root["parent_span_id"] is None
    (summary,) = service.get("/api/v1/traces", request_model="local")["items"]
    assert summary == {
        "trace_id": f"{4:032x}", "name": "invoke_agent shop", "service_name": "shop",
        "service_version": "1.4", "start": "2023-11-14T22:13:24.000000Z", "duration_ms": 400.0,
        "spans": 3, "errors": 1, "input_tokens": 1000, "output_tokens": 200, "tools": ["pay"],
        "records": 1, "uid": "u4", "record_id": "", "outcomes": ["failed"], "match": None,
        "cost": None, "unpriced_models": ["local"],
    }  # fmt: skip


@pytest.mark.parametrize("path", ["spans", "traces"])
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_pages(service: Service, path: str, limit: int) -> None:
    whole = service.get(f"/api/v1/{path}")["items"]
    seen: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = service.get(f"/api/v1/{path}", limit=limit, **cursor)
        seen += page["items"]
        if page["next_cursor"] is None:
            break
        assert len(page["items"]) == limit
        cursor = {"cursor": page["next_cursor"]}
    assert seen == whole
    assert len(whole) == {"spans": 12, "traces": 4}[path]


def test_a_trace_comes_with_its_evaluations(service: Service) -> None:
    found = service.get(f"/api/v1/traces/{4:032x}")
    assert [each["name"] for each in found["spans"]] == [
        "invoke_agent shop", "chat local", "execute_tool pay",
    ]  # fmt: skip
    assert [each["uid"] for each in found["evaluations"]] == ["u4"]
    assert service.get(f"/api/v1/traces/{3:032x}")["evaluations"] == []


def test_usage_and_its_cost(service: Service) -> None:
    """Three calls at 1,000 * 2.5 + 200 * 10 millionths: 0.0135; the model `local` has no price.

    What it has a part in is unknown, and names it.
    """

    def usage(group_by: str, **query: str) -> dict[str, list[Any]]:
        items = service.get("/api/v1/genai/usage", group_by=group_by, **query)["items"]
        names = ("calls", "errors", "input_tokens", "output_tokens", "unpriced_calls")
        for each in items:
            expected = {"gpt-4o": 0.0135, "local": None, "invoke_agent": None, "pay": None,
                        "execute_tool": None, "Timeout": None, "1": 0.0045, "shop 1.4": None,
                        "length": None, "": None, "shop": None, "chat": None}  # fmt: skip
            cost = expected.get(each["key"], 0.0045 if group_by == "version" else 0.0135)
            assert each["unpriced_models"] == (["local"] if each["unpriced_calls"] else [])
            assert each["cost"] == (None if cost is None else pytest.approx(cost))
        return {each["key"]: [each[name] for name in names] for each in items}

    assert usage("model") == {"gpt-4o": [3, 0, 3000, 600, 0], "local": [1, 0, 1000, 200, 1]}
    assert usage("provider") == {"": [4, 0, 4000, 800, 1]}
    assert usage("service") == {"shop": [4, 0, 4000, 800, 1]}
    assert usage("version") == {
        **{f"shop 1.{number}": [1, 0, 1000, 200, 0] for number in (1, 2, 3)},
        "shop 1.4": [1, 0, 1000, 200, 1],
    }
    assert usage("operation") == {
        "chat": [4, 0, 4000, 800, 1], "invoke_agent": [4, 0, 0, 0, 0],
        "execute_tool": [4, 4, 0, 0, 0],
    }  # fmt: skip
    assert usage("finish_reason") == {
        "stop": [3, 0, 3000, 600, 0], "length": [1, 0, 1000, 200, 1],
    }  # fmt: skip
    assert usage("tool") == {"pay": [4, 4, 0, 0, 0]}
    assert usage("error") == {"Timeout": [4, 4, 0, 0, 0]}
    assert usage("model", until="2023-11-14T22:13:20Z") == {}
    (tool,) = service.get("/api/v1/genai/usage", group_by="tool")["items"]
    assert (tool["mean_ms"], tool["p95_ms"]) == (200.0, 200.0)


def test_what_records_and_traces_cost(service: Service) -> None:
    """From the agent's first to its last moment 400 ms."""
    local: dict[str, Any] = {"cost": None, "unpriced_models": ["local"]}
    items = service.get("/api/v1/traces")["items"]
    found = [{name: each[name] for name in local} for each in items]
    priced: dict[str, Any] = {"cost": pytest.approx(0.0045), "unpriced_models": []}
    assert found == [local, priced, priced, priced]
    (listed,) = service.get("/api/v1/records")["items"]
    (session,) = service.get("/api/v1/sessions")["items"]
    for each in (listed, session, service.get("/api/v1/records/u4")):
        assert {**local, "duration_ms": 400} == {
            name: each[name] for name in (*local, "duration_ms")
        }
    (agent,) = service.get(f"/api/v1/traces/{1:032x}/agents")["items"]
    assert (agent["cost"], agent["unpriced_models"]) == (pytest.approx(0.0045), [])
    (agent,) = service.get(f"/api/v1/traces/{4:032x}/agents")["items"]
    assert (agent["cost"], agent["unpriced_models"]) == (None, ["local"])
    text = service.http.get("/metrics").text
    (line,) = (each for each in text.splitlines() if "model_calls_unpriced_total{" in each)
    assert line == 'scouter_model_calls_unpriced_total{model="local",space="default"} 1.0'


def test_usage_in_pages(service: Service) -> None:
    """As of the first page: what comes meanwhile is neither counted nor moves anything."""
    query = {"group_by": "operation", "limit": 1}
    page, found = service.get("/api/v1/genai/usage", **query), list[tuple[str, int]]()
    (agent, chat, _), number = trace(9), 900
    while True:
        found += [(each["key"], each["calls"]) for each in page["items"]]
        if page["next_cursor"] is None:
            break
        number += 1
        for each in (agent, chat):
            sent(service, replace(each, span_id=f"{number:016x}", trace_id=f"{number:032x}"))
        page = service.get("/api/v1/genai/usage", **query, cursor=page["next_cursor"])
    assert found == [("chat", 4), ("execute_tool", 4), ("invoke_agent", 4)]


def test_usage_by_agent_and_conversation(start: Start, tmp_path: Path) -> None:
    """Two calls of c1 and one of c2, 0.0045 each; an agent's span counts, whatever it called."""
    service = start(price_file=prices(tmp_path))
    send_four(service)
    for number, conversation in ((5, "c1"), (6, "c1"), (7, "c2")):
        agent, chat, _ = trace(number)
        said = {**chat.attributes, "gen_ai.conversation.id": conversation}
        named = {**agent.attributes, "gen_ai.agent.name": f"of {conversation}"}
        sent(service, replace(agent, attributes=named), replace(chat, attributes=said))

    def usage(group_by: str) -> dict[str, tuple[int, int, float | None]]:
        items = service.get("/api/v1/genai/usage", group_by=group_by)["items"]
        return {each["key"]: (each["calls"], each["input_tokens"], each["cost"]) for each in items}

    assert usage("conversation") == {
        "": (4, 4000, None), "c1": (2, 2000, pytest.approx(0.009)),
        "c2": (1, 1000, pytest.approx(0.0045)),
    }  # fmt: skip
    assert usage("agent") == {"shop": (4, 0, None), "of c1": (2, 0, None), "of c2": (1, 0, None)}


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("spans?color=red", "color: no such parameter; this route has: name, service_name"),
        ("traces?attribute=red", "attribute: expected key=value, got 'red'"),
        ("spans?attribute==red", "attribute: expected key=value"),
        (f"spans?attribute=k={'x' * 257}", "attribute: 'k' with a value of 257 characters cannot"),
        (f"traces?attribute=k={'é' * 257}", "have at most 256 characters"),
        (f"spans?attribute={'k' * 300}=1", "cannot be searched for"),
        ("spans?status=great", "status"),
        ("spans?min_duration_ms=-1", "min_duration_ms"),
        ("spans?min_duration_ms=nan", "min_duration_ms"),
        ("spans?min_tokens=-1", "min_tokens"),
        ("spans?since=yesterday", "since: 'yesterday' is no time"),
        ("spans?cursor=abc", "cursor: not a cursor"),
        ("traces?cursor=MTcuNA", "cursor: not a cursor"),
        ("spans?limit=1001", "limit"),
        ("genai/usage?group_by=mood", "group_by"),
        ("genai/usage?limit=0", "limit"),
        ("genai/usage?cursor=abc", "cursor: not a cursor"),
        ("spans?" + "&".join(f"attribute=k={n}" for n in range(17)), "attribute"),
    ],
)
def test_queries_that_are_refused(service: Service, path: str, detail: str) -> None:
    answer = service.http.get(f"/api/v1/{path}")
    assert answer.status_code == 400, answer.text
    assert detail in answer.json()["detail"]


@pytest.mark.parametrize("value", ["x" * 256, "é" * 256])
def test_the_longest_attribute_that_is_searched(start: Start, value: str) -> None:
    service = start()
    sent(service, replace(trace(1)[0], attributes={"k": value}))
    answer = service.http.get("/api/v1/spans", params={"attribute": f"k={value}"})
    assert len(answer.json()["items"]) == 1


def test_the_document_has_the_filter(start: Start) -> None:
    document = start().get("/openapi.json")
    for path in ("spans", "traces"):
        names = [each["name"] for each in document["paths"][f"/api/v1/{path}"]["get"]["parameters"]]
        assert {"name", "attribute", "session_id", "min_duration_ms", "cursor"} <= set(names)
    assert "json" in json.dumps(document)


POSITION = SpanPosition(2**40, _START, "0" * 31 + "1", "f" * 16)


@pytest.mark.parametrize("as_of", [None, 7])
def test_cursors(as_of: int | None) -> None:
    text = write_span_cursor(POSITION, as_of)
    assert text is not None
    assert len(text) <= 100
    assert read_span_cursor(text) == (POSITION, as_of)


@pytest.mark.parametrize("text", ["", "é", "a", "A" * 60, "A" * 68, "_" * 64, "!" * 64])
def test_tampered_cursors(text: str) -> None:
    """Too short, too long, no base64, or numbers that no commit has."""
    with pytest.raises(ProblemError) as caught:
        read_span_cursor(text)
    assert caught.value.status == 400


def test_results_of_other_evaluators_stand_beside_ours(start: Start, answers: Path) -> None:
    """They are in no rate, go with their trace, and ours that come back are not there twice."""
    service = start(profile=[str(answers)])
    said: dict[str, AttributeValue] = {
        "gen_ai.evaluation.name": "tone", "gen_ai.evaluation.score.value": 0,
        "gen_ai.evaluation.score.label": "rude",
    }  # fmt: skip
    events = (
        SpanEvent(name="gen_ai.evaluation.result", time_ns=15, attributes=said),
        SpanEvent(
            name="gen_ai.evaluation.result",
            time_ns=16,
            attributes={**said, "scouter.evaluation.id": "e1"},
        ),
    )
    sent(service, span(1, events=events))
    record = {"uid": "u1", "profile": "answers", "trace_id": TRACE, "context": {"answer": 42}}
    service.send(record)
    service.wait_for(1)

    trace = service.get(f"/api/v1/traces/{TRACE}")
    assert trace["foreign_results"] == [
        {
            "span_id": f"{1:016x}", "time": "1970-01-01T00:00:00.000000Z", "name": "tone",
            "score": 0.0, "label": "rude", "explanation": "", "response_id": "", "error": "",
        }
    ]  # fmt: skip
    assert [each["outcome"] for each in trace["evaluations"]] == ["passed"]
    (shown,) = service.get(f"/api/v1/traces/{TRACE}/view")["view"]["spans"]
    assert [each["label"] for each in shown["foreign"]] == ["rude"]
    (rate,) = service.get("/api/v1/tasks", profile="answers")["items"]
    assert (rate["task_id"], rate["passed"], rate["failed"]) == ("right", 1, 0)

    assert service.http.post("/api/v1/erase", json={"trace_id": TRACE}).json()["spans"] == 1
    assert service.http.get(f"/api/v1/traces/{TRACE}").status_code == 404
