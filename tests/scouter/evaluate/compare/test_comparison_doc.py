"""The figures and examples of docs/comparison.md, computed again."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from scouter.evaluate.compare.gate_checks import check_tags
from scouter.evaluate.compare.gates import Gates
from scouter.evaluate.scenario import EvalScenarios
from scouter.evaluate.statistics.distributions import binomial_cdf
from scouter.evaluate.statistics.fall_limit import fall_limit
from scouter.evaluate.statistics.flakiness import falls_beyond_flakiness
from scouter.evaluate.statistics.power import pairs_needed

TEXT = (Path(__file__).parents[4] / "docs" / "comparison.md").read_text(encoding="utf-8")


def rows(header: str) -> list[list[str]]:
    """Cells of the table below a header that starts so."""
    lines = TEXT.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"| {header} "))
    found: list[list[str]] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    assert found
    return found


def number(cell: str) -> float:
    match = re.match(r"[\d.]+", cell)
    assert match is not None
    return float(match[0])


@pytest.mark.parametrize("row", rows("true fall"), ids=lambda row: row[0])
def test_how_many_scenarios(row: list[str]) -> None:
    fall, *numbers = map(number, row)
    assert numbers == [pairs_needed(fall / 100, churn, 0.08) for churn in (0.0, 0.02, 0.05)]


@pytest.mark.parametrize("row", rows("scenarios"), ids=lambda row: row[0])
def test_what_so_many_scenarios_rule_out(row: list[str]) -> None:
    scenarios, limit = map(number, row)
    assert round(100 * fall_limit(0, 0, int(scenarios)), 1) == limit


@pytest.mark.parametrize("row", rows("baseline"), ids=lambda row: f"{row[0]} to {row[1]}")
def test_flakiness(row: list[str]) -> None:
    before, now, counts, because = row
    c, n = map(int, before.split(" of "))
    d, m = map(int, now.split(" of "))
    assert falls_beyond_flakiness(c, n, d, m) is (counts == "yes")
    if because != "clean flip":
        chance = binomial_cdf(d, m, (c + 0.5) / (n + 1))
        assert chance == pytest.approx(float(because), abs=0.006)


def test_the_worked_example() -> None:
    code, expected = re.findall(r"```(?:python|text)\n(.*?)```", TEXT, re.DOTALL)[1:3]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, {})  # noqa: S102 — the example of our own page
    assert out.getvalue() == expected


def test_the_gates_are_read(tmp_path: Path) -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    path = tmp_path / "scenarios.yaml"
    path.write_text(text, encoding="utf-8")
    scenarios = EvalScenarios.from_path(path)
    gates = scenarios.gates
    assert isinstance(gates, Gates)
    check_tags(gates, [tag for scenario in scenarios for tag in scenario.tags])
    assert gates.tags["refunds"].min_scenario_pass_rate == 1
    assert [scenario.required for scenario in scenarios] == [True, False]
    assert [task.required for task in scenarios[1].tasks] == [True]
    assert gates.aliases["writer"].tasks == {"cites_source": 1}
