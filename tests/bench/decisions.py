"""How often the release check stops a good agent, and how often it sees a worse one.

Run as `python -m tests.bench.decisions`; `--short` makes a fiftieth of the runs. Each share has its
95 % interval (Wilson). A bound is missed if the whole interval lies beyond it.

Agents with known chances answer scenarios, before and after. A new baseline is drawn for each
release. The rule of the product (`Trial`) says what is asked again and what it comes to; the last
rows walk the whole path of `scouter eval --baseline` with the same luck, and count where its exit
code is another one.

* *flaky*: 70 % of the scenarios pass with a chance of 0.99, 20 % with 0.85, 10 % with 0.5.
* *Beta mix*: 70 % of the chances are drawn from B(30, 1), 20 % from B(6, 1.5), 10 % from B(1, 1).
* *U-shape*: B(0.6, 0.2). *Beta(7, 3)*: all are flaky. *uniform*: B(1, 1).
* *turns*: 20 scenarios of 3 turns with 8 tasks each. A task passes with 0.97; the results of one
  attempt have an intraclass correlation of 0.5 (their common chance has a beta distribution).
* *in rounds*: as with `--sequential`. Calls saved are those that the same check makes more without
  rounds, as a share of the planned ones; both with asking again.
* *broken*: scenarios that never pass in the new run, chosen anew each time.
* *scores*: a judge's score passes from 0.6 on. *normal*: N(0.85, 0.08) by scenario, and as much
  noise by attempt. *bimodal*: 0.9 or 0.3, by the chances of the Beta mix. *ceiling*: 1 in 85 %,
  else anything from 0.2 to 0.9. *by scenario*: the judge errs alike in all attempts of a run at a
  scenario, sd 0.1; it passes from 0.1 on, as a scenario that it fails each time would be broken.
  *steps*: 1 to 5. *turns*: three records a scenario. *three tasks*: three such scores.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from scouter.evaluate.api.comparison import ScenarioComparisonResults
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
from scouter.evaluate.compare.asking import Ask, Trial, carried_out, trial_of
from scouter.evaluate.compare.gate_checks import check_gates
from scouter.evaluate.compare.gates import Gates
from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.run import ScenarioInfo
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.statistics.failing import Attempts
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.replay.named_run import NamedRun, run_named
from scouter.replay.reports.decision import Policy
from scouter.replay.reports.report import Report
from tests.bench.figures import Figures

RUNS: Final = 1000
SHORTER: Final = 50
REGRESSED: Final = 1
INCONCLUSIVE: Final = 3
"""Exit codes."""
STOPS: Final = 0.05
"""Most unchanged agents that may be stopped."""
TURNS, TASKS, RATE, CORRELATION = 3, 8, 0.97, 0.5

Random: TypeAlias = np.random.Generator
Chances: TypeAlias = Sequence[float]
"""By scenario: how often an attempt passes."""
Change: TypeAlias = Callable[[Random, Chances], Chances]
"""Turns the chances of before into those of now."""
Trialled: TypeAlias = Callable[[Random], float]
"""Simulates once; 1 where it was as the row says, or a number of which the mean is taken."""

OWN: Final = TaskSpec(task_id="right", task_type="Assertion", operator="Equals")
JUDGED: Final = tuple(
    TaskSpec(task_id=f"score{at}", task_type="LLMJudge", operator="GreaterThanOrEqual")
    for at in range(3)
)
BOUNDS: Final = {"by scenario": 0.1}
USUAL_BOUND: Final = 0.6
"""Score from which a judge's task passes."""


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


# --- the rule, without a replay -----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The end of one release check."""

    code: int
    calls: float
    """All attempts that were made, as a multiple of those that were planned."""
    evidence: Trial


def rows_of(random: Random, chances: Chances, tries: int) -> dict[str, list[int]]:
    """Whole attempts at the suite."""
    drawn = random.random((len(chances), tries)) < np.asarray(chances)[:, None]
    return {f"s{at}": row.astype(int).tolist() for at, row in enumerate(drawn)}


def attempts_of(rows: Mapping[str, Sequence[int]]) -> dict[str, Attempts]:
    return {name: Attempts(sum(row), len(row)) for name, row in rows.items()}


def check(
    random: Random,
    baseline: Mapping[str, Sequence[int]],
    chances: Chances,
    tries: int,
    *,
    release: int = 1,
    usual: Mapping[str, Attempts] | None = None,
    confirm: int | None = None,
    sequential: bool = False,
) -> Release:
    """Check one release, and ask again as the product does."""
    at_first = 1 if sequential else tries

    def attempts(name: str, times: int) -> list[int]:
        return (random.random(times) < chances[int(name[1:])]).astype(int).tolist()

    trial = Trial(
        baseline=baseline, usual=usual or attempts_of(baseline),
        suite=[rows_of(random, chances, at_first)], single={}, release=release, confirm=confirm,
        planned=tries if sequential else 0, left=tries - at_first,
    )  # fmt: skip
    found = carried_out(trial, attempts)
    return Release(code=found.exit_code, calls=found.made / (len(chances) * tries), evidence=found)


MIXES: Final[Mapping[str, Callable[[Random, int], Chances]]] = {
    "flaky": lambda random, count: flaky(count),
    "Beta mix": lambda random, count: [
        float(random.beta(30, 1) if kind < 0.7 else random.beta(6, 1.5) if kind < 0.9 else other)
        for kind, other in random.random((count, 2))
    ],
    "U-shape": lambda random, count: random.beta(0.6, 0.2, count).tolist(),
    "Beta(7, 3)": lambda random, count: random.beta(7, 3, count).tolist(),
    "uniform": lambda random, count: random.random(count).tolist(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Releases of one kind.

    Args:
        mix: Chances before, by the name of a mix, or the same chance for all.
        size: Scenarios, and attempts at each.
        change: Turns the chances of before into those of now.
        runs: Runs of the baseline.
        first: Chance of the first scenario, in place of the mix.
        confirm: As in the command.
        sequential: As in the command.
    """

    mix: str | float
    size: tuple[int, int]
    change: Change = lambda random, chances: chances
    runs: int = 1
    first: float | None = None
    confirm: int | None = None
    sequential: bool = False

    def release(self, random: Random) -> Release:
        """Draw an agent, its baseline and one release."""
        count, tries = self.size
        if isinstance(self.mix, str):
            before = [*MIXES[self.mix](random, count)]
        else:
            before = [self.mix] * count
        if self.first is not None:
            before[0] = self.first
        baseline = rows_of(random, before, tries * self.runs)
        now = self.change(random, before)
        return check(random, baseline, now, tries, confirm=self.confirm, sequential=self.sequential)


def breaks(share: float) -> Change:
    return lambda random, chances: broken(random, chances, round(share * len(chances)))


def first_dies(random: Random, chances: Chances) -> Chances:
    return [0.0, *chances[1:]]


def worse_by(points: float) -> Change:
    return lambda random, chances: [max(0.0, chance - points) for chance in chances]


def becomes(chance: float) -> Change:
    return lambda random, chances: [chance] * len(chances)


def stops_in(situation: Situation, random: Random) -> bool:
    return situation.release(random).code == REGRESSED


def goes_in(situation: Situation, random: Random) -> bool:
    return situation.release(random).code == 0


def doubts_in(situation: Situation, random: Random) -> bool:
    return situation.release(random).code == INCONCLUSIVE


def saved_in(situation: Situation, random: Random) -> float:
    """Calls that rounds save, of those planned: the mean difference to a run without them."""
    fixed, sequential = (
        replace(situation, sequential=each).release(random).calls for each in (False, True)
    )
    return fixed - sequential


def stopped_once(
    mix: str, size: tuple[int, int], random: Random, *, sequential: bool = False
) -> bool:
    """Twenty unchanged releases against one baseline, which those that are let through join."""
    count, tries = size
    chances = MIXES[mix](random, count)
    baseline = rows_of(random, chances, tries)
    usual = attempts_of(baseline)
    for release in range(1, 21):
        found = check(
            random, baseline, chances, tries,
            release=release, usual=usual, sequential=sequential,
        )  # fmt: skip
        if found.code == REGRESSED:
            return True
        if found.code == 0:
            kept = found.evidence.pooled
            baseline = {name: [*row, *kept[name]] for name, row in baseline.items()}
            single = found.evidence.single
            usual = {
                name: Attempts(
                    old.passed + sum(kept[name]) + sum(single.get(name, ())),
                    old.made + len(kept[name]) + len(single.get(name, ())),
                )
                for name, old in usual.items()
            }
    return False


# --- whole runs ---------------------------------------------------------------------------------


def talked(scenarios: int, tries: int, random: Random) -> bool:
    """Compare two runs of an unchanged agent with several turns."""
    return (
        talks(random, scenarios, tries).compare_to(talks(random, scenarios, tries)).exit_code != 0
    )


def is_another(chances: Chances, tries: int, change: float, random: Random) -> bool:
    """Walk the whole path of the command, and hold its exit code against that of the rule."""
    now = [max(0.0, chance - change) for chance in chances]
    before = ask(random, chances, tries, None)
    after = ask(random, now, tries, before)
    comparison = after.compare_to(before)
    code = Report(after, comparison, check_gates(after, Gates()), Policy()).decision.exit_code
    return code != trial_of(before, after).exit_code


def best_of_ten(keeps_all: bool, random: Random) -> bool:
    """Hold an unchanged agent against the best of ten runs, or against all ten."""
    runs = [saved(random, flaky(20), 1) for _ in range(10)]
    best = max(runs, key=lambda run: run.metrics.scenario_pass_rate)
    before = ScenarioEvalResults.pooled(*runs) if keeps_all else best
    return saved(random, flaky(20), 1).compare_to(before).exit_code != 0


# --- scores -------------------------------------------------------------------------------------

Drawn: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"
"""Scores by scenario, attempt and record."""
Judge: TypeAlias = Callable[[Random, int], Drawn]
"""Draws one record's scores of each scenario in so many attempts of one run."""


def judge_of(kind: str, random: Random, count: int) -> Callable[[], Judge]:
    """An agent with a judge: a function that begins a run, which gives one that draws attempts."""
    usual = random.normal(0.85, 0.08, (count, 1))
    chances = np.asarray(MIXES["Beta mix"](random, count))[:, None]

    def begin() -> Judge:
        shared = random.normal(0, 0.1, (count, 1))

        def draw(random: Random, tries: int) -> Drawn:
            size = (count, tries)
            match kind:
                case "bimodal":
                    found = np.where(random.random(size) < chances, 0.9, 0.3)
                    return found + random.normal(0, 0.03, size)
                case "ceiling":
                    return np.where(random.random(size) < 0.85, 1.0, random.uniform(0.2, 0.9, size))
                case "by scenario":
                    return usual + shared + random.normal(0, 0.02, size)
                case "steps":
                    return np.round(usual * 5 + random.normal(0, 0.5, size)) / 5
                case _:
                    return usual + random.normal(0, 0.08, size)

        return lambda random, tries: np.clip(draw(random, tries), 0.0, 1.0)

    return begin


def judged_run(kind: str, found: Drawn, rounds: int = 1) -> ScenarioEvalResults:
    """A run as it would be saved; with several records a scenario they are those of an alias."""
    scale, bound = 5 if kind == "steps" else 1, BOUNDS.get(kind, USUAL_BOUND)
    specs = JUDGED if kind == "three tasks" else JUDGED[:1]
    rows: list[RecordResult] = []
    places: list[tuple[str, int]] = []
    for scenario, attempts in enumerate(found):
        for attempt, values in enumerate(attempts):
            records = [values] if kind == "three tasks" else [[value] for value in values]
            for at, scores in enumerate(records):
                made = tuple(
                    EvalTaskResult(
                        spec, Outcome.PASSED if score >= bound else Outcome.FAILED, None,
                        bound * scale, float(score * scale),
                    )
                    for spec, score in zip(specs, scores, strict=True)
                )  # fmt: skip
                rows.append(
                    RecordResult(f"r{at}", f"r{at}", "", None, record_outcome(made), made, 0, 0)
                )
                places.append((f"s{scenario}", attempt))
    datasets = {"desk": EvalResults(rows, [name for name, _ in places], [at for _, at in places])}
    return ScenarioEvalResults(
        dataset_results=datasets,
        scenario_results=(),
        metrics=EvalMetrics.of(datasets, ()),
        scenarios=tuple(
            ScenarioInfo(scenario_id=f"s{at}", initial_query="q") for at in range(len(found))
        ),
        repeats=found.shape[1],
        rounds=rounds,
    )


def scores_end(
    kind: str, size: tuple[int, int], runs: int, fall: float, random: Random
) -> tuple[int, bool]:
    """Check one release whose scores fell by some points, and ask again as the product does.

    Returns:
        The exit code, and whether a score stopped it.
    """
    count, tries = size
    many = 3 if kind in {"turns", "three tasks"} else 1
    begin = judge_of(kind, random, count)

    def drawn(judge: Judge, tries: int, by: float) -> Drawn:
        """Records of one attempt share half of their noise."""
        base = judge(random, tries)
        noise = random.normal(0, 0.03, (*base.shape, many)) if many > 1 else 0.0
        return np.clip(base[..., None] + noise - by, 0.0, 1.0)

    before = np.concatenate([drawn(begin(), tries, 0.0) for _ in range(runs)], axis=1)
    baseline, judge = judged_run(kind, before), begin()
    now = drawn(judge, tries, fall)
    rounds, alone = 1, dict[str, list[int]]()
    while True:
        results = judged_run(kind, now, rounds)
        found = replace(trial_of(baseline, results), single=alone)
        if found.next is Ask.NOTHING:
            break
        if found.next is Ask.SUITE:
            now, rounds = np.concatenate([now, drawn(judge, tries, fall)], axis=1), rounds + 1
        else:
            again = drawn(judge, 1, fall)
            for name in found.open:
                passed = int(bool((again[int(name[1:]), 0] >= BOUNDS.get(kind, USUAL_BOUND)).all()))
                alone = {**alone, name: [*alone.get(name, ()), passed]}
    compared = results.compare_to(baseline).exit_code
    code = REGRESSED if compared == REGRESSED else found.exit_code
    return code, any(row.regressed for row in found.scores)


def scores_stop(kind: str, size: tuple[int, int], runs: int, fall: float, random: Random) -> bool:
    return scores_end(kind, size, runs, fall, random)[0] == REGRESSED


def scores_seen(size: tuple[int, int], fall: float, random: Random) -> bool:
    """Tell whether a score stopped the release, whatever the rates say."""
    return scores_end("normal", size, 1, fall, random)[1]


# --- rows ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line: a share of trials, a mean of them, or a figure that is the same every time."""

    name: str
    trial: Trialled | None = None
    value: float = math.nan
    at_most: float | None = None
    at_least: float | None = None
    runs: int = RUNS
    is_mean: bool = False

    def run(self, runs: int) -> tuple[float, Interval]:
        """Value and its interval; both the same where there is no chance in it."""
        if self.trial is None:
            return self.value, (self.value, self.value)
        random = np.random.default_rng([2033, *self.name.encode()])
        found = [float(self.trial(random)) for _ in range(runs)]
        mean = sum(found) / runs
        if self.is_mean:
            half = 1.96 * float(np.std(found)) / math.sqrt(runs)
            return mean, (mean - half, mean + half)
        return mean, wilson(round(sum(found)), runs)

    def is_missed(self, interval: Interval) -> bool:
        """True if the whole interval lies beyond the bound."""
        low, high = interval
        above = self.at_most is not None and low > self.at_most
        return above or (self.at_least is not None and high < self.at_least)


ROUNDS: Final = ((20, 3), (20, 5), (50, 3))
SIZES: Final = tuple((count, tries) for count in (10, 20, 50, 200) for tries in (1, 3, 5))


def size_text(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"


def unchanged() -> Iterator[Row]:
    """An unchanged agent: stopped, left open, and the price."""
    for mix in MIXES:
        for size in SIZES:
            runs = RUNS // 3 if size[0] == 200 else RUNS
            yield Row(
                name=f"unchanged, {mix}, {size_text(size)}: stopped",
                trial=partial(stops_in, Situation(mix=mix, size=size)),
                at_most=0.07 if mix == "uniform" else STOPS, runs=runs,
            )  # fmt: skip
    for size, most in (((20, 3), 0.01), ((10, 1), 0.10)):
        for mix in list(MIXES)[:4]:
            yield Row(
                name=f"unchanged, {mix}, {size_text(size)}: left open",
                trial=partial(doubts_in, Situation(mix=mix, size=size)), at_most=most,
            )  # fmt: skip
    for mix in list(MIXES)[:4]:
        for size in ((10, 1), (20, 1), (20, 3), (50, 1)):
            most = 0.65 if (mix, size) == ("Beta(7, 3)", (10, 1)) else 0.40
            situation = Situation(mix=mix, size=size)
            yield Row(
                name=f"unchanged, {mix}, {size_text(size)}: calls more",
                trial=lambda random, each=situation: each.release(random).calls - 1,
                at_most=most, is_mean=True,
            )  # fmt: skip
    for mix, size in (("flaky", (20, 1)), ("flaky", (20, 3)), ("Beta mix", (50, 1))):
        yield Row(
            name=f"20 unchanged releases, {mix}, {size_text(size)}: a stop",
            trial=partial(stopped_once, mix, size), at_most=0.15, runs=RUNS // 4,
        )  # fmt: skip
    for size in ((20, 1), (20, 3), (50, 1), (50, 3)):
        yield Row(
            name=f"unchanged, flaky, {size_text(size)}, not asked again: stopped",
            trial=partial(stops_in, Situation(mix="flaky", size=size, confirm=0)), at_most=STOPS,
        )  # fmt: skip


def worse() -> Iterator[Row]:
    """An agent that is worse: seen, or at least not let go."""
    for count, most in ((6, 0.05), (8, 0.04), (10, 0.03)):
        yield Row(
            name=f"0.98 to 0.5, {count} x 1: go",
            trial=partial(goes_in, Situation(mix=0.98, size=(count, 1), change=becomes(0.5))),
            at_most=most,
        )  # fmt: skip
    for size in ((10, 1), (10, 3), (20, 1), (20, 3)):
        yield Row(
            name=f"a fifth broken, Beta mix, {size_text(size)}: seen",
            trial=partial(stops_in, Situation(mix="Beta mix", size=size, change=breaks(0.2))),
            at_least=0.90,
        )  # fmt: skip
    for mix in ("flaky", "Beta mix", "U-shape"):
        for size in SIZES[:9]:
            situation = Situation(mix=mix, size=size, first=0.99, change=first_dies)
            is_hard = (mix, size) == ("U-shape", (20, 1))
            yield Row(
                name=f"one of 0.99 dies, {mix}, {size_text(size)}: seen",
                trial=partial(stops_in, situation), at_least=0.85 if is_hard else 0.90,
            )  # fmt: skip
            if is_hard:
                yield Row(
                    name=f"one of 0.99 dies, {mix}, {size_text(size)}: go",
                    trial=partial(goes_in, situation), at_most=0.03,
                )  # fmt: skip
    for size, runs in (((20, 3), 1), ((20, 1), 3), ((20, 1), 10)):
        situation = Situation(mix="Beta mix", size=size, runs=runs, first=0.9, change=first_dies)
        yield Row(
            name=f"one of 0.9 dies, {size_text(size)}, baseline of {runs}: seen",
            trial=partial(stops_in, situation), at_least=0.90,
        )  # fmt: skip
    for size, runs, least in (
        ((20, 1), 1, 0.08), ((20, 3), 1, 0.37), ((20, 5), 1, 0.62),
        ((50, 1), 1, 0.32), ((50, 3), 1, 0.78), ((50, 5), 1, 0.96), ((20, 1), 3, 0.27),
    ):  # fmt: skip
        situation = Situation(mix="flaky", size=size, runs=runs, change=worse_by(0.1))
        yield Row(
            name=f"all down by 10 points, {size_text(size)}, baseline of {runs}: seen",
            trial=partial(stops_in, situation), at_least=least,
        )  # fmt: skip


def sequential() -> Iterator[Row]:
    """Rounds that stop once they decide: the same promises, for fewer calls."""
    for size in ROUNDS:
        name = f"in rounds, {size_text(size)}"
        for mix in list(MIXES)[:4]:
            same = Situation(mix=mix, size=size, sequential=True)
            yield Row(
                name=f"{name}, unchanged, {mix}: stopped",
                trial=partial(stops_in, same), at_most=STOPS,
            )  # fmt: skip
            yield Row(
                name=f"{name}, unchanged, {mix}: calls saved",
                trial=partial(saved_in, same), at_least=0.2, is_mean=True, runs=RUNS // 2,
            )  # fmt: skip
        uniform = {(20, 3): 0.37, (20, 5): 0.62, (50, 3): 0.78}[size]
        dies: Change = first_dies
        for kind, mix, first, change, least in (
            ("a fifth broken", "Beta mix", None, breaks(0.2), 0.90),
            ("one of 0.99 dies", "Beta mix", 0.99, dies, 0.90),
            ("one of 0.9 dies", "Beta mix", 0.9, dies, 0.90),
            ("all down by 10 points", "flaky", None, worse_by(0.1), uniform),
            ("0.98 to 0.5", 0.98, None, becomes(0.5), 0.99),
        ):
            worse = Situation(mix=mix, size=size, first=first, change=change, sequential=True)
            yield Row(name=f"{name}, {kind}: seen", trial=partial(stops_in, worse), at_least=least)
            yield Row(
                name=f"{name}, {kind}: calls saved",
                trial=partial(saved_in, worse), is_mean=True, runs=RUNS // 2,
            )  # fmt: skip
    yield Row(
        name="in rounds, 20 x 3, 20 unchanged releases, flaky: a stop",
        trial=partial(stopped_once, "flaky", (20, 3), sequential=True),
        at_most=0.15, runs=RUNS // 4,
    )  # fmt: skip


def replayed() -> Iterator[Row]:
    """Whole runs, with tasks and records."""
    for tries in (1, 3):
        yield Row(
            name=f"unchanged, turns, 20 x {tries}: stopped",
            trial=partial(talked, 20, tries), at_most=STOPS,
        )  # fmt: skip
    for change in (0.0, 0.3):
        yield Row(
            name=f"whole path, 10 x 1, down by {change:g}: another exit code",
            trial=partial(is_another, flaky(10), 1, change), at_most=0, runs=RUNS // 20,
        )  # fmt: skip
    yield Row(name="baseline is the best of 10: stopped", trial=partial(best_of_ten, False))
    yield Row(
        name="baseline is all of 10: stopped", trial=partial(best_of_ten, True), at_most=STOPS
    )


def scored() -> Iterator[Row]:
    """Scores of judges, with the whole rule."""
    kinds = ("normal", "bimodal", "ceiling", "by scenario", "steps", "turns", "three tasks")
    for kind in kinds:
        for size, runs in (((10, 1), 1), ((20, 1), 1), ((20, 1), 3), ((20, 3), 1), ((50, 1), 1)):
            yield Row(
                name=f"unchanged, scores, {kind}, {size_text(size)}, baseline of {runs}: stopped",
                trial=partial(scores_stop, kind, size, runs, 0.0), at_most=STOPS, runs=RUNS // 3,
            )  # fmt: skip
    yield Row(
        name="scores 0.25 down, 30 x 1: seen",
        trial=partial(scores_seen, (30, 1), 0.25), at_least=0.99,
    )  # fmt: skip
    for size in ((20, 1), (30, 1), (30, 3), (50, 1)):
        for fall in (0.05, 0.1):
            yield Row(
                name=f"scores {fall:g} down, {size_text(size)}: seen",
                trial=partial(scores_seen, size, fall), runs=RUNS // 3,
            )  # fmt: skip


def certain() -> Iterator[Row]:
    """The rows without chance."""
    collapse = results([[True] * 5] * 6), results([[True] * 5, *[[False] * 5] * 5])
    code = collapse[1].compare_to(collapse[0]).exit_code
    yield Row(name="30 of 30 to 5 of 30, 6 x 5: exit code", value=code, at_least=1, at_most=1)
    for scenarios, limit in ((20, 13.9), (30, 9.5)):
        same = results([[True]] * scenarios)
        found = same.compare_to(same)
        name = f"identical, {scenarios} x 1"
        yield Row(name=f"{name}: exit code", value=found.exit_code, at_least=0, at_most=0)
        yield Row(
            name=f"{name}: points not ruled out", value=round(found.ruled_out or math.nan, 1),
            at_least=limit, at_most=limit,
        )  # fmt: skip
    found = one_task_falls()
    yield Row(
        name="one of 20 tasks falls: exit code",
        value=found.exit_code,
        at_least=0,
        at_most=0,
    )
    named = sum("t0" in name for name in found.not_cleared)
    yield Row(name="one of 20 tasks falls: named", value=named, at_least=1, at_most=1)


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
    parser.add_argument("--short", action="store_true", help="a fiftieth of the runs")
    is_short = parser.parse_args().short
    figures = Figures("decisions", is_short=is_short)
    missed = 0
    rows = (*certain(), *unchanged(), *worse(), *scored(), *sequential(), *replayed())
    for row in rows:
        runs = max(row.runs // (SHORTER if is_short else 1), 2)
        value, interval = row.run(runs)
        is_missed = row.is_missed(interval)
        missed += is_missed
        figures.add(row.name, value)
        print(f"{'✗' if is_missed else '✓'} {row.name:62} {line(row, value, interval)}", flush=True)
    figures.end()
    return int(missed > 0 and not is_short)


def line(row: Row, value: float, interval: Interval) -> str:
    """Found, its interval and the bound."""
    if row.trial is None:
        wanted = row.at_most if row.at_most is not None else row.at_least
        return f"{value:>8g}  wanted {wanted:g}"
    low, high = interval
    bounds = [(row.at_most, "at most "), (row.at_least, "at least ")]
    wanted = ", ".join(f"{word}{bound:.1%}" for bound, word in bounds if bound is not None)
    return f"{value:>8.1%}  [{low:.1%} to {high:.1%}]  wanted {wanted or '–'}"


if __name__ == "__main__":
    sys.exit(main())
