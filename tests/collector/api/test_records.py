"""Records, evaluations, sessions, series and exports over HTTP."""

import csv
import io
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.api.tasks import _USUAL  # pyright: ignore[reportPrivateUsage]
from collector.items.times import format_time, parse_time_ns
from collector.store.totals import HOUR_NS
from tests.collector.conftest import Service, Start, save_answers

_WAITS = {"uid": "a/b c", "profile": "nobody", "context": {"answer": 42}}


def fill(service: Service) -> Service:
    """Two right answers and a wrong one in a session, one right alone, one that waits."""
    for n, answer in enumerate([42, 41, 42, 42]):
        service.send({
            "uid": f"u{n}", "profile": "answers", "record_id": f"=r{n}",
            "session_id": "" if n == 3 else "chat", "created_at": (n + 1) * 10**9,
            "trace_id": f"{n + 1:032x}", "tags": {"team": "blue" if n else "red", "n": str(n)},
            "context": {"answer": answer, "said": f"@{n}"},
        })  # fmt: skip
        service.wait_for(n + 1)
    service.send(_WAITS)
    return service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One for all tests that only read."""
    folder = tmp_path_factory.mktemp("records")
    service = Service(folder, profile=[str(save_answers(folder))], deadline_s="1h")
    yield fill(service)
    service.stop()


@pytest.fixture
def own(start: Start, answers: Path) -> Service:
    """One that a test may change."""
    return fill(start(profile=[str(answers)], deadline_s="1h"))


def pages(service: Service, path: str, **params: str | int) -> Iterator[Any]:
    """All items, two at a time."""
    cursor: dict[str, str] = {}
    while True:
        page = service.get(path, limit=2, **params, **cursor)
        assert len(page["items"]) <= 2
        yield from page["items"]
        if page["next_cursor"] is None:
            return
        cursor = {"cursor": page["next_cursor"]}


def uids(service: Service, path: str, **params: str | int) -> list[str]:
    return [item["uid"] for item in pages(service, f"/api/v1/{path}", **params)]


def test_records(service: Service) -> None:
    assert uids(service, "records") == ["a/b c", "u3", "u2", "u1", "u0"]
    assert uids(service, "records", state="waiting") == ["a/b c"]
    assert uids(service, "records", state="evaluated") == ["u3", "u2", "u1", "u0"]
    assert uids(service, "records", state="erased") == []
    assert uids(service, "records", session_id="chat") == ["u2", "u1", "u0"]
    assert uids(service, "records", profile="deep-thought", record_id="=r1") == ["u1"]
    assert uids(service, "records", trace_id=f"{2:032X}") == ["u1"]
    item = service.get("/api/v1/records", record_id="=r1")["items"][0]
    assert (item["profile"], item["profile_name"]) == ("answers", "deep-thought")
    assert (item["state"], item["outcome"], item["created_at"]) == (
        "evaluated", "failed", "1970-01-01T00:00:02.000000Z"
    )  # fmt: skip
    assert "context" not in item
    third = service.get("/api/v1/records", record_id="=r2")["items"][0]["received_at"]
    assert uids(service, "records", until=third) == ["u1", "u0"]
    assert uids(service, "records", since=third) == ["a/b c", "u3", "u2"]


def test_one_record(service: Service) -> None:
    found = service.get("/api/v1/records/u1")
    assert found["context"] == {"answer": 41, "said": "@1"}
    assert found["tags"] == {"team": "blue", "n": "1"}
    assert [each["revision"] for each in found["evaluations"]] == [1]
    assert found["evaluations"][0]["tasks"][0]["actual"] == 41
    assert found["dead_letter"] is None
    waits = service.get("/api/v1/records/a%2Fb%20c")
    assert (waits["uid"], waits["state"], waits["profile"]) == ("a/b c", "waiting", "nobody")
    answer = service.http.get("/api/v1/records/none")
    assert (answer.status_code, "no record 'none'" in answer.json()["detail"]) == (404, True)


def test_a_record_that_is_dead_lettered_says_why(start: Start, answers: Path) -> None:
    service = start(profile=[str(answers)], deadline_s="1s")
    service.send(_WAITS)
    service.wait_for(1, "dead_lettered")
    found = service.get("/api/v1/records/a%2Fb%20c")
    assert (found["state"], found["evaluations"]) == ("dead_lettered", [])
    assert found["dead_letter"]["reason"] == "unknown_profile"
    (letter,) = service.get("/api/v1/dead-letters")["items"]
    assert found["dead_letter"]["letter_id"] == letter["letter_id"]
    assert uids(service, "records", state="dead_lettered") == ["a/b c"]


def test_filters_of_evaluations(service: Service) -> None:
    def found(**params: str | int) -> list[str]:
        return uids(service, "evaluations", **params)

    assert found(task_id="right", task_outcome="failed") == found(task_outcome="failed") == ["u1"]
    assert found(task_outcome="not_passed") == found(outcome="not_passed") == ["u1"]
    assert found(task_id="right") == found() == ["u3", "u2", "u1", "u0"]
    assert found(service_version="9") == found(environment="x") == []
    assert found(tag="team=blue") == ["u3", "u2", "u1"]
    assert found(tag="team=red") == ["u0"]
    assert found(session_id="u3") == ["u3"]
    third = service.get("/api/v1/evaluations", record_id="=r2")["items"][0]
    assert (third["profile"], third["profile_name"]) == ("answers", "deep-thought")
    assert found(until=third["evaluated_at"]) == ["u1", "u0"]
    both = service.http.get("/api/v1/evaluations?tag=team=blue&tag=n=2").json()["items"]
    assert [each["uid"] for each in both] == ["u2"]
    assert service.get(f"/api/v1/evaluations/{third['evaluation_id']}") == third
    assert service.http.get("/api/v1/evaluations/none").status_code == 404


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("evaluations?tag=x", "tag: expected key=value"),
        ("evaluations?tag=a=1&tag=a=2", "cannot have two values"),
        ("records?state=lost", "state:"),
        ("tasks/series?bucket=59x", "bucket: '59x' is no length"),
        ("tasks/series?bucket=0h", "bucket: '0h' is no length"),
        ("tasks?bucket=0h&since=0", "bucket: '0h' is no length"),
        ("tasks?bucket=1h", "bucket: a rate over time needs since"),
        ("tasks?points=20", "points: a rate over time needs since"),
        ("tasks/series?points=1&since=0", "points: "),
        ("tasks?bucket=1m&since=0&until=1970-01-02T09:21:00Z", "2,001 buckets of 1m"),
        ("tasks/series?bucket=1m&since=0&until=1970-01-02T09:21:00Z", "2,001 buckets of 1m"),
        ("export/profiles", "kind:"),
        ("export/records?format=xml", "format:"),
    ],
)
def test_queries_that_are_refused(service: Service, path: str, detail: str) -> None:
    answer = service.http.get(f"/api/v1/{path}")
    assert answer.status_code == 400
    assert detail in answer.json()["detail"]


def test_a_walk_misses_nothing_that_changes_meanwhile(own: Service) -> None:
    """The record and the session of the last page get a newer evaluation and a newer record."""
    seen: dict[str, list[Any]] = {}
    for path, name in (("evaluations", "uid"), ("sessions", "session_id")):
        walk = pages(own, f"/api/v1/{path}")
        seen[path] = [next(walk)[name], next(walk)[name]]
        body = {"profile": "answers", "record_id": "u0", "dry_run": False}
        if path == "sessions":
            own.send({**_WAITS, "uid": "new", "session_id": "chat"})
        else:
            active = own.get("/api/v1/profiles")["items"][0]
            profile = own.get(f"/api/v1/profiles/{active['uid']}")["body"]
            profile["tasks"][0]["expected_value"] = 43
            body["profile"] = own.http.post("/api/v1/profiles", json=profile).json()["uid"]
            assert own.http.post("/api/v1/reevaluations", json=body).json()["stored"] == 1
        seen[path] += [each[name] for each in walk]
    assert seen == {
        "evaluations": ["u3", "u2", "u1", "u0"],
        "sessions": ["a/b c", "u3", "chat"],
    }


def test_sessions(service: Service) -> None:
    found = list(pages(service, "/api/v1/sessions"))
    assert [each["session_id"] for each in found] == ["a/b c", "u3", "chat"]
    assert found[2] == {
        "session_id": "chat", "records": 3, "traces": 3, "passed": 2, "failed": 1, "errored": 0,
        "skipped": 0, "undecided": 0, "first_at": "1970-01-01T00:00:01.000000Z",
        "last_at": "1970-01-01T00:00:03.000000Z", "duration_ms": None, "input_tokens": None,
        "output_tokens": None, "match": None, "cost": None, "unpriced_models": [],
    }  # fmt: skip
    assert service.get("/api/v1/sessions", profile="answers")["items"] == found[1:]
    assert service.get("/api/v1/sessions", profile="nobody")["items"] == found[:1]
    assert service.http.get("/api/v1/sessions", params={"profile": "somebody"}).status_code == 404
    last = service.get("/api/v1/sessions/a%2Fb%20c")["items"][0]["received_at"]
    assert found[0] in service.get("/api/v1/sessions", since=last)["items"]
    assert found[0] not in service.get("/api/v1/sessions", until=last)["items"]
    chat = service.get("/api/v1/sessions/chat")
    assert {name: chat[name] for name in found[2]} == found[2]
    assert [each["uid"] for each in chat["items"]] == ["u2", "u1", "u0"]
    assert [each["uid"] for each in chat["evaluations"]] == ["u2", "u1", "u0"]
    assert chat["trace_ids"] == [f"{n:032x}" for n in (1, 2, 3)]
    alone = service.get("/api/v1/sessions/u3")
    assert ([each["uid"] for each in alone["evaluations"]], alone["records"]) == (["u3"], 1)
    waits = service.get("/api/v1/sessions/a%2Fb%20c")
    assert (waits["undecided"], waits["evaluations"]) == (1, [])
    assert service.http.get("/api/v1/sessions/none").status_code == 404


@pytest.mark.parametrize("bucket", ["1h", "30m", "1d"])
def test_task_series(service: Service, bucket: str) -> None:
    """3 of 4: centre (0.75 + 0.48018) / 1.96036 = 0.62753, half 0.32690. All within a minute."""
    items = service.get("/api/v1/tasks/series", bucket=bucket)["items"]
    assert sum(item["passed"] for item in items) == 3
    assert sum(item["total"] for item in items) == 4
    if len(items) == 1:  # no bucket began meanwhile
        (item,) = items
        assert (item["profile"], item["profile_name"], item["alias"], item["task_id"]) == (
            "answers", "deep-thought", "answers", "right"
        )  # fmt: skip
        assert item["pass_rate"] == 0.75
        assert (item["lower"], item["upper"]) == (
            pytest.approx(0.3006, abs=1e-4),
            pytest.approx(0.9544, abs=1e-4),
        )
    length_ns = {"1h": HOUR_NS, "30m": HOUR_NS // 2, "1d": 24 * HOUR_NS}[bucket]
    made = service.get("/api/v1/evaluations", record_id="=r1")["items"][0]["evaluated_at"]
    start_ns = parse_time_ns(made) // length_ns * length_ns
    assert format_time(start_ns) in {item["start"] for item in items}
    end = start_ns + (_USUAL + 1) * length_ns
    assert service.get("/api/v1/tasks/series", bucket=bucket, until=end)["items"] == []
    most = start_ns - 1999 * length_ns  # 2,000 buckets, that of the evaluations the last
    whole = service.get(
        "/api/v1/tasks/series", bucket=bucket, since=most, until=start_ns + length_ns
    )
    assert whole["items"]


@pytest.mark.parametrize("bucket", ["1h", "30m", "1d"])
def test_a_task_has_its_rate_over_time(service: Service, bucket: str) -> None:
    """3 of 4 passed, all in one bucket or, as one began meanwhile, in two."""
    length_ns = {"1h": HOUR_NS, "30m": HOUR_NS // 2, "1d": 24 * HOUR_NS}[bucket]
    made = service.get("/api/v1/evaluations", limit=1000)["items"]
    made_ns = sorted(parse_time_ns(each["evaluated_at"]) for each in made)
    starts = {at_ns // length_ns * length_ns // 10**9 for at_ns in made_ns}
    (rate,) = service.get("/api/v1/tasks", since=made_ns[0], bucket=bucket)["items"]
    line = rate["line"]
    assert line["start_s"] == sorted(starts)
    assert sum(line["total"]) == 4
    passed = [each * n for each, n in zip(line["pass_rate"], line["total"], strict=True)]
    assert sum(passed) == pytest.approx(3)
    assert service.get("/api/v1/tasks")["items"][0]["line"] is None
    chosen = service.get("/api/v1/tasks", since=0, points=60)
    assert chosen["items"][0]["line"]["start_s"][0] >= made_ns[0] // 10**9 - chosen["bucket_s"]
    assert chosen["bucket_s"] <= 10, "the first result is some seconds old, and not 1970"
    points = service.get("/api/v1/tasks/series", since=0, points=60)
    assert points["bucket_s"] == chosen["bucket_s"]
    assert sum(each["total"] for each in points["items"]) == 4


def test_export_as_json_lines(service: Service) -> None:
    def lines(kind: str, **params: str) -> list[Any]:
        answer = service.http.get(f"/api/v1/export/{kind}", params=params)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        return [json.loads(line) for line in answer.text.splitlines()]

    records = lines("records")
    assert [each["uid"] for each in records] == ["a/b c", "u3", "u2", "u1", "u0"]
    assert records[3]["context"] == {"answer": 41, "said": "@1"}
    assert lines("evaluations") == service.get("/api/v1/evaluations")["items"]
    results = lines("task_results")
    names = "uid", "task_id", "outcome", "actual"
    assert [tuple(each[name] for name in names) for each in results] == [
        ("u3", "right", "passed", 42), ("u2", "right", "passed", 42),
        ("u1", "right", "failed", 41), ("u0", "right", "passed", 42),
    ]  # fmt: skip
    third = service.get("/api/v1/evaluations", record_id="=r2")["items"][0]["evaluated_at"]
    assert [each["uid"] for each in lines("evaluations", until=third)] == ["u1", "u0"]
    assert [each["uid"] for each in lines("task_results", since=third)] == ["u3", "u2"]
    assert lines("records", until="1") == []


def test_export_as_csv(service: Service) -> None:
    """A text that a spreadsheet would run begins with a quote; numbers stay numbers."""

    def rows(kind: str) -> list[dict[str, str]]:
        answer = service.http.get(f"/api/v1/export/{kind}", params={"format": "csv"})
        assert answer.headers["content-type"].startswith("text/csv")
        assert answer.headers["content-disposition"] == f'attachment; filename="{kind}.csv"'
        return list(csv.DictReader(io.StringIO(answer.text, newline="")))

    records = rows("records")
    assert [each["record_id"] for each in records] == ["", "'=r3", "'=r2", "'=r1", "'=r0"]
    assert json.loads(records[3]["context"]) == {"answer": 41, "said": "@1"}
    assert (records[0]["outcome"], records[0]["trace_id"]) == ("", "")
    evaluations = rows("evaluations")
    assert [each["revision"] for each in evaluations] == ["1"] * 4
    assert "tasks" not in evaluations[0]
    results = rows("task_results")
    assert [each["actual"] for each in results] == ["42", "42", "41", "42"]
    assert results[0]["condition"] == "false"


def test_an_export_reads_in_parts(start: Start, answers: Path) -> None:
    """Five hundred records, some of 600 kB: more than a page, and pages of several parts."""
    service = start(profile=[str(answers)])
    for n in range(10):
        service.send(
            *(
                {"uid": f"u{n} {m}", "profile": "answers",
                 "context": {"answer": n, "text": "x" * (600_000 if m == 0 else 1)}}
                for m in range(50)
            )
        )  # fmt: skip
    service.wait_for(500)
    for kind in ("records", "evaluations", "task_results"):
        with service.http.stream("GET", f"/api/v1/export/{kind}") as answer:
            found = [json.loads(line)["uid"] for line in answer.iter_lines()]
        assert len(found) == 500
        assert set(found) == {f"u{n} {m}" for n in range(10) for m in range(50)}


def test_the_parts_of_an_export_are_the_whole(own: Service) -> None:
    """With one header in CSV, and as of the first part: nothing of what comes meanwhile."""
    own.send(
        *({"uid": f"v{n}", "profile": "answers", "context": {"answer": n}} for n in range(8))
    )  # a part has four records, or evaluations, at least
    own.wait_for(12)
    forms = itertools.product(("records", "evaluations", "task_results"), ("jsonl", "csv"))
    for late, (kind, form) in enumerate(forms):
        params = {"format": form, "part_bytes": "1"}
        path = f"/api/v1/export/{kind}"
        whole = own.http.get(path, params={"format": form}).text
        parts: list[str] = []
        while True:
            answer = own.http.get(path, params=params)
            assert answer.status_code == 200, answer.text
            parts.append(answer.text)
            cursor = answer.headers.get("Scouter-Next-Cursor")
            if cursor is None:
                break
            params["cursor"] = cursor
            if len(parts) == 1:
                own.send({"uid": f"late {late}", "profile": "answers", "context": {"answer": 1}})
                own.wait_for(13 + late)
        assert "".join(parts) == whole
        assert len(parts) > 2
        assert f"late {late}" not in whole


def test_cursors_of_lists_are_none_of_an_export(service: Service) -> None:
    """They do not say as of which commit."""
    cursor = service.get("/api/v1/records", limit=1)["next_cursor"]
    for params in ({"cursor": cursor}, {"cursor": "x"}, {"part_bytes": "0"}):
        answer = service.http.get("/api/v1/export/records", params=params)
        assert (answer.status_code, *params) == (400, *params)


def test_a_context_is_exported_as_it_was_sent(start: Start) -> None:
    """Also one that is no object; half a character is U+FFFD."""
    service = start()
    contexts: list[Any] = [
        {"a": [1, 2.5, None]}, [], "plain é", "=1+1", 7, True, None, {"half": "\\ud83d"},
        "half \ud83d", "\U0001f600", {"\U0001f600": '"'},
    ]  # fmt: skip
    body = {"records": [
        {"uid": f"u{n}", "profile": "p", "context": each} for n, each in enumerate(contexts)
    ]}  # fmt: skip
    answer = service.http.post(
        "/v1/records", content=json.dumps(body), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 200, answer.text
    path = "/api/v1/export/records"
    lines = service.http.get(path, params={"format": "jsonl"}).text.splitlines()
    assert {row["uid"]: row["context"] for row in map(json.loads, lines)} == {
        f"u{n}": "half \ufffd" if each == "half \ud83d" else each for n, each in enumerate(contexts)
    }
    text = service.http.get(path, params={"format": "csv"}).text
    rows = csv.DictReader(io.StringIO(text, newline=""))
    cells = [
        '{"a":[1,2.5,null]}', "[]", "plain é", "'=1+1", "7", "true", "",
        '{"half":"\\\\ud83d"}', "half \ufffd", "\U0001f600", '{"\U0001f600":"\\""}',
    ]  # fmt: skip
    assert {row["uid"]: row["context"] for row in rows} == {
        f"u{n}": cell for n, cell in enumerate(cells)
    }
