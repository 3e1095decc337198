"""Rules for Prometheus, as promtool reads them."""

import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from scouter.alert.config import AgentAlertConfig, AlertCondition
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.prometheus.rules import BURNS, FEWEST, Objective, objective_of, rules_text
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.support.components import ROOT, require_program
from tests.support.vectors import load_vectors

CASES = ROOT / "tests" / "cases" / "budget_rules.yml"


def objective(share: float, alias: str = "bot") -> Objective:
    return Objective(name=alias, alias=alias, share=share)


def rules_of(text: str) -> list[dict[str, Any]]:
    groups = cast(list[dict[str, Any]], yaml.safe_load(text)["groups"])
    return [rule for group in groups for rule in group["rules"]]


def promtool(*args: str | Path) -> str:
    program = require_program("promtool", "promtool")
    done = subprocess.run(
        [program, *map(str, args)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_fires_and_rests_where_it_should(tmp_path: Path) -> None:
    (tmp_path / "budget.yml").write_text(rules_text(["bot"], [objective(0.9)]))
    (tmp_path / "cases.yml").write_text(CASES.read_text())
    promtool("test", "rules", tmp_path / "cases.yml")


@pytest.mark.parametrize("alias", ['a "quoted" one', "{{ $labels }}", "a|b.*", "ä\\b\nc"])
def test_any_name_is_a_text_and_nothing_else(tmp_path: Path, alias: str) -> None:
    path = tmp_path / "rules.yml"
    path.write_text(rules_text([alias, "other"], [objective(0.9, alias), objective(0.9, "other")]))
    promtool("check", "rules", path)


def test_no_rule_asks_for_what_cannot_be() -> None:
    """The published table says which factors an objective lets fire."""
    for case in load_vectors("drift/vectors_fdr.json")["burn_rate_reachability"]:
        wanted = objective(case["objective"])
        factors = {burn.factor for burn in wanted.burns}
        for factor in (14.4, 6, 3):
            assert case[f"fires_{factor:g}"] or factor not in factors, case
        for burn in BURNS:
            needed = case.get(f"fail_rate_needed_{burn.factor:g}")
            assert needed is None or wanted.failures(burn) == pytest.approx(needed), case


@pytest.mark.parametrize(
    ("share", "factors"),
    [(0.999, [14.4, 6, 3, 1]), (0.95, [14.4, 6, 3, 1]), (0.931, [6, 3, 1]), (0.8, [3, 1]),
     (0.5, [1]), (0.2, [])],
)  # fmt: skip
def test_an_agent_that_always_fails_fires_each_rule(share: float, factors: list[float]) -> None:
    """Also with the fewest results: n failures against n f + 3 sqrt(n f (1 - f))."""
    wanted = objective(share)
    assert [burn.factor for burn in wanted.burns] == factors
    for burn in wanted.burns:
        f = wanted.failures(burn)
        assert FEWEST * f + 3 * (FEWEST * f * (1 - f)) ** 0.5 < FEWEST


@pytest.mark.parametrize(
    ("condition", "share"),
    [
        (None, None),
        (AlertCondition(0.9, "Below"), 0.9),
        (AlertCondition(0.75, "Outside", 0.25), 0.5),
        (AlertCondition(0.9, "Above"), None),
        (AlertCondition(1.0, "Below"), None),
        (AlertCondition(0.2, "Below", 0.5), None),
    ],
)
def test_the_objective_is_the_lowest_healthy_share(
    condition: AlertCondition | None, share: float | None
) -> None:
    profile = AgentEvalProfile(
        alias="bot",
        tasks=[AssertionTask("t", "a", 1, ComparisonOperator.Equals)],
        config=AgentEvalConfig(alert_config=AgentAlertConfig(alert_condition=condition)),
    )
    assert objective_of(profile) == share


def test_rules_of_some_profiles_ask_for_no_other() -> None:
    """All that name a profile: those of the collector as a whole have no alias."""
    rules = rules_of(rules_text(["b", "a"]))
    texts = {rule["alert"]: rule["expr"] for rule in rules if "alert" in rule}
    own = {name for name, text in texts.items() if 'alias=~"a|b"' in text}
    assert own == {
        "ScouterTaskFell", "ScouterTaskErrors", "ScouterLimitExceeded", "ScouterProfileAlert",
        "ScouterJudgeDrifts", "ScouterRecordsStopped", "ScouterNotEvaluated",
    }  # fmt: skip
