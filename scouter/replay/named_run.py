"""A replay whose parts are named, as in a command line or a settings file."""

import os
import sys
import traceback
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from scouter.agent.cache import JudgeCache, SqliteCache, cache_file, usual_cache_file
from scouter.agent.cached_judge import CachedJudge
from scouter.agent.calibration.rates import Calibrations, judge_rates
from scouter.agent.entries import ProviderEntries
from scouter.agent.model_judge import ModelJudge
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, ScouterError, UnknownProfileError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.gate_checks import check_names
from scouter.evaluate.judge.port import Judge, as_judge
from scouter.evaluate.results.provenance import name_of
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.task import Task
from scouter.replay.loading import MakeOrchestrator, load_object, loaded_agent, read_profiles
from scouter.replay.options import RunOptions
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.replay.reasks import ReasksInterrupted
from scouter.replay.run import Run
from scouter.replay.setup_check import check_reviewed
from scouter.replay.simulated_user import SimulatedUser

BY_JUDGE: Final = "judge"
"""Names the judge as the one who plays the user."""
BOTH_BASELINES: Final = (
    "--interleave runs the version that the new one is compared with, and --baseline names its "
    "results; leave one of the two out"
)
NO_PRICES: Final = (
    "--judge-budget counts what provider entries cost by their prices; a judge of your own "
    "(--judge) has none. Leave one of the two out"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedJudging:
    """Profiles and judge, given by name, with the limits of the judge.

    Args:
        profiles: Files, names of ready-made profiles, `alias=` either, or profiles themselves.
        judge: `module:name`, or the judge itself, for tasks that ask a model; without one the
            provider entries that their prompts name are called.
        providers: File with provider entries; without it that of the user's settings.
        entries: Provider entries in the place of the file.
        judge_cache: Keeps answers of models: a file, `none` for nothing, or a cache; without it
            `usual_cache`, and for a judge of the user's own nothing.
        usual_cache: A cache in the place of the file of the user's settings.
        judge_budget_usd: Most dollars that may be spent on the judge; no bound without it.
        judge_timeout_s: Seconds for one answer, in place of the limit of the judge or its entries.
        calibrations: Files, or folders of files, that say how far judges can be trusted.
    """

    profiles: Sequence[str | AgentEvalProfile] = ()
    judge: object = None
    providers: Path | None = None
    entries: ProviderEntries | None = None
    judge_cache: str | Path | JudgeCache | None = None
    usual_cache: JudgeCache | None = None
    judge_budget_usd: float | None = None
    judge_timeout_s: float | None = None
    calibrations: Sequence[Path] = ()

    def own_judge(self) -> Judge | None:
        """The judge that is named, if one is.

        Raises:
            ConfigError: There is none of that name, or it is none; or there is a budget beside it.
        """
        found = named_judge(self.judge, self.judge_timeout_s)
        if found is not None and self.judge_budget_usd is not None:
            raise ConfigError(NO_PRICES)
        return found

    @property
    def judge_name(self) -> str:
        """Name of the judge in results; empty without a judge of the user's own."""
        return "" if self.judge is None else name_of(self.judge)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRun(NamedJudging):
    """Agent, given by name, and the settings of its run.

    Args:
        agent: `module:name`, or the agent itself; see `loaded_agent`.
        simulated_user: `module:name`, or the function itself, that plays the user; `judge` has
            the judge play it, and `entry/model` a model of a provider entry.
        repeats: Runs of each scenario.
        concurrency: Scenarios at once.
        timeout_s: Seconds per scenario.
        retries: More tries for a scenario whose agent raised.
        resume: File that keeps what is done.
        progress: False: no progress bar; None: one if a person watches.
        baseline: Earlier results; where the run fell behind them, scenarios are asked again.
        accept_changed: Ids of what changed since the baseline and a person looked at; others are
            refused before the run.
        confirm: Most further attempts of each scenario; see `EvalOrchestrator.run`.
        sequential: True ends the run once its attempts decide; see `EvalOrchestrator.run`.
        interleave: `module:name`, or the agent itself, of the version to hold against: it answers
            every scenario, too, in turn with the other one, in place of a baseline.
        agent_version: The version of the agent, as its user calls it.
        orchestrator: Makes who leads a function or a class that is the agent.
        arguments: Names of what the agent can take beside that of every replay.
        allow_unreviewed: True runs scenarios that a model made and no person has looked at.
    """

    agent: str | Callable[..., Any]
    simulated_user: object = None
    repeats: int = 1
    concurrency: int = 1
    timeout_s: float | None = None
    retries: int = 0
    resume: Path | None = None
    progress: bool | None = None
    baseline: ScenarioEvalResults | None = None
    accept_changed: Sequence[str] = ()
    confirm: int | None = None
    sequential: bool = False
    interleave: str | Callable[..., Any] | None = None
    agent_version: str = ""
    orchestrator: MakeOrchestrator = EvalOrchestrator
    arguments: Collection[str] = ()
    allow_unreviewed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """Results of a run, and the baseline for its comparison."""

    results: ScenarioEvalResults
    baseline: ScenarioEvalResults | None
    """Baseline that was given, or the results of the version that ran beside."""
    is_interrupted: bool = False
    """True if somebody pressed Ctrl-C while scenarios were asked again."""


def run_named(scenarios: EvalScenarios, run: NamedRun) -> ScenarioEvalResults:
    """Run scenarios; an agent's exception is the failure of its scenario.

    Prints of the agent go to standard error, so that standard output holds only results.

    Raises:
        ScouterError: A name, a file or an argument is wrong, or something other than the agent's
            own code ended the run.
    """
    ran = run_both(scenarios, run)
    if ran.is_interrupted:
        raise ReasksInterrupted(ran.results)
    return ran.results


def run_both(scenarios: EvalScenarios, run: NamedRun) -> Ran:
    """Do what `run_named` does, and give back the baseline, too."""
    if run.interleave is not None and run.baseline is not None:
        raise ConfigError(BOTH_BASELINES)
    check_reviewed(list(scenarios), is_allowed=run.allow_unreviewed)
    profiles = read_profiles(run.profiles)
    calibrations = Calibrations.read(run.calibrations)
    others = () if run.interleave is None else (run.interleave,)
    with (
        redirect_stdout(sys.stderr),
        _exits_stopped(run.agent),
        loaded_agent(run.agent, profiles, others, run.orchestrator, run.arguments) as agent,
    ):
        judge = run.own_judge()
        models = _models(run) if _is_model(run.simulated_user) else None
        user = _simulated_user(run.simulated_user, judge, models)
        with _failures_named(run.agent):
            orchestrator = agent.make(scenarios, user)
            orchestrator.agent_name = name_of(run.agent)
            beside = [make(scenarios, user) for make in agent.beside]
            for each in beside:
                each.agent_name = name_of(run.interleave)
            _check_gates(orchestrator)
            asking = orchestrator.queue.agent_profiles(), list(orchestrator.scenarios)
            with answering_judge(run, *asking, judge, models) as answering:
                replay = Run(
                    orchestrator,
                    _options(run),
                    judge=answering,
                    beside=beside[0] if beside else None,
                    judge_name=run.judge_name,
                )
                replay.check_accepted(run.accept_changed)
                ran = _ran(replay)
            asking = orchestrator.queue.agent_profiles(), list(orchestrator.scenarios)
    reported = partial(
        _with_names,
        asking=asking,
        named=tuple(profiles),
        calibrations=calibrations,
        judge=run.judge_name,
    )
    baseline = ran.baseline
    if baseline is not None and run.interleave is not None:
        baseline = reported(baseline, run.interleave, "")
    return replace(
        ran, results=reported(ran.results, run.agent, run.agent_version), baseline=baseline
    )


def _ran(run: Run) -> Ran:
    try:
        results = run.lead()
    except ReasksInterrupted as interrupted:
        return Ran(results=interrupted.results, baseline=run.baseline, is_interrupted=True)
    return Ran(results=results, baseline=run.baseline)


def _with_names(
    results: ScenarioEvalResults,
    agent: object,
    version: str,
    *,
    asking: tuple[Mapping[str, AgentEvalProfile], Sequence[EvalScenario]],
    named: tuple[str, ...],
    calibrations: Calibrations,
    judge: str,
) -> ScenarioEvalResults:
    """Add the names of agent and profiles to results, and the known rates of their judges."""
    rated = with_rates(results, *asking, calibrations, judge)
    agents = {"agent": name_of(agent), "agent_version": version, "named_aliases": named}
    return rated.model_copy(update={"provenance": rated.provenance.model_copy(update=agents)})


def _options(run: NamedRun) -> RunOptions:
    shared = {
        each.name: getattr(run, each.name) for each in fields(RunOptions) if hasattr(run, each.name)
    }
    return RunOptions(on_error="record", **shared)


def with_rates(
    results: ScenarioEvalResults,
    profiles: Mapping[str, AgentEvalProfile],
    scenarios: Sequence[EvalScenario],
    known: Calibrations,
    who: str,
) -> ScenarioEvalResults:
    """Add the name of the judge, and what is known of the rates."""
    rates = judge_rates(results, profiles, scenarios, known, who)
    provenance = results.provenance.model_copy(update={"judge": who})
    return results.model_copy(update={"judge_rates": rates, "provenance": provenance})


def _check_gates(orchestrator: EvalOrchestrator) -> None:
    """Refuse gates on what the run will not have, before it costs anything."""
    scenarios = orchestrator.scenarios
    if scenarios.gates is not None:
        profiles = orchestrator.queue.agent_profiles()
        check_names(
            scenarios.gates,
            {alias: [task.id for task in profile.tasks] for alias, profile in profiles.items()},
            [task.id for scenario in scenarios for task in scenario.tasks],
            [tag for scenario in scenarios for tag in scenario.tags],
        )


@contextmanager
def answering_judge(
    run: NamedJudging,
    profiles: Mapping[str, AgentEvalProfile],
    scenarios: Iterable[EvalScenario],
    judge: Judge | None,
    models: ModelJudge | None = None,
) -> Generator[Judge | None]:
    """Give a judge that can be called: the user's own one, or else the provider entries.

    Args:
        run: Names the judge, and the place of stored answers.
        profiles: Profiles by alias; their tasks ask.
        scenarios: Scenarios; their own tasks ask, too.
        judge: Result of `run.own_judge()`.
        models: The judge that asks provider entries already, if there is one.

    Raises:
        ConfigError: A prompt names an entry that is not there or has no key, or there is a budget
            and no price.
    """
    tasks = [task for profile in profiles.values() for task in profile.tasks]
    tasks += [task for scenario in scenarios for task in scenario.tasks]
    asking = [task for task in tasks if task.judge_prompt is not None]
    is_own = judge is not None
    if judge is None and asking:
        judge = models or _models(run)
    if isinstance(judge, ModelJudge):
        check_prompts(judge, asking)
    cache = _cache(run, is_own=is_own) if asking else None
    if judge is None or cache is None:
        yield judge
        return
    with closing(cache):
        yield CachedJudge(judge, cache)


def _cache(run: NamedJudging, *, is_own: bool) -> JudgeCache | None:
    """Open the cache for the judge's answers; None where they are not stored."""
    named = run.judge_cache
    if named is None:
        if is_own or run.usual_cache is not None:
            return None if is_own else run.usual_cache
        file = usual_cache_file()
    elif isinstance(named, str | Path):
        file = cache_file(str(named))
    else:
        return named
    return None if file is None else SqliteCache(file)


def _models(run: NamedJudging) -> ModelJudge:
    """Make the judge that asks provider entries; the user's player spends from the same budget."""
    entries = run.entries or ProviderEntries.from_settings(run.providers)
    return ModelJudge(entries, budget_usd=run.judge_budget_usd, timeout_s=run.judge_timeout_s)


def check_prompts(judge: ModelJudge, tasks: Iterable[Task]) -> None:
    """Refuse tasks that a judge could not be called for, before any call.

    Raises:
        ConfigError: Names the task, and says what is missing.
    """
    for task in tasks:
        prompt = task.judge_prompt
        if prompt is None:
            continue
        try:
            judge.check(str(prompt.provider), prompt.model_settings, prompt.model)
        except ConfigError as error:
            raise ConfigError(f"task {task.id!r}: {error}") from error


def named_judge(judge: object, timeout_s: float | None) -> Judge | None:
    """Make the judge that somebody names.

    Args:
        judge: `module:name`, or the judge itself; None where the entries of prompts are called.
        timeout_s: Most seconds for one answer, in place of what the judge says.

    Raises:
        ConfigError: There is no such judge, or it can answer nothing.
    """
    found = load_object(judge, "--judge") if isinstance(judge, str) else judge
    return None if found is None else as_judge(found, timeout_s)


def _is_model(user: object) -> bool:
    return isinstance(user, str) and "/" in user and ":" not in user.partition("/")[0]


def _simulated_user(
    user: object,
    judge: Judge | None,
    models: ModelJudge | None,
) -> Any:  # noqa: ANN401 - called by the orchestrator
    if user == BY_JUDGE:
        if judge is None:
            raise ConfigError(
                "--simulated-user judge: there is no judge; name one with --judge, or an entry of "
                "your settings and its model, such as --simulated-user openai/gpt-4o-mini"
            )
        return SimulatedUser(judge)
    if models is not None:
        provider, model = entry_and_model(models, str(user), "--simulated-user")
        return SimulatedUser(models, model, provider)
    found = load_object(user, "--simulated-user") if isinstance(user, str) else user
    if found is not None and not callable(found) and not hasattr(found, "reply"):
        raise ConfigError(
            f"--simulated-user {user!r} is a {type(found).__name__}; expected a function of the "
            "first message, the last answer and the exchanges before it"
        )
    return found


def entry_and_model(models: ModelJudge, named: str, option: str) -> tuple[str, str]:
    """Take `entry/model` apart, and refuse a model that could not be called.

    Args:
        models: Asks provider entries.
        named: Such as `openai/gpt-4o-mini`.
        option: The option that names it, for messages.

    Raises:
        ConfigError: Names no model, or one that cannot be called; says why.
    """
    provider, _, model = named.partition("/")
    if not (provider and model):
        raise ConfigError(f"{option} {named}: no model; expected entry/model")
    try:
        models.check(provider, None, model)
    except ConfigError as error:
        raise ConfigError(f"{option} {named}: {error}") from error
    return provider, model


@contextmanager
def _exits_stopped(agent: object) -> Generator[None]:
    """Let an agent that ends this process by `os._exit` end it with 1: 0 would be a decision."""
    here, exit_now = os.getpid(), os._exit

    def stop(status: int) -> NoReturn:
        if os.getpid() != here:  # a forked child ends as it likes
            exit_now(status)
        text = (
            f"scouter: agent {agent!r} ended the run with os._exit({status!r}); nothing is decided"
        )
        os.write(2, f"{text}\n".encode())
        exit_now(1)

    os._exit = stop
    try:
        yield
    finally:
        os._exit = exit_now


@contextmanager
def _failures_named(agent: object) -> Generator[None]:
    """Turn what ends a whole run, such as a hook that raises, into an input error."""
    try:
        yield
    except UnknownProfileError as error:
        raise ConfigError(f"{error}; give the profile of that alias with --profile") from error
    except ScouterError:
        raise
    except SystemExit as error:
        raise ConfigError(f"agent {agent!r} ended the run with sys.exit({error.code!r})") from error
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        raise ConfigError(
            f"agent {agent!r} ended the run: {type(error).__name__}: {error}"
        ) from error
