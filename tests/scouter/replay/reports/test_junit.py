"""JUnit XML: what the common schema allows, and nothing lost."""

from pathlib import Path
from uuid import UUID
from xml.etree import ElementTree as Xml

import pytest

from scouter.evaluate.compare.gate_checks import check_gates
from scouter.evaluate.compare.gates import Gates
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.replay.reports import junit
from scouter.replay.reports.decision import Policy
from scouter.replay.reports.report import Report
from tests.support.replay_results import record, results, scenario

# The structure of the schema that Jenkins' xUnit plugin publishes: per element its required
# attributes, the optional ones, and the children it may have.
SCHEMA = {
    "testsuites": (set[str](), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests"},
        {"failures", "errors", "time", "skipped", "timestamp", "hostname", "id", "package"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "testcase": (
        {"name", "classname"},
        {"assertions", "time", "status"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "properties": (set[str](), set[str](), {"property"}),
    "property": ({"name", "value"}, set[str](), set[str]()),
    "failure": (set[str](), {"type", "message"}, set[str]()),
    "error": (set[str](), {"type", "message"}, set[str]()),
    "skipped": (set[str](), {"type", "message"}, set[str]()),
}


def check(element: Xml.Element) -> None:
    """Hold an element and all below it against the schema."""
    required, optional, children = SCHEMA[element.tag]
    names = set(element.attrib)
    assert required <= names <= required | optional, (element.tag, names)
    assert {child.tag for child in element} <= children
    for child in element:
        check(child)


def parsed(report: Report) -> Xml.Element:
    root = Xml.fromstring(junit.render(report))  # noqa: S314 our own text
    check(root)
    for suite in root:
        cases = suite.findall("testcase")
        for attribute, tag in (("failures", "failure"), ("errors", "error")):
            found = sum(case.find(tag) is not None for case in cases)
            assert suite.get(attribute) == str(found)
        assert suite.get("tests") == str(len(cases))
        names = [case.get("name") for case in cases]
        assert len(set(names)) == len(names)
    assert root.get("tests") == str(len(list(root.iter("testcase"))))
    return root


def test_an_error_says_where_it_was_raised() -> None:
    frames = ("shop.py:5 in answer", "shop.py:9 in look_up")
    broken = scenario("rome", {}, error="KeyError: 'k'\nsecond")
    run = results([broken.model_copy(update={"error_frames": frames})])
    (error,) = parsed(Report(run)).iter("error")
    assert error.get("message") == "KeyError: 'k' (shop.py:9 in look_up)"
    assert error.text == (
        "KeyError: 'k' (shop.py:9 in look_up)\nsecond\n  at shop.py:9 in look_up\n"
        "  at shop.py:5 in answer"
    )


@pytest.mark.parametrize("name", ["4bf92f3577b34da6a3ce929d0e0e4736", f"r-{UUID(int=7)}", "7" * 16])
def test_random_ids_are_no_part_of_a_name(name: str) -> None:
    """Build servers follow a test from run to run by its name."""
    rows = [("s", record(which, {"t": False})) for which in ("known", name, "known")]
    root = parsed(Report(results([], {"a": rows})))
    cases = list(root.iter("testcase"))
    assert [case.get("name") for case in cases] == ["s: known: t", "s: #2: t", "s: known #2: t"]
    assert f"record: {name}\n" in str(cases[1].findtext("failure"))


def test_templates_that_were_not_filled_in_are_said_to_be() -> None:
    """The agent raised, so nothing was there to fill them with."""
    checks = [
        EvalTaskResult.of(
            task_id=outcome, task_type="Assertion", outcome=outcome, expected="${expected_outcome}"
        )
        for outcome in ("errored", "failed")
    ]
    row = RecordResult("u", "r", "", None, Outcome.ERRORED, tuple(checks), 0, 0)
    root = parsed(Report(results([], {"a": [("s", row)]})))
    note = " (as written, with its templates: the check was not decided)"
    assert f'expected: "${{expected_outcome}}"{note}\n' in str(root.findtext(".//error"))
    assert 'expected: "${expected_outcome}"\n' in str(root.findtext(".//failure"))


def test_a_run_that_judged_nothing_is_a_failure() -> None:
    root = parsed(Report(results([])))
    assert root.get("failures") == "1"
    (case,) = root.iter("testcase")
    assert case.get("name") == "something was judged"


def test_a_failure_has_expected_actual_and_message() -> None:
    run = results([scenario("paris", {"right": False, "polite": True})])
    root = parsed(Report(run))
    failure = root.find("./testsuite[@name='scenario paris']/testcase[@name='right']/failure")
    assert failure is not None
    assert failure.get("message") == "'response' is 'Soon.', expected Paris"
    assert failure.text == (
        "'response' is 'Soon.', expected Paris\nexpected: \"Paris\"\nactual: \"Soon.\""
    )
    passed = root.find("./testsuite/testcase[@name='polite']")
    assert passed is not None
    assert len(passed) == 0


def test_the_agents_time_is_reported_once() -> None:
    root = parsed(Report(results([scenario("paris", {"a": True, "b": True})])))
    assert [case.get("time") for case in root.iter("testcase")] == ["0.100", "0.000"]
    assert root.get("time") == "0.100"


def test_errors_are_errors() -> None:
    run = results(
        [
            scenario("rome", {"right": "no path 'x'; there are 'y'"}),
            scenario("paris", {}, error="ValueError: no\nsecond line"),
        ]
    )
    errors = list(parsed(Report(run)).iter("error"))
    assert [(error.get("type"), error.get("message")) for error in errors] == [
        ("missing_path", "no path 'x'; there are 'y'"),
        ("agent", "ValueError: no"),
    ]


def test_records_of_one_name_are_distinguished() -> None:
    twice = [("rome", record("r", {"t": True})), ("rome", record("r", {"t": True}))]
    root = parsed(Report(results([], {"answers": twice})))
    assert [case.get("name") for case in root.iter("testcase")] == ["rome: r: t", "rome: r #2: t"]


def test_attempts_are_distinguished() -> None:
    run = results([scenario("rome", {"t": True}, attempt=at) for at in range(2)], repeats=2)
    root = parsed(Report(run))
    assert [case.get("name") for case in root.iter("testcase")] == [
        "t (attempt 1 of 2)",
        "t (attempt 2 of 2)",
    ]


@pytest.mark.parametrize(
    ("bad", "risen", "policy", "tag"),
    [
        (0, 0, Policy(), None),
        (5, 1, Policy(), "error"),  # 20 points, mid-p 1/64 + 3/64
        (8, 0, Policy(), "failure"),
        (0, 0, Policy(require_ruled_out=10), "error"),  # 13.9 points are not ruled out
    ],
)
def test_the_case_of_the_baseline(bad: int, risen: int, policy: Policy, tag: str | None) -> None:
    """A regression is a failure; where nobody can tell it is an error of its own type."""
    before = results([scenario(f"s{i}", {"t": i < 20 - risen}) for i in range(20)])
    run = results([scenario(f"s{i}", {"t": i >= bad}) for i in range(20)])
    root = parsed(Report(run, run.compare_to(before), policy=policy))
    [case] = root.iterfind(".//testcase[@name='no regression seen']")
    assert [child.tag for child in case] == ([tag] if tag else [])
    assert [child.get("type") for child in case] == (
        [{"error": "inconclusive", "failure": "regressed"}[tag]] if tag else []
    )


def test_gates_and_baseline_are_cases() -> None:
    good, bad = (results([scenario("rome", {"t": ended})]) for ended in (True, False))
    report = Report(bad, bad.compare_to(good), check_gates(bad, Gates(min_pass_rate=0.9)))
    root = parsed(report)
    assert {case.get("name") for case in root.iter("testcase")} == {
        "t", "pass rate of all checks", "no regression seen",
    }  # fmt: skip
    assert (root.get("failures"), root.get("errors")) == ("2", "1")


@pytest.mark.parametrize(
    "text", ["\x00\x08\x1b[31m", "\ud800", "]]> <b>&amp;", "中文 🎉", "\ufffe", "line\nbreak\ttab"]
)
def test_any_text_makes_xml(tmp_path: Path, text: str) -> None:
    run = results(
        [
            scenario(f"a{text}", {f"t{text}": False}, answer=f"x{text}"),
            scenario(f"b{text}", {}, error=f"ValueError: {text}"),
        ]
    )
    junit.write(tmp_path / "junit.xml", Report(run))
    root = Xml.parse(tmp_path / "junit.xml").getroot()  # noqa: S314 our own text
    check(root)
    assert root.get("tests") == "2"


def test_what_was_not_judged_is_a_case_each() -> None:
    """Several reasons stand in one case; what a file asks for and nobody ran is another."""
    run = results([scenario("a", {"x": True})])
    digests = {"profile_digests": {"one": "d", "two": "d"}, "named_aliases": ("one", "two")}
    provenance = run.provenance.model_copy(update=digests)
    silent = run.model_copy(update={"provenance": provenance})
    text = junit.render(Report(silent))
    assert "no record came for the profile &#39;one&#39;" in text.replace("'", "&#39;")
    assert "no record came for the profile &#39;two&#39;" in text.replace("'", "&#39;")
    left = run.model_copy(update={"left_out": ("rubrics (1 row)",)})
    root = Xml.fromstring(junit.render(Report(left)))  # noqa: S314 - our own
    (case,) = root.iterfind(".//testcase[@name='every check of the files was run']")
    (failure,) = case
    assert (failure.tag, failure.text) == ("failure", "rubrics (1 row)")
    text = junit.render(Report(left, policy=Policy(allow_unjudged=True)))
    allowed = Xml.fromstring(text)  # noqa: S314 - our own
    (case,) = allowed.iterfind(".//testcase[@name='every check of the files was run']")
    assert [child.tag for child in case] == ["skipped"]
