"""Gold items in live traffic: when each is judged, what they say, and that no rate has them."""

import datetime
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from collector.judging.gold_items import (
    DAY_NS,
    GoldFile,
    Schedule,
    gold_windows,
    item_of,
    last_complete,
)
from collector.store.judges import GoldOutcome
from scouter.agent.calibration.identity import identify
from scouter.agent.calibration.rates import Calibrations
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.gold_items import judge_drift
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_protocols import LLMRequest
from scouter.mock.llm_server import LLMTestServer
from tests.collector.conftest import Start
from tests.collector.judging.test_service import entries, wait_decided
from tests.support.calibrations import NINE_OF_TEN, calibration
from tests.support.processes import wait_until

DESK = AgentEvalProfile(
    [
        LLMJudgeTask(
            "tone",
            Prompt("Rate ${answer}.", "model-1", "house", output_type=Score),
            3,
            "score",
            "GreaterThanOrEqual",
        )
    ],
    alias="judged",
)
TASK = DESK.llm_judge_tasks[0]
IDENTITY = identify(DESK, TASK, "")
SECOND = 10**9


def gold_file(folder: Path, count: int = 20) -> Path:
    """Half good, half bad."""
    lines = [
        {"context": {"answer": f"{'fine' if n % 2 else 'rude'} {n}"},
         "label": "pass" if n % 2 else "fail"}
        for n in range(count)
    ]  # fmt: skip
    path = folder / "gold.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


@given(
    per_day=st.floats(0.5, 1e6),
    at_ns=st.integers(0, 100 * 365 * DAY_NS),
    window=st.integers(1, 500),
    items=st.integers(1, 500),
)
def test_the_schedule_follows_from_the_time(
    per_day: float, at_ns: int, window: int, items: int
) -> None:
    """A slot holds its times; a window of at most as many slots as items has no item twice."""
    schedule = Schedule(per_day=per_day, window=min(window, items))
    slot = schedule.slot_at(at_ns)
    assert schedule.start_ns(slot) <= at_ns < schedule.start_ns(slot + 1)
    assert schedule.slot_at(schedule.start_ns(slot + 1) - 1) <= slot
    first = schedule.first_of_window(slot)
    assert first <= slot < first + schedule.window
    taken = [at % items for at in range(first, first + schedule.window)]
    assert len(set(taken)) == len(taken)


def test_a_day_has_so_many_slots() -> None:
    schedule = Schedule(per_day=50, window=10)
    days = [schedule.slot_at(day * DAY_NS) for day in range(4)]
    assert days == [0, 50, 100, 150]


def test_items_of_a_file(tmp_path: Path) -> None:
    """Each record once, ties out, lines of other tasks out; in an order that stays."""
    rows: list[dict[str, Any]] = [
        {"context": {"answer": "a"}, "label": "pass", "rater": "ann"},
        {"context": {"answer": "a"}, "label": "pass", "rater": "bob"},
        {"context": {"answer": "b"}, "label": "pass", "rater": "ann"},
        {"context": {"answer": "b"}, "label": "fail", "rater": "bob"},
        {"context": {"answer": "c"}, "score": 2},
        {"context": {"answer": "d"}, "label": "pass", "task": "other"},
        {"context": {"answer": "e"}, "score": 3, "task": "Tone"},
    ]
    path = tmp_path / "gold.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    items = GoldFile(path).items(TASK)
    assert {(json.dumps(each.context), each.is_good) for each in items} == {
        ('{"answer": "a"}', True), ('{"answer": "c"}', False), ('{"answer": "e"}', True),
    }  # fmt: skip
    path.write_text("".join(f"{json.dumps(row)}\n" for row in reversed(rows)))
    assert GoldFile(path).items(TASK) == items
    assert [item_of(items, slot) for slot in range(5)] == [*items, *items[:2]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"uid": "u", "label": "pass"}', "line 1: a gold item needs its context"),
        ('{"context": {}, "label": "maybe"}', "expected pass or fail"),
    ],
)
def test_a_bad_gold_file_is_refused(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "gold.jsonl"
    path.write_text(line)
    with pytest.raises(ConfigError, match=message):
        GoldFile(path)


def test_a_rater_who_contradicts_himself_in_a_gold_file(tmp_path: Path) -> None:
    """A label given twice counts once, so that Bob's vote makes a tie, which is left out."""
    rows = [
        {"context": {"answer": "a"}, "label": "pass", "rater": "ann"},
        {"context": {"answer": "a"}, "label": "pass", "rater": "ann"},
        {"context": {"answer": "a"}, "label": "fail", "rater": "bob"},
        {"context": {"answer": "b"}, "label": "fail", "rater": "ann"},
    ]
    path = tmp_path / "gold.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert [each.context for each in GoldFile(path).items(TASK)] == [{"answer": "b"}]

    rows[1]["label"] = "fail"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(ConfigError, match="'ann' says pass in line 1 and fail in line 2"):
        GoldFile(path).items(TASK)


def evaluations(first: int, good: str, bad: str) -> list[GoldOutcome]:
    """One a slot, from a slot on: P passed, F failed, E errored."""
    outcomes = {"P": Outcome.PASSED, "F": Outcome.FAILED, "E": Outcome.ERRORED}
    every = [*((True, letter) for letter in good), *((False, letter) for letter in bad)]
    return [
        GoldOutcome(
            space="default", alias="judged", task_id="tone", judge="j", slot=slot, item=str(slot),
            is_good=is_good, outcome=outcomes[letter], reason=None, at_ns=slot * SECOND,
        )
        for slot, (is_good, letter) in enumerate(every, start=first)
    ]  # fmt: skip


def test_only_a_whole_window_is_compared_with_the_calibration() -> None:
    """Slots of a second, windows of 20. The first: 9 of 10 and 8 of 10, as calibrated."""
    schedule = Schedule(per_day=86_400, window=20)
    known = Calibrations([calibration(DESK, NINE_OF_TEN)])
    rows = evaluations(100, "PPPPPPPPPF", "FFFFFFFFPP") + evaluations(120, "FFFFFFFFE", "PPPPPPPPP")
    at = [gold_windows(rows, schedule, now * SECOND, IDENTITY, known) for now in (139, 140)]
    first, second = at[0]
    assert (first.start_ns, first.end_ns) == (100 * SECOND, 120 * SECOND)
    assert (first.confusion.sensitivity, first.confusion.specificity) == (0.9, 0.8)
    assert first.drift is not None
    assert not first.drift.has_drifted
    assert (second.is_complete, second.drift, second.undecided) == (False, None, 1)
    assert last_complete(at[0]) == first
    last = last_complete(at[1])
    assert last is not None
    assert last.drift is not None
    assert last.drift.has_drifted


def test_without_a_calibration_of_this_judge_nothing_is_called_drift() -> None:
    schedule = Schedule(per_day=86_400, window=20)
    other = calibration(DESK, judge="elsewhere:judge")
    rows = evaluations(100, "FFFFFFFFFF", "PPPPPPPPPP")
    for known in (Calibrations(), Calibrations([other])):
        (found,) = gold_windows(rows, schedule, 200 * SECOND, IDENTITY, known)
        assert found.drift is None
        assert found.confusion.sensitivity == 0


@pytest.mark.parametrize(("sensitivity", "specificity"), [(0.9, 0.8), (0.99, 0.95), (0.7, 0.6)])
@pytest.mark.parametrize("window", [20, 100, 400])
def test_false_alarms_of_a_steady_judge(
    window: int, sensitivity: float, specificity: float
) -> None:
    """At most 1 % of the windows, with calibration (200 labels) and window drawn anew each time."""
    random = np.random.default_rng(window)
    runs = 500

    def drawn(each: int) -> Confusion:
        good, bad = (int(random.binomial(each, chance)) for chance in (sensitivity, specificity))
        return Confusion(
            good_passed=good, good_failed=each - good, bad_failed=bad, bad_passed=each - bad
        )

    called = sum(judge_drift(drawn(100), drawn(window // 2)).has_drifted for _ in range(runs))
    assert called / runs <= 0.01 + 3 * math.sqrt(0.01 * 0.99 / runs)


def test_in_a_running_collector(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge that turns differs from a steady one; sheet, rates and totals know nothing of it."""
    monkeypatch.setenv("HOUSE_KEY", "of-a-test")
    turned: list[bool] = []
    called: list[str] = []

    def rate(request: LLMRequest) -> dict[str, Any]:
        called.append(request.text)
        return {"score": 5 if ("fine" in request.text) is not bool(turned) else 1, "reason": "so"}

    folder = tmp_path / "known"
    folder.mkdir()
    when = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    calibration(DESK, ((100, 0), (0, 100)), at=when).save(folder / "a.json")
    file = DESK.save_to_json(tmp_path / "judged.json")
    drifting = 'scouter_judge_drifting{alias="judged",space="default",task="tone"}'
    with LLMTestServer(rate) as server:
        service = start(
            profile=[str(file)], providers=entries(server), calibrations=str(folder),
            gold=str(gold_file(tmp_path)), gold_per_day=432_000, gold_window=10, drain_s="1s",
        )  # fmt: skip
        service.send(
            *(
                {"uid": f"u{n}", "profile": "judged", "context": {"answer": f"fine {n}"}}
                for n in range(8)
            )
        )
        service.wait_for(8)
        wait_decided(service)
        wait_until(lambda: service.sample(drifting) == 0.0, what="a window is over")
        turned.append(True)
        wait_until(lambda: service.sample(drifting) == 1.0, what="the drift is seen")
        sheet = service.get("/api/v1/conservation")["records"]
        (task,) = service.get("/api/v1/tasks")["items"]
        series = service.get("/api/v1/tasks/series")["items"]
        listed = service.get("/api/v1/evaluations", limit=100)["items"]
        (judge,) = service.get("/api/v1/judges/gold")["items"]
        shown = service.http.get("/metrics").text

    assert (sheet["accepted"], sheet["evaluated"], len(listed)) == (8, 8, 8)
    assert (task["passed"], task["failed"], task["errored"]) == (8, 0, 0)
    assert sum(each["passed"] + each["failed"] for each in series) == 8
    decided = sum(
        each["sensitivity"]["items"] + each["specificity"]["items"] for each in judge["windows"]
    )
    assert 0 < decided <= len(called) - 8, "the rest of the calls were for gold items"
    assert (judge["items"], judge["window"], judge["task_id"]) == (20, 10, "tone")
    steady = [each for each in judge["windows"] if each["has_drifted"] is False]
    moved = [each for each in judge["windows"] if each["has_drifted"]]
    assert steady
    assert moved
    assert steady[0]["sensitivity"]["rate"] in (1.0, None)
    assert moved[-1]["start"] > steady[0]["start"]
    calls = service.sample(
        'scouter_judge_calls_total{entry="house",model="model-1",outcome="answered"}'
    )
    lines = re.findall(
        r'^scouter_judge_gold_verdicts_total\{alias="judged",.*\} (\S+)$', shown, re.M
    )
    assert sum(map(float, lines)) >= decided, "each is counted, by what it is known to be"
    assert calls is not None
    assert calls >= 8 + decided, "gold calls are counted and paid for like all others"

    _, foreign = TokenFile(tmp_path / "data").create("", Scope, "elsewhere")

    def lanes() -> Any:
        bearer = {"Authorization": f"Bearer {foreign}"}
        return service.http.get("/api/v1/judges/gold", headers=bearer).json()

    wait_until(lambda: lanes() == {"items": []}, what="another space has no judge")


def test_a_restart_does_not_ask_again(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One slot lasts a hundred days; whoever starts within it finds its evaluation."""
    monkeypatch.setenv("HOUSE_KEY", "of-a-test")
    file = DESK.save_to_json(tmp_path / "judged.json")
    with LLMTestServer({"score": 5, "reason": "so"}) as server:
        given: dict[str, Any] = {
            "profile": [str(file)], "providers": entries(server), "drain_s": "1s",
            "gold": str(gold_file(tmp_path)), "gold_per_day": 0.01,
        }  # fmt: skip
        service = start(**given)
        called = (
            'scouter_judge_gold_verdicts_total{alias="judged",label="%s",outcome="passed",'
            'space="default",task="tone"}'
        )
        wait_until(
            lambda: any(service.sample(called % label) for label in ("good", "bad")),
            what="an item is judged",
        )
        service.stop()
        service = start(**given)
        wait_until(
            lambda: service.get("/api/v1/judges/gold")["items"][0]["windows"],
            what="the evaluation is there",
        )
        # It looks at the schedule before it reads what is pending.
        service.send({"uid": "u", "profile": "judged", "context": {"answer": "x"}})
        service.wait_for(1)
        wait_decided(service)
        assert server.calls == 2, "one for the gold item, one for the record"


class OneItem:
    """A collector with a budget and one gold item, whose very question records ask as well.

    The item is sent once, at the start: its slot lasts a hundred days.
    """

    def __init__(self, start: Start, folder: Path, server: LLMTestServer) -> None:
        self._start, self._server = start, server
        self._profile = DESK.save_to_json(folder / "judged.json")
        self._gold = gold_file(folder, 1)
        self._sent = 0

    def begin(self, *, has_gold: bool, budget_usd: float = 1.0) -> None:
        gold: dict[str, Any] = {"gold": str(self._gold), "gold_per_day": 0.01}
        self.service = self._start(
            profile=[str(self._profile)], providers=entries(self._server), drain_s="1s",
            judge_daily_budget_usd=budget_usd, **(gold if has_gold else {}),
        )  # fmt: skip
        if has_gold:
            wait_until(
                lambda: self.service.get("/api/v1/judges/gold")["items"][0]["windows"],
                what="the item is judged",
            )

    def send(self) -> None:
        """Send a record like the item, and wait for its evaluation."""
        self._sent += 1
        row = {"uid": f"u{self._sent}", "profile": "judged", "context": {"answer": "rude 0"}}
        self.service.send(row)
        self.service.wait_for(self._sent)
        wait_decided(self.service)

    def cost_usd(self) -> float:
        """Cost of one question, as the records tell."""
        found = self.service.get("/api/v1/evaluations")["items"]
        return max(each["tasks"][0]["usage"]["cost_usd"] for each in found)

    def spent_usd(self) -> float:
        return self.service.sample('scouter_judge_spent_today_usd{entry="*"}') or 0.0


@pytest.fixture
def house_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_KEY", "of-a-test")


@pytest.mark.usefixtures("house_key")
def test_what_is_said_of_a_gold_item_is_not_stored(start: Start, tmp_path: Path) -> None:
    """The first record is evaluated for all that, the second no more; both calls are paid for."""
    with LLMTestServer({"score": 5, "reason": "so"}) as server:
        one = OneItem(start, tmp_path, server)
        one.begin(has_gold=True)
        calls = [server.calls]
        for _ in range(2):
            one.send()
            calls.append(server.calls)

        assert calls == [1, 2, 2]
        assert one.spent_usd() == pytest.approx(2 * one.cost_usd())
        assert one.cost_usd() > 0
        assert one.service.sample("scouter_judge_cache_answers") == 1.0


@pytest.mark.usefixtures("house_key")
def test_a_gold_item_is_sent_though_the_answer_is_known(start: Start, tmp_path: Path) -> None:
    """Else a judge that drifts would be answered for by what it said before."""
    lookups = 'scouter_judge_cache_lookups_total{entry="house",model="model-1",result="%s"}'
    with LLMTestServer({"score": 5, "reason": "so"}) as server:
        one = OneItem(start, tmp_path, server)
        one.begin(has_gold=False)
        one.send()
        assert server.calls == 1
        one.begin(has_gold=True)
        assert server.calls == 2
        one.send()

        assert server.calls == 2, "records are still answered from the cache"
        assert one.spent_usd() == pytest.approx(2 * one.cost_usd())
        assert one.cost_usd() > 0
        assert one.service.sample(lookups % "hit") == 1.0
        assert one.service.sample(lookups % "miss") in (None, 0.0), "the item was not looked up"


@pytest.mark.usefixtures("house_key")
def test_a_gold_item_is_not_sent_without_money(start: Start, tmp_path: Path) -> None:
    """It is counted as such, and tells nothing of the judge."""
    with LLMTestServer({"score": 5, "reason": "so"}) as server:
        one = OneItem(start, tmp_path, server)
        one.begin(has_gold=True, budget_usd=0.000001)
        (judge,) = one.service.get("/api/v1/judges/gold")["items"]
        counted = one.service.sample(
            'scouter_judge_gold_verdicts_total{alias="judged",label="bad",outcome="budget",'
            'space="default",task="tone"}'
        )

    assert (server.calls, counted) == (0, 1.0)
    (window,) = judge["windows"]
    assert (window["sensitivity"]["items"], window["specificity"]["items"]) == (0, 0)
    assert window["undecided"] == 1
