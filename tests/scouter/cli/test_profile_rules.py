"""`scouter profile rules …`."""

from pathlib import Path

import pytest
import yaml

from scouter.drift.prometheus.rules import rules_text
from scouter.evaluate.engine.checks import use_checks
from tests.scouter.cli.conftest import Scouter

PROFILE = """
alias: bot
config: {name: bot, alert_config: {alert_condition: %s}}
tasks:
  - {task_type: Assertion, id: t, context_path: a, operator: Equals, expected_value: 1}
"""


def test_the_condition_of_a_profile_is_its_objective(scouter: Scouter, tmp_path: Path) -> None:
    file = tmp_path / "bot.yaml"
    file.write_text(PROFILE % "{baseline_value: 0.95, alert_threshold: Below, delta: 0.05}")
    stated, given = scouter("profile", "rules", file), scouter(
        "profile", "rules", file, "--objective", "0.99", "--min-results", "200"
    )  # fmt: skip
    for done, said, fewest in ((stated, "allows 10%", ">= 30"), (given, "allows 1%", ">= 200")):
        assert (done.returncode, done.stderr) == (0, "")
        assert said in done.stdout
        assert fewest in done.stdout
        assert yaml.safe_load(done.stdout)["groups"]


def test_without_a_profile_the_rules_are_about_all(scouter: Scouter) -> None:
    done = scouter("profile", "rules")
    assert (done.returncode, done.stdout, done.stderr) == (0, rules_text(), "")


def test_a_profile_without_an_objective_is_reported(scouter: Scouter, tmp_path: Path) -> None:
    file = tmp_path / "bot.yaml"
    file.write_text(PROFILE % "null")
    done = scouter("profile", "rules", file)
    assert done.returncode == 0
    assert done.stderr == (
        "scouter: bot: no rule on its budget: it states no objective; give --objective, or an "
        "alert condition `Below`\n"
    )
    assert "ScouterBudgetBurns" not in done.stdout


def test_an_objective_of_all_is_refused(scouter: Scouter, tmp_path: Path) -> None:
    file = tmp_path / "bot.yaml"
    file.write_text(PROFILE % "null")
    done = scouter("profile", "rules", file, "--objective", "1")
    assert done.returncode == 2
    assert "expected a share between 0 and 1, such as 0.95" in done.stderr


def test_an_objective_that_allows_nearly_all_failures_is_reported(
    scouter: Scouter, tmp_path: Path
) -> None:
    file = tmp_path / "bot.yaml"
    file.write_text(PROFILE % "null")
    done = scouter("profile", "rules", file, "--objective", "0.1")
    assert "an objective of 10.0% allows so many failures that no rate is too fast" in done.stderr
    assert "ScouterBudgetBurns" not in done.stdout


@pytest.mark.parametrize("command", ["check", "rules"])
def test_a_profile_may_name_the_checks_of_a_module(
    scouter: Scouter, project: Path, command: str
) -> None:
    (project / "own_checks.py").write_text("def is_long(context, spans):\n    return True\n")
    file = project / "own.yaml"
    file.write_text("alias: bot\ntasks: [{task_type: Code, id: long, check: is_long}]\n")
    unknown = scouter("profile", command, file)
    assert unknown.returncode == 2
    assert "no check is called 'is_long'" in unknown.stderr
    try:
        done = scouter("profile", command, file, "--checks", "own_checks")
    finally:
        use_checks("")  # the program ran in this process
    assert done.returncode == 0, done.stderr
