"""How often the release check stops a good agent, and how often it sees a worse one.

Run as `python -m tests.bench.gate`; `--short` makes a sixtieth of the runs and allows three
standard errors of the simulation beside each bound.

Agents with known chances answer scenarios, before and after. Two paths are walked: two saved runs
are compared (`compare_to`, as `scouter compare` does), and a run is held against a baseline with
the agent at hand, which is asked again where scenarios flip (`run_named` and `Report`, as
`scouter eval --baseline` does). *Stopped* means any exit code but 0, *seen* the one of `regressed`.

* *flaky*: 70 % of the scenarios pass with a chance of 0.99, 20 % with 0.85, 10 % with 0.5.
* *turns*: 20 scenarios of 3 turns with 8 tasks each. A task passes with 0.97; the results of one
  attempt have an intraclass correlation of 0.5 (their common chance has a beta distribution).
* *broken*: scenarios that never pass in the new run, chosen anew each time.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from scouter.evaluate.api.comparison import ScenarioComparisonResults
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
from scouter.evaluate.compare.gate_checks import check_gates
from scouter.evaluate.compare.gates import Gates
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.run import ScenarioInfo
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.replay.named_run import NamedRun, run_named
from scouter.replay.reports.decision import Policy
from scouter.replay.reports.report import Report
from tests.bench.figures import Figures

RUNS: Final = 1000
SHORTER: Final = 60
REGRESSED: Final = 1
"""Exit code."""
STOPS: Final = 0.05
"""Most unchanged agents that may be stopped."""
TURNS, TASKS, RATE, CORRELATION = 3, 8, 0.97, 0.5

Random: TypeAlias = np.random.Generator
Chances: TypeAlias = Sequence[float]
"""By scenario: how often an attempt passes."""
Trial: TypeAlias = Callable[[Random], bool]
"""Simulates once; tells whether the agent was stopped, or seen to be worse."""

OWN: Final = TaskSpec(task_id="right", task_type="Assertion", operator="Equals")


# --- runs ---------------------------------------------------------------------------------------


def flaky(scenarios: int) -> Chances:
    """The flaky agent; the shares are whole numbers of scenarios."""
    good, shaky = scenarios * 7 // 10, scenarios * 2 // 10
    return (0.99,) * good + (0.85,) * shaky + (0.5,) * (scenarios - good - shaky)


def broken(random: Random, chances: Chances, count: int) -> Chances:
    """The same agent, some of whose scenarios never pass."""
    chosen = set(random.choice(len(chances), count, replace=False).tolist())
    return [0.0 if at in chosen else chance for at, chance in enumerate(chances)]


def task(spec: TaskSpec, passed: bool) -> EvalTaskResult:
    return EvalTaskResult(spec, Outcome.PASSED if passed else Outcome.FAILED, None, 1, 1)


def results(
    own: Sequence[Sequence[bool]], records: Sequence[tuple[int, int, Sequence[bool]]] = ()
) -> ScenarioEvalResults:
    """A run as it would be saved.

    Args:
        own: By scenario and attempt, whether the scenario's own task passed.
        records: Scenario, attempt and, by task, whether it passed.
    """
    judged = [
        ScenarioResult.of(f"s{at}", "q", [task(OWN, passed)]).model_copy(
            update={"attempt": attempt}
        )
        for at, attempts in enumerate(own)
        for attempt, passed in enumerate(attempts)
    ]
    datasets: dict[str, EvalResults] = {}
    if records:
        specs = [
            TaskSpec(task_id=f"t{at}", task_type="Assertion", operator="Equals")
            for at in range(len(records[0][2]))
        ]
        rows: list[RecordResult] = []
        for at, (_, _, passed) in enumerate(records):
            made = tuple(map(task, specs, passed))
            rows.append(RecordResult(f"u{at}", "", "", None, record_outcome(made), made, 0, 0))
        names = [f"s{scenario}" for scenario, _, _ in records]
        datasets["desk"] = EvalResults(rows, names, [attempt for _, attempt, _ in records])
    return ScenarioEvalResults(
        dataset_results=datasets,
        scenario_results=tuple(judged),
        metrics=EvalMetrics.of(datasets, judged),
        scenarios=tuple(
            ScenarioInfo(scenario_id=f"s{at}", initial_query="q") for at in range(len(own))
        ),
        repeats=max(map(len, own)),
    )


def saved(random: Random, chances: Chances, tries: int) -> ScenarioEvalResults:
    """A run of an agent with these chances."""
    drawn = random.random((len(chances), tries)) < np.asarray(chances)[:, None]
    return results(drawn.tolist())


def talks(random: Random, scenarios: int, tries: int) -> ScenarioEvalResults:
    """A run of scenarios of several turns, each a record with several tasks."""
    spread = 1 / CORRELATION - 1
    chances = random.beta(RATE * spread, (1 - RATE) * spread, (scenarios, tries))
    drawn = random.random((scenarios, tries, TURNS, TASKS)) < chances[..., None, None]
    rows = [
        (scenario, attempt, drawn[scenario, attempt, turn].tolist())
        for scenario in range(scenarios)
        for attempt in range(tries)
        for turn in range(TURNS)
    ]
    return results([[True] * tries] * scenarios, rows)


def ask(
    random: Random, chances: Chances, tries: int, baseline: ScenarioEvalResults | None
) -> ScenarioEvalResults:
    """A replay of an agent with these chances, by the command's own path."""

    def agent(message: str) -> str:
        return "yes" if random.random() < chances[int(message)] else "no"

    right = AssertionTask("right", "response", "yes", "Equals")
    scenarios = [EvalScenario(str(at), [right], id=f"s{at}") for at in range(len(chances))]
    run = NamedRun(agent=agent, repeats=tries, progress=False, baseline=baseline)
    return run_named(EvalScenarios(scenarios), run)


# --- trials -------------------------------------------------------------------------------------


def is_stopped(before: ScenarioEvalResults, after: ScenarioEvalResults) -> bool:
    """Hold two saved runs against each other."""
    return after.compare_to(before).exit_code != 0


def compared(chances: Chances, tries: int, breaks: int, random: Random) -> bool:
    """Compare two runs: an unchanged agent can be stopped, a broken one seen."""
    before = saved(random, chances, tries)
    after = saved(random, broken(random, chances, breaks), tries)
    code = after.compare_to(before).exit_code
    return code == REGRESSED if breaks else code != 0


def talked(scenarios: int, tries: int, random: Random) -> bool:
    """Compare two runs of an unchanged agent with several turns."""
    return is_stopped(talks(random, scenarios, tries), talks(random, scenarios, tries))


def checked(chances: Chances, tries: int, breaks: int, random: Random) -> bool:
    """Check a run against a baseline, and ask again what flipped."""
    before = ask(random, chances, tries, None)
    after = ask(random, broken(random, chances, breaks), tries, before)
    comparison = after.compare_to(before)
    report = Report(after, comparison, check_gates(after, Gates()), Policy())
    code = report.decision.exit_code
    return code == REGRESSED if breaks else code != 0


def best_of_ten(keeps_all: bool, random: Random) -> bool:
    """Hold an unchanged agent against the best of ten runs, or against all ten."""
    runs = [saved(random, flaky(20), 1) for _ in range(10)]
    best = max(runs, key=lambda run: run.metrics.scenario_pass_rate)
    before = ScenarioEvalResults.pooled(*runs) if keeps_all else best
    return is_stopped(before, saved(random, flaky(20), 1))


# --- rows ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the tables: a share of trials, or a figure that is the same every time."""

    name: str
    was: str
    """Measured before, in words."""
    trial: Trial | None = None
    value: float = math.nan
    at_most: float | None = None
    at_least: float | None = None

    def run(self, runs: int, slack: float) -> tuple[float, float | None, float | None]:
        """Value and bounds; of a share with so many standard errors beside the bound."""
        if self.trial is None:
            return self.value, self.at_most, self.at_least
        random = np.random.default_rng([2033, *self.name.encode()])
        share = sum(self.trial(random) for _ in range(runs)) / runs

        def moved(bound: float | None, sign: int) -> float | None:
            if bound is None:
                return None
            return bound + sign * slack * math.sqrt(bound * (1 - bound) / runs)

        return share, moved(self.at_most, 1), moved(self.at_least, -1)


def shares() -> Iterator[Row]:
    """The rows that are simulated."""
    before = {(20, 1): "68 %", (20, 3): "25 %", (20, 5): "15 %",
              (50, 1): "94 %", (50, 3): "53 %", (50, 5): "35 %"}  # fmt: skip
    for (scenarios, tries), was in before.items():
        yield Row(
            name=f"unchanged, {scenarios} x {tries}: stopped",
            was=was, trial=partial(compared, flaky(scenarios), tries, 0), at_most=STOPS,
        )  # fmt: skip
    for tries, was in ((1, "100 %"), (3, "94 %")):
        yield Row(
            name=f"unchanged, turns, 20 x {tries}: stopped",
            was=was, trial=partial(talked, 20, tries), at_most=STOPS,
        )  # fmt: skip
    for scenarios, breaks, was, least in (
        (20, 2, "3 %", 0.25), (20, 4, "25 %", 0.90), (30, 3, "13 %", 0.50), (50, 5, "38 %", 0.80),
    ):  # fmt: skip
        yield Row(
            name=f"{breaks} of {scenarios} broken, x 3: seen",
            was=was, trial=partial(compared, flaky(scenarios), 3, breaks), at_least=least,
        )  # fmt: skip
    for scenarios, tries in ((20, 1), (20, 3), (50, 1)):
        yield Row(
            name=f"unchanged, {scenarios} x {tries}, asked again: stopped",
            was=before[scenarios, tries],
            trial=partial(checked, flaky(scenarios), tries, 0), at_most=STOPS,
        )  # fmt: skip
    for tries, breaks, least in ((1, 1, 0.85), (3, 2, 0.95)):
        yield Row(
            name=f"{breaks} of 20 broken, x {tries}, asked again: seen",
            was="3 %" if tries == 3 else "",
            trial=partial(checked, flaky(20), tries, breaks), at_least=least,
        )  # fmt: skip
    yield Row(
        name="baseline is the best of 10: stopped", was="10 %", trial=partial(best_of_ten, False)
    )
    yield Row(
        name="baseline is all of 10: stopped",
        was="10 %", trial=partial(best_of_ten, True), at_most=STOPS,
    )  # fmt: skip


def certain() -> Iterator[Row]:
    """The rows without chance."""
    collapse = results([[True] * 5] * 6), results([[True] * 5, *[[False] * 5] * 5])
    code = collapse[1].compare_to(collapse[0]).exit_code
    yield Row(
        name="30 of 30 to 5 of 30, 6 x 5: exit code", was="0", value=code, at_least=1, at_most=1
    )
    for scenarios, limit in ((20, 13.9), (30, 9.5)):
        same = results([[True]] * scenarios)
        found = same.compare_to(same)
        name = f"identical, {scenarios} x 1"
        yield Row(name=f"{name}: exit code", was="1", value=found.exit_code, at_least=0, at_most=0)
        yield Row(
            name=f"{name}: points not ruled out",
            was="not said", value=round(found.ruled_out or math.nan, 1),
            at_least=limit, at_most=limit,
        )  # fmt: skip
    found = one_task_falls()
    yield Row(
        name="one of 20 tasks falls: exit code",
        was="0",
        value=found.exit_code,
        at_least=0,
        at_most=0,
    )
    named = sum("t0" in name for name in found.not_cleared)
    yield Row(name="one of 20 tasks falls: named", was="0", value=named, at_least=1, at_most=1)


def one_task_falls() -> ScenarioComparisonResults:
    """Of 120 records task t0 passes 8 fewer: 9 fell and 1 rose, where t1 fails before and after.

    So the scenarios as a whole are as before.
    """

    def side(*, is_new: bool) -> ScenarioEvalResults:
        rows = [
            (at, 0, [not (at < 9 if is_new else at == 9), at >= 10, *[True] * 18])
            for at in range(120)
        ]
        return results([[True]] * 120, rows)

    return side(is_new=True).compare_to(side(is_new=False))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="a sixtieth of the runs")
    is_short = parser.parse_args().short
    figures = Figures("gate", is_short=is_short)
    missed = 0
    for row in (*certain(), *shares()):
        runs = RUNS // (SHORTER if is_short else 1)
        value, at_most, at_least = row.run(runs, 3 if is_short else 0)
        is_met = (at_most is None or value <= at_most) and (at_least is None or value >= at_least)
        missed += not is_met
        figures.add(row.name, value, at_most=at_most, at_least=at_least)
        print(f"{'✓' if is_met else '✗'} {row.name:50} {line(row, value)}", flush=True)
    return figures.end() or int(missed > 0)


def line(row: Row, value: float) -> str:
    """Found, wanted and what it was before."""

    def shown(number: float) -> str:
        return f"{number:.1%}" if row.trial is not None else f"{number:g}"

    bounds = [(row.at_most, "at most "), (row.at_least, "at least ")]
    if row.at_most == row.at_least and row.at_most is not None:
        bounds = [(row.at_most, "")]
    wanted = ", ".join(f"{word}{shown(bound)}" for bound, word in bounds if bound is not None)
    return f"{shown(value):>8}  wanted {wanted or '–':16} before: {row.was or '–'}"


if __name__ == "__main__":
    sys.exit(main())
