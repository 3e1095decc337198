"""Markdown for a pull request: decision first, and nothing that links or breaks a table."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.compare.gate_checks import check_gates
from scouter.evaluate.compare.gates import Gates
from scouter.replay.reports import markdown
from scouter.replay.reports.report import Report
from tests.support.replay_results import record, results, scenario


def test_the_decision_comes_first_then_reasons_gates_tasks_and_flips() -> None:
    names = ["paris", *(f"p{i}" for i in range(7)), "rome"]
    before = results([scenario(name, {"right": True}) for name in names])
    after = results([scenario(name, {"right": name == "rome"}) for name in names])
    gates = check_gates(after, Gates(min_pass_rate=0.9))
    text = markdown.render(Report(after, after.compare_to(before), gates))
    assert text.startswith("## ❌ Regressed\n\n1 of 9 scenarios passed, 9 of 9 in the baseline.\n")
    assert "| `pass rate of all checks` | 90% | 11.1% (1/9) | **not met** |" in text
    assert "| `(scenario) · right` | 100% (9/9) | 11.1% (1/9) | −88.9 (−98 to" in text
    assert "| `paris` | passed | failed | `right: 'response' is 'Soon.', expected Paris` |" in text
    assert "`rome`" not in text
    order = [
        text.index(word)
        for word in ("- ", "### What broke", "### Next", "| Gate", "| Rate", "| Scenario", "<sub>")
    ]
    assert order == sorted(order)


def test_an_inconclusive_check_is_neither_good_nor_bad() -> None:
    before, after = (results([scenario("paris", {"right": good})]) for good in (True, False))
    text = markdown.render(Report(after, after.compare_to(before)))
    assert text.startswith("## ❔ Inconclusive\n\n0 of 1 scenarios passed, 1 of 1 in the baseline.")
    assert "1 conversation is too few for an interval" in text
    assert "95 %" not in text
    assert " to " not in next(line for line in text.splitlines() if "· right" in line)


def test_without_a_baseline_it_lists_what_did_not_pass() -> None:
    text = markdown.render(Report(results([scenario("paris", {"right": False})])))
    assert text.startswith("## 📝 Recorded")
    assert "| `paris` | failed |" in text


def test_flaky_scenarios_are_named() -> None:
    run = results([scenario("rome", {"t": at != 1}, attempt=at) for at in range(3)], repeats=3)
    text = markdown.render(Report(run))
    assert "**Flaky**, passed in some attempts only: `rome` (2 of 3, the agent's)" in text
    assert "3 attempts each" in text
    assert "| `rome` | failed; 2 of 3 attempts passed |" in text


HOSTILE = (
    "@octocat see https://evil.example/x and www.evil.example, #12, org/repo#3 "
    "[a](http://b) ![i](x) <img src=x> | cell `code` ``two`` **bold** "
    "0123456789abcdef0123456789abcdef01234567\n## heading\r\n- item"
)


def test_what_an_agent_says_stays_text() -> None:
    run = results(
        [
            scenario(HOSTILE, {"t": False}, answer=HOSTILE),
            scenario("b", {}, error=f"ValueError: {HOSTILE}"),
        ],
        {HOSTILE: [("b", record(HOSTILE, {HOSTILE: HOSTILE}))]},
    )
    text = markdown.render(Report(run))
    assert "\r" not in text
    outside = re.sub(r"(`+)(?:(?!\1).)+?\1(?!`)", "", text)  # code spans make no links
    assert not re.search(r"@octocat|https://e|www\.e|#12|repo#3|0123456789abc", outside)
    assert not re.search(r"(?<!\\)<img|(?<!\\)\[a\]", outside)
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == ["## ❌ Errored", "### What broke", "### Next"]
    tables = [line for line in text.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in tables} <= {4, 5}


@given(st.text())
def test_a_code_span_never_breaks_its_row(text: str) -> None:
    """No line break, no bare pipe; the fence is longer than any run of ticks inside."""
    found = markdown.code(text, 100)
    assert len(found.splitlines()) <= 1
    assert not re.search(r"(?<!\\)\|", found)
    if found:
        fence = re.match(r"`+", found)
        assert fence is not None
        inner = found[len(fence[0]) : -len(fence[0])]
        assert all(len(run) != len(fence[0]) for run in re.findall(r"`+", inner))


@pytest.mark.parametrize("count", [400, 4_000])
def test_it_fits_into_a_comment(count: int) -> None:
    run = results([scenario(f"s{i}", {f"t{i}": False}, answer="x" * 500) for i in range(count)])
    text = markdown.render(Report(run))
    assert len(text) < 65_536
    assert f"and {count - 20} more scenarios" in text
    assert f"and {count - 60} more tasks" in text
