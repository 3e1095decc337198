"""Agents by name: from `module:function` to something that an orchestrator can call."""

import importlib
import inspect
import os
import pkgutil
import sys
import traceback
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final, TypeAlias, cast

from scouter.drift.profile import AgentEvalProfile, find_profile
from scouter.errors import ConfigError
from scouter.evaluate.scenario import EvalScenarios
from scouter.model.visible import or_meant, some_of
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.agent import makes_agents, misfit
from scouter.replay.hooks import SimulatedUserFn
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.tracing.instrumentor import ScouterInstrumentor
from scouter.tracing.runtime import RUNTIME
from scouter.transport.config import MockConfig

_AGENT: Final = "--agent"
BESIDE: Final = "--interleave"

_FILES: Final = (".yaml", ".yml", ".json")
"""Endings of a file that describes an endpoint."""
_SHOWN: Final = 12


def load_object(reference: str, what: str) -> Any:  # noqa: ANN401 - anything can be named
    """Import the object that `module:name` names; dots in the name lead into objects.

    The working folder is searched first, as by pytest and `python -m`.

    Args:
        reference: Such as `my_agent:answer` or `shop.agents:Desk.answer`.
        what: Use of the object, such as `--agent`; errors begin with it.

    Raises:
        ConfigError: No such module or name, or the import failed; tells the existing names, or the
            file and line of the failure.
    """
    module_name, colon, path = reference.partition(":")
    if not (module_name and colon and path):
        raise ConfigError(f"{what} {reference!r}: expected module:name, such as my_agent:answer")
    found: Any = _import(module_name, f"{what} {reference!r}")
    walked = module_name
    for part in path.split("."):
        if not hasattr(found, part):
            raise ConfigError(
                f"{what} {reference!r}: {walked} has no {part!r}; it has {_public(found)}"
                f"{or_meant(part, (name for name in dir(found) if name[:1] != '_'))}"
            )
        found, walked = getattr(found, part), f"{walked}.{part}"
    return found


def _import(name: str, lead: str) -> ModuleType:
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    importlib.invalidate_caches()  # a file may be younger than the last look into its folder
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(
                f"{lead}: no module {error.name!r} in {folder} or among the installed packages"
                f"{or_meant(error.name, _modules_beside(error.name, folder))}"
            ) from error
        raise ConfigError(f"{lead}: {_failed(name, error)}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a module does when it is imported
        raise ConfigError(f"{lead}: {_failed(name, error)}") from error


def _modules_beside(name: str, folder: str) -> list[str]:
    """List names to import in a module's place: those of its package, or of the folder."""
    package, dot, _ = name.rpartition(".")
    parent = sys.modules.get(package)
    places: list[str] = list(getattr(parent, "__path__", ())) if dot else [folder]
    return [f"{package}{dot}{found.name}" for found in pkgutil.iter_modules(places)]


def _failed(name: str, error: BaseException) -> str:
    """Say what went wrong at import, and where in the user's own files."""
    what = f"{type(error).__name__}: {error}".removesuffix(": ")
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame
        for frame in frames
        if "importlib" not in frame.filename and frame.filename != __file__
    ]
    where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    return f"importing {name} failed: {' '.join(what.split())}{where}"


def _public(found: object) -> str:
    names = [name for name in dir(found) if not name.startswith("_")]
    callables = [name for name in names if callable(getattr(found, name, None))] or names
    return some_of(callables, _SHOWN) or "nothing that can be called"


def read_profiles(specs: Iterable[str | AgentEvalProfile]) -> dict[str, AgentEvalProfile]:
    """Read profiles by file, by the name of a ready-made one, or as `alias=` either.

    One that is a profile already stays as it is.

    Raises:
        ConfigError: No such file or ready-made profile, its content is wrong, or two have one
            alias.
    """
    found: dict[str, AgentEvalProfile] = {}
    for spec in specs:
        if isinstance(spec, AgentEvalProfile):
            found[spec.alias] = spec
            continue
        alias, equals, file = spec.partition("=")
        if not equals or "/" in alias or os.path.exists(spec):
            alias, file = "", spec
        elif not alias or not file:
            raise ConfigError(f"profile {spec!r}: expected FILE, NAME or alias=FILE")
        profile = AgentEvalProfile.from_file(find_profile(file))
        key = alias or profile.alias
        if key in found:
            raise ConfigError(
                f"profile {spec!r}: the alias {key!r} is already used; "
                f"give it another one with alias={file}"
            )
        found[key] = profile
    return found


MakeOrchestrator: TypeAlias = Callable[
    [ScouterQueue, EvalScenarios, Any, SimulatedUserFn | None], EvalOrchestrator
]
Make: TypeAlias = Callable[[EvalScenarios, SimulatedUserFn | None], EvalOrchestrator]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedAgent:
    """An agent that is ready to be called, with the queue that its records go to."""

    queue: ScouterQueue
    make: Make
    """Makes the orchestrator for a set of scenarios."""
    beside: Sequence[Make] = ()
    """Makers of the orchestrators of other versions, whose records go to the same queue."""


@contextmanager
def loaded_agent(
    agent: str | Callable[..., Any],
    profiles: "dict[str, AgentEvalProfile]",
    beside: Sequence[str | Callable[..., Any]] = (),
    orchestrator: MakeOrchestrator = EvalOrchestrator,
    more: Collection[str] = (),
) -> Generator[LoadedAgent]:
    """Load an agent with tracing switched on, and switch tracing off again.

    Args:
        agent: The address of an endpoint, or a file that describes it
            (`scouter.replay.endpoint.Endpoint`); `module:name`; or the object itself, which can be:

            - a function, plain or async, from a message to the answer; parameters called `queue`,
              `session` (the conversation's id) and `history` (its turns so far, as chat
              messages) get these;
            - a class whose instances are called like one: each attempt has its own, and the
              constructor can take `queue` and `session`;
            - a function that requires `queue` and takes no message: it is called for each
              attempt, and gives back a function or class of these kinds;
            - an object with `query(input=…)`, as LangChain's agents have it;
            - a subclass of `EvalOrchestrator`.
        profiles: By alias, what judges the agent's records. Without any, the queue that the
            agent's module has set up for itself is used, if it has.
        beside: Other versions, to be run alternately with it.
        orchestrator: Makes who leads an agent that leads nothing itself.
        more: Names of further parameters that it may have (`EvalOrchestrator.arguments`).

    Raises:
        ConfigError: One cannot be imported or called, two have a queue each, or both `profiles`
            and the module's own queue say how records are judged.
    """
    before = RUNTIME.queue
    instrumentor = ScouterInstrumentor()
    was_instrumented = instrumentor.is_instrumented
    known = before.agent_profiles() if before is not None and profiles else {}
    queue = ScouterQueue({**known, **profiles}, MockConfig())
    RUNTIME.configure(queue=queue)
    stack = ExitStack()
    try:
        found = stack.enter_context(_found(agent, _AGENT))
        queue = _effective(queue, before, agent)
        if not was_instrumented and not instrumentor.is_instrumented:
            instrumentor.instrument(scouter_queue=queue)
        leading = queue, orchestrator, more
        others = [
            _beside(stack.enter_context(_found(each, BESIDE)), each, *leading) for each in beside
        ]
        make = _maker(found, _lead(_AGENT, agent), *leading)
        yield LoadedAgent(queue=queue, make=make, beside=others)
    finally:
        stack.close()
        if not was_instrumented and instrumentor.is_instrumented:
            instrumentor.uninstrument()
        if before is not None:
            RUNTIME.configure(queue=before)


@contextmanager
def _found(agent: str | Callable[..., Any], what: str) -> Generator[Any]:
    """The object that is named, or the agent behind an address."""
    if not isinstance(agent, str):
        yield agent
    elif agent.startswith(("http://", "https://")) or agent.endswith(_FILES):
        from scouter.replay.endpoint import endpoint_agent  # with a client for HTTP

        with endpoint_agent(agent, what) as found:
            yield found
    else:
        yield load_object(agent, what)


def _lead(what: str, agent: object) -> str:
    """The first words of an error."""
    return f"{what} {agent!r}" if isinstance(agent, str) else "the agent"


def _beside(
    found: Any,  # noqa: ANN401 - whatever a name led to
    agent: str | Callable[..., Any],
    queue: ScouterQueue,
    orchestrator: MakeOrchestrator,
    more: Collection[str],
) -> Make:
    """Make another version of an agent, whose records go to the same queue."""
    if RUNTIME.queue is not queue:
        raise ConfigError(
            f"{BESIDE} {agent!r}: its module sets up a queue of its own, so its records would not "
            "be judged with the others; leave the queue out there, and give profiles with --profile"
        )
    return _maker(found, _lead(BESIDE, agent), queue, orchestrator, more)


def _effective(
    queue: ScouterQueue,
    before: ScouterQueue | None,
    agent: object,
) -> ScouterQueue:
    """The queue that the agent's records go to: ours, or the one that its module set up."""
    own = RUNTIME.queue if RUNTIME.queue is not queue else None
    if queue.agent_profiles():
        if own is not None:
            raise ConfigError(
                f"{_AGENT} {agent!r}: the agent's module sets up a queue of its own, with the "
                f"profiles {', '.join(map(repr, own.agent_profiles())) or 'none'}, so its records "
                "would not reach the profiles given here; leave these out, or the queue there"
            )
        return queue
    found = own or before or queue
    RUNTIME.configure(queue=found)
    return found


def _maker(
    found: Any,  # noqa: ANN401 - whatever a name led to
    lead: str,
    queue: ScouterQueue,
    orchestrator: MakeOrchestrator,
    more: Collection[str],
) -> Make:
    """Find out what the agent is, by its type and the names of its parameters."""
    if _is_orchestrator_class(found):
        if orchestrator is not EvalOrchestrator:
            raise ConfigError(f"{lead}: the agent of a dataset is a function, no EvalOrchestrator")
        return _orchestrator_maker(cast("type[EvalOrchestrator]", found), queue, lead)
    if isinstance(found, EvalOrchestrator):
        raise ConfigError(f"{lead} is an EvalOrchestrator that was made already; name its class")
    query = getattr(found, "query", None)
    if not callable(found) and callable(query):

        def ask(message: str) -> object:
            return query(input=message)

        return lambda scenarios, user: orchestrator(queue, scenarios, ask, user)
    if not callable(found):
        raise ConfigError(
            f"{lead} is {_a(type(found).__name__)}, which cannot be called; expected a function "
            "from a message to the answer, or an object with query(input=…)"
        )
    agent: Any = found
    if isinstance(agent, type) and not makes_agents(agent):
        raise ConfigError(
            f"{lead} is a class whose instances cannot be called; give it a method "
            "__call__(self, message)"
        )
    if problem := misfit(agent, more):
        raise ConfigError(f"{lead} {problem}")
    return lambda scenarios, user: orchestrator(queue, scenarios, agent, user)


def _is_orchestrator_class(found: object) -> bool:
    return isinstance(found, type) and issubclass(found, EvalOrchestrator)


def _orchestrator_maker(
    cls: type[EvalOrchestrator], queue: ScouterQueue, lead: str
) -> Callable[[EvalScenarios, SimulatedUserFn | None], EvalOrchestrator]:
    def make(scenarios: EvalScenarios, user: SimulatedUserFn | None) -> EvalOrchestrator:
        given: dict[str, Any] = {"queue": queue, "scenarios": scenarios}
        if user is not None:
            given["simulated_user_fn"] = user
        try:
            inspect.signature(cls).bind(**given)
        except TypeError as error:
            raise ConfigError(f"{lead}: cannot be made with {', '.join(given)}: {error}") from error
        return cls(**given)

    return make


def _a(name: str) -> str:
    return f"an {name}" if name[:1] in "aeiou" else f"a {name}"
