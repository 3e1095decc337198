"""Examples: which scenarios explain a decision, and what every report says of each."""

import json

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.results.run import Confirmation
from scouter.replay.reports import html, json_report, markdown
from scouter.replay.reports.report import Report, examples
from tests.support.replay_results import record, results, scenario


def run(*bad: str) -> ScenarioEvalResults:
    return results([scenario(f"s{i}", {"right": f"s{i}" not in bad}) for i in range(8)])


def chosen(report: Report) -> list[str]:
    return [name for each in report.examples for name in (each.scenario_id, *each.others)]


def test_everything_passed() -> None:
    assert examples(Report(run()).view, None) == []


def test_flips_come_before_what_failed_already() -> None:
    before, now = run("s0", "s1"), run("s0", "s1", "s6", "s7")
    report = Report(now, now.compare_to(before))
    assert chosen(report) == ["s6", "s7", "s0", "s1"]
    assert [each.others for each in report.examples] == [("s7",), ("s1",)], "one failure each"
    assert chosen(Report(now)) == ["s0", "s1", "s6", "s7"]


def test_a_broken_scenario_comes_first_and_a_cleared_one_last() -> None:
    found = tuple(
        Confirmation(
            scenario_id=name,
            asked=asked,
            passed=passed,
            failed=1,
            chance=0.5,
            is_broken=not passed,
        )
        for name, asked, passed in (("s5", 1, 1), ("s7", 8, 0))
    )
    now = run("s5", "s6", "s7").model_copy(update={"confirmations": found})
    assert chosen(Report(now, now.compare_to(run()))) == ["s7", "s6", "s5"]


def test_question_expected_got_and_trace() -> None:
    now = results([scenario("paris", {"right": at != 1}, attempt=at) for at in range(3)], repeats=3)
    (example,) = Report(now).examples
    assert (example.asked, example.check) == ("What about paris?", "right")
    assert (example.expected, example.got) == ('"Paris"', '"Soon."')
    assert example.passed == "2 of 3 attempts passed"
    assert example.trace == (
        f"{'a' * 32}, 3 spans, 100 ms: answer, find_hours, write (error: the pen broke)"
    )


def test_an_agent_that_raised_and_a_record_that_errored() -> None:
    raised, errored = Report(
        results(
            [scenario("paris", {"right": False}, error="ValueError: no"), scenario("rome", {})],
            {"answers": [("rome", record("r", {"has_x": "no path 'x'"}))]},
        )
    ).examples
    assert (raised.check, raised.expected, raised.got) == ("", "", "ValueError: no")
    assert (errored.check, errored.got) == ("answers · has_x", "no path 'x'")


def test_every_report_tells_them_before_the_tables() -> None:
    now = run("s6")
    report = Report(now, now.compare_to(run()))
    text = markdown.render(report)
    shown = (
        "**`s6`**\n\n- asked: `What about s6?`\n- check: `right`\n"
        '- expected: `"Paris"`\n- got: `"Soon."`'
    )
    assert text.index(shown) < text.index("| Rate |")
    page = html.render(report)
    assert page.index("What about s6?") < page.index("<h2>Rates</h2>")
    (written,) = json.loads(json_report.render(report))["examples"]
    assert (written["scenario_id"], written["expected"], written["got"]) == (
        "s6",
        '"Paris"',
        '"Soon."',
    )
