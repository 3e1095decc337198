"""Lists of the page: their filters, the counts beside them, and what is hostile in both."""

import asyncio
import html
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import duckdb
import pytest

from collector.problem import ProblemError
from collector.web.lists import as_parquet
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.otlp import encode_request
from scouter.model.span import Resource, StatusCode
from tests.collector.api.test_spans import sent
from tests.collector.conftest import Service, Start, save_answers
from tests.collector.web.conftest import PROTOBUF
from tests.collector.web.test_views import Parts, view
from tests.contracts.store_data import span

LINK = re.compile(r'<li hx-ignore><a href="([^"]*)"[^>]*>([^<]*)</a> <span class="number">([\d,]+)')


def links(text: str) -> dict[tuple[str, str], tuple[str, int]]:
    """Address and count of each facet's value, by the filter that it adds and its text."""
    found: dict[tuple[str, str], tuple[str, int]] = {}
    for part in text.split("<details open><summary>")[1:]:
        label, _, rest = part.partition("</summary>")
        for address, value, count in LINK.findall(rest):
            found[label, html.unescape(value)] = html.unescape(address), int(count)
    return found


def rows(text: str) -> int:
    """Rows of the list; none where it is empty."""
    return text.count('<th scope="row"')


def tell(service: Service) -> Service:
    """Send three records, two of which fail; three traces of two services, one with an error."""
    for number, name in enumerate(("shop", "shop", "bank"), 1):
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"tool {name}"}
        row = span(
            number, trace_id=f"{number:032x}", attributes=tool,
            resource=Resource(attributes={"service.name": name}),
            status=StatusCode.ERROR if number == 3 else StatusCode.OK,
        )  # fmt: skip
        data = encode_request([row]).SerializeToString()
        assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success
    service.send(
        {"uid": "good", "profile": "answers", "context": {"answer": 42}, "tags": {"team": "blue"}},
        *({"uid": f"bad{n}", "profile": "answers", "context": {"answer": n}} for n in (1, 2)),
    )
    service.wait_for(3)
    return service


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """For tests that send nothing more."""
    folder = tmp_path_factory.mktemp("lists")
    service = Service(folder, profile=[str(save_answers(folder))])
    yield tell(service)
    service.stop()


@pytest.fixture
def growing(start: Start, answers: Path) -> Service:
    """The same for a test that sends more."""
    return tell(start(profile=[str(answers)]))


def test_a_count_leads_to_so_many_rows(listed: Service) -> None:
    """Every link beside the lists is followed; each row is counted by hand in `listed`."""
    for address, wanted in (
        ("/evaluations", {("Outcome of the record", "failed"): 2,
                          ("Outcome of the record", "passed"): 1, ("Task", "right"): 3,
                          ("Profile", "answers"): 3, ("Tag (key=value)", "team=blue"): 1}),
        ("/traces", {("Service", "shop"): 2, ("Service", "bank"): 1, ("Status", "ok"): 2,
                     ("Status", "error"): 1, ("Tool", "tool shop"): 2, ("Tool", "tool bank"): 1}),
        ("/records", {("Profile", "answers"): 3, ("State", "evaluated"): 3}),
        ("/conversations", {("Profile", "answers"): 3, ("Outcome", "failed"): 2,
                            ("Outcome", "passed"): 1, ("Task", "right"): 3,
                            ("Tag (key=value)", "team=blue"): 1}),
    ):  # fmt: skip
        assert f'hx-get="/facets{address}?"' in view(listed, address)
        found = links(view(listed, f"/facets{address}"))
        assert {key: count for key, (_, count) in found.items()} == wanted
        for link, count in found.values():
            assert urlsplit(link).path == address
            assert rows(view(listed, link)) == count


def test_conversations_are_found_by_what_they_are_as_a_whole(growing: Service) -> None:
    """Two turns of one conversation: the first passes, the second fails and calls a tool."""
    answered = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "tool talk"}
    row = span(9, trace_id=f"{9:032x}", attributes=answered, start_ns=0, end_ns=3 * 10**9)
    data = encode_request([row]).SerializeToString()
    assert growing.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success
    turn = {"profile": "answers", "session_id": "talk"}
    growing.send(
        {**turn, "uid": "one", "context": {"answer": 42, "said": "<b>"}},
        {**turn, "uid": "two", "context": {"answer": 1}, "trace_id": f"{9:032x}"},
    )
    growing.wait_for(5)
    for query, wanted in (
        ("text=TALK", 1), ("text=%3CB%3E", 1), ("text=answer", 4), ("text=none", 0),
        ("text=talk&outcome=failed", 1), ("text=talk&outcome=passed", 0),
        ("outcome=failed", 3), ("outcome=passed", 1), ("outcome=errored", 0),
        ("task_id=right&task_outcome=passed", 2), ("tag=team%3Dblue", 1),
        ("tool_name=tool+talk", 1), ("min_duration_ms=2999", 1), ("min_duration_ms=3001", 0),
        ("min_tokens=1", 0), ("outcome=failed&tool_name=tool+talk&range=1h", 1),
    ):  # fmt: skip
        text = view(growing, f"/conversations?{query}")
        assert rows(text) == wanted, query
        assert Parts(text).tags.count("mark") == ("text=" in query) * wanted, query
    row_text = view(growing, "/conversations?tool_name=tool+talk").partition("<tbody>")[2]
    assert ">3.0 s<" in row_text
    assert growing.http.get("/api/v1/sessions?tag=x").status_code == 400
    assert growing.http.get("/api/v1/sessions?text=").status_code == 400
    assert growing.http.get("/api/v1/sessions?task_id=nobody").status_code == 404


def test_traces_are_found_by_the_evaluations_on_their_records(growing: Service) -> None:
    """Of three traces one has a record that passed, and one a record that failed."""
    turn = {"profile": "answers", "tags": {"team": "red"}}
    growing.send(
        {**turn, "uid": "one", "context": {"answer": 42}, "trace_id": f"{1:032x}"},
        {**turn, "uid": "two", "context": {"answer": 1}, "trace_id": f"{3:032x}"},
    )
    growing.wait_for(5)
    for query, wanted in (
        ("", 3), ("profile=answers", 2), ("outcome=failed", 1), ("outcome=errored", 0),
        ("task_id=right&task_outcome=passed", 1), ("tag=team%3Dred", 2), ("tag=team%3Dblue", 0),
        ("outcome=failed&service_name=bank", 1), ("outcome=failed&service_name=shop", 0),
    ):  # fmt: skip
        assert rows(view(growing, f"/traces?{query}")) == wanted, query
        items = growing.http.get(f"/api/v1/spans?{query}").json()["items"]
        assert len({each["trace_id"] for each in items}) == wanted, query
    text = view(growing, "/traces?without_tool=tool+shop&same_span=true")
    assert rows(text) == 1
    for shown in (
        'name="same_span" value="true" checked', 'href="/records/two">two</a>',
        '<span class="outcome failed">', "tool bank",
    ):  # fmt: skip
        assert shown in text
    text = view(growing, "/traces?tool_name=tool+shop&status=error&same_span=true")
    assert rows(text) == 0
    assert 'href="?tool_name=tool+shop&amp;status=error">Traces in which some span' in text
    found = links(view(growing, "/facets/traces?service_name=bank"))
    assert found["Outcome of a record", "failed"][1] == 1
    assert found["Task", "right"][1] == found["Tag (key=value)", "team=red"][1] == 1
    for (_, value), (link, count) in found.items():
        if not value.endswith("(remove)"):
            assert rows(view(growing, link)) == count, value
    for path in ("traces", "spans", "facets/traces"):
        unknown = growing.http.get(f"/api/v1/{path}?profile=answer")
        assert unknown.status_code == 404
        assert "answers" in unknown.json()["detail"]


def test_one_tag_at_a_time_is_a_filter(growing: Service) -> None:
    tags = {"team": "blue", "of": "x", "a=b": "c"}
    record = {"uid": "x", "profile": "answers", "context": {}, "tags": tags}
    growing.send(record)
    growing.wait_for(4)
    found = links(view(growing, "/facets/evaluations?tag=of%3Dx"))
    assert [value for label, value in found if label.startswith("Tag")] == ["of=x (remove)"]
    found = links(view(growing, "/facets/evaluations"))
    assert found["Tag (key=value)", "team=blue"][1] == 2
    link, count = found["Tag (key=value)", "a%3Db=c"]
    assert rows(view(growing, link)) == count == 1


def test_filters_add_up_in_the_address_and_come_off_again(listed: Service) -> None:
    listing = view(listed, "/traces?service_name=shop&status=ok")
    (late,) = re.findall(r'hx-get="([^"]*)"', listing)
    text = view(listed, html.unescape(late))
    link, count = links(text)["Tool", "tool shop"]
    given = parse_qs(urlsplit(link).query)
    assert given == {"service_name": ["shop"], "status": ["ok"], "tool_name": ["tool shop"]}
    assert rows(view(listed, link)) == count == 2
    off, _ = links(text)["Service", "shop (remove)"]
    assert parse_qs(urlsplit(off).query) == {"status": ["ok"]}


def test_the_outcomes_of_record_and_task_are_shown_apart(start: Start, tmp_path: Path) -> None:
    """Of the record that failed by `short`, `right` passed."""
    tasks = [
        AssertionTask("right", "answer", 42, ComparisonOperator.Equals),
        AssertionTask("short", "words", 9, ComparisonOperator.LessThan),
    ]
    profile = AgentEvalProfile(tasks, alias="two").save_to_json(tmp_path / "two.json")
    service = start(profile=[str(profile)])
    service.send({"uid": "long", "profile": "two", "context": {"answer": 42, "words": 10}})
    service.wait_for(1)
    text = view(service, "/evaluations?task_id=right&outcome=failed")
    assert "whatever the outcome of right" in text
    row = re.sub(r"<[^>]*>", " ", text.partition("<tbody>")[2].partition("</tbody>")[0]).split()
    assert (row.index("failed"), row.count("passed")) == (row.index("passed") - 1, 1)
    (link,) = re.findall(r'<a href="([^"]*)">Only those of which right failed', text)
    given = parse_qs(urlsplit(html.unescape(link)).query)
    assert given == {"task_id": ["right"], "task_outcome": ["failed"]}
    assert rows(view(service, f"/evaluations{html.unescape(link)}")) == 0


def test_what_failed_and_what_errored_are_one_choice(start: Start, tmp_path: Path) -> None:
    """One record fails, one errors, one passes; the counts of tasks lead to their own outcome."""
    task = AssertionTask("right", "answer", 42, ComparisonOperator.Equals)
    profile = AgentEvalProfile([task], alias="one").save_to_json(tmp_path / "one.json")
    service = start(profile=[str(profile)])
    for at, context in enumerate(({"answer": 42}, {"answer": 1}, {}), 1):
        traced = {"trace_id": f"{at:032x}", "session_id": f"{at}"}
        sent(service, span(at, trace_id=traced["trace_id"]))
        service.send({"uid": f"u{at}", "profile": "one", "context": context, **traced})
    service.wait_for(3)
    text = view(service, "/evaluations?outcome=not_passed")
    assert rows(text) == 2
    assert '<option value="not_passed" selected>failed or errored</option>' in text
    for name in ("traces", "conversations"):
        for filters in ("outcome=not_passed", "task_id=right&task_outcome=not_passed"):
            assert rows(view(service, f"/{name}?{filters}")) == 2
        counts = links(view(service, f"/facets/{name}?outcome=not_passed"))
        assert counts["Task", "right"][1] == 2
    facets = view(service, "/facets/evaluations?outcome=not_passed")
    assert "whatever its own outcome" in facets
    assert "whatever its own outcome" not in view(service, "/facets/evaluations?profile=one")
    (link,) = re.findall(r'<a href="([^"]*)">Only tasks that failed or errored', facets)
    assert links(view(service, f"/facets{html.unescape(link)}"))["Task", "right"][1] == 2
    lines = service.http.get("/task_results.csv?outcome=not_passed").text.splitlines()
    assert len(lines) == 3
    assert "message" in lines[0].split(",")
    assert "no answer" in lines[1]


def test_a_period_that_ends_now_is_a_filter(listed: Service) -> None:
    """The records are of now; the spans of `listed` began in 1970."""
    assert rows(view(listed, "/evaluations?range=1h")) == 3
    assert rows(view(listed, "/traces?range=30d")) == 0
    refused = listed.http.get("/evaluations?range=2y")
    assert refused.status_code == 400
    assert "none of 1h, 24h, 7d, 30d" in html.unescape(refused.text)


def test_the_api_names_an_unknown_profile_and_parameter(listed: Service) -> None:
    assert listed.http.get("/api/v1/facets/evaluations?profile=none").status_code == 404
    refused = listed.http.get("/api/v1/facets/traces?limit=1")
    assert refused.status_code == 400
    assert "limit: no such parameter" in refused.json()["detail"]


def test_what_a_text_leaves_is_not_counted(listed: Service) -> None:
    """A search reads every context; the counts would read them again, for another answer."""
    assert "/facets/records" not in view(listed, "/records?text=answer")
    assert "/facets/records" in view(listed, "/records")


def test_records_are_found_by_a_text_in_their_context(growing: Service) -> None:
    said = 'refund "now" <b>&'
    growing.send({"uid": "late", "profile": "answers", "context": {"answer": said}})
    growing.wait_for(4)
    for text, wanted in (("REFUND", 1), ('"now" <b>&', 1), ("answer", 4), ("none", 0)):
        shown = growing.http.get("/records", params={"text": text})
        assert shown.status_code == 200
        assert rows(shown.text) == wanted, text
        parts = Parts(shown.text)
        assert ("input", "value", text) in parts.attributes
        assert "b" not in parts.tags
        assert parts.tags.count("mark") == wanted
    marked = "<mark>&#34;now&#34; &lt;b&gt;&amp;</mark>"
    assert f"answer:</span> refund {marked}" in view(growing, '/records?text="NOW" <b>%26')
    (item,) = growing.get("/api/v1/records", text="now")["items"]
    assert item["match"] == {
        "where": "answer", "before": 'refund "', "text": "now", "after": '" <b>&',
    }  # fmt: skip
    assert growing.get("/api/v1/records")["items"][0]["match"] is None
    assert growing.http.get("/api/v1/records?text=").status_code == 400


def test_a_search_that_ends_early_says_so_and_goes_on(
    growing: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no time at all each page reads sixteen records; the links lead to the oldest one."""
    monkeypatch.setattr("collector.api.records.SEARCH_S", 0.0)
    for n in range(40):
        growing.send({"uid": f"n{n}", "profile": "answers", "context": {"answer": "other"}})
    growing.wait_for(43)
    address, pages = "/records?text=42", 0
    while "ended for want of time" in (text := view(growing, address)):
        link = re.search(r'<a href="([^"]*)" rel="next">Look further back', text)
        assert link
        assert "found nothing so far" in text
        address, pages = "/records" + html.unescape(link[1]), pages + 1
        assert parse_qs(urlsplit(address).query)["text"] == ["42"]
    assert pages >= 1
    assert rows(text) == 1


def test_traces_are_found_by_a_text_in_their_spans(
    growing: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the last 24 hours unless a period is given; a search that ends early goes on."""
    said, now_ns = 'refund "now" <b>&', time.time_ns()
    day_ns = 24 * 3600 * 10**9
    for number, start_ns in ((7, now_ns), (8, now_ns - 2 * day_ns)):
        row = span(
            number, trace_id=f"{number:032x}", start_ns=start_ns, end_ns=start_ns,
            attributes={"gen_ai.input.messages": json.dumps([{"content": said}])},
        )  # fmt: skip
        data = encode_request([row]).SerializeToString()
        assert growing.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success
    for query, wanted in (
        ({"text": "REFUND"}, 1), ({"text": '"now" <b>&'}, 1), ({"text": "none"}, 0),
        ({"text": "refund", "range": "7d"}, 2), ({"text": "tool", "range": "7d"}, 0),
        ({"text": "refund", "until": str(now_ns - day_ns)}, 1),
        ({"text": "refund", "service_name": "shop"}, 0),
    ):  # fmt: skip
        shown = growing.http.get("/traces", params=query)
        assert shown.status_code == 200
        assert rows(shown.text) == wanted, query
        parts = Parts(shown.text)
        assert ("input", "value", query["text"]) in parts.attributes
        assert "b" not in parts.tags
        assert parts.tags.count("mark") == wanted
        assert "/facets/traces" not in shown.text
        assert ("last 24 hours" in shown.text) == (not query.keys() & {"range", "until"}), query
        assert ("24 hours before" in shown.text) == ("until" in query), query
    assert growing.http.get("/api/v1/traces?text=").status_code == 400
    assert growing.http.get("/api/v1/facets/traces?text=a").status_code == 400
    monkeypatch.setattr("collector.api.traces.SEARCH_S", 0.0)
    shown = growing.http.get("/api/v1/traces?text=none&since=1").json()
    assert (shown["items"], shown["is_partial"]) == ([], True)
    address, pages = "/traces?text=refund&range=7d", 0
    found = 0
    while "ended for want of time" in (text := view(growing, address)):
        found, pages = found + rows(text), pages + 1
        link = re.search(r'<a href="([^"]*)" rel="next">Look further back', text)
        assert link
        address = "/traces" + html.unescape(link[1])
        assert parse_qs(urlsplit(address).query)["text"] == ["refund"]
    assert (found + rows(text), pages >= 1) == (2, True)


def test_a_list_is_downloaded_with_its_filters(
    listed: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts of one line each, all of which are the file."""
    monkeypatch.setattr("collector.web.lists._PART_BYTES", 1)
    text = view(listed, "/evaluations?outcome=failed&range=1h")
    for form, count in (("jsonl", 2), ("csv", 3)):
        link = re.search(rf'href="(/evaluations\.{form}[^"]*)" download', text)
        assert link
        answer = listed.http.get(html.unescape(link[1]))
        assert answer.status_code == 200
        assert answer.headers["content-disposition"] == f'attachment; filename="evaluations.{form}"'
        assert answer.headers["cache-control"] == "no-store"
        assert len(answer.text.splitlines()) == count
    lines = listed.http.get("/evaluations.jsonl?outcome=failed").text.splitlines()
    assert {json.loads(line)["uid"] for line in lines} == {"bad1", "bad2"}
    whole = listed.http.get("/evaluations.parquet?outcome=failed")
    assert whole.headers["content-type"] == "application/vnd.apache.parquet"
    (tmp_path / "file").write_bytes(whole.content)
    table = duckdb.read_parquet(str(tmp_path / "file"))
    found = sorted(table.select("uid, outcome").fetchall())
    assert found == [("bad1", "failed"), ("bad2", "failed")]
    lines = listed.http.get("/records.jsonl?state=waiting").text.splitlines()
    assert lines == []
    lines = listed.http.get("/records.jsonl?record_id=good&state=evaluated").text.splitlines()
    assert [json.loads(line)["context"] for line in lines] == [{"answer": 42}]
    for form in ("csv", "parquet"):
        refused = listed.http.get(f"/evaluations.{form}?outcome=x")
        assert refused.status_code == 400
        assert "content-disposition" not in refused.headers
    assert "download" not in view(listed, "/records?text=42"), "an export knows no text"


def test_few_parquet_files_are_open_at_a_time() -> None:
    """Kind: readers take the descriptors of the store. Whoever is away gives the place back."""

    async def lines() -> AsyncIterator[bytes]:
        yield b'{"uid": "u"}\n'

    async def download() -> None:
        files = [as_parquet(lines(), "shop") for _ in range(4)]
        assert [(await anext(each))[:4] for each in files] == [b"PAR1"] * 4
        with pytest.raises(ProblemError, match="4 Parquet files of this space"):
            await anext(as_parquet(lines(), "shop"))
        assert (await anext(as_parquet(lines(), "other")))[:4] == b"PAR1"
        await files[0].aclose()
        assert (await anext(as_parquet(lines(), "shop")))[:4] == b"PAR1"

    asyncio.run(download())


def test_an_export_refuses_a_filter_that_its_kind_has_not(listed: Service) -> None:
    """An ignored filter would leave more in the file than was requested."""
    for path, named in (
        ("records?outcome=failed", "outcome"),
        ("records?tag=a%3Db", "tag"),
        ("evaluations?state=waiting", "state"),
        ("task_results?state=waiting", "state"),
    ):
        refused = listed.http.get(f"/api/v1/export/{path}")
        assert refused.status_code == 400
        assert refused.json()["detail"].startswith(f"{named}: ")
    lines = listed.http.get("/api/v1/export/task_results?outcome=failed").text.splitlines()
    assert {json.loads(line)["uid"] for line in lines} == {"bad1", "bad2"}
