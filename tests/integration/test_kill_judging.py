"""`kill -9` while judges are asked: every record ends decided, and is counted once."""

import random
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_protocols import LLMRequest
from scouter.mock.llm_server import LLMTestServer
from tests.support.collector_process import CollectorProcess
from tests.support.processes import wait_until

RECORDS: Final = 60
KILLS: Final = 2
CONCURRENCY: Final = 8
_NUMBER: Final = re.compile(r"Rate (?:<[^>]*>)?(\d+)")


def rated(request: LLMRequest) -> Any:
    """The answer follows from the record: 1 to 5."""
    found = _NUMBER.search(request.text)
    assert found is not None
    return {"score": int(found[1]) % 5 + 1, "reason": "by the number"}


def judged_profile() -> AgentEvalProfile:
    """Even answers are right; a rate of 3 passes."""
    prompt = Prompt("Rate ${answer}", "model-1", "house", output_type=Score)
    return AgentEvalProfile(
        [
            AssertionTask("even", "even", True, "Equals"),
            LLMJudgeTask("rate", prompt, 3, "score", "GreaterThanOrEqual"),
            AssertionTask("reason", "rate.reason", True, "IsString", depends_on=["rate"]),
        ],
        alias="judged",
    )


def counted(metrics: dict[str, float], task: str) -> Counter[str]:
    """First evaluations, plus revisions to an outcome, minus revisions from it."""
    found: Counter[str] = Counter()
    for line, value in metrics.items():
        labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
        if labels.get("task") != task:
            continue
        if line.startswith("scouter_evaluations_total"):
            found[labels["outcome"]] += int(value)
        elif line.startswith("scouter_task_revisions_total"):
            found[labels["to"]] += int(value)
            found[labels["from"]] -= int(value)
    return +found


def test_kills_while_judges_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics, API and sheet agree with what was sent, whenever the collector died."""
    monkeypatch.setenv("HOUSE_KEY", "of-a-test")
    moments = random.Random(7)
    profile = judged_profile().save_to_json(tmp_path / "judged.json")
    with LLMTestServer(rated, latency_s=0.15, key="of-a-test") as server:
        entry = {"kind": "openai", "base_url": server.url, "key_variable": "HOUSE_KEY"}
        file = tmp_path / "providers.yaml"
        file.write_text(yaml.safe_dump({"providers": {"house": entry}}))
        collector = CollectorProcess(
            tmp_path, "--profile", profile, "--providers-file", file,
            "--judge-concurrency", str(CONCURRENCY),
        )  # fmt: skip
        collector.start()
        try:
            for first in range(0, RECORDS, RECORDS // KILLS):
                for number in range(first, first + RECORDS // KILLS, 10):
                    records = [
                        {"uid": f"u{n}", "profile": "judged",
                         "context": {"answer": n, "even": n % 2 == 0}}
                        for n in range(number, number + 10)
                    ]  # fmt: skip
                    answer = httpx.post(
                        f"{collector.url}/v1/records", json={"records": records}, timeout=120
                    )
                    assert answer.status_code == 200
                calls = server.calls
                wait_until(lambda calls=calls: server.calls > calls, what="a judge is asked")
                time.sleep(moments.random() * 0.5)
                collector.kill()
                collector.start()
            wait_until(
                lambda: collector.metrics()['scouter_judge_tasks_pending{space="default"}'] == 0
                and collector.records()["evaluated"] == RECORDS,
                what="everything is decided", every_s=0.2,
            )  # fmt: skip
            found = collector.evaluations()
            metrics, sheet = collector.metrics(), collector.records()
            rates = {each["task_id"]: each for each in collector.get("/api/v1/tasks")["items"]}
        finally:
            collector.close()
    assert Counter(each["uid"] for each in found) == Counter(f"u{n}" for n in range(RECORDS))
    for each in found:
        number = int(each["uid"][1:])
        wanted = ["passed" if number % 2 == 0 else "failed",
                  "passed" if number % 5 + 1 >= 3 else "failed", "passed"]  # fmt: skip
        assert [task["outcome"] for task in each["tasks"]] == wanted
        assert each["revision"] == 2
    assert (sheet["accepted"], sheet["evaluated"], sheet["waiting"]) == (RECORDS, RECORDS, 0)
    for task, passed in (("even", RECORDS // 2), ("rate", RECORDS * 3 // 5), ("reason", RECORDS)):
        assert counted(metrics, task) == +Counter(passed=passed, failed=RECORDS - passed)
        assert (rates[task]["passed"], rates[task]["total"]) == (passed, RECORDS)
    # Only what was on its way when the collector died is asked for again.
    assert RECORDS <= server.calls <= RECORDS + KILLS * (CONCURRENCY + 10)
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"of-a-test" not in stored
