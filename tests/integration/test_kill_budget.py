"""`kill -9` while judges spend a day's budget: whatever dies, no more is spent than that."""

import json
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_protocols import LLMRequest, tokens_of
from scouter.mock.llm_server import LLMTestServer
from tests.integration.test_kill_judging import rated
from tests.support.collector_process import CollectorProcess
from tests.support.processes import wait_until

RECORDS: Final = 120
CONCURRENCY: Final = 6
MOST_TOKENS: Final = 100
USD_PER_TOKEN: Final = 0.01
"""Of an answer: a question puts a dollar aside, and costs about three quarters of it."""
LIMIT_USD: Final = 50.0


class Bill:
    """The provider's bill: it counts every question from the moment that it came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.usd = 0.0

    def __call__(self, request: LLMRequest) -> Any:
        answer = {"score": rated(request)["score"], "reason": "by the number " * 20}
        with self._lock:
            self.usd += tokens_of(json.dumps(answer)) * USD_PER_TOKEN
        return answer


def spending_profile() -> AgentEvalProfile:
    """One judge, whose answers are bounded."""
    settings = {"max_tokens": MOST_TOKENS}
    prompt = Prompt("Rate ${answer}", "model-1", "house", None, settings, Score)
    judge = LLMJudgeTask("rate", prompt, 3, "score", "GreaterThanOrEqual")
    return AgentEvalProfile([judge], alias="judged")


@pytest.mark.parametrize("kills", [2, pytest.param(6, marks=pytest.mark.long)])
def test_no_crash_loop_overspends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    """The bill is within the limit; what the dead had put aside is lost, and shown as reserved."""
    monkeypatch.setenv("HOUSE_KEY", "of-a-test")
    moments = random.Random(11)
    profile = spending_profile().save_to_json(tmp_path / "judged.json")
    bill = Bill()
    with LLMTestServer(bill, latency_s=0.1, key="of-a-test") as server:
        price = {"input_per_million": 0.0, "output_per_million": USD_PER_TOKEN * 1e6}
        entry = {"kind": "openai", "base_url": server.url, "key_variable": "HOUSE_KEY",
                 "prices": {"model-1": price}}  # fmt: skip
        file = tmp_path / "providers.yaml"
        file.write_text(yaml.safe_dump({"providers": {"house": entry}}))
        collector = CollectorProcess(
            tmp_path, "--profile", profile, "--providers-file", file,
            "--judge-concurrency", str(CONCURRENCY),
            "--judge-daily-budget-usd", str(LIMIT_USD),
        )  # fmt: skip
        collector.start()
        try:
            for number in range(0, RECORDS, 40):
                records = [
                    {"uid": f"u{n}", "profile": "judged",
                     "context": {"answer": n}}
                    for n in range(number, number + 40)
                ]  # fmt: skip
                answer = httpx.post(
                    f"{collector.url}/v1/records", json={"records": records}, timeout=120
                )
                assert answer.status_code == 200
            for _ in range(kills):
                calls = server.calls
                wait_until(lambda calls=calls: server.calls > calls + 2, what="a judge is asked")
                time.sleep(moments.random() * 0.15)
                collector.kill()
                assert bill.usd <= LIMIT_USD
                collector.start()
            wait_until(
                lambda: collector.metrics()['scouter_judge_tasks_pending{space="default"}'] == 0
                and (sheet := collector.records())["evaluated"] + sheet["skipped"] == RECORDS,
                what="everything is decided", every_s=0.2,
            )  # fmt: skip
            found, metrics = collector.evaluations(), collector.metrics()
            rates = {each["task_id"]: each for each in collector.get("/api/v1/tasks")["items"]}
        finally:
            collector.close()
    judged = [each["tasks"][0] for each in found]
    outcomes = Counter((each["outcome"], each["reason"]) for each in judged)
    skipped = outcomes["skipped", "budget"]
    answered = outcomes["passed", None] + outcomes["failed", None]
    assert answered + skipped == RECORDS, outcomes
    assert min(answered, skipped) > 0
    # 0 where the answer was kept when the collector died, and the evaluation was not stored yet.
    costs = {each["usage"]["cost_usd"] for each in judged if each["outcome"] != "skipped"}
    cost = max(costs)
    assert costs <= {cost, 0.0}
    assert bill.usd == pytest.approx(server.calls * cost), "the bill is the provider's"
    assert RECORDS * cost > 1.5 * LIMIT_USD, "all of them would cost more"
    assert (rates["rate"]["passed"], rates["rate"]["failed"]) == (
        outcomes["passed", None], outcomes["failed", None],
    )  # fmt: skip
    of = '{entry="*"}'
    spent, reserved = (
        metrics[f"scouter_judge_{name}_today_usd{of}"] for name in ("spent", "reserved")
    )
    assert metrics[f"scouter_judge_daily_budget_usd{of}"] == LIMIT_USD
    assert bill.usd <= spent + reserved <= LIMIT_USD
    # A kill leaves at most one question for each place aside; what is left pays for no other one.
    assert reserved > 0
    assert reserved <= kills * CONCURRENCY * MOST_TOKENS * USD_PER_TOKEN
    assert LIMIT_USD - spent - reserved < MOST_TOKENS * USD_PER_TOKEN
    assert (tmp_path / "data" / "judge_budget.db").stat().st_mode & 0o777 == 0o600
