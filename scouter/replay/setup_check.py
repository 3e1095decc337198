"""Faults that are known before the first message."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from scouter.errors import ConfigError
from scouter.evaluate.paths.path import Path
from scouter.evaluate.paths.templates import template_paths
from scouter.evaluate.scenario import EvalScenario
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.function import CodeTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.model.visible import some_of
from scouter.replay.agent import misfit, signature_of
from scouter.replay.hooks import AgentFn, Hooks, MissingFunctionError, missing
from scouter.replay.reports.texts import counted

if TYPE_CHECKING:
    from scouter.evaluate.tasks.task import Task


_OUTCOME: Final = "expected_outcome"
_AGENT: Final = "response"
_ALL: Final = frozenset({_OUTCOME, _AGENT})
_NAMED: Final = 5


def unread_outcomes(scenarios: Iterable["EvalScenario"]) -> list["EvalScenario"]:
    """Find the scenarios whose expected outcome no task of theirs compares.

    A task compares it where it reads the outcome (a path, a template in the expected value, a
    variable of a judge's prompt, another task's value) and the agent's answer or its spans.

    Returns:
        In their order.

    Cost: linear in tasks.
    """
    return [
        scenario
        for scenario in scenarios
        if scenario.expected_outcome is not None and not _compares(scenario.tasks)
    ]


def unread_warning(scenarios: Iterable["EvalScenario"]) -> str | None:
    """Say which expected outcomes nothing compares, and what to do; None if there are none."""
    found = unread_outcomes(scenarios)
    if not found:
        return None
    names = some_of([repr(each.id) for each in found], _NAMED)
    return (
        f"no task compares the expected_outcome of {names}: an answer that differs from it "
        "passes; add a task such as {task_type: Assertion, id: right, context_path: response, "
        'operator: Contains, expected_value: "${expected_outcome}"}'
    )


def _compares(tasks: Sequence["Task"]) -> bool:
    by_id = {task.id: task for task in tasks}
    known: dict[str, frozenset[str]] = {}

    def reads(task: "Task") -> frozenset[str]:
        if task.id not in known:
            own = frozenset(_reads(task))
            through = [reads(by_id[name]) for name in task.depends_on if name in own]
            known[task.id] = own.union(*through)
        return known[task.id]

    return any(reads(task) >= _ALL for task in tasks)


def _reads(task: "Task") -> Iterator[str]:
    """First steps of the paths in a scenario's context; the spans are the agent's, too."""
    if isinstance(task, AssertionTask):
        yield from _first(Path(task.context_path))
    elif isinstance(task, LLMJudgeTask):
        for text in (*task.prompt.parameters, *filter(None, (task.reference,))):
            yield from _first(Path(text))
    elif isinstance(task, CodeTask):
        yield from _ALL
    else:
        yield _AGENT
        for prompt in task.prompts.values() if isinstance(task, TrajectoryTask) else ():
            yield from (name for text in prompt.parameters for name in _first(Path(text)))
    for path in template_paths(task.expected_value):
        yield from _first(path)


def _first(path: Path) -> Iterable[str]:
    if path.text.startswith("$"):  # a JSONPath may begin anywhere
        return [name for name in _ALL if name in path.text] or _ALL
    if not path.segments or not isinstance(path.segments[0], str):
        return _ALL  # the whole context
    return (path.segments[0],)


_SHOWN: Final = 3
_MOST_NAMED: Final = 5


def check_reviewed(scenarios: Sequence[EvalScenario], *, is_allowed: bool) -> None:
    """Refuse scenarios that a model made and nobody has looked at: they decide over nothing.

    Raises:
        ConfigError: There are some, and they are not allowed; names them.
    """
    left = [repr(scenario.id) for scenario in scenarios if scenario.unreviewed]
    if left and not is_allowed:
        raise ConfigError(
            f"{counted(len(left), 'unreviewed scenario')} of {len(scenarios)}: "
            f"{some_of(left, _MOST_NAMED)}. Made by a model, they decide over no release. Look at "
            "each, correct what it expects, and delete its line `unreviewed: true`; or run them "
            "as they are with --allow-unreviewed (in code, allow_unreviewed=True; for pytest, "
            "scouter_allow_unreviewed)"
        )


def check_functions(hooks: Hooks) -> None:
    """Refuse a run whose agent or simulated user could not be called.

    Raises:
        MissingFunctionError: There is no agent, or a scenario is interactive and nobody plays
            its user.
        ConfigError: A function does not take the arguments that it would get.
    """
    if hooks.overrides("on_scenario_start"):
        return  # it may set the functions anew for each scenario
    interactive = [scenario for scenario in hooks.scenarios if scenario.is_interactive()]
    is_own = hooks.overrides("execute_agent"), hooks.overrides("execute_agent_turn")
    if hooks.agent_fn is None and len(interactive) < len(hooks.scenarios) and not is_own[0]:
        raise MissingFunctionError(missing("agent_fn", "execute_agent()"))
    if hooks.agent_fn is None and interactive and not is_own[1]:
        raise MissingFunctionError(missing("agent_fn", "execute_agent_turn()"))
    if not any(is_own):
        more = {name for each in hooks.scenarios for name in hooks.arguments(each, 0)}
        _check_agent(hooks.agent_fn, more)
    replied_to = [scenario for scenario in interactive if scenario.max_turns > 1]
    if replied_to and not hooks.overrides("execute_simulated_user_turn"):
        _check_user(hooks, replied_to)


def _check_agent(agent: AgentFn | None, more: Collection[str]) -> None:
    problem = None if agent is None else misfit(agent, more)
    if problem:
        raise ConfigError(f"{_expected('agent_fn', agent, ('message',))}: it {problem}")


def _check_user(hooks: Hooks, interactive: Sequence[EvalScenario]) -> None:
    user = hooks.simulated_user()
    if user is None:
        what = missing("simulated_user_fn", "execute_simulated_user_turn()")
        raise MissingFunctionError(
            f"{what}: {_named(interactive)} interactive, and nobody plays the user; scouter eval "
            "takes --simulated-user, pytest --scouter-simulated-user"
        )
    first = "initial_query" if user is hooks.simulated_user_fn else "scenario"
    _check_call(user, "simulated_user_fn", (first, "agent_response", "history"))


def _check_call(function: object, what: str, arguments: tuple[str, ...]) -> None:
    signature = signature_of(function) if callable(function) else None
    if signature is None:
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise ConfigError(f"{_expected(what, function, arguments)}: {error}") from error


def _expected(what: str, function: object, arguments: tuple[str, ...]) -> str:
    name = getattr(function, "__qualname__", type(function).__name__)
    signature = signature_of(function) if callable(function) else ""
    return f"{what} is {name}{signature}; expected a function of ({', '.join(arguments)})"


def _named(scenarios: Sequence[EvalScenario]) -> str:
    if len(scenarios) == 1:
        return f"scenario {scenarios[0].id!r} is"
    return f"scenarios {some_of([repr(each.id) for each in scenarios], _SHOWN)} are"
