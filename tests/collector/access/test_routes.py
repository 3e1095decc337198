"""Every route with every scope, in one's own space and in a foreign one, against a table."""

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from collector.alerts.alert import DriftAlert, DriftAlertState, Figures
from scouter.alert.config import AgentAlertConfig, AlertCondition, AlertThreshold
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.series import Kind
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.otlp import encode_request
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import TRACE, span
from tests.support.openmetrics import ACCEPT, families_in
from tests.support.processes import wait_until
from tests.support.replay_results import results, scenario

TABLE: Final = Path(__file__).parents[2] / "cases" / "routes.txt"
ROUTES: Final = [
    tuple(line.split())
    for line in TABLE.read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
SENT: Final = {"/v1/traces": "application/x-protobuf", "/v1/logs": "application/x-protobuf"}


def headers(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


class Guarded:
    """A collector with one token for each scope in the space `shop`, and one for all in `bank`."""

    def __init__(self, start: Start, folder: Path, **flags: object) -> None:
        tokens = TokenFile(folder / "data")
        self.tokens = {scope.value: tokens.create("", [scope], "shop")[1] for scope in Scope}
        self.everything = tokens.create("", Scope, "shop")[1]
        self.foreign = tokens.create("", Scope, "bank")[1]
        self.service: Service = start(**flags)

    def ask(self, method: str, path: str, token: str, **more: Any) -> Any:
        return self.service.http.request(method, path, headers=headers(token), **more)

    def get(self, path: str, token: str) -> Any:
        answer = self.ask("GET", path, token)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def guarded(start: Start, tmp_path: Path) -> Guarded:
    return Guarded(start, tmp_path, session_quiet_s="100ms")


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """One for all tests that put nothing into it."""
    folder = tmp_path_factory.mktemp("unchanged")
    guarded = Guarded(partial(Service, folder), folder)
    yield guarded
    guarded.service.stop()


def test_the_table_has_every_route(unchanged: Guarded) -> None:
    paths = unchanged.get("/openapi.json", unchanged.tokens["read"])["paths"]
    found = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert found | {("GET", "/openapi.json")} == {(method, path) for method, path, *_ in ROUTES}


@pytest.mark.parametrize(("method", "path", "needed"), [route[:3] for route in ROUTES])
def test_who_is_let_in(unchanged: Guarded, method: str, path: str, needed: str) -> None:
    """With the scope, something other than a refusal; with another one 403, with none 401."""
    guarded = unchanged
    address = path.replace("{letter_id}", "0" * 32).replace("{trace_id}", TRACE)
    address = address.replace("{key}", "0" * 64)
    sent: dict[str, Any] = {}
    if method != "GET":
        media = SENT.get(path, "application/json")
        sent = {"content": b"" if "protobuf" in media else b"{}"}
    for scope, token in guarded.tokens.items():
        answer = guarded.service.http.request(
            method, address, headers={**headers(token), **_media(path, method)}, **sent
        )
        is_refused = answer.status_code in (401, 403)
        assert is_refused is (needed not in ("-", scope)), (scope, answer.text)
    # From an address of its own: there is a limit of requests without a token.
    number = [route[:2] for route in ROUTES].index((method, path))
    stranger = guarded.service.client(f"10.0.0.{number}")
    answer = stranger.request(method, address, headers=_media(path, method), **sent)
    assert (answer.status_code == 401) is (needed != "-"), answer.text
    if needed != "-":
        assert answer.headers["www-authenticate"] == "Bearer"
    answer = stranger.request(
        method, address, headers=_media(path, method), params=_in_url(guarded), **sent
    )
    assert (answer.status_code == 401) is (needed != "-"), "a token in the address is none"


def _media(path: str, method: str) -> Mapping[str, str]:
    return {"Content-Type": SENT.get(path, "application/json")} if method != "GET" else {}


def _in_url(guarded: Guarded) -> dict[str, str]:
    return {"token": guarded.everything, "access_token": guarded.everything}


def test_a_space_sees_nothing_of_another(guarded: Guarded, answers: Path) -> None:
    """Records and spans of one space are there for itself, and absent for the other."""
    guarded.service.stop()
    service = guarded.service = Service(
        guarded.service.collector.settings.data.parent, profile=[str(answers)], space="shop"
    )
    shop, bank = guarded.everything, guarded.foreign
    record = {"uid": "u1", "profile": "answers", "trace_id": TRACE, "context": {"answer": 42}}
    for sent in ({"records": [record]}, {"records": ["no record"]}):
        guarded.ask("POST", "/v1/records", shop, json=sent)
    data = encode_request([span(1)]).SerializeToString()
    for token in (shop, bank):
        answer = service.http.post(
            "/v1/traces", content=data,
            headers={**headers(token), "Content-Type": "application/x-protobuf"},
        )  # fmt: skip
        assert answer.status_code == 200
    wait_until(
        lambda: guarded.get("/api/v1/conservation", shop)["records"]["evaluated"] == 1,
        what="the evaluation",
    )
    counts = {
        token: [
            guarded.get("/api/v1/conservation", token)["records"]["accepted"],
            guarded.get("/api/v1/conservation", token)["spans"]["stored"],
            *(
                len(guarded.get(f"/api/v1/{path}", token)["items"])
                for path in (
                    "evaluations",
                    "tasks",
                    "profiles",
                    "dead-letters",
                    "records",
                    "sessions",
                    "tasks/series",
                )
            ),
            *(
                len(guarded.ask("GET", f"/api/v1/export/{kind}", token).text.splitlines())
                for kind in ("records", "evaluations", "task_results")
            ),
        ]
        for token in (shop, bank)
    }
    assert counts == {shop: [1] * 12, bank: [0, 1] + [0] * 10}
    (item,) = guarded.get("/api/v1/evaluations", shop)["items"]
    for path in ("records/u1", "sessions/u1", f"evaluations/{item['evaluation_id']}"):
        assert guarded.ask("GET", f"/api/v1/{path}", shop).status_code == 200
        assert guarded.ask("GET", f"/api/v1/{path}", bank).status_code == 404
    (letter,) = guarded.get("/api/v1/dead-letters", shop)["items"]
    path = f"/api/v1/dead-letters/{letter['letter_id']}/replay"
    assert guarded.ask("POST", path, bank).status_code == 404
    assert guarded.ask("POST", path, shop).json()["result"] == "refused"
    # The same uid of another space is another record.
    answer = guarded.ask("POST", "/v1/records", bank, json={"records": [record]})
    assert answer.json()["accepted"] == 1
    service.stop()


ZEBRA: Final = "zebra"
"""Is in everything that the space `shop` has in the next test, and nowhere else."""


class Zebra:
    """The space `shop` with a record, its session, trace and evaluation, a profile and a letter.

    Another space has nothing.
    """

    def __init__(self, guarded: Guarded) -> None:
        self.guarded, shop = guarded, guarded.everything
        condition = AlertCondition(0.9, AlertThreshold.Below, 0.1)
        alert = AgentAlertConfig(alert_condition=condition, window=20, min_samples=1)
        task = AssertionTask("right", "answer", 42, "Equals")
        self.profile = AgentEvalProfile([task], AgentEvalConfig(alert_config=alert), alias=ZEBRA)
        media = {"Content-Type": "application/json"}
        body = self.profile.model_dump_json()
        answer = self._ask("POST", "/api/v1/profiles", shop, content=body, **media)
        self.uid = answer.json()["uid"]
        self._ask("POST", f"/api/v1/profiles/{self.uid}/activate", shop)
        record = {
            "uid": ZEBRA, "record_id": ZEBRA, "session_id": ZEBRA, "trace_id": TRACE,
            "profile": ZEBRA, "context": {"answer": 41, "animal": ZEBRA},
        }  # fmt: skip
        for item in (record, {"session_id": ZEBRA, "zebra": 1}):
            self._ask("POST", "/v1/records", shop, json={"records": [item]})
        attributes = {
            "gen_ai.operation.name": "chat", "gen_ai.request.model": ZEBRA,
            "gen_ai.agent.name": ZEBRA, "gen_ai.prompt.name": ZEBRA,
            "gen_ai.usage.input_tokens": 3,
        }  # fmt: skip
        self.spans = encode_request([span(1, name=ZEBRA, attributes=attributes)])
        data = self.spans.SerializeToString()
        protobuf = {"Content-Type": "application/x-protobuf"}
        self._ask("POST", "/v1/traces", shop, content=data, **protobuf)
        wait_until(self._is_judged, what="the evaluation")
        wait_until(self._is_watched, what="the detectors took the evaluation")
        self._resolve_alert()
        run = results([scenario(ZEBRA, {"right": True})]).model_dump_json()
        self._ask("POST", "/api/v1/runs?name=zebra", shop, content=run, **media)
        said = {"uid": ZEBRA, "task_id": "right", "label": True, "rater": "ada"}
        self._ask("POST", "/api/v1/labels", shop, json=said)
        self.evaluation = guarded.get("/api/v1/evaluations", shop)["items"][0]["evaluation_id"]
        self.letter = guarded.get("/api/v1/dead-letters", shop)["items"][0]["letter_id"]

    def _ask(self, method: str, path: str, token: str, **more: Any) -> Any:
        names = {name: more.pop(name) for name in ("Content-Type",) if name in more}
        answer = self.guarded.service.http.request(
            method, path, headers={**headers(token), **names}, **more
        )
        assert answer.status_code in (200, 201), answer.text
        return answer

    def _is_judged(self) -> bool:
        sheet = self.guarded.get("/api/v1/conservation", self.guarded.everything)["records"]
        return sheet["evaluated"] == 1

    def _is_watched(self) -> bool:
        return bool(self.guarded.get("/api/v1/drift/series", self.guarded.everything)["items"])

    def _resolve_alert(self) -> None:
        """An alert of the past: to prove a fall takes more than one record."""
        figures = Figures(
            since_ns=1, records=9, failed=9, evidence=1e3, healthy=0.9, lower=0.8, against="1"
        )
        alert = DriftAlert(
            alert_id=ZEBRA, space="shop", profile_uid=self.uid, profile_name=ZEBRA, alias=ZEBRA,
            profile_digest="", task="", kind=Kind.PASS, service="", environment="", version="",
            state=DriftAlertState.RESOLVED, opened_ns=1, changed_ns=1, opened=figures, examples=(),
        )  # fmt: skip
        self.guarded.service.collector.store.save_drift([], [alert.event()])

    def address(self, path: str) -> str:
        """A route's path with the ids of what is there."""
        named = {
            "{letter_id}": self.letter, "{evaluation_id}": self.evaluation, "{session_id}": ZEBRA,
            "{trace_id}": TRACE, "{kind}": "evaluations", "{alert_id}": ZEBRA, "{key}": "0" * 64,
            "{span_id}": f"{1:016x}",
            "{uid}": ZEBRA if "records" in path else self.uid, "{decision}": "promote",
        }  # fmt: skip
        for name, text in named.items():
            path = path.replace(name, text)
        if "canary" in path:
            return f"{path}?stable=1&candidate=2"
        return path + ASKED.get(path.rsplit("/", 1)[-1], "")

    def order(self, path: str) -> dict[str, Any]:
        """The body for a route that takes one."""
        if path == "/v1/traces":
            content = self.spans.SerializeToString()
            return {"content": content, "headers": {"Content-Type": "application/x-protobuf"}}
        if path in ("/v1/logs", "/v1/metrics"):
            return {"content": b"", "headers": {"Content-Type": "application/x-protobuf"}}
        bodies: dict[str, Any] = {
            "/v1/records": {"records": [{"uid": ZEBRA, "profile": "other"}]},
            "/api/v1/erase": {"session_id": ZEBRA},
            "/api/v1/backup": {"folder": "b"},
            "/api/v1/alerts/{alert_id}/silence": {"seconds": 60},
            "/api/v1/alerts/test": {"channel": "log"},
            "/api/v1/profiles": {**json.loads(self.profile.model_dump_json()), "alias": "other"},
            "/api/v1/reevaluations": {"profile": self.uid, "dry_run": False},
        }
        return {"json": bodies.get(path, {}), "headers": {"Content-Type": "application/json"}}


ASKED: Final = {
    "matches": f"?filter={ZEBRA}", "value": "?pointer=/name",
    "distributions": f"?profile={ZEBRA}&task_id=right",
    "failures": f"?profile={ZEBRA}&task_id=right",
}  # fmt: skip
"""Parameters that routes with such an end need."""
WITHOUT: Final = {
    "/healthz", "/readyz", "/openapi.json", "/api/v1/conservation", "/api/v1/status",
    "/api/v1/conservation/records", "/api/v1/traces/{trace_id}/matches",
    "/api/v1/traces/{trace_id}/turn", "/api/v1/traces/{trace_id}/links",
    "/api/v1/tasks/distributions", "/api/v1/drift/explanation/{uid}",
}  # fmt: skip
"""Routes whose answer holds no text of a space."""
ELSEWHERE: Final = {
    "/api/v1/judge-answers/{key}", "/api/v1/judges/gold", "/api/v1/comparison", "/api/v1/versions",
    "/api/v1/labels/queue", "/api/v1/labels/agreement", "/api/v1/labels/file",
    "/api/v1/labels/records",
    "/api/v1/scenarios/{uid}", "/api/v1/trajectories/{uid}", "/api/v1/questions",
}  # fmt: skip
"""These need judges, or parameters: `tests/scouter/client/test_judge_cache.py`,
`tests/collector/judging/test_gold.py`, `tests/collector/api/test_comparison.py`,
`tests/collector/api/test_labels.py` and `tests/collector/api/test_record_parts.py` ask them with
tokens of other spaces."""


def test_a_foreign_token_sees_and_changes_nothing(guarded: Guarded) -> None:
    """Every route: what one space has is shown to it, and neither shown to another nor changed."""
    zebra, shop, bank = Zebra(guarded), guarded.everything, guarded.foreign
    routes = [(method, path, int(status)) for method, path, _, status in ROUTES]

    def seen(token: str) -> dict[str, tuple[int, str]]:
        found: dict[str, tuple[int, str]] = {}
        for method, path, _ in routes:
            if method == "GET":
                answer = guarded.ask("GET", zebra.address(path), token)
                text = answer.text
                if path == "/metrics":  # most of it is about the process
                    text = "".join(re.findall(r"^scouter_evaluations_total{.*", text, re.MULTILINE))
                found[path] = answer.status_code, text
        return found

    own, foreign = seen(shop), seen(bank)
    for method, path, status in routes:
        if method != "GET":
            continue
        if path not in ELSEWHERE:
            assert own[path][0] == 200, path
            assert (ZEBRA in own[path][1]) is (path not in WITHOUT), path
        assert foreign[path][0] == status, path
        assert status == 404 or not re.search(f"{ZEBRA}|{TRACE}", foreign[path][1]), path
    assert own["/api/v1/conservation"] != foreign["/api/v1/conservation"]
    for method, path, status in routes:
        if method == "GET" or path in ELSEWHERE:
            continue
        sent = zebra.order(path)
        sent["headers"] |= headers(bank)
        answer = guarded.service.http.request(method, zebra.address(path), **sent)
        assert answer.status_code == status, (path, answer.text)
    assert guarded.service.collector.worker.catch_up(60)
    assert seen(shop) == own


def test_the_host_header_while_there_is_no_token(untouched: Service) -> None:
    http = untouched.http
    for path in ("/api/v1/evaluations", "/metrics", "/openapi.json"):
        answer = http.get(path, headers={"Host": "attacker.example"})
        assert (answer.status_code, answer.json()["title"]) == (421, "Misdirected Request")
    answer = http.post("/v1/records", json={"records": []}, headers={"Host": "attacker.example"})
    assert answer.status_code == 421
    assert http.get("/healthz", headers={"Host": "10.0.0.7:4318"}).status_code == 200


@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", None])
def test_what_a_form_of_another_site_can_send_changes_nothing(
    untouched: Service, media: str | None
) -> None:
    """Browsers send such a body without asking first; one without a type names its origin."""
    http = untouched.http
    sent = {"Content-Type": media} if media else {"Origin": "https://attacker.example"}
    for path in ("/v1/records", "/api/v1/dead-letters/replay"):
        answer = http.post(path, content=b'{"records": []}', headers=sent)
        assert answer.status_code in (403, 415), (path, answer.text)
        assert "access-control-allow-origin" not in answer.headers
    preflight = http.options("/v1/records", headers={"Origin": "https://attacker.example"})
    assert "access-control-allow-origin" not in preflight.headers


def test_a_parameter_that_is_not_there_is_named(untouched: Service) -> None:
    answer = untouched.http.get("/api/v1/evaluations?profil=a")
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("profil: no such parameter; this route has: profile,")


def test_nobody_writes_lines_of_the_log(
    start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names with line breaks are refused; a path with one is escaped, where the collector fails."""
    service = start()
    names = [f"a{end}ERROR forged" for end in ("\n", "\r", "\x85", "\u2028", "\x1b[31m")]
    records = [{"uid": f"u{n}", "profile": name} for n, name in enumerate(names)]
    assert service.send(*records)["rejected"] == len(names)

    def fails(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(service.collector.store, "dead_letters", fails)
    answer = service.http.post("/api/v1/dead-letters/a%0AERROR%20forged/replay")
    assert answer.status_code == 500
    ours = [each for each in caplog.records if each.name.startswith("collector")]
    assert [len(each.getMessage().splitlines()) for each in ours] == [1]
    assert "forged" in ours[0].getMessage()


def test_bodies_of_strangers_are_not_read_and_others_are_bounded(unchanged: Guarded) -> None:
    """Nothing parses a body before it is known who sends it."""
    requests: list[int] = []

    def endless() -> Iterator[bytes]:
        for _ in range(1000):
            requests.append(1)
            yield b" " * 2**16

    http, media = unchanged.service.http, {"Content-Type": "application/json"}
    for path in ("/api/v1/erase", "/api/v1/reevaluations", "/api/v1/profiles", "/api/v1/backup"):
        answer = http.post(path, content=b"{" * 5000, headers=media)
        assert answer.status_code == 401
        admin = {**media, **headers(unchanged.everything)}
        answer = http.post(path, content=endless(), headers=admin)
        assert (answer.status_code, "1048576 bytes" in answer.text) == (413, True)
        answer = http.post(path, content=iter([b"{}"]), headers=headers(unchanged.everything))
        assert answer.status_code == 415, "chunked, and it does not say what it is"


def test_bodies_are_read_of_tokens_with_the_scope_and_of_no_others(unchanged: Guarded) -> None:
    """The others learn at once which scope they lack. All but runs are of 1 MiB at most."""
    routes = [(m, path, needed) for m, path, needed, *_ in ROUTES if path.startswith("/api/")]
    takers = {path: needed for method, path, needed in routes if method != "GET"}
    assert takers["/api/v1/runs"] == "ingest"
    assert takers["/api/v1/labels"] == "label"
    assert set(takers.values()) == {"admin", "profile", "ingest", "label"}
    http, media = unchanged.service.http, {"Content-Type": "application/json"}
    for method, path, needed in routes:
        if method == "GET":
            continue
        for scope in {"ingest", "read"} - {needed}:
            sent = {**media, **headers(unchanged.tokens[scope])}
            answer = http.request(method, path, content=b"{" * 2**21, headers=sent)
            assert answer.status_code == 403
            assert f"needs the scope {needed}" in answer.text
        sent = {**media, **headers(unchanged.tokens[needed])}
        answer = http.request(method, path, content=b"{" * 2**21, headers=sent)
        assert (answer.status_code == 413) is (path != "/api/v1/runs"), answer.text
    sent = {**media, **headers(unchanged.tokens["ingest"])}
    assert http.post("/api/v1/nothing", content=b"{", headers=sent).status_code == 404


@pytest.mark.parametrize(("method", "path"), [("GET", "/api/v1/tasks"), ("POST", "/v1/records")])
def test_requests_and_guesses_are_limited(
    start: Start, tmp_path: Path, method: str, path: str
) -> None:
    """One a second and two at once for a token; ten guesses at once. Others are served."""
    guarded = Guarded(start, tmp_path, max_requests_per_s=1)
    body: dict[str, Any] = {} if method == "GET" else {"json": {"records": []}}

    def ask(token: str) -> Any:
        return guarded.ask(method, path, token, **body)

    found = [ask(guarded.everything) for _ in range(6)]
    assert [each.status_code for each in found[:2]] == [200, 200]
    (refused, *_) = [each for each in found if each.status_code == 429]
    assert refused.headers["content-type"] == "application/problem+json"
    assert int(refused.headers["retry-after"]) >= 1
    assert ask(guarded.foreign).status_code == 200
    guesses = [ask(f"guess {n}").status_code for n in range(12)]
    assert (guesses[:10], guesses[-1]) == ([401] * 10, 429)
    assert ask(guarded.foreign).status_code == 200, "a right token from the same address"
    stranger = guarded.service.client("10.0.0.2")
    for _ in range(20):
        assert stranger.get("/readyz").status_code == 200
    silent = [stranger.request(method, path, **body) for _ in range(12)]
    assert [each.status_code for each in silent] == [401] * 10 + [429] * 2
    assert int(silent[-1].headers["retry-after"]) >= 1


def test_metrics_and_backups_are_of_ones_own_space(guarded: Guarded, answers: Path) -> None:
    """But for tokens of the collector's own space, which is `default` here."""
    guarded.service.collector.registry.register(
        "shop", AgentEvalProfile.from_file(answers), activate=True
    )
    tokens = TokenFile(guarded.service.collector.settings.data)
    _, own = tokens.create("", Scope, "default")
    wait_until(lambda: guarded.ask("GET", "/metrics", own).status_code == 200, what="the token")
    found = {
        token: guarded.ask("GET", "/metrics", token).text
        for token in (guarded.everything, guarded.foreign, own)
    }
    for token, spaces in (
        (guarded.everything, {"shop"}),
        (guarded.foreign, {"bank"}),
        (own, {"shop", "bank", "default"}),
    ):
        assert set(re.findall(r'space="(\w+)"', found[token])) == spaces
    assert 'task="right"' in found[guarded.everything]
    assert 'task="right"' not in found[guarded.foreign]
    accept = headers(guarded.everything) | {"Accept": ACCEPT}
    text = guarded.service.http.get("/metrics", headers=accept).text
    families = families_in(text)
    assert {s.labels["space"] for each in families for s in each.samples} == {"shop"}
    assert "scouter_store_last_commit_age_seconds" in found[own]
    assert "scouter_store_last_commit_age_seconds" not in found[guarded.foreign]
    answer = guarded.ask("POST", "/api/v1/backup", guarded.foreign, json={"folder": "b"})
    assert (answer.status_code, "needs a token of 'default'" in answer.text) == (403, True)


REACHABLE: Final = {"listen": "0.0.0.0:4318"}


@pytest.mark.parametrize("flags", [{}, REACHABLE], ids=["loopback", "reachable"])
def test_a_guarded_collector_stays_guarded(
    start: Start, tmp_path: Path, flags: dict[str, str]
) -> None:
    """The file may change while the collector runs: here it becomes one without any token."""
    guarded = Guarded(start, tmp_path, **flags)
    TokenFile(tmp_path / "other").create("", Scope, "shop")
    with closing(sqlite3.connect(tmp_path / "other" / "access.db")) as connection, connection:
        connection.execute("DELETE FROM tokens")
    (tmp_path / "other" / "access.db").replace(tmp_path / "data" / "access.db")
    wait_until(
        lambda: guarded.ask("GET", "/api/v1/tasks", guarded.everything).status_code == 401,
        what="the other file",
    )
    assert guarded.service.http.get("/api/v1/tasks").status_code == 401


def test_a_collector_without_tokens_answers_no_other_machine(untouched: Service) -> None:
    service = untouched
    for address, status in (("127.0.0.1", 200), ("::1", 200), ("10.0.0.7", 403)):
        answer = service.client(address).get("/api/v1/tasks")
        assert answer.status_code == status, (address, answer.text)
    assert service.client("10.0.0.7").get("/readyz").status_code == 200


@dataclass
class Away:
    """A receiver whose server is not there."""

    name: str
    where: str
    is_connected: bool = False


AWAY: Final = Away("redis", "redis://broker.internal.example:6379")


def test_a_probe_tells_strangers_one_word(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strangers see the part that is not ready; the scope `read` shows place and reason, too."""
    collector = guarded.service.collector

    def detail(token: str | None) -> str:
        sent = {} if token is None else headers(token)
        answer = guarded.service.http.get("/readyz", headers=sent)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        return answer.json()["detail"]

    strangers = [None, "sct_nonsense", guarded.tokens["ingest"], guarded.tokens["admin"]]
    with monkeypatch.context() as patch:
        patch.setattr(collector, "message_receivers", [AWAY])
        assert {detail(each) for each in strangers} == {"not ready: redis"}
        assert detail(guarded.tokens["read"]) == f"no connection to redis at {AWAY.where}"
    with monkeypatch.context() as patch:
        patch.setattr(collector.store, "fault", lambda: "IO Error: /var/lib/scouter is full")
        assert {detail(each) for each in strangers} == {"not ready: store"}
        assert detail(guarded.tokens["read"]) == "IO Error: /var/lib/scouter is full"


def test_a_probe_tells_this_machine_everything_while_there_is_no_token(
    untouched: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But no page of another site."""
    service = untouched
    with monkeypatch.context() as patch:
        patch.setattr(service.collector, "message_receivers", [AWAY])
        assert AWAY.where in service.http.get("/readyz").json()["detail"]
        answer = service.http.get("/readyz", headers={"Host": "attacker.example"})
        assert (answer.status_code, answer.json()["detail"]) == (503, "not ready: redis")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_answer_whatever_is_wrong_with_a_request(guarded: Guarded, path: str) -> None:
    http = guarded.service.http
    assert http.get(path, headers={"Origin": "http://[x"}).status_code == 200
    (guarded.service.collector.settings.data / "access.db").unlink()
    assert http.get(path).status_code == 200
