"""Every view of the page: on stored data, on nothing, and on what is hostile."""

import hashlib
import html
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest
from typing_extensions import override

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from collector.web import render
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.otlp import encode_request
from scouter.model.span import Resource
from tests.collector.conftest import Service, Start, save_answers
from tests.collector.web.conftest import PROTOBUF
from tests.contracts.store_data import TRACE, span
from tests.support.processes import wait_until

_STATIC: Final = Path(render.__file__).parent / "static"
VIEWS: Final = (
    "/", "/task?profile=answers&task=right", "/profile?profile=answers",
    "/profile/tasks?profile=answers", "/evaluations", "/records", "/traces", "/conversations",
    "/alerts", "/health", f"/traces/{TRACE}", "/conversations/s1",
)  # fmt: skip


class Parts(HTMLParser):
    """The parts of an answer, as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.feed(text)

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    @override
    def handle_data(self, data: str) -> None:
        self.text.append(data)


def view(service: Service, address: str) -> str:
    answer = service.http.get(address)
    assert answer.status_code == 200, (address, answer.text)
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    return answer.text


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A collector without anything."""
    service = Service(tmp_path_factory.mktemp("empty"))
    yield service
    service.stop()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A collector with one record that passed and one that failed, on one trace."""
    folder = tmp_path_factory.mktemp("filled")
    service = Service(folder, profile=[str(save_answers(folder))])
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
    data = encode_request(
        [
            span(1, name="desk"),
            span(2, parent_span_id=f"{1:016x}", name="tool", attributes=attributes),
        ]
    )
    service.http.post("/v1/traces", content=data.SerializeToString(), headers=PROTOBUF)
    service.send(
        {"uid": "good", "profile": "answers", "session_id": "s1", "context": {"answer": 42}},
        {"uid": "bad/one", "profile": "answers", "record_id": "A-7", "trace_id": TRACE,
         "context": {"answer": 41, "other": ["a", "b"]}},
    )  # fmt: skip
    service.wait_for(2)
    yield service
    service.stop()


def test_too_many_tasks_for_their_plots_are_shown_without(
    filled: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 'class="spark"' in view(filled, "/")
    monkeypatch.setattr("collector.api.tasks.MOST_PLACES", 0)
    text = view(filled, "/")
    assert 'class="spark"' not in text
    assert "/task?profile=answers&amp;task=right" in text


def test_a_reader_goes_from_the_overview_to_the_guilty_span(filled: Service) -> None:
    """Three links: task, record, trace; each view says why."""
    overview = view(filled, "/")
    assert "50.0%" in overview
    task = re.search(r'href="(/task\?[^"]+)">right<', overview)
    assert task
    text = view(filled, task[1].replace("&amp;", "&"))
    failures = re.search(r'hx-get="(/task/failures\?[^"]+)"', text)
    assert failures
    text = view(filled, failures[1].replace("&amp;", "&"))
    record = re.search(r'href="(/records/[^"]+)">A-7<', text)
    assert record
    assert record[1] == "/records/bad%2Fone"
    text = view(filled, record[1])
    for wanted in ("looked at", "41", "42", "Expected (Equals)"):
        assert wanted in text
    assert text.index("looked at") < text.index(">other<"), "the field that failed comes open"
    trace = re.search(r'href="(/traces/[0-9a-f]{32})"', text)
    assert trace
    text = view(filled, trace[1])
    assert "search" in text
    assert "A-7" in text


@pytest.mark.parametrize("address", VIEWS)
def test_every_view_of_nothing_says_what_to_do(empty: Service, address: str) -> None:
    answer = empty.http.get(address)
    assert answer.status_code == (404 if re.search(r"traces/|[a-z]\?|/s1", address) else 200)
    words = " ".join(Parts(answer.text).text)
    assert re.search(
        "come yet|no alert|accepted|No active profile|no span|is not registered|no record of",
        words,
    ), words


def test_a_view_that_is_refused_says_why(filled: Service) -> None:
    answer = filled.http.get("/traces?min_duration_ms=-1")
    assert answer.status_code == 400
    assert "min_duration_ms" in answer.text
    answer = filled.http.get("/records/none")
    assert answer.status_code == 404
    assert "no record" in answer.text


def test_a_condition_is_one_alert_on_the_page(start: Start, answers: Path) -> None:
    """Listed once on the overview, acted upon as all others, and taken for no fall."""
    service = start(profile=[str(answers)])
    service.send(
        *({"uid": f"u{n}", "profile": "answers", "context": {"answer": 1}} for n in range(9))
    )

    def alerts() -> list[Any]:
        return service.get("/api/v1/alerts")["drift"]

    # The detectors have the level as a reference of the whole record, which fell, too.
    wait_until(lambda: len(alerts()) == 2, what="alerts")
    (alert,) = [each for each in alerts() if each["condition"]]
    overview = view(service, "/")
    assert "2 open alerts" in overview
    assert overview.count(f'href="/alerts/{alert["alert_id"]}"') == 1
    text = view(service, f"/alerts/{alert['alert_id']}")
    assert "Condition of the profile: pass rate below 80.0%; now <strong>" in text
    assert "new normal" not in text
    answer = service.http.post(f"/alerts/{alert['alert_id']}/acknowledge", data={"note": "on it"})
    assert "acknowledged" in answer.text
    assert 'class="outcome errored">acknowledged<' in view(service, "/alerts")


def test_what_is_not_watched_yet_says_what_it_waits_for(start: Start, tmp_path: Path) -> None:
    """A version beside an older one that has too few records to compare with."""
    task = AssertionTask("right", "answer", 42, ComparisonOperator.Equals)
    profile = AgentEvalProfile([task], alias="answers").save_to_json(tmp_path / "answers.json")
    service = start(profile=[str(profile)])
    for version, number in (("1", 20), ("2", 40)):
        tags = {"service.name": "bot", "service.version": version}
        service.send(
            *(
                {"uid": f"{version}-{n}", "profile": "answers", "tags": tags,
                 "context": {"answer": 41}}
                for n in range(number)
            )
        )  # fmt: skip
        service.wait_for(number if version == "1" else 60)

    def overview() -> str:
        return " ".join(Parts(view(service, "/")).text)

    wait_until(lambda: "once that has 100 finished" in overview(), what="the detectors' words")
    assert re.search(
        r"not watched yet\W+still learning what is healthy: 40 of its first 1,000 records; "
        r"from its first record on against version 1, once that has 100 finished "
        r"conversations; it has 20",
        overview(),
    )
    shown = " ".join(Parts(view(service, "/alerts")).text)
    assert "No alert is open." in shown
    assert "Every task of every active profile is watched" not in shown
    assert re.search(r"answers\W+version 2 \(right\)\W+still learning what is healthy: 40", shown)


def test_a_profile_of_two_environments_names_the_other(start: Start, tmp_path: Path) -> None:
    """Two records of one and one of the other, as their spans say; one is shown at a time."""
    count = TraceAssertion.trace_span_count()
    task = TraceAssertionTask("right", count, 0, ComparisonOperator.GreaterThan)
    profile = AgentEvalProfile([task], alias="answers").save_to_json(tmp_path / "answers.json")
    service = start(profile=[str(profile)])
    for number, name in enumerate(("production", "production", "staging"), 1):
        answer = Resource(attributes={"service.name": "a", "deployment.environment.name": name})
        trace_id = f"{number:032x}"
        data = encode_request([span(number, trace_id=trace_id, resource=answer)])
        content = data.SerializeToString()
        assert service.http.post("/v1/traces", content=content, headers=PROTOBUF).is_success
        service.send({"uid": f"u{number}", "profile": "answers", "trace_id": trace_id})
    service.wait_for(3)

    def service_row(address: str) -> str:
        (note,) = re.findall(r"<p [^>]*>(State in .*?)</p>", view(service, address), re.DOTALL)
        return " ".join(note.split())

    def series() -> set[tuple[str, int]]:
        items = service.get("/api/v1/drift/series")["items"]
        return {(each["environment"], each["records"]) for each in items}

    wait_until(lambda: series() == {("production", 2), ("staging", 1)}, what="both series")
    first = service_row("/")
    assert first.startswith("State in production; the rates are of all. There is also <a href=")
    (link,) = re.findall(r'<a href="([^"]*)">staging</a>', first)
    assert "environment=staging" in link
    second = service_row(html.unescape(link))
    assert second.startswith("State in staging. There is also <a href=")
    assert "profile=answers" in second
    assert "environment=production" in second


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/records/%2e", 404),
        ("/alerts/%2e%2e", 404),
        ("/record.json?uid=..", 404),
        ("/record.yaml?uid=.", 404),
        ("/record.json", 404),
        ("/labels/records?profile=answers&task=right&offset=²", 200),
    ],
)
def test_no_address_is_a_fault(filled: Service, address: str, status: int) -> None:
    assert filled.http.get(address).status_code == status


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"cookie", b'scouter_session="\\351"'),
        (b"cookie", b"scouter_session=\x01"),
        (b"authorization", b"Bearer \xe9"),
    ],
)
def test_no_header_is_a_fault(filled: Service, name: bytes, value: bytes) -> None:
    assert filled.http.get("/", headers=[(name, value)]).status_code == 200  # type: ignore[arg-type]


def test_a_record_of_any_size_makes_a_small_view(start: Start, answers: Path) -> None:
    service = start(profile=[str(answers)])
    body = {"answer": [{"a": number} for number in range(100_000)]}
    service.send({"uid": "big", "profile": "answers", "context": body})
    service.wait_for(1)
    text = view(service, "/records/big")
    assert len(text) < 1_000_000
    assert "more is left out" in text


def test_a_view_refuses_what_the_api_refuses(start: Start, answers: Path) -> None:
    """To tokens of another space nothing is there; without the scope `read` nothing is shown."""
    service = start(profile=[str(answers)])
    data = encode_request([span(1, name="a secret")]).SerializeToString()
    assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success
    service.send(
        {"uid": "u1", "profile": "answers", "session_id": "s1", "trace_id": TRACE,
         "context": {"answer": "a secret"}},
    )  # fmt: skip
    service.wait_for(1)
    tokens = service.collector.tokens
    tokens_of = {
        name: {"Authorization": f"Bearer {tokens.create(name, scopes, space)[1]}"}
        for name, scopes, space in (
            ("own", [Scope.READ], "default"),
            ("of another space", list(Scope), "shop"),
            ("without the scope", [Scope.INGEST], "default"),
        )
    }
    wait_until(lambda: service.http.get("/api/v1/alerts").status_code == 401, what="the tokens")
    for page, api in (
        ("records/u1", "records/u1"),
        ("record.json?uid=u1", "records/u1"),
        ("record.yaml?uid=u1", "scenarios/u1"),
        (f"traces/{TRACE}", f"traces/{TRACE}/columns"),
        (f"traces/{TRACE}/export", f"traces/{TRACE}/export"),
        (f"traces/{TRACE}/spans/{1:016x}", f"traces/{TRACE}/spans/{1:016x}"),
        ("conversations/s1", "sessions/s1"),
        ("labels/agreement?profile=answers&task=right",
         "labels/agreement?profile=answers&task_id=right"),
        ("records", "records"),
        ("", "profiles"),
    ):  # fmt: skip
        for name, headers in tokens_of.items():
            shown = service.http.get(f"/{page}", headers=headers, follow_redirects=False)
            answer = service.http.get(f"/api/v1/{api}", headers=headers)
            assert shown.status_code == answer.status_code, (page, name, shown.text, answer.text)
            assert (answer.status_code == 403) is (name == "without the scope")
            assert name == "own" or "a secret" not in shown.text


def test_a_token_opens_the_page_and_nothing_else_does(start: Start, tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "data")
    _, reader = tokens.create("", [Scope.READ], "default")
    _, sender = tokens.create("", [Scope.INGEST], "default")
    http = start().http
    answer = http.get("/records?profile=a", follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=%2Frecords%3Fprofile%3Da"
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/traces?status=ok"}
    part = http.get("/facets/traces?status=ok", headers=headers, follow_redirects=False)
    assert part.status_code == 401
    assert part.headers["hx-redirect"] == "/login?next=%2Ftraces%3Fstatus%3Dok"
    assert http.get("/login").status_code == 200
    refused = http.post("/login", data={"token": "sct_guess", "next": "/records"})
    assert refused.status_code == 401
    assert "unknown, expired or revoked" in refused.text
    refused = http.post("/login", data={"token": sender, "next": "/"})
    assert refused.status_code == 403
    assert "needs the scope read" in refused.text
    form = {"token": reader, "next": "/records"}
    refused = http.post("/login", data=form, headers={"Origin": "https://attacker.example"})
    assert refused.status_code == 403, "a form of another site signs nobody in"
    opened = http.post("/login", data=form, follow_redirects=False)
    assert (opened.status_code, opened.headers["location"]) == (303, "/records")
    cookie = opened.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert http.get("/records").status_code == 200
    assert http.get("/api/v1/records").status_code == 401, "programs send the token in a header"
    assert http.post("/logout", follow_redirects=False).status_code == 303
    assert http.get("/records", follow_redirects=False).status_code == 303


def test_a_login_leads_to_this_site_only(start: Start, tmp_path: Path) -> None:
    _, reader = TokenFile(tmp_path / "data").create("", [Scope.READ], "default")
    http = start().http
    for target in ("https://evil.example", "//evil.example", "/\\evil.example"):
        form = {"token": reader, "next": target}
        answer = http.post("/login", data=form, follow_redirects=False)
        assert answer.headers["location"] == "/"


def test_unsigned_views_are_no_guesses(start: Start, tmp_path: Path) -> None:
    """Ten guesses are let through; a browser that opens twenty views is no guesser."""
    TokenFile(tmp_path / "data").create("", [Scope.READ], "default")
    http = start().http
    for _ in range(20):
        assert http.get("/", follow_redirects=False).status_code == 303
    assert http.get("/static/page.css").status_code == 200


def test_a_browser_keeps_files_until_they_change(start: Start) -> None:
    http = start().http
    data = (_STATIC / "page.css").read_bytes()
    address = f"/static/page.css?v={hashlib.blake2b(data, digest_size=6).hexdigest()}"
    assert f'<link rel="stylesheet" href="{address}">' in http.get("/").text
    cached = http.get(address)
    assert cached.content == data
    assert cached.headers["cache-control"] == "public, max-age=31536000, immutable"
    bare = http.get("/static/page.css")
    assert bare.headers["cache-control"] == "no-cache"
    same = http.get("/static/page.css", headers={"If-None-Match": bare.headers["etag"]})
    assert same.status_code == 304


def test_version_and_environment_stay_in_the_addresses(filled: Service) -> None:
    """Of all links that lead from the overview to a task, and from there to other periods."""
    part = "version=1&environment=prod"
    text = html.unescape(view(filled, f"/?range=1h&{part}"))
    assert f'href="/task?profile=answers&task=right&range=1h&{part}"' in text
    assert f'hx-get="?range=1h&{part}"' in text
    text = html.unescape(view(filled, f"/task?profile=answers&task=right&range=1h&{part}"))
    assert f'href="?profile=answers&task=right&range=7d&{part}"' in text
    assert "Nothing was evaluated in this period for version 1 in prod" in text
