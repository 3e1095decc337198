"""Budget of a collector's judges for a day: skipped beyond it, counted, shown, backed up."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.settings.load import load_settings
from collector.store.ledger import LEDGER_NAME
from collector.store.opening import LostDataError
from scouter.agent.budget import ALL_ENTRIES, account_of, today
from scouter.agent.ledger import NANO, SqliteLedger
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_protocols import Fault, LLMRequest
from scouter.mock.llm_server import LLMTestServer
from tests.collector.conftest import Start
from tests.collector.judging.test_service import (
    begin,
    entries,
    items,
    post,
    send,
    tasks,
    wait_decided,
)  # fmt: skip


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOUSE_KEY", "of-a-test")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of the user"))


def spent_usd(folder: Path, name: str = ALL_ENTRIES) -> float:
    ledger = SqliteLedger(folder / LEDGER_NAME)
    try:
        return asyncio.run(ledger.spent_nano_usd(name, today())) / NANO
    finally:
        ledger.close()


def test_what_does_not_fit_is_skipped_and_counted(start: Start, tmp_path: Path) -> None:
    """Nothing passes silently; with more money a re-evaluation asks for what was skipped."""
    with LLMTestServer({"score": 4, "reason": "r"}) as server:
        service = begin(start, tmp_path, server, judge_daily_budget_usd=0.0001)
        send(service, 42)
        service.wait_for(1)
        wait_decided(service)
        (item,) = items(service).values()
        assert tasks(item) == [("passed", None), ("skipped", "budget"), ("skipped", "budget")]
        assert "all provider entries" in item["tasks"][1]["message"]
        assert server.calls == 0
        (rate,) = service.get("/api/v1/tasks")["items"][:1]
        assert (rate["task_id"], rate["total"]) == ("right", 1)
        assert service.sample('scouter_judge_daily_budget_usd{entry="*"}') == 0.0001
        assert service.sample('scouter_judge_spent_today_usd{entry="*"}') == 0.0
        of = f'alias="judged",from="pending",profile="{item["profile_name"]}",space="default"'
        line = f'scouter_task_revisions_total{{{of},task="tone",to="budget"}}'
        assert service.sample(line) == 1.0

        richer: dict[str, Any] = {"house": {**entries(server)["house"], "daily_budget_usd": 5}}
        service = begin(start, tmp_path, server, judge_daily_budget_usd=7, providers=richer)
        (registered,) = service.get("/api/v1/profiles")["items"]
        body = {"profile": registered["uid"], "dry_run": False}
        assert service.http.post("/api/v1/reevaluations", json=body).json()["stored"] == 1
        wait_decided(service)
        (item,) = items(service).values()
        assert tasks(item)[1] == ("passed", None)
        cost = item["tasks"][1]["usage"]["cost_usd"]
        for entry, limit, account in (("*", 7, ALL_ENTRIES), ("house", 5, account_of("house"))):
            labels = f'{{entry="{entry}"}}'
            assert service.sample(f"scouter_judge_daily_budget_usd{labels}") == limit
            shown = service.sample(f"scouter_judge_spent_today_usd{labels}")
            assert shown == pytest.approx(cost)
            assert spent_usd(tmp_path / "data", account) == pytest.approx(cost)
            assert service.sample(f"scouter_judge_reserved_today_usd{labels}") == 0.0
    assert not (tmp_path / "of the user").exists(), "the collector has a ledger of its own"


def test_answers_of_no_use_are_in_the_series_too(start: Start, tmp_path: Path) -> None:
    """The day's budget shows the same sum as the counters of cost and tokens."""

    def fault(request: LLMRequest) -> Fault | None:
        kinds: dict[str, Any] = {"41": "refusal", "43": "truncated", "44": "too_many"}
        found = next((kind for number, kind in kinds.items() if number in request.text), None)
        return None if found is None else Fault(kind=found)

    with LLMTestServer({"score": 4, "reason": "r"}, faults=fault) as server:
        service = begin(start, tmp_path, server, judge_daily_budget_usd=5)
        send(service, 41, 42, 43, 44)
        service.wait_for(4)
        wait_decided(service)
        found = items(service)
        assert {uid: tasks(each)[1] for uid, each in found.items()} == {
            "u41": ("errored", "refusal"), "u42": ("passed", None), "u43": ("errored", "parse"),
            "u44": ("errored", "provider"),
        }  # fmt: skip
        usages = [each["tasks"][1]["usage"] for each in found.values()]
        read, written = (sum(u[f"{way}_tokens"] for u in usages) for way in ("input", "output"))
        of = 'entry="house",model="model-1"'
        for direction, tokens in (("input", read), ("output", written)):
            line = f'scouter_judge_tokens_total{{direction="{direction}",{of}}}'
            assert service.sample(line) == float(tokens)
        cost = service.sample(f"scouter_judge_cost_usd_total{{{of}}}")
        assert cost == pytest.approx((2 * read + 8 * written) / 1e6)
        spent = service.sample('scouter_judge_spent_today_usd{entry="*"}')
        assert cost == pytest.approx(spent, abs=4e-9), "each is rounded up to a billionth"
        calls = {"answered": 1.0, "refusal": 1.0, "parse": 1.0, "provider": 2.0}
        for outcome, count in calls.items():
            line = f'scouter_judge_calls_total{{{of},outcome="{outcome}"}}'
            assert service.sample(line) == count, outcome


def test_a_backup_has_what_was_spent(start: Start, tmp_path: Path) -> None:
    with LLMTestServer({"score": 4, "reason": "r"}) as server:
        flags: dict[str, Any] = {"judge_daily_budget_usd": 1, "backups": tmp_path / "backups"}
        service = begin(start, tmp_path, server, **flags)
        send(service, 42)
        service.wait_for(1)
        wait_decided(service)
        assert service.http.post("/api/v1/backup", json={"folder": "b"}).status_code == 201
        service.stop()
    spent = spent_usd(tmp_path / "data")
    assert spent == spent_usd(tmp_path / "backups" / "b") > 0
    assert (tmp_path / "backups" / "b" / LEDGER_NAME).stat().st_mode & 0o777 == 0o600


def test_a_model_without_a_price_is_refused(start: Start, tmp_path: Path) -> None:
    """A budget in dollars could not bound it."""
    with LLMTestServer(1) as server:
        service = begin(start, tmp_path, server, judge_daily_budget_usd=1)
        prompt = Prompt("Rate ${answer}.", "model-2", "house", output_type=Score)
        task = LLMJudgeTask("tone", prompt, 3, "score", "GreaterThanOrEqual")
        answer = post(service, AgentEvalProfile([task], alias="dear"))
    assert answer.status_code == 422
    assert "no price for the model 'model-2'" in answer.json()["detail"]


def test_a_ledger_that_cannot_be_used_is_reported_at_the_start(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / LEDGER_NAME).write_text("no database " * 100)
    start()  # nothing is bounded
    with pytest.raises(ConfigError, match=r"budget for judges.*judge_budget\.db cannot be used"):
        start(judge_daily_budget_usd=1)


@pytest.mark.parametrize("harm", ["flip-head", "empty", "delete"])
def test_what_was_spent_is_never_forgotten_silently(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    """With a budget, only who accepts the loss begins from nothing; without one the log tells."""
    start(judge_daily_budget_usd=1).stop()
    path = tmp_path / "data" / LEDGER_NAME
    content = bytearray(path.read_bytes())
    content[5] ^= 0x41
    for beside in path.parent.glob(f"{LEDGER_NAME}-*"):
        beside.unlink()
    if harm == "delete":
        path.unlink()
    else:
        path.write_bytes(b"" if harm == "empty" else content)
    for _ in range(2):  # the first try does not make it known
        with pytest.raises(LostDataError, match=r"judges.*spent.*--accept-loss"):
            start(judge_daily_budget_usd=1)
    start()
    assert "judges have spent" in caplog.text
    start(judge_daily_budget_usd=1, accept_loss=True)
    start(judge_daily_budget_usd=1)


def test_where_the_budget_stands(tmp_path: Path) -> None:
    file = tmp_path / "providers.yaml"
    file.write_text(yaml.safe_dump({"daily_budget_usd": 3}))
    given = {"providers_file": str(file)}
    assert load_settings(given).provider_entries().daily_budget_usd == 3
    assert load_settings({"judge_daily_budget_usd": 4}).provider_entries().daily_budget_usd == 4
    with pytest.raises(ConfigError, match="stands in one of them"):
        load_settings({**given, "judge_daily_budget_usd": 4}).provider_entries()
    for flags in ({"judge_daily_budget_usd": -1}, {"judge_daily_budget": 1},
                  {"judge_cache_days": 0}):  # fmt: skip
        with pytest.raises(ConfigError):
            load_settings(flags)
