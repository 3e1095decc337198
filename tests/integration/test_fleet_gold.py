"""Gold items in a fleet: the worker with partition 0 asks for them, and the api shows them."""

import json
import uuid
from pathlib import Path
from typing import Any, Final

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_server import LLMTestServer
from tests.support.fleet import Fleet, FleetMember
from tests.support.kafka_broker import ExternalBroker, KafkaBroker
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import wait_until

PROFILE: Final = AgentEvalProfile(
    [
        LLMJudgeTask(
            "tone", Prompt("Rate ${answer}.", "model-1", "house", output_type=Score), 3, "score",
            "GreaterThanOrEqual",
        )
    ],
    alias="judged",
)  # fmt: skip
VERDICTS: Final = "scouter_judge_gold_verdicts_total"


def asked(member: FleetMember) -> float:
    """Gold items that a process has asked for."""
    return sum(n for name, n in member.metrics().items() if name.startswith(VERDICTS))


def test_one_worker_asks_for_gold_items_and_another_one_goes_on(
    tmp_path: Path, kafka: KafkaBroker | ExternalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slot has one outcome, whoever had the partition; the api shows all of them."""
    monkeypatch.setenv("HOUSE_KEY", "of-a-test")
    gold = tmp_path / "gold.jsonl"
    lines = [{"context": {"answer": f"fine {n}"}, "label": "pass"} for n in range(20)]
    gold.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    server = PostgresqlServer()
    with LLMTestServer({"score": 5, "reason": "so"}) as house:
        entry = {"kind": "openai", "base_url": house.url, "key_variable": "HOUSE_KEY"}
        providers = tmp_path / "providers.yaml"
        providers.write_text(json.dumps({"providers": {"house": entry}}))
        fleet = Fleet(
            tmp_path, kafka, server, f"gold-{uuid.uuid4().hex[:8]}",
            "--providers-file", str(providers), "--gold", str(gold), "--gold-per-day", "432000",
            "--gold-window", "10",
        )  # fmt: skip
        try:
            profile = PROFILE.save_to_json(tmp_path / "judged.json")
            api = fleet.add("api", "api", "--profile", str(profile))
            workers = [fleet.add("worker", f"worker-{n}") for n in range(2)]
            wait_until(lambda: any(map(asked, workers)), what="somebody asks")
            asking = next(each for each in workers if asked(each))
            (other,) = (each for each in workers if each is not asking)
            assert asked(other) == 0
            before = windows(api)[-1]["start"]
            asking.stop()
            wait_until(lambda: asked(other), what="the other one asks")
            wait_until(lambda: windows(api)[-1]["start"] > before, what="a later window")
            found = windows(api)
            assert {each["specificity"]["items"] for each in found} == {0}
            items = [each["sensitivity"]["items"] for each in found]
            assert any(items)
            assert all(n <= 10 for n in items)
            assert asked(api) == 0
        finally:
            fleet.close()
            server.stop()


def windows(api: FleetMember) -> list[dict[str, Any]]:
    (judge,) = api.get("/api/v1/judges/gold")["items"]
    return list(judge["windows"])
