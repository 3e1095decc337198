"""Faults that are known before the first message: functions that are missing or do not fit."""

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Final

from scouter.errors import ConfigError
from scouter.evaluate.scenario import EvalScenario
from scouter.model.visible import some_of
from scouter.replay.agent import misfit
from scouter.replay.hooks import AgentFn, Hooks, MissingFunctionError, missing
from scouter.replay.reports.texts import counted

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
    talks = [scenario for scenario in hooks.scenarios if scenario.is_interactive()]
    is_own = hooks.overrides("execute_agent"), hooks.overrides("execute_agent_turn")
    if hooks.agent_fn is None and len(talks) < len(hooks.scenarios) and not is_own[0]:
        raise MissingFunctionError(missing("agent_fn", "execute_agent()"))
    if hooks.agent_fn is None and talks and not is_own[1]:
        raise MissingFunctionError(missing("agent_fn", "execute_agent_turn()"))
    if not any(is_own):
        more = {name for each in hooks.scenarios for name in hooks.arguments(each, 0)}
        _check_agent(hooks.agent_fn, more)
    replied_to = [scenario for scenario in talks if scenario.max_turns > 1]
    if replied_to and not hooks.overrides("execute_simulated_user_turn"):
        _check_user(hooks, replied_to)


def _check_agent(agent: AgentFn | None, more: Collection[str]) -> None:
    problem = None if agent is None else misfit(agent, more)
    if problem:
        raise ConfigError(f"{_expected('agent_fn', agent, ('message',))}: it {problem}")


def _check_user(hooks: Hooks, talks: Sequence[EvalScenario]) -> None:
    user = hooks.simulated_user()
    if user is None:
        what = missing("simulated_user_fn", "execute_simulated_user_turn()")
        raise MissingFunctionError(
            f"{what}: {_named(talks)} interactive, and nobody plays the user; scouter eval takes "
            "--simulated-user, pytest --scouter-simulated-user"
        )
    first = "initial_query" if user is hooks.simulated_user_fn else "scenario"
    _check_call(user, "simulated_user_fn", (first, "agent_response", "history"))


def _check_call(function: object, what: str, arguments: tuple[str, ...]) -> None:
    signature = _signature(function) if callable(function) else None
    if signature is None:
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise ConfigError(f"{_expected(what, function, arguments)}: {error}") from error


def _expected(what: str, function: object, arguments: tuple[str, ...]) -> str:
    name = getattr(function, "__qualname__", type(function).__name__)
    signature = _signature(function) if callable(function) else ""
    return f"{what} is {name}{signature}; expected a function of ({', '.join(arguments)})"


def _signature(function: Callable[..., object]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # written in C, and silent about its parameters
        return None


def _named(scenarios: Sequence[EvalScenario]) -> str:
    if len(scenarios) == 1:
        return f"scenario {scenarios[0].id!r} is"
    return f"scenarios {some_of([repr(each.id) for each in scenarios], _SHOWN)} are"
