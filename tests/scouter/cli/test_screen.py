"""The screen of a release check: its parts, their order and their length; each failure once."""

from collections.abc import Mapping

import pytest

from scouter.cli.decision_text import print_check
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.gate_checks import check_gates
from scouter.evaluate.compare.gates import Gates
from scouter.replay.reports.report import Report
from tests.support.replay_results import record, results, scenario

Answers = Mapping[str, str]
"""Wrong answers by scenario; all others are right."""


def run(
    bad: Answers, count: int = 6, repeats: int = 1, error: str | None = None
) -> ScenarioEvalResults:
    names = [f"s{at}" for at in range(count)]
    return results(
        [
            scenario(
                name, {"right_day": name not in bad}, answer=bad.get(name, "Monday"),
                error=error if name in bad else None,
            )
            for name in names
        ],
        {"shop": [(name, record(name, {"names_a_day": name not in bad})) for name in names]},
    )  # fmt: skip


def screen(
    report: Report,
    capsys: pytest.CaptureFixture[str],
    *,
    verbose: bool = False,
    quiet: bool = False,
) -> list[str]:
    print_check(report, quiet=quiet, verbose=verbose, html=None)
    return capsys.readouterr().out.splitlines()


def regressed(bad: Answers, count: int = 6) -> Report:
    found = run(bad, count)
    checks = check_gates(found, Gates(min_scenario_pass_rate=0.9))
    return Report(found, found.compare_to(run({}, count)), checks)


def test_a_regressed_check_is_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    """Kind: tables first, and one failure shown many times. Six scenarios, all of them broken."""
    wrong = {f"s{at}": f"Soon, said {at}." for at in range(6)}
    lines = screen(regressed(wrong), capsys)
    text = "\n".join(lines)
    assert len(lines) <= 30
    assert lines[0] == "Regressed. 0 of 6 scenarios passed, 6 of 6 in the baseline."
    order = [lines.index("What broke"), lines.index("Next")]
    assert order == sorted(order)
    for name, answer in list(wrong.items())[:3]:
        assert text.count(answer) == 1
        assert text.count(f"  {name}  ") == 1
    assert "  and 3 more: -v shows them (s3, s4, s5)" in lines
    assert "trace" in text
    assert "a" * 32 in text, "the id by which the trace is found elsewhere"
    assert "Aggregate" not in text


@pytest.mark.parametrize("count", [6, 40, 200])
def test_the_worst_case_is_counted(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Long answers and questions are cut, and what does not fit is counted."""
    wrong = {f"s{at}": f"{at} " + "words " * 400 for at in range(count)}
    lines = screen(regressed(wrong, count), capsys)
    assert len(lines) <= 40
    assert max(map(len, lines)) < 300
    assert any(line.startswith(f"  and {count - 3} more: -v shows them") for line in lines)


def test_one_failure_of_many_scenarios_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The same check got the same answer in each of them, or the agent raised the same error."""
    same = screen(regressed(dict.fromkeys(["s0", "s1", "s2", "s3", "s4"], "Soon.")), capsys)
    assert "\n".join(same).count('"Soon."') == 1
    assert any("s0 and 4 more like it (s1, s2, s3, …)" in line for line in same)
    raised = run(dict.fromkeys(["s1", "s2"], "-"), error="ValueError: no such order")
    lines = screen(Report(raised), capsys)
    assert lines[0] == "Errored. 4 of 6 scenarios passed."
    assert "\n".join(lines).count("ValueError: no such order") == 1
    assert any("--allow-errors" in line for line in lines[lines.index("Next") :])


def test_verbose_shows_all_that_broke_below_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {f"s{at}": f"Soon, said {at}." for at in range(6)}
    lines = screen(regressed(wrong), capsys, verbose=True)
    at = lines.index("Regressed. 0 of 6 scenarios passed, 6 of 6 in the baseline.")
    tables, rest = lines[:at], "\n".join(lines[at:])
    for title in ("Aggregate Metrics", "Scenario Results", "Rates", "Gates"):
        assert title in [line.strip() for line in tables]
    for answer in wrong.values():
        assert rest.count(answer) == 1
    assert "-v" not in rest


@pytest.mark.parametrize("bad", [{}, {"s3": "Soon."}])
def test_a_run_that_may_go_on_takes_ten_lines(
    bad: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    """One flip of twenty stops nothing, and is shown all the same."""
    found = run(bad, 20)
    lines = screen(Report(found, found.compare_to(run({}, 20))), capsys)
    assert len(lines) <= 10
    assert lines[0].startswith(f"No regression seen. {20 - len(bad)} of 20 scenarios passed, ")
    assert ("What did not pass" in lines) == bool(bad)
    assert "Next" not in lines


def test_quiet_is_the_decision_with_all_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    report = regressed({"s0": "Soon.", "s1": "Soon.", "s2": "Soon.", "s3": "Soon.", "s4": "x"})
    lines = screen(report, capsys, quiet=True)
    assert lines[1:] == [f"  - {reason}" for reason in report.decision.reasons]
