"""`scouter eval` with gates on scenarios, tags and what is required, as people write them."""

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.gate_checks import check_gates
from scouter.evaluate.compare.gates import Gates
from tests.scouter.cli.conftest import Scouter
from tests.scouter.cli.test_eval import RUN, one_line
from tests.scouter.cli.test_eval_calibration import FORTY, save, shop
from tests.support.shop_project import SCENARIOS

__all__ = ("shop",)  # a fixture

PARIS = "    initial_query: And the one in Paris?\n"
RULE = "operator: Contains,\n         "
GATES = "gates:\n  min_scenario_pass_rate: 0.5\n  tags: {north: 1, city: {min_pass_rate: 0.5}}\n"
TAGGED = GATES + SCENARIOS.replace(
    "    initial", "    tags: [city, north]\n    initial", 1
).replace(PARIS, f"{PARIS}    tags: [city]\n")
REQUIRED = SCENARIOS.replace(PARIS, f"{PARIS}    required: true\n")
SAFE = """\
alias: answers
tasks:
  - {task_type: Assertion, id: names_hours, context_path: answer, operator: Contains,
     expected_value: " to ", required: true}
"""
"""The record of an agent that is bad in a city says `Soon.`, and its answer, too."""


def test_the_commands_gate_counts_scenarios(project: Path, scouter: Scouter) -> None:
    """One of two scenarios passes. The flag wins over the file's rate."""
    (project / "shop.yaml").write_text(TAGGED, encoding="utf-8")
    assert scouter(*RUN, BAD="paris").returncode == 0
    done = scouter(*RUN, "--min-scenario-pass-rate", "0.6", "-q", BAD="paris")
    assert done.returncode == 1
    assert "gate scenarios passed: 50.0% (1 of 2), wanted at least 60.0%" in done.stdout
    done = scouter(*RUN, "--json", "r.json", BAD="berlin")
    assert done.returncode == 1
    gates = json.loads((project / "r.json").read_text(encoding="utf-8"))["gates"]
    assert [(each["name"], each["met"]) for each in gates] == [
        ("scenarios passed", True),
        ("tag 'north'", False),
        ("tag 'city', all checks", True),
    ]


@pytest.mark.parametrize(
    ("scenarios", "profile", "name", "said"),
    [
        (
            REQUIRED, None, "required scenario 'paris'",
            ": 0 of 1 attempts passed; task 'right_hours': failed: ",
        ),
        (
            SCENARIOS, SAFE, "required task 'names_hours'",
            ": 1 of 2 results passed; scenario 'paris', alias 'answers', record 'paris': failed: ",
        ),
        (
            SCENARIOS.replace(RULE, f"{RULE}required: true, "), None,
            "required task 'right_hours'",
            ": 1 of 2 results passed; scenario 'paris': failed: ",
        ),
    ],
)  # fmt: skip
def test_something_required_stops_the_release_in_every_report(
    scenarios: str, profile: str | None, name: str, said: str, project: Path, scouter: Scouter
) -> None:
    (project / "shop.yaml").write_text(scenarios, encoding="utf-8")
    if profile is not None:
        (project / "answers.yaml").write_text(profile, encoding="utf-8")
    good = scouter(*RUN, "--save", "good.json")
    assert good.returncode == 0, good.stdout
    assert "Passed." in good.stdout
    bad = scouter(
        *RUN, "--json", "r.json", "--junit", "r.xml", "--markdown", "r.md", "--html", "r.html",
        "--save", "r.saved.json", "-v", BAD="paris",
    )  # fmt: skip
    assert bad.returncode == 1
    (row,) = [line for line in bad.stdout.splitlines() if line.strip().startswith(name)]
    assert row.split()[-2:] == ["not", "met"]
    assert f"gate {name}{said}" in bad.stdout
    (gate,) = json.loads((project / "r.json").read_text(encoding="utf-8"))["gates"]
    assert (gate["name"], gate["met"], gate["wanted"]) == (name, False, 1)
    assert said in gate["reason"]
    (case,) = Xml.parse(project / "r.xml").iterfind(".//testcase[@classname='gates']")  # noqa: S314 our own file
    (failure,) = case.iterfind("failure")
    assert (case.get("name"), failure.get("message")) == (name, gate["reason"])
    page = (project / "r.html").read_text(encoding="utf-8").replace("&#39;", "'")
    assert f"<code>{name}</code>" in page
    assert said in page
    assert f"`{name}` | 100% |" in (project / "r.md").read_text(encoding="utf-8")
    results = ScenarioEvalResults.load(project / "r.saved.json")
    assert [check.reason for check in check_gates(results, Gates())] == [gate["reason"]]


def test_names_that_nothing_has_are_refused_before_the_run(project: Path, scouter: Scouter) -> None:
    (project / "shop.yaml").write_text(TAGGED.replace("{north", "{nord"), encoding="utf-8")
    said = "gates: tags: no scenario has the tag 'nord'; the tags are 'city', 'north'; did you mean"
    done = scouter(*RUN)
    assert one_line(done).startswith(said)
    assert "asked:" not in done.stderr
    done = scouter("scenarios", "validate", "shop.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"scouter: shop.yaml: {said}" in done.stderr


def test_validate_tells_of_tags_and_what_is_required(project: Path, scouter: Scouter) -> None:
    text = TAGGED.replace("    tags: [city]\n", "    tags: [city]\n    required: true\n")
    (project / "shop.yaml").write_text(text, encoding="utf-8")
    assert scouter("scenarios", "validate", "shop.yaml").stdout == (
        "shop.yaml: 2 scenarios, 2 with tasks (2 in all), 1 required, tags city, north, gates\n"
    )


def test_a_calibrated_judge_is_compared_with_the_gate_as_people_would_judge(
    shop: Path, scouter: Scouter
) -> None:
    """The judge passes 20 of 40; people would 3/7. The scenarios' 40 own checks all pass."""
    save(shop)
    scenarios = (shop / "shop.yaml").read_text(encoding="utf-8")
    gates = "gates: {aliases: {answers: 0.45}, min_pass_rate: 0.72}\n"
    (shop / "shop.yaml").write_text(gates + scenarios, encoding="utf-8")
    plain = scouter(*FORTY)
    assert plain.returncode == 0, plain.stdout
    done = scouter(*FORTY, "--calibration", "judge.json", "-v")
    assert done.returncode == 1
    text = " ".join(done.stdout.split())
    assert (
        "alias 'answers': 42.9% (corrected for the judge's errors; the judge says 20 of 40" in text
    )
    assert (
        "pass rate of all checks: 71.4% (corrected for the judge's errors; the judge says 60 of"
        in text
    )
    assert "45% 42.9% (corrected from 20/40) not met" in text
