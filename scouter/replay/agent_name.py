"""The name of an agent, by which a journal tells agents apart, and that of a judge."""

import functools
import inspect
import sys
from pathlib import Path
from typing import Any

from scouter.replay.hooks import Hooks


def agent_name(hooks: Hooks) -> str:
    """Name who is asked: `agent_name` where it is set, else the agent and a class of one's own."""
    if hooks.agent_name:
        return hooks.agent_name
    is_own = type(hooks).__module__ != "scouter.replay.orchestrator"
    parts = [*([type(hooks)] if is_own else []), *([hooks.agent_fn] if hooks.agent_fn else [])]
    return ", ".join(map(name_of, parts))


def name_of(agent: Any) -> str:  # noqa: ANN401 - whatever can be called
    """Name a function or a class, such as `shop:answer`; of another object its class."""
    if isinstance(agent, str):
        return agent
    while isinstance(agent, functools.partial):
        agent = agent.func
    part = agent if inspect.isroutine(agent) or isinstance(agent, type) else type(agent)
    return f"{_module(part)}:{part.__qualname__}"


def judge_name_of(judge: object) -> str:
    """Name a judge of the user's own, also behind a cache; empty for none, and for a model."""
    name = "" if judge is None else name_of(judge)
    if not name.startswith("scouter."):
        return name
    return judge_name_of(getattr(judge, "judge", None))


def _module(part: Any) -> str:  # noqa: ANN401 - a function or a class
    """Its module; a program that runs is called like the module that it is when imported."""
    name = part.__module__ or ""
    if name != "__main__":
        return name
    main = sys.modules[name]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    return spec.name if spec is not None else Path(file).stem if file else name
