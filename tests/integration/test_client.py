"""The client and the commands on it, against a real collector over real HTTP."""

import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, NoReturn, cast

import pytest

from collector.access.caller import Scope
from scouter.client.client import ScouterClient
from scouter.client.errors import ApiError
from scouter.client.request import API, Request
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.scenario import EvalScenarios
from scouter.model.otlp import encode_request
from scouter.model.span import Span
from tests.collector.conftest import Service, Start, answers, save_answers, start  # noqa: F401  # pyright: ignore[reportUnusedImport] fixtures
from tests.scouter.cli.conftest import Scouter, project, scouter  # noqa: F401  # pyright: ignore[reportUnusedImport] fixtures
from tests.support.components import ROOT
from tests.support.processes import wait_until
from tests.support.served import serve

RIGHT: dict[str, Any] = {
    "uid": "u-right", "record_id": "one", "session_id": "s", "profile": "answers",
    "context": {"answer": 42}, "tags": {"who": "me"},
}  # fmt: skip
WRONG: dict[str, Any] = {**RIGHT, "uid": "u/wrong é", "record_id": "two", "context": {"answer": 41}}
LOST = {**RIGHT, "uid": "u-lost", "profile": "nobody"}


def fill(service: Service) -> Service:
    """Let there be a right and a wrong record, and a dead letter."""
    service.send(RIGHT, WRONG, LOST)
    service.wait_for(2)
    service.wait_for(1, "dead_lettered")
    return service


@pytest.fixture
def service(start: Start, answers: Path) -> Service:  # noqa: F811
    return fill(start(profile=[str(answers)], deadline_s="1s"))


@pytest.fixture
def url(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.delenv("SCOUTER_AUTH_TOKEN", raising=False)
    with serve(service.collector.app) as address:
        monkeypatch.setenv("SCOUTER_URL", address)
        yield address


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one such collector, for the tests that change nothing in it."""
    folder = tmp_path_factory.mktemp("shared")
    service = fill(Service(folder, profile=[str(save_answers(folder))], deadline_s="1s"))
    with serve(service.collector.app) as address:
        yield address
    service.stop()


@pytest.fixture
def read_url(shared: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("SCOUTER_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("SCOUTER_URL", shared)
    return shared


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a collector that holds nothing."""
    service = Service(tmp_path_factory.mktemp("idle"))
    with serve(service.collector.app) as address:
        yield address
    service.stop()


def test_half_a_character_stops_no_answer(
    service: Service,
    url: str,
    scouter: Scouter,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Of texts and keys of a context, of records that are judged and that wait, by both routes."""
    context = {"input": "why \ud83d", "\ud800": ["é\udfff"]}
    by_records, by_logs = (
        [
            {"uid": f"half {route} {profile}", "profile": profile, "context": context}
            for profile in ("answers", "nobody")
        ]
        for route in ("records", "logs")
    )
    events = [
        {"eventName": "scouter.eval_record", "body": {"stringValue": json.dumps(each)}}
        for each in by_logs
    ]
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": events}]}]}
    for route, body in (("records", {"records": by_records}), ("logs", logs)):
        answer = service.http.post(
            f"/v1/{route}", content=json.dumps(body), headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 200, answer.text
    service.wait_for(4)
    plain = {"input": "why \ufffd", "\ufffd": ["é\ufffd"]}
    with ScouterClient(url) as client:
        for each in (*by_records, *by_logs):
            assert client.record(str(each["uid"])).context == plain
        for kind in ("records", "evaluations", "task_results"):
            for form in ("jsonl", "csv"):
                assert b"half" in b"".join(client.export(kind, form))
    parquet = tmp_path / "all.parquet"
    done = scouter("export", "records", "--format", "parquet", "-o", str(parquet))
    assert done.returncode == 0, done.stderr
    pq: Any = import_module("pyarrow.parquet")  # its types are not complete
    rows = pq.read_table(parquet).to_pylist()
    assert [json.loads(each["context"]) for each in rows if "half" in each["uid"]] == [plain] * 4
    done = scouter("scenarios", "harvest", str(tmp_path / "all.jsonl"), "--failed")
    assert done.returncode == 0, done.stderr
    assert "why \ufffd" in (tmp_path / "all.jsonl").read_text(encoding="utf-8")


def test_a_terminal_gets_no_control_characters(service: Service, url: str) -> None:
    """Text of a record must not act on the terminal; a pipe gets the same bytes as a file."""
    said = "a\x1b[2J\x9bb\u202e"
    service.send({**RIGHT, "uid": "u-bad", "context": {"answer": said}})
    service.wait_for(3)
    environ = {**os.environ, "SCOUTER_URL": url, "PYTHONPATH": str(ROOT)}
    for words in ("export task_results --format csv", "results evaluations --json"):
        command = [sys.executable, "-m", "scouter.cli.app", *words.split()]
        ours, theirs = os.openpty()
        try:
            subprocess.run(command, env=environ, stdout=theirs, check=True, timeout=120)
        finally:
            os.close(theirs)
        with open(ours, "rb", closefd=True) as terminal:
            shown = b"".join(iter(lambda of=terminal: _read(of), b"")).decode()
        piped = subprocess.run(command, env=environ, capture_output=True, check=True, timeout=120)
        plain = piped.stdout.decode()
        assert not {"\x1b", "\x9b", "\u202e"} & set(shown)
        assert r"[2J\x9bb\u202e" in shown
        assert "[2J\x9bb\u202e" in plain
        assert len(shown.splitlines()) == len(plain.split("\n")) - 1


def _read(terminal: IO[bytes]) -> bytes:
    try:
        return terminal.read(1)
    except OSError:  # how a terminal says that there is no more
        return b""


# --- the API and the client have the same routes ---


class _MadeError(Exception):
    """A request that was made."""


class _Noting(ScouterClient):
    def _send(self, request: Request) -> NoReturn:
        raise _MadeError(request)


_GIVEN: Final[dict[str, dict[str, Any]]] = {
    "register_profile": {"profile": {}}, "push_run": {"results": {}}, "erase": {"session_id": "x"},
}  # fmt: skip


def calls() -> dict[str, Request]:
    """The request of every method of the client, with `x` for what it needs, by verb and path."""
    methods = inspect.getmembers(_Noting("http://nowhere"), inspect.ismethod)
    made = [_request(each) for name, each in methods if name[0] != "_" and name != "close"]
    return {f"{each.method} {API}{each.path}": each for each in made}


def _request(method: Any) -> Request:
    given = {
        each.name: "x"
        for each in inspect.signature(method).parameters.values()
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    }
    try:
        made: object = method(**{**given, **_GIVEN.get(method.__name__, {})})
        if isinstance(made, Iterator):
            next(cast("Iterator[object]", made))
    except _MadeError as error:
        (request,) = error.args
        return request
    raise AssertionError(f"{method.__name__} makes no request")


def test_every_route_has_a_method_with_its_parameters(start: Start) -> None:  # noqa: F811
    """A route that the client lacks cannot be asked for; a method without a route is refused."""
    document: Mapping[str, Any] = start().http.get("/openapi.json").json()
    served = {
        f"{method.upper()} {path}": {
            each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"
        }
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if path.startswith(API)
    }
    known = {name: set(made.query) for name, made in calls().items()}
    assert set(served) - set(known) == set()
    assert set(known) - set(served) == set()
    cursor = {"cursor"}  # the client adds it itself
    assert {name: left for name in served if (left := served[name] - known[name] - cursor)} == {}
    assert {name: left for name in served if (left := known[name] - served[name])} == {}


def test_the_page_lists_every_route() -> None:
    """Each with its method's name; the routes are those of the test above."""
    page = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \| `(\w+) (/[^`]*)` \|", page, flags=re.MULTILINE)
    assert {f"{verb} {API}{path}" for _, verb, path in listed} == set(calls())
    assert all(callable(getattr(ScouterClient, name)) for name, _, _ in listed)
    assert len({name for name, _, _ in listed}) == len(calls())


# --- answers of a real collector are read ---


def test_answers_are_read(read_url: str) -> None:
    with ScouterClient(read_url) as client:
        first, second = client.evaluations(limit=1)
        assert {first.record_id, second.record_id} == {"one", "two"}
        (wrong,) = client.evaluations(outcome=Outcome.FAILED, profile="answers")
        assert (wrong.uid, wrong.tasks[0].task_id) == (WRONG["uid"], "right")
        assert (wrong.tasks[0].expected, wrong.tasks[0].actual) == (42, 41)
        assert wrong.evaluated_at >= wrong.created_at

        (task,) = client.tasks().items
        assert (task.passed, task.failed, task.total, task.pass_rate) == (1, 1, 2, 0.5)
        assert [alert.state for alert in client.alerts().items] == ["inactive"]
        assert [each.alias for each in client.profiles()] == ["answers"]
        assert client.conservation().records.accepted == 3

        (letter,) = client.dead_letters(reason="unknown_profile")
        assert json.loads(letter.payload)["uid"] == "u-lost"
        assert client.replay_letter(letter.letter_id).letter_id == letter.letter_id
        assert client.replay_letters(limit=1).next_cursor is None


# --- commands ---


def test_a_token_comes_from_a_file_or_the_environment(
    service: Service,
    url: str,
    scouter: Scouter,  # noqa: F811
    tmp_path: Path,
) -> None:
    _, text = service.collector.tokens.create("reader", [Scope.READ], "default")
    wait_until(lambda: service.http.get("/api/v1/alerts").status_code == 401, what="the token")
    (tmp_path / "token").write_text(f"{text}\n", encoding="ascii")
    refused = scouter("results", "tasks")
    assert refused.returncode == 2
    assert "SCOUTER_AUTH_TOKEN" in refused.stderr
    for done in (
        scouter("results", "tasks", "--token-file", tmp_path / "token"),
        scouter("results", "tasks", SCOUTER_AUTH_TOKEN=text),
    ):
        assert done.returncode == 0, done.stderr
        assert "right" in done.stdout
    denied = scouter("letters", "replay", "--all", "--token-file", tmp_path / "token")
    assert denied.returncode == 2
    assert "admin" in denied.stderr
    assert text not in refused.stderr + denied.stderr + denied.stdout


def test_results_letters_and_profiles_are_shown(read_url: str, scouter: Scouter) -> None:  # noqa: F811
    shown = scouter("results", "evaluations", "--outcome", "failed", "--since", "1h")
    header, line = shown.stdout.splitlines()
    assert header.split() == [
        "evaluated", "profile", "record", "outcome", "not", "passed", "first", "reason", "trace",
    ]  # fmt: skip
    assert line.split()[2:7] == ["answers", "two", "failed", "right", "(failed)"]
    assert " ".join(line.split()[7:]) == "'answer' is 41, expected Equals 42"
    lines = scouter("results", "evaluations", "--json").stdout.splitlines()
    assert {json.loads(each)["uid"] for each in lines} == {RIGHT["uid"], WRONG["uid"]}
    tasks = scouter("results", "tasks").stdout.splitlines()[1].split()
    assert (tasks[0], *tasks[2:8]) == ("answers", "right", "1", "1", "0", "0", "0.500")
    assert tasks[-2:] == ["0.5", "0.707"]  # of the scores 1 and 0
    elsewhere = scouter("results", "tasks", "--environment", "elsewhere")
    assert (elsewhere.stdout, elsewhere.returncode) == ("", 0)
    assert elsewhere.stderr.startswith("scouter: there is none.")
    assert len(scouter("profile", "list").stdout.splitlines()) == 2
    assert "unknown_profile" in scouter("letters", "list").stdout
    done = scouter("letters", "replay", "--reason", "unknown_profile")
    assert (done.returncode, done.stdout) == (0, "0 accepted, 1 waiting, 0 refused\n")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("results", "evaluations", "--since", "yesterday"), "since"),
        (("results", "evaluations", "--outcome", "bad"), "outcome"),
        (("letters", "replay"), "--all"),
        (("letters", "replay", "x", "--all"), "--all"),
        (("letters", "replay", "x"), "no dead letter"),
        (("results", "tasks", "--token-file", "none"), "--token-file none: No such file"),
        (("results", "tasks", "--url", "http://me:hidden@h"), "holds a user"),
        (("erase",), "exactly one"),
        (("erase", "--tag", "novalue"), "expected KEY=VALUE"),
        (("scenarios", "harvest", "a.json"), "Unsupported extension"),
        (("export", "records", "--format", "parquet"), "needs --output"),
    ],
)
def test_what_is_wrong_is_one_line_and_2(
    idle: str,
    scouter: Scouter,  # noqa: F811
    args: tuple[str, ...],
    says: str,
) -> None:
    done = scouter(*args, SCOUTER_URL=idle)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "hidden" not in done.stderr


def test_nothing_to_harvest_is_1(read_url: str, scouter: Scouter, tmp_path: Path) -> None:  # noqa: F811
    """These records have neither spans nor a question."""
    done = scouter("scenarios", "harvest", "all.yaml")
    assert done.returncode == 1
    assert "left out one: no stored text has the question" in done.stderr
    assert not (tmp_path / "all.yaml").exists()


def test_a_harvest_keeps_corrections(
    service: Service,
    url: str,
    scouter: Scouter,  # noqa: F811
    tmp_path: Path,
) -> None:
    service.send({**WRONG, "uid": "u-asked", "context": {"question": "When?", "answer": "no"}})
    service.wait_for(3)
    mine = tmp_path / "mine.yaml"
    mine.write_text("corrected\n", encoding="utf-8")
    done = scouter("scenarios", "harvest", "mine.yaml")
    assert (done.returncode, mine.read_text(encoding="utf-8")) == (2, "corrected\n")
    assert "FILE mine.yaml: it is there" in done.stderr
    assert "give another name, or --overwrite" in done.stderr
    done = scouter("scenarios", "harvest", "mine.yaml", "--overwrite")
    assert done.returncode == 0, done.stderr
    assert [each.id for each in EvalScenarios.from_path(mine)] == ["u-asked"]


# --- pages ---


def _blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_the_page_on_the_client_runs(
    read_url: str,
    scouter: Scouter,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    (code,) = _blocks("client.md", "python")
    code = code.replace("http://127.0.0.1:4318", read_url)
    exec(compile(code, "client.md", "exec"), {})  # noqa: S102 our own page
    assert capsys.readouterr().out == "two ['right']\nright: 0.50 of 2\n"
    (block,) = _blocks("client.md", "sh")
    commands = block.splitlines()
    assert len(commands) == 5
    for command in commands:
        done = scouter(*shlex.split(command)[1:])
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout, command


def test_the_page_on_harvesting_runs(
    service: Service,
    url: str,
    scouter: Scouter,  # noqa: F811
    tmp_path: Path,
) -> None:
    messages = [{"role": "user", "parts": [{"type": "text", "content": "When?"}]}]
    span = {
        "traceId": "a1" * 16, "spanId": "b1" * 8, "name": "chat", "kind": 3,
        "startTimeUnixNano": "1767225600000000000", "endTimeUnixNano": "1767225601000000000",
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
            {"key": "gen_ai.input.messages", "value": {"stringValue": json.dumps(messages)}},
        ],
    }  # fmt: skip
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    assert service.http.post("/v1/traces", json=body).status_code == 200
    asked = {**WRONG, "uid": "u-asked", "record_id": "three", "trace_id": span["traceId"]}
    service.send(asked)
    service.wait_for(3)
    blocks = [text.strip() for text in _blocks("harvest.md", "sh")]
    harvest = next(text for text in blocks if text.startswith("scouter scenarios harvest"))
    check = next(text for text in blocks if text.startswith("scouter eval"))
    done = scouter(*shlex.split(harvest)[1:])
    assert done.returncode == 0, done.stderr
    (scenario,) = EvalScenarios.from_path(tmp_path / "failures.yaml")
    assert (scenario.id, scenario.initial_query) == ("u-asked", "When?")
    (tmp_path / "desk.py").write_text("def answer(message):\n    return 40\n", encoding="utf-8")
    given = shlex.split(check)[1:-2]
    done = scouter(*given, "--profile", tmp_path / "answers.json")
    assert done.returncode in (0, 1), done.stderr


# --- orders that change what is stored ---


def test_profiles_and_judging_again(url: str, scouter: Scouter, answers: Path) -> None:  # noqa: F811
    """A version that wants 41 is reported on, which leaves no trace, applied and activated."""
    body = json.loads(answers.read_text())
    body["tasks"][0]["expected_value"] = 41
    file = answers.with_name("other.json")
    file.write_text(json.dumps(body))
    done = scouter("reevaluate", "--profile", file, "--check")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        1, "2 of 2 evaluations flip; nothing was changed",
    )  # fmt: skip
    assert "right: passed -> failed" in done.stdout
    with ScouterClient(url) as client:
        (old,) = client.profiles()
        assert {each.outcome for each in client.evaluations(record_id="one")} == {"passed"}
        assert (
            scouter("reevaluate", "--profile", file, "--apply", "--since", "soon").returncode == 2
        )
        assert [each.uid for each in client.profiles()] == [old.uid]
        done = scouter("reevaluate", "--profile", file, "--apply")
        (new,) = (each for each in client.profiles() if each.uid != old.uid)
        first, *_, last = done.stdout.splitlines()
        digest = new.profile_version[:12]
        said = f"registered {new.uid}: alias 'answers', digest {digest}, not active"
        assert first == f"{said}: its alert watches nothing"
        assert last == "2 of 2 evaluations flip; 2 revisions stored"
        assert client.profile(new.uid).body["tasks"] != client.profile(old.uid).body["tasks"]
        assert client.profile(old.uid).is_active
        assert {each.outcome for each in client.evaluations(record_id="one")} == {"failed"}
        assert client.record("u-right").evaluations[-1].revision in (1, 2)
        done = scouter("reevaluate", "--profile", new.uid, "--check")
        assert (done.returncode, done.stdout) == (
            0, "0 of 2 evaluations flip; nothing was changed\n",
        )  # fmt: skip
        assert client.activate_profile(new.uid).is_active
        assert client.deactivate_profile(new.uid).is_active is False
        assert client.register_profile(body).uid == new.uid
        with pytest.raises(ApiError) as caught:
            client.register_profile({**body, "tasks": []})
        assert caught.value.status == 422
    assert scouter("reevaluate", "--profile", "nobody").returncode == 2


def test_a_report_by_a_file_leaves_the_active_version_as_it_is(
    url: str,
    scouter: Scouter,  # noqa: F811
    answers: Path,  # noqa: F811
) -> None:
    """A file of the same tasks without an alert: registered, it would take the alert away."""
    body = json.loads(answers.read_text())
    body["config"]["alert_config"] = {}
    file = answers.with_name("quiet.json")
    file.write_text(json.dumps(body))
    with ScouterClient(url) as client:
        (item,) = client.profiles()
        before = client.profile(item.uid), client.alerts()
        assert len(before[1].items) == 1
        done = scouter("reevaluate", "--profile", file)
        assert (done.returncode, done.stdout) == (
            0, "0 of 2 evaluations flip; nothing was changed\n",
        )  # fmt: skip
        assert (client.profile(item.uid), client.alerts()) == before
        done = scouter("reevaluate", "--profile", file, "--apply")
        told = ", active; its alert and sampling are now the file's"
        assert done.stdout.splitlines()[0].endswith(told)
        assert client.alerts().items == ()


def test_erasing(url: str, scouter: Scouter) -> None:  # noqa: F811
    done = scouter("erase", "--record", "u-right", "--yes")
    assert done.stdout.splitlines()[0].startswith("erased 1 record, 0 spans, 1 evaluation,")
    with ScouterClient(url) as client:
        assert [each.uid for each in client.evaluations()] == [WRONG["uid"]]
        sheet = client.conservation().records
        assert (sheet.accepted, sheet.erased, sheet.evaluated) == (3, 1, 1)
        with pytest.raises(ApiError) as caught:
            client.record("u-right")
        assert caught.value.status == 404
    for option, name in (("--record", "u-right"), ("--session", "typo"), ("--tag", "who=you")):
        done = scouter("erase", option, name, "--yes")
        kind = option.removeprefix("--")
        assert (done.returncode, done.stdout.splitlines()[0]) == (
            1, f"nothing was found: {kind} {name!r} is not stored, or was erased before",
        )  # fmt: skip
    done = scouter("erase", "--trace", "zz", "--yes")
    assert (done.returncode, "trace_id: expected 32 hex digits" in done.stderr) == (2, True)


def test_use_on_the_command_line(
    service: Service,
    url: str,
    scouter: Scouter,  # noqa: F811
) -> None:
    """A model asked twice in one hour and once in the next, by two conventions."""
    hour, start_ns = 3600 * 10**9, 1_700_000_000 * 10**9 // (3600 * 10**9) * 3600 * 10**9
    older = {"openinference.span.kind": "LLM", "llm.model_name": "m",
             "llm.token_count.prompt": 7, "llm.token_count.completion": 1}  # fmt: skip
    newer = {"gen_ai.operation.name": "chat", "gen_ai.response.model": "m",
             "gen_ai.usage.input_tokens": 5}  # fmt: skip
    spans = [
        Span(trace_id=f"{number + 900:032x}", span_id=f"{number + 900:016x}", name="ask",
             start_ns=at, end_ns=at + number * 10**6, attributes=attributes)
        for number, (at, attributes) in enumerate(
            [(start_ns, older), (start_ns + 1, newer), (start_ns + hour, newer)], start=1)
    ]  # fmt: skip
    answer = service.http.post(
        "/v1/traces",
        content=encode_request(spans).SerializeToString(),
        headers={"Content-Type": "application/x-protobuf"},
    )
    assert answer.status_code == 200, answer.text
    words = ("--bucket", "1h", "--since", str(start_ns), "--until", str(start_ns + 2 * hour))
    done = scouter("results", "usage", *words, "--json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [
        (each["key"], each["start"], each["calls"], each["input_tokens"], each["p99_ms"])
        for each in lines
    ] == [
        ("m", "2023-11-14T22:00:00.000000Z", 2, 12, 2.0),
        ("m", "2023-11-14T23:00:00.000000Z", 1, 5, 3.0),
    ]
    table = scouter("results", "usage", *words).stdout.splitlines()
    assert table[0].split()[:4] == ["start", "model", "calls", "errors"]
    assert table[1].split() == ["2023-11-14", "22:00:00Z", "m", "2", "0", "1", "2", "2", "12", "0",
                                "1", "0", "unknown", "m"]  # fmt: skip
