"""Answers of the collector's judges are stored: by space, bounded, and gone when erased."""

import asyncio
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from collector.judging.answers import FILE_NAME
from collector.judging.judges import RememberingJudge
from scouter.agent.cached_judge import cache_key
from scouter.agent.entries import ProviderEntries
from scouter.agent.model_judge import ModelJudge
from scouter.evaluate.judge.ask import Backoff, ask
from scouter.evaluate.judge.port import JudgeError, JudgeReply, JudgeRequest, JudgeUsage, as_judge
from scouter.evaluate.outcome import Reason
from scouter.mock.llm_protocols import LLMRequest
from scouter.mock.llm_server import LLMTestServer
from tests.collector.conftest import Service, Start
from tests.collector.judging.test_service import Gate, begin, entries, items, profile, wait_decided
from tests.support.files import files_with
from tests.support.processes import wait_until

SECRET = "nobody may keep this sentence"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_KEY", "of-a-test")


def send(service: Service, *pairs: tuple[str, object], **headers: str) -> None:
    records = [{"uid": uid, "profile": "judged", "context": {"answer": x}} for uid, x in pairs]
    answer = service.http.post("/v1/records", json={"records": records}, headers=headers)
    assert answer.status_code == 200, answer.text


def quotes(request: LLMRequest) -> Any:
    return {"score": 4, "reason": f"it says {request.text[-300:]}"}


def lookups(service: Service, result: str) -> float:
    line = 'scouter_judge_cache_lookups_total{entry="house",model="model-1"'
    return service.sample(f'{line},result="{result}"}}') or 0.0


def decided(service: Service, headers: dict[str, str]) -> int:
    found = service.http.get("/api/v1/evaluations", headers=headers).json()["items"]
    return sum(each["outcome"] != "pending" for each in found)


def test_the_same_question_is_paid_for_once(start: Start, tmp_path: Path) -> None:
    """Three records at once, and one after a restart; each result says what it took."""
    with LLMTestServer({"score": 4, "reason": "r"}) as server:
        service = begin(start, tmp_path, server)
        send(service, *((f"u{n}", 42) for n in range(3)), ("other", 1))
        service.wait_for(4)
        wait_decided(service)
        assert server.calls == 2
        assert (lookups(service, "hit"), lookups(service, "miss")) == (2.0, 2.0)
        service = begin(start, tmp_path, server)
        send(service, ("late", 42))
        service.wait_for(5)
        wait_decided(service)
        assert server.calls == 2
        usages = [each["tasks"][1]["usage"] for each in items(service).values()]
        assert sorted((each["calls"], each["cached"]) for each in usages) == [
            (0, 1), (0, 1), (0, 1), (1, 0), (1, 0),
        ]  # fmt: skip
        assert [each["cost_usd"] for each in usages if each["cached"]] == [0.0] * 3
        text = service.http.get("/api/v1/export/task_results").text
        rows = [json.loads(line)["usage"] for line in text.splitlines()]
        assert sum(each["cached"] for each in rows if each) == 3
        assert service.sample("scouter_judge_cache_answers") == 2.0
        assert service.sample("scouter_judge_cache_limit_bytes") == 256 * 2**20
        assert (tmp_path / "data" / FILE_NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("useless", [{"score": 9, "wrong": 1}, {"score": "five", "reason": "r"}])
def test_an_answer_of_no_use_costs_one_evaluation(
    start: Start, tmp_path: Path, useless: dict[str, Any]
) -> None:
    """The next record with the same question is sent anew; what is of use is stored."""
    with LLMTestServer({"score": 4, "reason": "r"}, script=[useless]) as server:
        service = begin(start, tmp_path, server)
        for at, outcome in enumerate(["errored", "passed", "passed"], start=1):
            send(service, (f"u{at}", 42))
            service.wait_for(at)
            wait_decided(service)
            assert items(service)[f"u{at}"]["outcome"] == outcome
        assert server.calls == 2
        assert (lookups(service, "hit"), lookups(service, "miss")) == (1.0, 2.0)


def test_a_question_is_remembered_whoever_asks_it() -> None:
    """The task's use of an answer is no part of the question."""
    requests: list[JudgeRequest] = []

    def answer(request: JudgeRequest) -> int:
        requests.append(request)
        return len(requests)

    judge = RememberingJudge(as_judge(answer), {})
    first, second = (
        JudgeRequest(task_id="t", messages=(), is_usable=lambda reply, at=at: bool(reply and at))
        for at in range(2)
    )
    other = JudgeRequest(task_id="t", messages=(), sample=1)

    async def run() -> list[object]:
        return [(await judge.ask(each)).response for each in (first, second, other)]

    assert asyncio.run(run()) == [1, 1, 2]


def test_attempts_before_an_answer_are_remembered_with_it() -> None:
    """The asker adds them up itself; a caller that finds the answer later gets them."""
    slow = JudgeError(Reason.PROVIDER, "504")
    paid = JudgeReply(response=1, input_tokens=10, cost_usd=0.25)
    script: list[JudgeError | JudgeReply] = [slow, slow, paid]

    def answer(_: JudgeRequest) -> JudgeReply:
        found = script.pop(0)
        if isinstance(found, JudgeError):
            raise found
        return found

    request, replies = JudgeRequest(task_id="t", messages=()), dict[bytes, JudgeReply]()
    backoff = Backoff(base_s=0.0)

    async def run() -> list[JudgeUsage]:
        return [
            (
                await ask(
                    RememberingJudge(as_judge(answer), replies), request, 2, backoff, nullcontext()
                )
            ).taken
            for _ in range(2)
        ]

    usage = JudgeUsage(calls=3, input_tokens=10, cost_usd=0.25, unpriced_calls=2)
    assert asyncio.run(run()) == [usage, usage]


def test_off_asks_everything_and_leaves_nothing(start: Start, tmp_path: Path) -> None:
    with LLMTestServer({"score": 4, "reason": "r"}) as server:
        for size, calls in (("256MiB", 1), ("off", 3)):
            service = begin(start, tmp_path, server, judge_cache_bytes=size)
            send(service, (f"{size} 1", 42), (f"{size} 2", 42))
            service.wait_for(2 if size == "256MiB" else 4)
            wait_decided(service)
            assert server.calls == calls
            assert (tmp_path / "data" / FILE_NAME).exists() is (size == "256MiB")


def test_spaces_share_nothing(start: Start, tmp_path: Path) -> None:
    """The same question of two spaces is sent twice; a client of one cannot read the other's."""
    tokens = TokenFile(tmp_path / "data")
    head = {
        space: {"Authorization": f"Bearer {tokens.create('', Scope, space)[1]}"}
        for space in ("shop", "bank")
    }
    with LLMTestServer({"score": 4, "reason": "r"}) as server:
        service = start(providers=entries(server))
        for headers in head.values():
            posted = service.http.post(
                "/api/v1/profiles", content=profile().model_dump_json(),
                headers={**headers, "Content-Type": "application/json"},
            )  # fmt: skip
            uid = posted.json()["uid"]
            active = service.http.post(f"/api/v1/profiles/{uid}/activate", headers=headers)
            assert active.status_code == 200, active.text
            send(service, ("u1", 42), ("u2", 42), **headers)
            wait_until(lambda headers=headers: decided(service, headers) == 2, what="decided")
        assert server.calls == 2


def test_clients_read_what_the_collector_stored_and_it_reads_nothing_of_theirs(
    start: Start, tmp_path: Path
) -> None:
    """A planted answer is for other clients; the evaluation is what the model says."""
    requests: list[LLMRequest] = []

    def answer(request: LLMRequest) -> Any:
        requests.append(request)
        return {"score": 1, "reason": "the model's"}

    with LLMTestServer(answer) as server:
        service = begin(start, tmp_path, server)
        judge = ModelJudge(ProviderEntries.model_validate({"providers": entries(server)}))
        seen: list[JudgeRequest] = []
        counting = service.collector.counting.ask

        async def spy(request: JudgeRequest) -> JudgeReply:
            seen.append(request)
            return await counting(request)

        service.collector.counting.ask = spy  # type: ignore[method-assign]
        send(service, ("u1", 42))
        service.wait_for(1)
        wait_decided(service)
        (request,) = seen
        key = cache_key(request, space="default", entry=judge.identity("house")).hex()
        path = f"/api/v1/judge-answers/{key}"
        assert json.loads(service.get(path)["response"]) == {"score": 1, "reason": "the model's"}

        planted = {"response": '{"score": 5, "reason": "planted"}', "model": "mine"}
        service.collector.answers._cache.clear(["own default"]).result()  # type: ignore[union-attr]
        assert service.http.get(path).status_code == 404
        assert service.http.put(path, json=planted).json() == {"kept": True}
        assert service.get(path) == planted
        send(service, ("u2", 42))
        service.wait_for(2)
        wait_decided(service)
        assert len(requests) == 2
        assert items(service)["u2"]["outcome"] == "failed"
        assert "planted" not in json.dumps(items(service))
        assert "the model" in service.get(path)["response"], "what was really sent goes before"


@pytest.mark.parametrize(
    ("key", "body", "status"),
    [
        ("0" * 63, {"response": "1"}, 400),
        ("0" * 64, {"response": "no JSON"}, 400),
        ("0" * 64, {"response": "[NaN]"}, 400),
        ("0" * 64, {"response": "1e999"}, 400),
        ("0" * 64, {"response": '{"a": 1, "a": 2}'}, 400),
        ("0" * 64, {"response": 1}, 400),
        ("0" * 64, {"response": "1", "space": "other"}, 400),
        ("0" * 64, {"response": "[" * 200_000}, 400),
        ("0" * 64, {"response": "1" * 500_001}, 400),
        ("0" * 64, {"response": " " * 2_000_000}, 413),
    ],
)  # fmt: skip
def test_what_cannot_be_stored(untouched: Service, key: str, body: object, status: int) -> None:
    answer = untouched.http.put(f"/api/v1/judge-answers/{key}", json=body)
    assert answer.status_code == status, answer.text


def test_an_erasure_takes_the_answers_of_its_space(start: Start, tmp_path: Path) -> None:
    """No file has a byte of them, also where a client sent them; other records are sent anew."""
    with LLMTestServer(quotes) as server:
        service = begin(start, tmp_path, server)
        send(service, ("u1", SECRET), ("u2", "stays"))
        service.wait_for(2)
        wait_decided(service)
        sent = {"response": json.dumps(f"a client heard: {SECRET}")}
        assert service.http.put(f"/api/v1/judge-answers/{'a' * 64}", json=sent).status_code == 200
        assert any(
            name.startswith(FILE_NAME) for name in files_with(tmp_path / "data", SECRET.encode())
        )

        done = service.http.post("/api/v1/erase", json={"record_uid": "u1"})
        assert (done.status_code, done.json()["records"]) == (200, 1)
        left = files_with(tmp_path / "data", SECRET.encode())
        assert not any(name.startswith(FILE_NAME) for name in left), "at once"
        wait_until(lambda: not files_with(tmp_path / "data", SECRET.encode()), what="bytes that go")
        assert service.http.get(f"/api/v1/judge-answers/{'a' * 64}").status_code == 404

        send(service, ("u3", "stays"), ("u4", "stays"))
        service.wait_for(3)
        wait_decided(service)
        assert server.calls == 3, "called anew once, and stored again"


def test_an_answer_that_comes_after_the_erasure_is_not_stored(start: Start, tmp_path: Path) -> None:
    """The judge is called while its record is erased; so is one that waited for its turn."""
    gate = Gate()

    async def answer(request: LLMRequest) -> Any:
        await gate(request)
        return quotes(request)

    with LLMTestServer(answer) as server:
        one = {"house": {**entries(server)["house"], "concurrency": 1}}
        service = begin(start, tmp_path, server, judge_concurrency=2, providers=one)
        send(service, ("u1", f"{SECRET} 1"))
        service.wait_for(1)
        wait_until(lambda: server.calls == 1, what="it is called")
        # The other one's context is in memory, and it waits for the entry's one place.
        worker = service.collector.judging
        send(service, ("u2", f"{SECRET} 2"))
        service.wait_for(2)
        wait_until(lambda: len(worker._inside) == 2, what="both are in memory")  # pyright: ignore[reportPrivateUsage]
        for uid in ("u1", "u2"):
            assert service.http.post("/api/v1/erase", json={"record_uid": uid}).status_code == 200
        gate.open()
        wait_until(lambda: not worker._inside, what="they are answered")  # pyright: ignore[reportPrivateUsage]
        assert server.calls == 2
        wait_until(lambda: not files_with(tmp_path / "data", SECRET.encode()), what="bytes that go")
        assert service.sample("scouter_judge_cache_answers") == 0.0
        send(service, ("u3", 42))
        service.wait_for(1)
        wait_decided(service)
        wait_until(
            lambda: service.sample("scouter_judge_cache_answers") == 1.0, what="stored again"
        )


def test_retention_bounds_what_is_used(start: Start, tmp_path: Path) -> None:
    with LLMTestServer({"score": 4, "reason": "r"}) as server:
        service = begin(start, tmp_path, server, judge_cache_days=5, retention_days=2)
        assert service.collector.settings.judge_cache_s == 2 * 86_400


def test_a_damaged_file_begins_anew(start: Start, tmp_path: Path) -> None:
    """Else nobody could take out of it what is erased."""
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / FILE_NAME).write_text(f"no database {SECRET}" * 500)
    with LLMTestServer({"score": 4, "reason": "r"}) as server:
        service = begin(start, tmp_path, server)
        send(service, ("u1", 42))
        service.wait_for(1)
        wait_decided(service)
        assert service.sample("scouter_judge_cache_answers") == 1.0
    assert files_with(tmp_path / "data", SECRET.encode()) == []


def test_it_is_in_no_backup(start: Start, tmp_path: Path) -> None:
    with LLMTestServer(quotes) as server:
        service = begin(start, tmp_path, server, backups=tmp_path / "backups")
        send(service, ("u1", 42))
        service.wait_for(1)
        wait_decided(service)
        assert service.http.post("/api/v1/backup", json={"folder": "b"}).status_code == 201
        names = {file.name for file in (tmp_path / "backups" / "b").iterdir()}
    assert not [name for name in names if name.startswith(FILE_NAME)]
