"""The HTML report: self-contained, safe, whole, and small enough."""

import base64
import hashlib
import re
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.gate_checks import check_gates
from scouter.evaluate.compare.gates import Gates
from scouter.evaluate.judge.port import JudgeUsage
from scouter.evaluate.judge.shorten import JudgeExchange
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.replay.reports import html
from scouter.replay.reports.decision import Policy
from scouter.replay.reports.html_scenario import Budget, scenario_rows
from scouter.replay.reports.report import Report
from scouter.replay.reports.view import make_view
from tests.support.replay_results import TRACE, record, results, scenario

VOID = {"meta", "input", "br", "line", "circle"}


class Page(HTMLParser):
    """Collects tags, attributes and text; complains about tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in {"style", "script"}:
            self.text += data


def whole_report() -> Report:
    """Everything that a report can hold."""
    before = results(
        [scenario(name, {"right": True}) for name in ("paris", "rome", "gone")],
        {"answers": [("paris", record("r1", {"short": True}))]},
    )
    after = results(
        [
            *(scenario("paris", {"right": False}, attempt=at) for at in range(3)),
            *(scenario("rome", {"right": at != 1}, attempt=at) for at in range(3)),
            *(scenario("new", {}, attempt=at, error="ValueError: no") for at in range(3)),
        ],
        {"answers": [("paris", record("r1", {"short": False}))]},
        repeats=3,
    )
    gates = check_gates(after, Gates(min_pass_rate=0.9))
    return Report(after, after.compare_to(before), gates, title="Release check of shop:answer")


def test_a_check_is_shown_with_its_operator() -> None:
    check = EvalTaskResult.of(
        task_id="t", task_type="Assertion", outcome="failed", expected="Paris", actual="Rome",
        operator="Contains",
    )  # fmt: skip
    row = RecordResult("u", "r", "", None, Outcome.FAILED, (check,), 0, 0)
    page = Page(html.render(Report(results([], {"a": [("s", row)]}))))
    assert 'Contains "Paris"' in page.text


def test_it_says_everything_in_words() -> None:
    page = Page(html.render(whole_report()))
    for text in (
        "Below a gate",
        "in the baseline",
        "pass rate of all checks",
        "not met",
        "pass@1",
        "pass^3",
        "2 of 3",
        "flaky: 2 of 3",
        "regressed, was passed",
        "What about paris?",
        "'response' is 'Soon.', expected Paris",
        '"Soon."',
        "ValueError: no",
        "find_hours",
        "the pen broke",
        "50 ms",
        "record r1",
        "scenario 'gone' was removed",
        "missing in this run: gone",
        "2025-05-23 11:34:25 UTC",
        "0123456789abcdef",
    ):
        assert text in page.text, text


def test_intervals_are_drawn_for_baseline_and_now() -> None:
    before, after = (
        results([scenario(f"s{i}", {"right": i >= bad}) for i in range(6)]) for bad in (0, 2)
    )
    text = html.render(Report(after, after.compare_to(before)))
    drawings = re.findall(r"<svg.*?</svg>", text)
    assert len(drawings) == 2  # scenarios passed, and the task
    assert all(drawing.count("<circle") == 2 for drawing in drawings if 'class="before"' in drawing)
    for x in re.findall(r'(?:cx|x1|x2)="([^"]+)"', text):
        assert 4 <= float(x) <= 164


def test_below_six_conversations_no_interval_is_shown() -> None:
    text = html.render(whole_report())
    assert "<svg" not in text
    assert "2 conversations are too few for an interval." in text
    assert not re.search(r"[+−]100 to", text)


def test_it_needs_nothing_from_elsewhere() -> None:
    page = Page(html.render(whole_report()))
    for tag, attrs in page.tags:
        assert tag not in {"link", "img", "iframe", "object", "base", "form", "a"}
        assert not {"src", "href", "action"} & set(attrs)
        assert not any(name.startswith("on") for name in attrs)
    css = html.render(whole_report()).split("<style>")[1].split("</style>")[0]
    assert "url(" not in css
    assert "@import" not in css


def test_the_policy_lets_only_our_script_run() -> None:
    text = html.render(whole_report())
    script = text.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert "default-src 'none'" in text


HOSTILE = (
    '<script>alert(1)</script><img src=x onerror=alert(1)>" onload="x\' {{ 7*7 }} {% raw %} '
    "</style></title></details><!-- \x00 中文 🎉 \ud800"
)


def test_nothing_that_an_agent_says_becomes_markup(tmp_path: Path) -> None:
    """In every place where foreign text can stand: ids, answers, errors, spans, aliases."""
    span = TRACE[0]
    hostile = type(span)(
        trace_id=span.trace_id, span_id=span.span_id, name=HOSTILE, start_ns=0, end_ns=5,
        attributes={"gen_ai.tool.name": HOSTILE},
    )  # fmt: skip
    before = results([scenario(HOSTILE, {HOSTILE: True}), scenario(f"gone{HOSTILE}", {"t": True})])
    run = results(
        [
            *(
                scenario(HOSTILE, {HOSTILE: at == 0}, attempt=at, answer=HOSTILE, traces=[hostile])
                for at in range(2)
            ),
            *(scenario(f"b{HOSTILE}", {}, attempt=at, error=f"E: {HOSTILE}") for at in range(2)),
        ],
        {HOSTILE: [(HOSTILE, record(HOSTILE, {HOSTILE: HOSTILE}))]},
        repeats=2,
    )
    gates = check_gates(run, Gates(tasks={HOSTILE: 0.9}))
    report = Report(run, run.compare_to(before), gates, title=HOSTILE)
    html.write(tmp_path / "r.html", report)
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    tags = [tag for tag, _ in page.tags]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert "alert(1)" in page.text
    assert "{{ 7*7 }}" in page.text
    assert "中文 🎉" in page.text


@pytest.mark.parametrize(
    ("policy", "word"),
    [(Policy(), "Errored"), (Policy(allow_errors=True), "Recorded")],
)
def test_the_verdict_is_the_title(policy: Policy, word: str) -> None:
    run = results([scenario("a", {}, error="E: no"), scenario("b", {"right": True})])
    assert f"<title>{word} – " in html.render(Report(run, policy=policy))


def test_an_empty_run_can_be_shown() -> None:
    assert "Nothing was judged" in html.render(Report(results([])))


@pytest.mark.pace
def test_a_thousand_scenarios_stay_readable() -> None:
    """Under 8 MB and 10 s of a processor's time, with every scenario in it."""
    spans = [TRACE[i % 3] for i in range(30)]
    unique = [
        type(item)(
            trace_id="b" * 32, span_id=f"{at:016x}", name=item.name, start_ns=at, end_ns=at + 9
        )
        for at, item in enumerate(spans, start=1)
    ]
    run = results(
        [
            scenario(
                f"s{i}", {f"t{k}": i % 7 > 0 for k in range(5)}, answer="x" * 900, traces=unique
            )
            for i in range(1_000)
        ],
        {"answers": [(f"s{i}", record(f"r{i}", {"short": True})) for i in range(1_000)]},
    )
    started = time.process_time()
    text = html.render(Report(run, run.compare_to(run)))
    assert time.process_time() - started < 10
    assert len(text.encode()) < 8_000_000
    assert text.count('<details class="scenario"') == 1_000
    assert "left out to keep this file small" in text


def test_records_without_a_scenario_are_shown_up_to_a_bound() -> None:
    """Those of results that come from no replay; 200 that failed, 20 that passed."""
    run = results([])
    rows = [record(f"bad{i}", {"short": False}) for i in range(230)]
    rows += [record(f"good{i}", {"short": True}) for i in range(25)]
    run = run.model_copy(update={"dataset_results": {"answers": EvalResults(rows)}})
    page = Page(html.render(Report(run)))
    assert "(no scenario)" in page.text
    assert len(re.findall(r"record (bad|good)\d+", page.text)) == 220
    assert "30 more records that did not pass are left out." in page.text
    assert "5 more records, all passed, are left out." in page.text
    assert "Conversation" not in page.text


def looked_into() -> ScenarioEvalResults:
    """A run whose agent paid a thing back, with a judge's word on it and the record's context."""
    call = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund",
        "gen_ai.tool.call.arguments": '{"order": "A-17"}',
        "gen_ai.tool.call.result": "r" * 10_000,
    }  # fmt: skip
    said = '[{"role": "user", "content": "Give it back!"}]'
    chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": said}
    traces = [
        TRACE[0],
        replace(TRACE[1], attributes=chat),
        replace(TRACE[2], name="<refund>", attributes=call),
    ]
    exchange = JudgeExchange.of([{"role": "user", "content": "Rate <this>."}], {"score": 2})
    judged = EvalTaskResult.of(
        task_id="tone", task_type="LLMJudge", outcome="failed", message="too curt",
    ).using(JudgeUsage(calls=1), exchange)  # fmt: skip
    errors = EvalTaskResult.of(
        task_id="no_errors", task_type="TraceAssertion", outcome="failed",
        span_ids=[TRACE[2].span_id],
    )  # fmt: skip
    row = RecordResult("uid-1", "r1", "", None, Outcome.FAILED, (judged, errors), 0, 0)
    run = results(
        [scenario("paris", {"right": True}, traces=traces)], {"answers": [("paris", row)]}
    )
    return run.model_copy(update={"contexts": {"uid-1": {"input": "<Where is it?>"}}})


@pytest.mark.parametrize("is_saved", [False, True])
def test_context_values_and_the_judge_are_folded(tmp_path: Path, is_saved: bool) -> None:
    """As they were found, and as they were written to a file and read again."""
    run = looked_into()
    if is_saved:
        run.save(tmp_path / "run.json")
        run = ScenarioEvalResults.load(tmp_path / "run.json")
    text = html.render(Report(run))
    page = Page(text)
    for shown in (
        "<Where is it?>",
        "asked, as user",
        "Rate <this>.",
        '{"score": 2}',
        "input user",
        "Give it back!",
        '{"order": "A-17"}',
        f"{'r' * 4_000} … (6,000 more characters)",
    ):
        assert shown in page.text, shown
    assert "<Where" not in text
    (bar,) = re.findall(r'<div class="span broken">.*', text)
    assert "&lt;refund&gt;" in bar
    assert '<span class="tag failed">no_errors</span>' in bar
    folds = [attrs for tag, attrs in page.tags if tag == "details" and "fold" in str(attrs)]
    assert sum("open" in attrs for attrs in folds) == 1  # the trace of what did not pass


def test_folded_values_have_a_bound() -> None:
    """However much a run holds, the page stays one that a browser opens."""
    budget = Budget(characters=30)
    (scenario_view,) = make_view(looked_into(), None).scenarios
    (row,) = scenario_rows([scenario_view], budget)
    assert budget.characters <= 0
    folded = [bar["folded"] for bar in row["attempts"][0]["trace"]["bars"]]
    assert folded[-1] == []
