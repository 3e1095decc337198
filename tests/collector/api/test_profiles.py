"""Profiles through the API: registered, activated, followed by everything that depends on them."""

import gzip
import html
import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from collector.store.rows import EvaluationRow
from collector.worker.profiles import NoRoomError, ProfileRegistry, Room
from scouter.alert.config import AgentAlertConfig, AlertCondition, AlertThreshold
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.collector.conftest import Service, Start
from tests.scouter.drift.test_wire import ATTACKS, any_json, mutated
from tests.support.processes import wait_until
from tests.support.store_appends import AppendingStore

BELOW = AgentAlertConfig(
    alert_condition=AlertCondition(0.9, AlertThreshold.Below, 0.1), window=20, min_samples=5
)


def profile(
    expected: int, *, alias: str = "bot", name: str = "", alert: AgentAlertConfig | None = None,
    **config: Any,
) -> AgentEvalProfile:  # fmt: skip
    """Its version shows in what it expects."""
    task = AssertionTask("right", "answer", expected, ComparisonOperator.Equals)
    given = AgentEvalConfig(name=name, alert_config=alert or AgentAlertConfig(), **config)
    return AgentEvalProfile([task], given, alias=alias)


def post(service: Service, sent: AgentEvalProfile, **headers: str) -> Any:
    media = {"Content-Type": "application/json"}
    return service.http.post(
        "/api/v1/profiles", content=sent.model_dump_json(), headers={**media, **headers}
    )


def stand(service: Service, uid: str, what: str) -> Any:
    answer = service.http.post(f"/api/v1/profiles/{uid}/{what}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def active(service: Service) -> list[str]:
    items = service.get("/api/v1/profiles")["items"]
    return [item["uid"] for item in items if item["is_active"]]


def test_the_same_again_changes_nothing(start: Start) -> None:
    service, one = start(), profile(1)
    first, second = post(service, one), post(service, one)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert first.json()["uid"] == one.uid
    assert first.json()["profile_version"] == one.digest
    assert not first.json()["is_active"]
    assert len(service.get("/api/v1/profiles")["items"]) == 1
    assert service.get(f"/api/v1/profiles/{one.uid}")["body"] == json.loads(one.model_dump_json())


def test_of_many_at_once_one_is_new(start: Start) -> None:
    service = start()
    with ThreadPoolExecutor(6) as pool:
        requests = [pool.submit(post, service, profile(1)) for _ in range(6)]
        answers = [each.result().status_code for each in requests]
    assert sorted(answers) == [200] * 5 + [201]


def test_registering_does_not_activate_and_versions_follow_each_other(start: Start) -> None:
    service, one, two = start(), profile(1), profile(2)
    for each in (one, two):
        post(service, each)
    assert active(service) == []
    assert stand(service, one.uid, "activate")["is_active"]
    assert active(service) == [one.uid]
    stand(service, two.uid, "activate")
    assert active(service) == [two.uid]
    assert not stand(service, one.uid, "deactivate")["is_active"]  # it was not: nothing happens
    assert active(service) == [two.uid]
    items = service.get("/api/v1/profiles", alias="bot")["items"]
    assert [item["uid"] for item in items] == [two.uid, one.uid]
    assert service.get("/api/v1/profiles", alias="nobody")["items"] == []
    assert len(service.get("/api/v1/profiles", name="bot")["items"]) == 2
    assert active(start()) == [two.uid]
    service = start()
    stand(service, two.uid, "deactivate")
    assert active(service) == active(start()) == []


def test_a_newer_body_of_an_active_one_leaves_it_active(start: Start) -> None:
    service, one = start(), profile(1)
    post(service, one)
    stand(service, one.uid, "activate")
    answer = post(service, profile(1, version="7"))
    assert (answer.status_code, answer.json()["version"]) == (200, "7")
    assert active(service) == active(start()) == [one.uid]


def test_a_name_belongs_to_one_alias(start: Start) -> None:
    service = start()
    assert post(service, profile(1, alias="a", name="n")).status_code == 201
    answer = post(service, profile(1, alias="b", name="n"))
    assert answer.status_code == 409
    assert "under the alias 'a'" in answer.json()["detail"]


def test_profiles_are_found_by_alias_and_name(start: Start) -> None:
    service = start()
    for sent in (profile(1, alias="a"), profile(1, alias="b"), profile(2, alias="c", name="b")):
        assert post(service, sent).status_code == 201

    def aliases(**filters: str) -> list[str]:
        return [each["alias"] for each in service.get("/api/v1/profiles", **filters)["items"]]

    assert aliases() == ["a", "b", "c"]
    assert aliases(alias="b") == ["b"]
    assert aliases(name="b") == ["b", "c"]
    assert aliases(alias="b", name="c") == []


def test_what_is_no_json_is_no_profile(start: Start) -> None:
    service = start()
    headers = {"Content-Type": "text/plain"}
    answer = service.http.post(
        "/api/v1/profiles", content=profile(1).model_dump_json(), headers=headers
    )
    assert answer.status_code == 415
    assert active(service) == []


def test_records_are_judged_by_what_they_mean(start: Start) -> None:
    """By the version that they name, else by the active one, also those that waited for it."""
    service, one, two = start(deadline_s="30s"), profile(1), profile(2)
    service.send({"uid": "early", "profile": "bot", "context": {"answer": 1}})
    post(service, one)
    service.wait_for(1, "waiting")
    stand(service, one.uid, "activate")
    service.wait_for(1)
    post(service, two)
    stand(service, two.uid, "activate")
    service.send({"uid": "named", "profile": one.uid, "context": {"answer": 1}})
    service.send({"uid": "digest", "profile": one.digest, "context": {"answer": 1}})
    service.send({"uid": "alias", "profile": "bot", "context": {"answer": 1}})
    service.wait_for(4)
    stand(service, two.uid, "deactivate")
    service.send({"uid": "nobody's", "profile": "bot", "context": {"answer": 1}})
    service.send({"uid": "named again", "profile": two.uid, "context": {"answer": 2}})
    service.wait_for(5)
    service.wait_for(1, "waiting")
    items = service.get("/api/v1/evaluations")["items"]
    assert {item["uid"]: (item["profile_version"], item["outcome"]) for item in items} == {
        "early": (one.digest, "passed"),
        "named": (one.digest, "passed"),
        "digest": (one.digest, "passed"),
        "alias": (two.digest, "failed"),
        "named again": (two.digest, "passed"),
    }


def test_series_appear_at_zero(start: Start) -> None:
    service = start()
    line = 'scouter_evaluations_total{alias="bot",outcome="passed",profile="bot",'
    line += 'space="default",task="right"}'
    assert service.sample(line) is None
    post(service, profile(1))
    assert service.sample(line) == 0


def test_an_alert_that_watches_nothing_says_so(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log, in the alerts and in the profile's listing, until somebody activates it."""
    service, one, two = start(), profile(1, alert=BELOW), profile(2, alert=BELOW)

    def unwatched() -> list[str]:
        return [each["uid"] for each in service.get("/api/v1/alerts")["unwatched"]]

    def message() -> list[str]:
        said = [each.getMessage() for each in caplog.records]
        return [text.rsplit(" ", 1)[1] for text in said if "nothing is watched" in text]

    assert post(service, profile(3)).json()["alert"] is None
    assert unwatched() == []
    assert post(service, one).json()["alert"] == "pass rate below 80.0%"
    (alert,) = service.get("/api/v1/alerts")["unwatched"]
    assert alert == {
        "space": "default", "profile": "bot", "profile_name": "bot", "uid": one.uid,
        "profile_version": one.digest, "condition": "pass rate below 80.0%",
    }  # fmt: skip
    assert message() == [one.uid]
    post(service, one)
    assert message() == [one.uid]

    stand(service, one.uid, "activate")
    assert unwatched() == []
    post(service, two)  # a newer version, which is not active
    assert unwatched() == [two.uid]
    stand(service, two.uid, "activate")  # the older one was replaced on purpose
    assert unwatched() == []
    stand(service, two.uid, "deactivate")
    assert set(unwatched()) == {one.uid, two.uid}
    assert set(message()) == {one.uid, two.uid}


def test_a_profile_is_registered_and_activated_in_one_go(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    service, one, two = start(), profile(1, alert=BELOW), profile(2, alert=BELOW)
    for each in (one, two):
        answer = service.http.post(
            "/api/v1/profiles?activate=true",
            content=each.model_dump_json(),
            headers={"Content-Type": "application/json"},
        )
        assert (answer.status_code, answer.json()["is_active"]) == (201, True)
        assert active(service) == [each.uid]
    assert service.get("/api/v1/alerts")["unwatched"] == []
    assert "nothing is watched" not in caplog.text
    assert post(service, one).json()["is_active"] is False  # registering alone changes nothing
    assert active(service) == [two.uid]


def test_alerts_follow_the_active_version(start: Start) -> None:
    """Six wrong answers prove a pass rate below 80 %: of 0 in 6 the upper bound is 39 %."""
    service, one, two = start(), profile(1, alert=BELOW), profile(2, alert=BELOW)
    for each in (one, two):
        post(service, each)
    assert service.get("/api/v1/alerts")["items"] == []
    stand(service, one.uid, "activate")
    for n in range(6):
        service.send({"uid": f"u{n}", "profile": "bot", "context": {"answer": 2}})
    service.wait_for(6)
    line = 'scouter_alert_firing{alias="bot",profile="bot",space="default"}'

    def shown() -> list[tuple[str, str, int]]:
        items = service.get("/api/v1/alerts")["items"]
        return [(each["profile_version"], each["state"], each["n"]) for each in items]

    def wait_for(*expected: tuple[str, str, int]) -> None:
        wait_until(lambda: shown() == list(expected), what=f"alerts {expected}, not {shown()}")

    wait_for((one.digest, "firing", 6))
    assert service.sample(line) == 1
    stand(service, two.uid, "activate")
    wait_for((two.digest, "inactive", 0))
    assert service.sample(line) == 0
    stand(service, one.uid, "activate")  # where it was, from what is stored
    wait_for((one.digest, "firing", 6))
    assert service.sample(line) == 1
    post(service, profile(1))  # the same tasks, and no alert
    wait_for()
    assert service.sample(line) is None


def test_no_evaluation_is_counted_twice_while_versions_change(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever outcomes are read from the store, every one of them has been observed."""
    service, one, two = start(), profile(1, alert=BELOW), profile(2, alert=BELOW)
    store, monitor = service.collector.store, service.collector.watch.monitor
    observed, read = list[int](), list[tuple[int, int]]()
    observe, outcomes = monitor.observe, store.last_outcomes
    requests = threading.Event()

    def counted(evaluations: Sequence[EvaluationRow]) -> None:
        requests.clear()  # an evaluation is stored, and not observed before a change is requested
        requests.wait(0.005)  # no longer, as the change before may wait for this very evaluation
        observe(evaluations)
        observed.append(len(evaluations))

    def compared(space: str, uid: str, count: int, since_ns: int) -> list[Outcome]:
        if uid == one.uid:
            read.append((len(outcomes(space, uid, 10_000)), sum(observed)))
        return outcomes(space, uid, count, since_ns)

    monkeypatch.setattr(monitor, "observe", counted)
    monkeypatch.setattr(store, "last_outcomes", compared)
    for each in (one, two):
        post(service, each)
    is_done = threading.Event()

    def change() -> None:
        while not is_done.is_set():
            for each in (two, one):
                requests.set()
                stand(service, each.uid, "activate")

    with ThreadPoolExecutor(1) as pool:
        changes = pool.submit(change)
        count = 0
        while count < 80 or len(read) < 4:
            service.send({"uid": f"u{count}", "profile": one.uid, "context": {"answer": 1}})
            count += 1
        service.wait_for(count)
        is_done.set()
        changes.result()
    assert [stored for stored, _ in read] == [seen for _, seen in read]


def test_a_profile_of_earlier_times_that_is_refused_now(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An earlier version took `Contains ""`: the others go on, and what is amiss is reported."""
    before = Service(tmp_path)
    old, good = profile(1, alias="old"), profile(2, alias="good")
    for each in (old, good):
        post(before, each)
        stand(before, each.uid, "activate")
    before.stop()
    (file,) = (tmp_path / "data").glob("*.duckdb")
    with duckdb.connect(str(file)) as connection:
        connection.execute(
            """UPDATE profiles SET body = replace(replace(body, '"Equals"', '"Contains"'),
            '"expected_value":1', '"expected_value":""') WHERE alias = 'old'"""
        )

    service = start(deadline_s="300ms")
    why = "task 'right': expected_value: Contains expects a text that is not empty"
    assert f"profile 'old' of the space 'default', digest {old.digest[:12]}" in caplog.text
    items = {item["alias"]: item for item in service.get("/api/v1/profiles")["items"]}
    assert why in items["old"]["unusable"]
    assert (items["old"]["is_active"], items["good"]["unusable"]) == (True, "")
    assert why in html.unescape(service.http.get("/profile/tasks?profile=old").text)
    ready = service.get("/readyz")
    assert ready["status"] == "ready"
    assert why in ready["detail"]

    context = {"context": {"answer": 1}}
    for n, name in enumerate(("old", old.digest, old.uid, "good")):
        service.send({"uid": f"u{n}", "profile": name, **context})
    service.wait_for(1)
    service.wait_for(3, "dead_lettered")
    letters = service.get("/api/v1/dead-letters", reason="unusable_profile")["items"]
    assert {each["uid"] for each in letters} == {"u0", "u1", "u2"}
    assert all(why in each["message"] for each in letters)

    new = profile(1, alias="old", name="new")
    post(service, new)
    stand(service, new.uid, "activate")
    service.http.post("/api/v1/dead-letters/replay", params={"reason": "unusable_profile"})
    service.wait_for(2)  # the one that named the alias


# --- strangers ------------------------------------------------------------------------------


@pytest.mark.parametrize(("sent", "message"), ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_refused(attacked: Service, sent: bytes, message: str) -> None:
    answer = attacked.http.post(
        "/api/v1/profiles", content=sent, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == (413 if len(sent) > 2**20 else 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.status_code == 413 or message in answer.json()["detail"]
    assert attacked.get("/api/v1/profiles")["items"] == []


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    service = Service(tmp_path_factory.mktemp("attacked"))
    yield service
    service.stop()


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    import_module("pydantic_ai.models.openai")  # the first judge would wait for it for a second
    service = Service(tmp_path_factory.mktemp("fuzzed"))
    yield service
    service.stop()


@pytest.mark.pace
@settings(
    max_examples=80,
    deadline=None,
    database=None,
)
@given(any_json | mutated())
def test_any_body_is_answered(fuzzed: Service, document: Any) -> None:
    """Never a fault, and never more than a second of work."""
    began = time.process_time()
    answer = fuzzed.http.post(
        "/api/v1/profiles",
        content=json.dumps(document),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code in (200, 201, 409, 422), answer.text
    assert time.process_time() - began < 1


def test_a_bomb_is_refused(attacked: Service) -> None:
    media = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    bomb = gzip.compress(b" " * 50_000_000)
    answer = attacked.http.post("/api/v1/profiles", content=bomb, headers=media)
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/profiles/nothing", 404),
        ("POST", "/api/v1/profiles/nothing/activate", 404),
        ("POST", "/api/v1/profiles/nothing/deactivate", 404),
        ("GET", "/api/v1/profiles?alais=x", 400),
    ],
)
def test_what_is_not_there(attacked: Service, method: str, path: str, status: int) -> None:
    assert attacked.http.request(method, path).status_code == status


def test_the_token_says_the_space(start: Start, tmp_path: Path) -> None:
    """The space in the config is a mere word of the profile; here it opens nothing."""
    tokens = TokenFile(tmp_path / "data")
    shop, bank = (tokens.create("", Scope, space)[1] for space in ("shop", "bank"))
    ingest = tokens.create("", [Scope.INGEST, Scope.READ], "shop")[1]
    service = start()

    def bearer(text: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {text}"}

    assert post(service, profile(1), **bearer(ingest)).status_code == 403
    unsaid = post(service, profile(1), **bearer(shop))
    assert (unsaid.status_code, unsaid.json()["space"]) == (201, "shop")
    assert unsaid.json()["uid"] == profile(1).uid  # senders stamp their records with it
    said = post(service, profile(2, space="shop"), **bearer(shop))
    assert (said.status_code, said.json()["space"]) == (201, "shop")
    other = post(service, profile(3, space="bank"), **bearer(shop))
    assert (other.status_code, other.json()["space"]) == (201, "shop")
    uid = unsaid.json()["uid"]
    for path in (uid, f"{uid}/activate"):
        method = "GET" if path == uid else "POST"
        answer = service.http.request(method, f"/api/v1/profiles/{path}", headers=bearer(bank))
        assert answer.status_code == 404
    assert service.collector.registry.get("bank", other.json()["uid"]) is None
    listed = service.http.get("/api/v1/profiles", headers=bearer(bank)).json()
    assert listed["items"] == []


@pytest.mark.parametrize(
    ("room", "message"),
    [
        (Room(profiles=2), "more than 2 profiles"),
        (Room(tasks=2), "more than 2 tasks"),
        (Room(bytes=1_200), "more than 1,200 bytes"),
    ],
)
def test_a_space_has_room_for_so_many(
    tmp_path: Path, room: Room, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = AppendingStore(tmp_path / "data")
    refused: list[str] = []
    try:
        registry = ProfileRegistry(store, room, refused.append)
        size = len(profile(1).model_dump_json())
        assert 400 < size < 600  # so that two fit into 1,200 bytes, and three do not
        for n in (1, 2):
            assert registry.add("shop", profile(n)).is_new
        for _ in range(2):
            with pytest.raises(NoRoomError, match=message):
                registry.add("shop", profile(3))
        assert refused == ["shop", "shop"]
        assert message in caplog.text
        assert not registry.add("shop", profile(1, version="2")).is_new
        larger = profile(1).model_copy(update={"description": "a" * 400})
        if room.bytes < Room().bytes:
            with pytest.raises(NoRoomError, match=message):  # known, and larger than it was
                registry.add("shop", larger)
        assert registry.add("bank", profile(3)).is_new
    finally:
        store.close()


def of_100_tasks(number: int, expected: int) -> AgentEvalProfile:
    name = f"many-{number}"
    tasks = [
        AssertionTask(f"{name}-{n}", "a", expected, ComparisonOperator.Equals) for n in range(100)
    ]
    return AgentEvalProfile(tasks, AgentEvalConfig(name=name), alias=name)


def test_a_profile_token_adds_series_up_to_a_bound(start: Start) -> None:
    """A profile of 100 tasks is 806 series at zero; what goes beyond 10,000 is refused."""
    service = start()
    answers = [post(service, of_100_tasks(number, 1)) for number in range(30)]
    assert [each.status_code for each in answers] == [201] * 12 + [409] * 18  # 12 * 806 are 9,672
    said = answers[-1].json()["detail"]
    assert (
        said == "the space 'default' would have more than 10,000 series of profiles in Prometheus"
    )
    assert post(service, of_100_tasks(0, 2)).status_code == 201  # another version adds none
    lines = service.http.get("/metrics").text.splitlines()
    assert len([line for line in lines if 'alias="many-' in line]) == 12 * 806
    assert service.sample('scouter_profiles_refused_total{space="default"}') == 18


def test_a_required_task_stays_so(start: Start) -> None:
    """By the API, in the store and after a restart; it is another version than without."""
    service, plain = start(), profile(1)
    task = plain.tasks[0].model_copy(update={"required": True})
    one = AgentEvalProfile([task], plain.config, alias=plain.alias)
    assert one.uid != plain.uid
    for each in (plain, one):
        assert post(service, each).status_code == 201
    for _ in range(2):
        (stored,) = service.get(f"/api/v1/profiles/{one.uid}")["body"]["tasks"]
        assert stored["required"] is True
        (other,) = service.get(f"/api/v1/profiles/{plain.uid}")["body"]["tasks"]
        assert "required" not in other
        service = start()
