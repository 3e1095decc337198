"""A provider that hangs holds up nothing that does not need it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collector.judging.lanes import Lane, Lanes
from collector.store.rows import PendingEvaluation, ResultPlace
from collector.worker.profiles import ProfileRegistry
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_server import LLMTestServer
from tests.collector.conftest import Service, Start
from tests.collector.judging.test_service import Gate
from tests.contracts.store_data import evaluation
from tests.support.processes import wait_until
from tests.support.store_appends import AppendingStore


def profile(alias: str, *entries: str) -> AgentEvalProfile:
    tasks = [
        LLMJudgeTask(
            f"by_{entry}", Prompt("Rate ${answer}.", "model-1", entry, output_type=Score), 3,
            "score", "GreaterThanOrEqual",
        )
        for entry in entries
    ]  # fmt: skip
    return AgentEvalProfile(tasks or [AssertionTask("right", "answer", 1, "Equals")], alias=alias)


def entry(server: LLMTestServer) -> dict[str, Any]:
    return {"kind": "openai", "base_url": server.url, "keyless": True}


def send(service: Service, alias: str, count: int, first: int = 0) -> None:
    service.send(
        *(
            {"uid": f"{alias} {n}", "profile": alias, "context": {"answer": f"{alias} {n}"}}
            for n in range(first, first + count)
        )
    )


def decided(service: Service, alias: str) -> int:
    items = service.get("/api/v1/evaluations", profile=alias, limit=1000)["items"]
    return sum(each["outcome"] != "pending" for each in items)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_one_entry_hangs_and_the_others_are_called(
    start: Start, tmp_path: Path, is_restarted: bool
) -> None:
    """Far more wait for it than are called at a time, and they came first.

    Those that ask both wait with it, and are not in the way of those that ask the other one only.
    """
    gate = Gate()
    good: dict[str, Any] = {"score": 4, "reason": "r"}
    with LLMTestServer(gate) as hanging, LLMTestServer(good) as quick:
        files = [
            str(each.save_to_json(tmp_path / f"{each.alias}.json"))
            for each in (
                profile("slow", "hangs"), profile("both", "hangs", "works"),
                profile("fast", "works"),
            )
        ]  # fmt: skip
        flags: dict[str, Any] = {
            "profile": files, "judge_concurrency": 4, "drain_s": "50ms",
            "providers": {
                "hangs": entry(hanging), "works": entry(quick), "spare": entry(quick),
            },
        }  # fmt: skip
        service = start(**flags)
        send(service, "slow", 24)
        send(service, "both", 24)
        if is_restarted:
            service.wait_for(48)
            service = start(**flags)
        send(service, "fast", 24)
        wait_until(
            lambda: decided(service, "fast") == 24, what="the others are decided", every_s=0.1
        )
        assert (decided(service, "slow"), decided(service, "both")) == (0, 0)
        assert hanging.most_at_once <= 4 * (2 if is_restarted else 1), "four questions to an entry"

        # A profile that comes later, with a set of entries that nobody has called so far.
        later = profile("later", "works", "spare")
        media = {"Content-Type": "application/json"}
        posted = service.http.post(
            "/api/v1/profiles", content=later.model_dump_json(), headers=media
        )
        uid = posted.json()["uid"]
        assert service.http.post(f"/api/v1/profiles/{uid}/activate").status_code == 200
        send(service, "later", 9)
        wait_until(
            lambda: decided(service, "later") == 9, what="those of a later profile", every_s=0.1
        )

        gate.open()
        for alias in ("slow", "both"):
            wait_until(
                lambda alias=alias: decided(service, alias) == 24, what="all are decided",
                every_s=0.1,
            )  # fmt: skip
        assert service.collector.store.pending_count() == 0


def page(*sizes: int) -> Sequence[PendingEvaluation]:
    return [
        PendingEvaluation(
            place=ResultPlace(n, 0),
            evaluation=evaluation(f"u{n}", Outcome.PENDING),
            context_bytes=size,
        )
        for n, size in enumerate(sizes)
    ]


def test_a_lane_leaves_as_much_room_as_it_takes(tmp_path: Path) -> None:
    """Of 100 bytes the first lane gets 50, the second half of the rest; each may have one."""
    store = AppendingStore(tmp_path)
    registry = ProfileRegistry(store)
    names = {"a": "a", "b": "b"}
    lanes = Lanes(registry, names.get, most=10, most_bytes=100)
    for alias, of in (("one", "a"), ("two", "b"), ("none", "")):
        registry.register("shop", profile(alias, *of), activate=True)
    first, second = lanes.follow()
    assert [lane.entries for lane in (first, second)] == [{"a"}, {"b"}]
    assert lanes.follow() == []
    assert len(lanes.all[-1].profiles) == 2, "evaluations of all other profiles are the rest's"

    def fitting(lane: Lane, *sizes: int) -> int:
        return len(lanes.fitting(lane, page(*sizes)))

    assert fitting(first, *[10] * 9) == 5
    first.inside = {("shop", f"u{n}"): 10 for n in range(5)}
    assert lanes.is_full(first)
    assert fitting(first, 1) == 0
    assert fitting(second, *[5] * 9) == 5
    assert fitting(second, 4000, 1) == 1, "else it would never be called"
    second.inside = {("shop", "large"): 4000}
    assert fitting(second, 1) == 0
    store.close()
