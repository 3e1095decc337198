"""Scenarios as pytest items, and a fixture that runs scenarios inside of a test.

The plugin does nothing until it is requested: by `--scouter-scenarios FILE --scouter-agent
module:function`, by the same settings in pytest's configuration (`scouter_scenarios`,
`scouter_agent`, `scouter_profiles`, `scouter_baseline` …), or by the fixture `scouter_eval`.

A scenario file runs once, when its first item does, with the scenarios that are selected. Each
scenario is one item; it passes if all its attempts ran to their end and none of their checks
failed or errored. The gates of the file are one more item, and so is the baseline. With
`--scouter-fail-on errors` failed checks are left to those two.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from scouter.evaluate.api.replay import ScenarioEvalResults
    from scouter.evaluate.compare.gate_counts import Required
    from scouter.evaluate.compare.gates import Gates
    from scouter.evaluate.scenario import EvalScenarios
    from scouter.replay.named_run import NamedRun
    from scouter.replay.reports.decision import Policy
    from scouter.replay.reports.report import Report

_NAME: Final = "scouter-scenarios"
_JUDGES: Final[pytest.StashKey[list[str]]] = pytest.StashKey()
"""Lines of the final report on lost data, the judges' cost and repeated runs, by scenario file."""

_OPTIONS: Final = (
    ("agent", "MODULE:NAME", "the agent that the scenarios are run against"),
    ("checks", "MODULE", "module whose functions tasks of the type Code may name"),
    ("judge", "MODULE:NAME", "judge for tasks that ask a model"),
    ("providers", "FILE", "provider entries of judges; else those of your settings"),
    ("judge_cache", "FILE|URL|none", "keeps what models answered; else that of your settings"),
    ("judge_budget", "USD", "most that the run of a scenario file may spend on judges"),
    ("judge_timeout", "SECONDS", "for one answer of a judge; else what its entry says (60)"),
    ("calibration", "FILE|FOLDER", "what scouter judge calibrate saved: corrects pass rates"),
    ("simulated_user", "MODULE:NAME", "plays the user in interactive scenarios"),
    ("baseline", "FILE", "results of scouter eval --save to compare with"),
    ("regression_threshold", "RATE", "smallest fall that is listed one by one (0.05)"),
    ("require_ruled_out", "POINTS", "a fall of more points than this has to be ruled out"),
    ("min_pass_rate", "RATE", "pass rate of all checks to reach; wins over the scenario file's"),
    (
        "min_scenario_pass_rate",
        "RATE",
        "share of scenarios that have to pass; wins over the scenario file's",
    ),
    (
        "fail_on",
        "checks|errors",
        "what fails a scenario: any failed check (checks), or only what "
        "errored, so that gates and baseline decide over failed checks (errors)",
    ),
    ("repeats", "N", "runs of each scenario (1)"),
    (
        "confirm",
        "K",
        "most further attempts of a scenario when a fall is looked into (as many as the decision "
        "takes; 0 for none)",
    ),
    ("concurrency", "N", "scenarios at once (1)"),
    ("timeout", "SECONDS", "for each scenario"),
    ("retries", "N", "more tries for a scenario whose agent raised (0)"),
    ("allow_lost", "yes|no", "pass although records or spans are in no result (no)"),
    ("allow_unjudged", "yes|no", "pass although the budget left judge tasks without a call (no)"),
    ("allow_unreviewed", "yes|no", "run scenarios that a model made and nobody looked at (no)"),
)
"""Settings that hold one value: name, placeholder, help."""
_RATES: Final = ("min_pass_rate", "min_scenario_pass_rate")
"""Options that set a gate."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and their twins in the configuration file."""
    group = parser.getgroup("scouter", "scenarios of an agent as tests")
    group.addoption(
        "--scouter-scenarios",
        action="append",
        metavar="FILE",
        help="scenario file to run; can be given several times",
    )
    group.addoption(
        "--scouter-profile",
        action="append",
        metavar="[ALIAS=]FILE|NAME",
        help="profile that evaluates the agent's records; can be given several times",
    )
    group.addoption(
        "--scouter-accept-changed",
        action="append",
        metavar="ID",
        help="task, scenario or alias that changed since the baseline, cannot be compared with it, "
        "and that a person looked at; can be given several times",
    )
    parser.addini("scouter_accept_changed", "checks whose change a person looked at", type="args")
    parser.addini("scouter_scenarios", "scenario files, relative to this file", type="paths")
    parser.addini("scouter_profiles", "profiles: files or ready-made ones", type="linelist")
    for name, placeholder, text in _OPTIONS:
        flag = f"--scouter-{name.replace('_', '-')}"
        group.addoption(flag, metavar=placeholder, help=text)
        parser.addini(f"scouter_{name}", text)


def pytest_configure(config: pytest.Config) -> None:
    """Become active if there are scenario files; those of the command line are run in any case."""
    if checks := _setting(config, "checks"):
        _use_checks(config, checks)
    named = [Path(file).absolute() for file in config.getoption("--scouter-scenarios") or ()]
    files: list[Path] = [*named, *config.getini("scouter_scenarios")]
    if not files:
        return
    config.pluginmanager.register(_Collector([file.resolve() for file in files]), _NAME)
    given = [Path(arg.split("::")[0]).resolve() for arg in config.args]
    for file in named:
        if not any(file.resolve().is_relative_to(arg) for arg in given):
            config.args.append(str(file))


def _use_checks(config: pytest.Config, module: str) -> None:
    """Have the functions of a module for the time of the tests."""
    from scouter.errors import ConfigError
    from scouter.evaluate.engine.checks import use_checks

    try:
        use_checks(module)
    except ConfigError as error:
        raise pytest.UsageError(str(error).replace("--checks", "--scouter-checks", 1)) from None
    config.add_cleanup(lambda: use_checks(""))


class _Collector:
    """The hook that is only there while there are scenario files."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = frozenset(files)

    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> "ScenarioFile | None":
        """Collect a scenario file that was named."""
        if file_path.resolve() not in self._files:
            return None
        return ScenarioFile.from_parent(parent, path=file_path)  # pyright: ignore[reportUnknownMemberType] - pytest leaves it untyped

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:  # noqa: ANN401 - pytest's own type is private
        """Say what the judges took."""
        for text in config.stash.get(_JUDGES, ()):
            terminalreporter.write_line(text)


class ScenarioFile(pytest.File):
    """One scenario file; runs once, for all its items."""

    _report: "Report | None" = None
    _error: str | None = None
    _required: "tuple[Required, ...]" = ()

    def collect(self) -> Iterator[pytest.Item]:
        """One item per scenario, one for the gates, one for the baseline."""
        from scouter.errors import ScouterError

        try:
            scenarios = self._scenarios()
        except ScouterError as error:
            raise self.CollectError(str(error)) from None
        for scenario in scenarios:
            yield ScenarioItem.from_parent(self, name=scenario.id)  # pyright: ignore[reportUnknownMemberType] - pytest leaves it untyped
        if scenarios.gates is not None or any(_setting(self.config, name) for name in _RATES):
            yield GatesItem.from_parent(self, name="(gates)")  # pyright: ignore[reportUnknownMemberType] - pytest leaves it untyped
        if _setting(self.config, "baseline"):
            yield BaselineItem.from_parent(self, name="(baseline)")  # pyright: ignore[reportUnknownMemberType] - pytest leaves it untyped

    def _scenarios(self) -> "EvalScenarios":
        from scouter.evaluate.scenario import EvalScenarios

        return EvalScenarios.from_path(self.path)

    def report(self) -> "Report":
        """Run the selected scenarios, the first time it is called.

        Raises:
            ScenarioError: The run could not be made; every item says so.
        """
        from scouter.errors import ScouterError

        if self._error is not None:
            raise ScenarioError(self._error)
        if self._report is None:
            try:
                self._report = self._run()
            except ScouterError as error:
                self._error = str(error)
                raise ScenarioError(self._error) from None
        return self._report

    def fails_on_errors_only(self) -> bool:
        """Tell whether failed checks are left to gates and baseline."""
        word = _setting(self.config, "fail_on") or "checks"
        if word not in {"checks", "errors"}:
            from scouter.errors import ConfigError

            raise ConfigError(f"scouter_fail_on is {word!r}; expected 'checks' or 'errors'")
        return word == "errors"

    def missed(self, scenario_id: str) -> list[str]:
        """Describe the required checks of a scenario that did not pass or were not judged."""
        return [
            text
            for each in self._required
            for text in (
                [
                    f"{each.name}: {miss.text}"
                    for miss in each.misses
                    if miss.scenario_id == scenario_id
                ]
                if each.total
                else [f"{each.name}: no results"]
            )
        ]

    def left_out(self) -> int:
        """Number of scenarios of the file that are not selected."""
        return len(self._scenarios()) - len(self._selected())

    def _selected(self) -> set[str]:
        return {
            item.name
            for item in self.session.items
            if item.parent is self and isinstance(item, ScenarioItem)
        }

    def _run(self) -> "Report":
        from dataclasses import replace

        from scouter.evaluate.api.replay import ScenarioEvalResults
        from scouter.evaluate.compare.gate_checks import check_gates
        from scouter.evaluate.compare.gate_counts import required_of
        from scouter.evaluate.compare.gates import Gates
        from scouter.evaluate.scenario import EvalScenarios
        from scouter.replay.named_run import run_named
        from scouter.replay.reports.report import Report

        self.fails_on_errors_only()  # a wrong word costs no run
        policy = _policy(self.config)
        found, chosen = self._scenarios(), self._selected()
        gates = _gates(self.config, found) if not self.left_out() else None
        scenarios = EvalScenarios(
            [scenario for scenario in found if scenario.id in chosen], found.collection_id, gates
        )
        file = _setting(self.config, "baseline")
        baseline = ScenarioEvalResults.load(_path(self.config, file)) if file else None
        if self.left_out():
            baseline = None
        given = self.config.getoption("--scouter-accept-changed")
        accepted = given or self.config.getini("scouter_accept_changed")
        named = replace(_named_run(self.config), baseline=baseline, accept_changed=accepted)
        results = run_named(scenarios, named)
        self._required = required_of(results)
        comparison = None
        if baseline is not None:
            threshold = _number(self.config, "regression_threshold", float, 0.05)
            comparison = results.compare_to(baseline, threshold, accepted)
        checks = check_gates(results, gates or Gates())
        report = Report(results, comparison, checks, policy)
        texts = [f"changed: {text}" for text in report.changes]
        texts += [f"lost: {each.text}" for each in results.lost]
        texts += [] if report.judges is None else [report.judges.text]
        texts += [] if report.reasked is None else report.reasked.texts
        lines = self.config.stash.setdefault(_JUDGES, [])
        lines += [f"{self.path.name}: {text}" for text in texts]
        return report


class ScenarioError(Exception):
    """A scenario item did not pass; the text says why."""


class _Item(pytest.Item):
    """Base of the test items of a scenario file."""

    @property
    def file(self) -> ScenarioFile:
        """The scenario file."""
        parent = self.parent
        if not isinstance(parent, ScenarioFile):
            raise TypeError(f"{self.nodeid} belongs to no scenario file")
        return parent

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # noqa: ANN401 - pytest's own types are private
        """Show the text alone for what a scenario did, a traceback for all else."""
        if isinstance(excinfo.value, ScenarioError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """File and name, for the heading of a failure."""
        return self.path, None, f"{self.path.name}: {self.name}"


class ScenarioItem(_Item):
    """One scenario with all its attempts."""

    def runtest(self) -> None:
        """Fail if an attempt raised, one of its checks failed or errored, or the run lost records.

        One that failed nothing but was not judged by all its checks, as the budget left too
        little, fails as well; with `scouter_allow_unjudged` it is skipped, and so is one that no
        check is about, unless that is so for the whole file, which fails. Where failed checks are
        left to gates and baseline, it fails if it or a task of it is required and did not pass.
        """
        from scouter.evaluate.results.record_result import is_counted
        from scouter.replay.reports.decision import Word
        from scouter.replay.reports.plain import scenario_text

        report, errors_only = self.file.report(), self.file.fails_on_errors_only()
        missed = self.file.missed(self.name)
        for scenario in report.view.scenarios:
            if scenario.scenario_id != self.name:
                continue
            if (text := scenario_text(scenario)) and (scenario.is_errored or not errors_only):
                raise ScenarioError(text)
            if (skipped := scenario.over_budget) and not missed:
                text = f"not judged by all checks: {skipped} skipped, as the budget left too little"
                if not report.policy.allow_unjudged:
                    raise ScenarioError(text)
                pytest.skip(text)
        if missed:
            raise ScenarioError("\n".join(missed))
        if report.results.lost and not report.policy.allow_lost:
            # Nobody knows whose they are, so that no scenario can be said to have passed.
            raise ScenarioError("\n".join(f"lost: {each.text}" for each in report.results.lost))
        if report.decision.word is Word.UNJUDGED:
            raise ScenarioError("\n".join(report.decision.reasons))
        if not any(
            is_counted(check)
            for scenario in report.view.scenarios
            if scenario.scenario_id == self.name
            for attempt in scenario.attempts
            for check in attempt.all_checks
        ):
            pytest.skip("no check gave a result for this scenario")


class GatesItem(_Item):
    """The gates of the scenario file."""

    def runtest(self) -> None:
        """Fail if one is not met."""
        report = self.file.report()
        if left_out := self.file.left_out():
            pytest.skip(f"{left_out} scenarios of the file are not selected")
        unmet = [check.reason for check in report.gate_checks if not check.met]
        if unmet:
            raise ScenarioError("\n".join(unmet))


class BaselineItem(_Item):
    """The comparison with the baseline."""

    def runtest(self) -> None:
        """Fail if the run regressed, and if nobody can tell."""
        from scouter.replay.reports.decision import compared

        report = self.file.report()
        comparison = report.comparison
        if comparison is None:
            left_out = self.file.left_out()
            pytest.skip(f"{left_out} scenarios of the file are not selected")
        if found := compared(comparison, report.policy):
            raise ScenarioError(
                "\n".join([f"{comparison}", *report.changes, *(each.reason for each in found)])
            )


class ScenarioRunner:
    """Value of the fixture `scouter_eval`: runs scenarios and fails the test if they fail.

    Args:
        config: Configuration of the pytest run; files are relative to its root folder.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def __call__(
        self,
        scenarios: "EvalScenarios | str | Path",
        agent: str | Callable[..., Any] | None = None,
        profiles: Iterable[str | Path] | None = None,
        **options: Any,  # noqa: ANN401 - the fields of NamedRun, which names them
    ) -> "ScenarioEvalResults":
        """Run scenarios.

        Args:
            scenarios: The scenarios, or their file.
            agent: `module:name` or the agent itself; by default that of the configuration.
            profiles: Files or names of ready-made profiles; by default the configuration's.
            options: Other fields of `scouter.replay.named_run.NamedRun`, such as `repeats=3`. With
                `baseline=`, results or their file, what passed there and fails now is asked again.

        Raises:
            ScouterError: A file, a name or an argument is wrong.
        """
        from dataclasses import replace

        from scouter.evaluate.api.replay import ScenarioEvalResults
        from scouter.evaluate.scenario import EvalScenarios
        from scouter.replay.named_run import run_named

        if not isinstance(scenarios, EvalScenarios):
            scenarios = EvalScenarios.from_path(_path(self._config, str(scenarios)))
        if agent is not None:
            options["agent"] = agent
        if isinstance(options.get("baseline"), str | Path):
            file = _path(self._config, str(options["baseline"]))
            options["baseline"] = ScenarioEvalResults.load(file)
        if profiles is not None:
            options["profiles"] = [_profile(self._config, str(item)) for item in profiles]
        run = _named_run(self._config, needs_agent=agent is None)
        return run_named(scenarios, replace(run, **options))

    def check(
        self,
        results: "ScenarioEvalResults",
        baseline: "ScenarioEvalResults | str | Path | None" = None,
        gates: "Gates | None" = None,
        *,
        require_ruled_out: float | None = None,
        allow_lost: bool = False,
        allow_unjudged: bool = False,
        accept_changed: Sequence[str] = (),
    ) -> None:
        """Fail the test if the run did not pass.

        With a baseline or gates these decide; without, every scenario has to pass.

        Args:
            results: Results of a call.
            baseline: Earlier results, or their file.
            gates: Pass rates to reach.
            require_ruled_out: Fall of the scenarios passed, in points, that has to be ruled out.
            allow_lost: Pass although records or spans are in no result.
            allow_unjudged: Pass although the budget left judge tasks without a call, or no record
                came for a profile.
            accept_changed: Ids of tasks, scenarios and aliases that changed since the baseline,
                and that a person looked at.
        """
        __tracebackhide__ = True
        from scouter.evaluate.api.replay import ScenarioEvalResults
        from scouter.evaluate.compare.gate_checks import check_gates
        from scouter.evaluate.compare.gates import Gates
        from scouter.replay.reports.decision import Policy
        from scouter.replay.reports.plain import scenario_text
        from scouter.replay.reports.report import Report

        if baseline is not None and not isinstance(baseline, ScenarioEvalResults):
            baseline = ScenarioEvalResults.load(_path(self._config, str(baseline)))
        comparison = (
            None
            if baseline is None
            else results.compare_to(baseline, accept_changed=accept_changed)
        )
        checks = check_gates(results, gates or Gates())
        policy = Policy(
            require_ruled_out=require_ruled_out,
            allow_lost=allow_lost,
            allow_unjudged=allow_unjudged,
        )
        report = Report(results, comparison, checks, policy)
        texts = [text for scenario in report.view.scenarios if (text := scenario_text(scenario))]
        if report.decision.is_stopped:
            decision = report.decision
            said = f"{decision.word}: {decision.headline}"
            texts = [said, *report.changes, *decision.reasons, *texts, *decision.advice]
        elif comparison is not None or gates is not None:
            texts = []
        if texts:
            pytest.fail("\n".join(texts), pytrace=False)
        if report.judges is not None and report.judges.over_budget:
            warnings.warn(report.judges.text, stacklevel=2)


@pytest.fixture(scope="session")
def scouter_eval(pytestconfig: pytest.Config) -> ScenarioRunner:
    """Runs scenarios inside of a test; see `ScenarioRunner`."""
    return ScenarioRunner(pytestconfig)


def _setting(config: pytest.Config, name: str) -> str:
    """A setting of the command line, or else of the configuration file; empty for none."""
    given = config.getoption(f"--scouter-{name.replace('_', '-')}")
    return given or str(config.getini(f"scouter_{name}") or "")


def _policy(config: pytest.Config) -> "Policy":
    from scouter.replay.reports.decision import Policy

    return Policy(
        require_ruled_out=_number(config, "require_ruled_out", float, None),
        allow_lost=_allows(config, "allow_lost"),
        allow_unjudged=_allows(config, "allow_unjudged"),
    )


def _allows(config: pytest.Config, name: str) -> bool:
    word = _setting(config, name) or "no"
    if word not in {"yes", "no"}:
        from scouter.errors import ConfigError

        raise ConfigError(f"scouter_{name} is {word!r}; expected 'yes' or 'no'")
    return word == "yes"


def _number(config: pytest.Config, name: str, kind: Callable[[str], Any], default: Any) -> Any:  # noqa: ANN401 - an int or a float, as the kind says
    text = _setting(config, name)
    if not text:
        return default
    try:
        return kind(text)
    except ValueError:
        from scouter.errors import ConfigError

        raise ConfigError(f"scouter_{name} is {text!r}; expected a number") from None


def _gates(config: pytest.Config, scenarios: "EvalScenarios") -> "Gates | None":
    from scouter.evaluate.compare.gates import Gates

    given = {name: _number(config, name, float, None) for name in _RATES}
    rates = {name: rate for name, rate in given.items() if rate is not None}
    for name, rate in rates.items():
        if not 0 <= rate <= 1:
            from scouter.errors import ConfigError

            raise ConfigError(f"scouter_{name} is {rate}; expected a share from 0 to 1")
    return (scenarios.gates or Gates()).model_copy(update=rates) if rates else scenarios.gates


def _named_run(config: pytest.Config, *, needs_agent: bool = True) -> "NamedRun":
    from scouter.client.judge_cache import named_cache, usual_collector_cache
    from scouter.errors import ConfigError
    from scouter.replay.named_run import NamedRun

    agent = _setting(config, "agent")
    if not agent and needs_agent:
        raise ConfigError(
            "no agent: pass --scouter-agent module:function, or set scouter_agent in the "
            "configuration of pytest"
        )
    profiles = config.getoption("--scouter-profile") or config.getini("scouter_profiles")
    return NamedRun(
        agent=agent,
        profiles=[_profile(config, item) for item in profiles],
        judge=_setting(config, "judge") or None,
        providers=_path(config, providers)
        if (providers := _setting(config, "providers"))
        else None,
        judge_cache=named_cache(_setting(config, "judge_cache") or None),
        usual_cache=usual_collector_cache(),
        judge_budget_usd=_number(config, "judge_budget", float, None),
        judge_timeout_s=_number(config, "judge_timeout", float, None),
        calibrations=[_path(config, calibration)]
        if (calibration := _setting(config, "calibration"))
        else [],
        simulated_user=_setting(config, "simulated_user") or None,
        repeats=_number(config, "repeats", int, 1),
        confirm=_number(config, "confirm", int, None),
        concurrency=_number(config, "concurrency", int, 1),
        timeout_s=_number(config, "timeout", float, None),
        retries=_number(config, "retries", int, 0),
        progress=False,
        allow_unreviewed=_allows(config, "allow_unreviewed"),
    )


def _path(config: pytest.Config, file: str) -> Path:
    """A file as it stands, or relative to the root folder where it is not there."""
    return Path(file) if Path(file).exists() else config.rootpath / file


def _profile(config: pytest.Config, spec: str) -> str:
    """The same for a profile, which may also be `alias=FILE` or a ready-made one's name."""
    alias, equals, file = spec.rpartition("=")
    path = _path(config, file)
    return f"{alias}{equals}{path}" if path.is_file() else spec
