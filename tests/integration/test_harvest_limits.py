"""Records that a harvest takes, by hand; and records that make no scenario."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scouter.client.client import ScouterClient
from scouter.client.errors import ApiError
from scouter.client.harvest import Harvest, Wanted, harvest, write_scenarios
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.scenario import EvalScenarios
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.collector.conftest import Service, Start, start  # noqa: F401  # pyright: ignore[reportUnusedImport] a fixture
from tests.scouter.cli.conftest import Scouter, project, scouter  # noqa: F401  # pyright: ignore[reportUnusedImport] fixtures
from tests.support.processes import wait_until
from tests.support.served import serve


def profile(alias: str) -> AgentEvalProfile:
    """Right is an answer of `yes`; a session has three turns at most."""
    return AgentEvalProfile(
        [
            AssertionTask("right", "answer", "yes", "Equals"),
            AssertionTask("short", "records", 4, "HasLengthLessThan", scope="session"),
        ],
        alias=alias,
    )


@pytest.fixture
def service(start: Start, tmp_path: Path) -> Service:  # noqa: F811
    files = [str(profile(name).save_to_json(tmp_path / f"{name}.json")) for name in ("a", "b")]
    return start(profile=files, session_quiet_s="200ms")


@pytest.fixture
def client(service: Service) -> Iterator[ScouterClient]:
    with serve(service.collector.app) as address, ScouterClient(address) as client:
        yield client


def asked(uid: str, *, is_right: bool = False, **fields: Any) -> dict[str, Any]:
    context = {"question": f"Is it {uid}?", "answer": "yes" if is_right else "no"}
    return {"uid": uid, "record_id": uid, "profile": "a", "context": context, **fields}


def uids(found: Harvest) -> set[str]:
    return {each.scenario.id for each in found.items}


def test_filters(service: Service, client: ScouterClient) -> None:
    """Four records of two profiles and sessions, judged one after the other."""
    given = [
        asked("u1", session_id="s1"),
        asked("u2", session_id="s1", is_right=True),
        asked("u3", session_id="s2"),
        asked("u4", session_id="s2", profile="b"),
    ]
    for count, item in enumerate(given, start=1):
        service.send(item)
        service.wait_for(count)
    times = {each.uid: each.evaluated_at for each in client.evaluations()}
    for wanted, expected in (
        (Wanted(), "u1 u2 u3 u4"),
        (Wanted(failed=True), "u1 u3 u4"),
        (Wanted(session_id="s1"), "u1 u2"),
        (Wanted(session_id="s1", failed=True), "u1"),
        (Wanted(profile="b"), "u4"),
        (Wanted(profile="a", session_id="s2"), "u3"),
        (Wanted(since=times["u3"]), "u3 u4"),
        (Wanted(until=times["u3"]), "u1 u2"),
        (Wanted(since=times["u2"], until=times["u4"], failed=True), "u3"),
        (Wanted(limit=2), "u3 u4"),
        (Wanted(limit=2, failed=True), "u3 u4"),
    ):
        assert uids(harvest(client, wanted)) == set(expected.split()), wanted


def test_what_was_observed_is_no_expectation(
    service: Service, client: ScouterClient, tmp_path: Path
) -> None:
    """The task expects `yes`; without the profile nothing does, and `no` is not taken for it."""
    told = {"question": "Is it?", "answer": "no", "expected_answer": "maybe"}
    service.send(asked("wrong"), asked("right", is_right=True), {**asked("told"), "context": told})
    service.wait_for(3)
    found = {each.scenario.id: each.scenario for each in harvest(client, Wanted()).items}
    assert {uid: each.expected_outcome for uid, each in found.items()} == {
        "wrong": "yes", "right": "yes", "told": "maybe",
    }  # fmt: skip
    observed = {uid: (each.metadata or {})["observed_answer"] for uid, each in found.items()}
    assert observed == {"wrong": "no", "right": "yes", "told": "no"}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "profiles", lambda: iter(()))
        bare = harvest(client, Wanted())
    assert {each.scenario.id: each.scenario.expected_outcome for each in bare.items} == {
        "wrong": None, "right": None, "told": "maybe",
    }  # fmt: skip
    write_scenarios(tmp_path / "bare.yaml", bare.items)
    text = (tmp_path / "bare.yaml").read_text(encoding="utf-8")
    assert "    # expected_outcome: 'yes'\n" in text or '    # expected_outcome: "yes"\n' in text
    assert "expected_outcome: no\n" not in text
    assert "the answer was observed in a record that failed: see observed_answer" in text


def test_what_is_no_scenario(service: Service, client: ScouterClient) -> None:
    """Records that wait or cannot be evaluated, a session as a whole, and erased records."""
    service.send(
        asked("u1", session_id="s"),
        asked("u2", session_id="s"),
        asked("lost", profile="nobody"),
        {**asked("silent"), "context": {"answer": "no"}},
    )
    service.wait_for(3)
    wait_until(
        lambda: [each for each in client.evaluations() if each.scope == "session"],
        what="the evaluation on the session",
    )
    found = harvest(client, Wanted())
    assert uids(found) == {"u1", "u2"}
    assert [each.uid for each in found.silent] == ["silent"]
    gone = next(each for each in client.evaluations() if each.uid == "u2")
    assert service.http.post("/api/v1/erase", json={"record_uid": "u2"}).status_code == 200
    listed = client.evaluations

    def stale(**query: Any) -> Iterator[Any]:
        """As if it went between the list and the question for its context."""
        yield from (each for each in (gone, *listed(**query)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "evaluations", stale)
        found = harvest(client, Wanted())
    assert uids(found) == {"u1"}
    assert {each.uid for each in found.silent} == {"silent", "u2"}


def test_long_names_and_conversations(
    service: Service,
    client: ScouterClient,
    scouter: Scouter,  # noqa: F811
    tmp_path: Path,
) -> None:
    """The longest uid that a record may have, and sixty turns."""
    turns = [{"role": "user", "content": f"Turn {n}?"} for n in range(60)]
    service.send({**asked("u" * 512), "context": {"messages": turns, "answer": "no"}})
    service.wait_for(1)
    done = scouter("scenarios", "harvest", "long.yaml", "--url", client.url)
    assert done.returncode == 0, done.stderr
    (scenario,) = EvalScenarios.from_path(tmp_path / "long.yaml")
    assert scenario.id == "u" * 512
    assert [scenario.initial_query, *scenario.predefined_turns] == [
        each["content"] for each in turns
    ]


def test_a_misspelt_profile_is_told(service: Service, client: ScouterClient) -> None:
    service.send(asked("u1"))
    service.wait_for(1)
    with pytest.raises(ApiError, match="profile: 'A-' is not registered; did you mean 'a'"):
        harvest(client, Wanted(profile="A-"))
