"""Parts of a trace: rows, agents, one span and its values, matches and files."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from collector.api.trace_span import cut_texts, value_at
from scouter.client.models.traces import CutText
from scouter.model.otlp import encode_request
from scouter.model.otlp_json import spans_from_otlp_json
from scouter.model.span import Resource, Span, StatusCode
from tests.collector.conftest import Service
from tests.contracts.store_data import TRACE, span

PATH = f"/api/v1/traces/{TRACE}"
ROOT, TOOL = f"{1:016x}", f"{2:016x}"
LONG = "word " * 800_000  # four million characters: about what a receiver keeps of one value


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A collector with a trace of an agent, a tool that failed and a value of 4 MB.

    One for all tests: they only ask.
    """
    found = Service(tmp_path_factory.mktemp("parts"))
    resource = Resource(
        attributes={
            "service.name": "shop",
            "service.version": "1.2",
            "deployment.environment.name": "prod",
        }
    )
    send(found, span(1, name="invoke_agent desk", start_ns=10**9, end_ns=4 * 10**9,
        resource=resource, attributes={
            "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"}),
        span(2, name="execute_tool search", parent_span_id=ROOT, start_ns=2 * 10**9,
             end_ns=3 * 10**9, status=StatusCode.ERROR, attributes={
                 "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search",
                 "gen_ai.tool.call.arguments": '{"q": "tea/coffee"}', "long": LONG,
                 "a/b~c": "x"}))  # fmt: skip
    yield found
    found.stop()


def send(service: Service, *spans: Span) -> None:
    headers = {"Content-Type": "application/x-protobuf"}
    data = encode_request(spans).SerializeToString()
    assert service.http.post("/v1/traces", content=data, headers=headers).is_success


def test_columns_hold_no_values(service: Service) -> None:
    answer = service.http.get(f"{PATH}/columns")
    assert len(answer.content) < 2_000
    found = answer.json()
    assert [found[name] for name in ("service_name", "service_version", "environment")] == [
        "shop", "1.2", "prod"
    ]  # fmt: skip
    columns = found["columns"]
    assert columns["span_ids"] == ROOT + TOOL
    assert (columns["parent"], columns["marks"]) == ([-1, 0], [0, 1])
    assert [columns["kinds"][each] for each in columns["kind"]] == ["agent", "tool"]
    first = service.get(f"{PATH}/columns", limit=1)["columns"]
    assert (first["total"], first["depth"]) == (2, [0])


def test_agents_are_summed_up(service: Service) -> None:
    (line,) = service.get(f"{PATH}/agents")["items"]
    assert (line["name"], line["runs"], line["failed"]) == ("desk", 1, 1)
    assert line["tools"] == [{"name": "search", "calls": 1, "failed": 1}]


def test_a_value_of_4_mb_is_cut_and_can_be_had(service: Service) -> None:
    answer = service.http.get(f"{PATH}/spans/{TOOL.upper()}", params={"text_limit": 4000})
    assert len(answer.content) < 10_000
    found = answer.json()
    assert found["span"]["attributes"]["long"] == LONG[:4000]
    assert found["cut"] == [
        {"pointer": "/attributes/long", "characters": len(LONG), "is_binary": False}
    ]
    whole = service.http.get(f"{PATH}/spans/{TOOL}/value", params={"pointer": "/attributes/long"})
    assert whole.text == LONG
    assert whole.headers["content-disposition"] == f'attachment; filename="{TOOL}.txt"'
    assert whole.headers["content-type"].startswith("text/plain")
    assert whole.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("pointer", "text"),
    [
        ("/arguments/q", "tea/coffee"),
        ("/attributes/a~1b~0c", "x"),
        ("/arguments", '{\n  "q": "tea/coffee"\n}'),
    ],
)
def test_a_pointer_finds_a_value(service: Service, pointer: str, text: str) -> None:
    answer = service.http.get(f"{PATH}/spans/{TOOL}/value", params={"pointer": pointer})
    assert answer.text == text


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        (f"spans/{3:016x}", 404, "has no span"),
        (f"spans/{TOOL}/value?pointer=/arguments/none", 404, "nothing at"),
        (f"spans/{TOOL}/value?pointer=/arguments/q/x", 404, "nothing at"),
        ("matches?filter=(", 400, "filter"),
        ("matches?filter={", 400, "filter"),
        ("matches?filter=" + '{"a":' * 1_900, 400, "filter"),
        ("matches?filter=" + '{"And":{"filters":[' * 300, 400, "filter"),
        ('matches?filter={"ByShape": {}}', 400, "filter"),
        ('matches?filter={"WithStatus": {"status": "Bad"}}', 400, "Ok"),
        ('matches?filter={"Sequence": {"names": ["a"]}}', 400, "runs of spans"),
        ("export?format=pdf", 400, "format"),
        ("columns?limit=0", 400, "limit"),
    ],
)
def test_a_wrong_question_is_reported(service: Service, path: str, status: int, words: str) -> None:
    answer = service.http.get(f"{PATH}/{path}")
    assert answer.status_code == status
    assert words in answer.json()["detail"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ('{"WithStatus": {"status": "Error"}}', [TOOL]),
        ('{"ParentOf": {"filter": {"ByName": {"name": "execute_tool search"}}}}', [ROOT]),
        ("search$", [TOOL]),
        ("desk|tool", [ROOT, TOOL]),
        ("nothing", []),
    ],
)
def test_a_filter_of_profiles_finds_spans(service: Service, wanted: str, found: list[str]) -> None:
    assert service.get(f"{PATH}/matches", filter=wanted)["span_ids"] == found


def test_a_trace_is_a_file(service: Service) -> None:
    """The download is read again."""
    otlp: Any = service.http.get(f"{PATH}/export")
    read = spans_from_otlp_json(json.loads(otlp.content))
    assert not read.rejected
    assert {each.span_id: each.attributes.get("a/b~c") for each in read.spans} == {
        ROOT: None, TOOL: "x",
    }  # fmt: skip
    assert otlp.headers["content-disposition"].endswith('.otlp.json"')


def test_texts_are_cut_at_every_depth() -> None:
    value: Any = {"a": ["12345", {"b/c": "123456"}], "n": 1, "image": "QUJD" * 100}
    short, cuts = cut_texts(value, 5)
    assert short == {"a": ["12345", {"b/c": "12345"}], "n": 1, "image": ""}
    assert cuts == [
        CutText(pointer="/a/1/b~1c", characters=6, is_binary=False),
        CutText(pointer="/image", characters=400, is_binary=True),
    ]
    assert value_at(value, "/a/1/b~1c") == "123456"
    deep: Any = "x" * 10
    for _ in range(5_000):
        deep = [deep]
    assert cut_texts(deep, 5) == (deep, [])
