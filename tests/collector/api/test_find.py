"""One query for a user's refused refunds and her questions; and both halves of a trace."""

import html
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from scouter.client.client import ScouterClient
from scouter.model.span import Resource, Span, SpanKind
from tests.collector.api.test_spans import sent
from tests.collector.conftest import Service
from tests.collector.web.test_views import view
from tests.contracts.store_data import span
from tests.support.served import serve

NAMES = ("anna", "anna", "bert")


def refund(number: int, user: str, result: str) -> list[Span]:
    """A turn of an agent that tries to pay back; the user stands on its root alone."""
    trace_id = f"{number:032x}"
    messages = json.dumps([{"role": "user", "content": f"I am {user}: money back for {number}!"}])
    tool = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund",
        "gen_ai.tool.call.result": result,
    }  # fmt: skip
    resource = Resource(attributes={"service.name": "desk"})
    agent = {"gen_ai.operation.name": "invoke_agent", "user.id": user, "tenant": f"t{number}"}
    chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages}
    root, both = f"{1:016x}", dict[str, Any](trace_id=trace_id, resource=resource)
    return [
        span(1, name="invoke_agent desk", attributes=agent, **both),
        span(2, name="chat m", parent_span_id=root, attributes=chat, **both),
        span(3, name="execute_tool refund", parent_span_id=root, attributes=tool,
             kind=SpanKind.CLIENT, **both),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Refunds 1 and 3 were refused, 2 was paid; the server of refund 1 has a trace of its own."""
    service = Service(tmp_path_factory.mktemp("find"))
    for number, (user, result) in enumerate(
        zip(NAMES, ("refused: too late", "paid", "refused: too late"), strict=True), 1
    ):
        sent(service, *refund(number, user, result))
    meta = {"_meta": {"traceparent": f"00-{1:032x}-{3:016x}-01"}}
    served: dict[str, Any] = {
        "trace_id": f"{99:032x}", "resource": Resource(attributes={"service.name": "payments"})
    }  # fmt: skip
    sent(
        service,
        span(11, name="POST /mcp", **served),
        span(12, name="tools/call refund", parent_span_id=f"{11:016x}", kind=SpanKind.SERVER,
             attributes={"mcp.method.name": "tools/call", "mcp.request.params": json.dumps(meta)},
             **served),
    )  # fmt: skip
    yield service
    service.stop()


REFUSED = "user_id=anna&tool_name=refund&text=refused&since=0"


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        (REFUSED, [1]),
        ("user_id=anna&tool_name=refund", [2, 1]),
        ("user_id=anna&text=money&text=paid&since=0", [2]),
        ("text=REFUSED&text=I am anna&since=0", [1]),
        ("text=refused&text=paid&since=0", []),
        ("attribute=tenant=t2", [2]),
        ("attribute=tenant=t2&user_id=bert", []),
        ("attribute=user.id=bert&text=refused&since=0", [3]),
    ],
)
def test_one_query(service: Service, query: str, numbers: list[int]) -> None:
    found = service.http.get(f"/api/v1/traces?{query}").json()["items"]
    assert [int(each["trace_id"], 16) for each in found] == numbers
    assert all("question" not in each for each in found)
    facets = "&".join(part for part in query.split("&") if not part.startswith("text"))
    assert service.http.get(f"/api/v1/facets/traces?{facets}").status_code == 200


def test_her_questions(service: Service) -> None:
    answer = service.http.get(f"/api/v1/traces?{REFUSED}&text=money&questions=true")
    (found,) = answer.json()["items"]
    assert found["question"] == {"text": "I am anna: money back for 1!", "characters": 28}
    assert (found["match"]["text"], found["more_matches"][0]["text"]) == ("refused", "money")


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("text=" + "&text=".join("abcdefghi"), "text"),
        ("text=a&text=", "text"),
        ("attribute=red", "attribute: expected key=value"),
        ("user=anna", "user: no such parameter"),
    ],
)
@pytest.mark.parametrize("name", ["traces", "records", "sessions"])
def test_queries_that_are_refused(service: Service, name: str, query: str, detail: str) -> None:
    answer = service.http.get(f"/api/v1/{name}?{query}")
    assert answer.status_code == 400, answer.text
    assert detail in answer.json()["detail"]


def test_the_same_on_the_page(service: Service) -> None:
    """The form has the texts that are given, and an empty field for the next one."""
    text = view(service, "/traces?user_id=anna&tool_name=refund&text=refused&text=money&since=0")
    shown = html.unescape(text)
    assert shown.count('<th scope="row"') == 1
    assert "I am anna: money back for 1!" in shown
    assert "<mark>refused</mark>" in shown
    assert "<mark>money</mark>" in shown
    fields = re.findall(r'<input name="text" value="([^"]*)">', shown)
    assert fields == ["refused", "money", ""]
    bert = re.search(r'href="([^"]*user_id=bert[^"]*)"', view(service, "/facets/traces"))
    assert bert is not None
    assert parse_qs(urlsplit(html.unescape(bert[1])).query) == {"user_id": ["bert"]}


def test_halves_of_a_trace(service: Service) -> None:
    """Each leads to the other one; together the server's spans stand below the call."""
    with serve(service.collector.app) as url, ScouterClient(url) as client:
        (link,) = client.trace_links(f"{1:032x}").items
        assert (link.trace.trace_id, link.trace.service_name) == (f"{99:032x}", "payments")
        assert (link.by, link.is_caller) == ("traceparent", False)
        assert (link.span_id, link.of_span_id) == (f"{12:016x}", f"{3:016x}")
        (back,) = client.trace_links(f"{99:032x}").items
        assert (back.trace.trace_id, back.is_caller) == (f"{1:032x}", True)
        assert client.trace_links(f"{2:032x}").items == ()
        for number in (1, 99):
            tree = client.trace_view(f"{number:032x}", joined=True).view
            assert [(each.name, each.depth) for each in tree.spans] == [
                ("invoke_agent desk", 0),
                ("chat m", 1),
                ("execute_tool refund", 1),
                ("POST /mcp", 2),
                ("tools/call refund", 3),
            ]
            assert client.trace_columns(f"{number:032x}", joined=True).columns.total == 5
        detail = client.span(f"{1:032x}", f"{12:016x}")
        assert detail.span.name == "tools/call refund"


def test_halves_on_the_page(service: Service) -> None:
    address = f"/traces/{1:032x}"
    assert f'hx-get="{address}/links?"' in view(service, address)
    links = view(service, f"{address}/links")
    assert f'<a href="/traces/{99:032x}?span={12:016x}#s{12:016x}">' in links
    assert f'<a href="{address}?joined=true">Show together</a>' in links
    joined = view(service, f"{address}?joined=true&span={12:016x}")
    assert joined.count('<tr id="s') == 5
    assert 'data-joined="true"' in joined
    assert "mcp.request.params" in joined
