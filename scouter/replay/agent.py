"""Agents: what can be one, and what it is given by the names of its parameters."""

import functools
import inspect
import time
from collections.abc import (
    AsyncIterable,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from scouter.errors import ConfigError, ScouterError
from scouter.replay.at_once import is_async
from scouter.replay.turn import LiveConversation, messages_of

if TYPE_CHECKING:
    from scouter.queue.scouter_queue import ScouterQueue

Agent: TypeAlias = Callable[..., Any]
"""A plain or an async function of a message, or what makes one."""

QUEUE: Final = "queue"
SESSION: Final = "session"
HISTORY: Final = "history"
_NAMES: Final = (QUEUE, SESSION, HISTORY)
"""Parameters that an agent may have beside the message."""
_MAKER_NAMES: Final = (QUEUE, SESSION)

_Kind = inspect.Parameter
_POSITIONAL: Final = {_Kind.POSITIONAL_ONLY, _Kind.POSITIONAL_OR_KEYWORD}
_KEYWORD: Final = {_Kind.KEYWORD_ONLY, _Kind.POSITIONAL_OR_KEYWORD}
_VARIADIC: Final = {_Kind.VAR_POSITIONAL, _Kind.VAR_KEYWORD}


class AgentExitError(ScouterError):
    """The agent requested the end of the process."""

    def __init__(self, code: object) -> None:
        super().__init__(code)
        self.code = code

    def __str__(self) -> str:
        return f"the agent called sys.exit({self.code!r})"


def makes_agents(found: object) -> bool:
    """Tell whether something makes an agent for each conversation.

    That is a class whose instances can be called, or a function that needs the queue and takes
    no message.
    """
    if isinstance(found, type):
        return _instance_call(found) is not None
    required = _required(cast("Agent", found)) if callable(found) else []
    return QUEUE in required and set(required) <= {*_MAKER_NAMES}


def misfit(found: Agent, more: Collection[str] = ()) -> str | None:
    """Say what keeps something from being an agent, as far as that can be seen beforehand.

    Args:
        found: A function, or a maker of one.
        more: Names of further parameters that this conversation has values for.

    Returns:
        Such as `takes nothing; expected …`; None if nothing does.
    """
    function = found
    if makes_agents(found):
        if missing := set(_required(found)) - {*_MAKER_NAMES, *more}:
            return (
                f"needs {', '.join(sorted(missing))} to be made; expected nothing, or parameters "
                f"called {' and '.join(map(repr, (*_MAKER_NAMES, *more)))}"
            )
        if not isinstance(found, type):
            return _ASYNC_MAKER if is_async(found) else None  # and a call will show the agent
        function = cast("Agent", _instance_call(found))
    signature = _signature(function)
    if signature is None:
        return None
    names = (*_NAMES, *more)
    try:
        passing = _passing(function, signature.bind, names)
        passing("message", dict.fromkeys(_names_taken(function, names)))
    except TypeError:
        taken = ", ".join(signature.parameters) or "nothing"
        return (
            f"takes {taken}; expected one parameter, the message, and any of those called "
            f"{', '.join(map(repr, names))}"
        )
    return None


def names_taken(found: Agent, names: Collection[str]) -> set[str]:
    """Give those of some names that an agent takes: where it is made, or with each message."""
    taken = _by_name(found)
    call = _instance_call(found) if isinstance(found, type) else None
    return (taken if call is None else taken | _by_name(call)) & {*names}


_ASYNC_MAKER: Final = "makes the agent and is async; expected a plain function"


def answering(
    found: Agent, queue: "ScouterQueue", conversation: LiveConversation
) -> Callable[[str], Any]:
    """Make the function that answers the messages of one conversation, and notes the exchanges.

    Args:
        found: A function, or a maker of one (`makes_agents`).
        queue: Value of a parameter called `queue`.
        conversation: Gives the values of `session`, `history` and its further names.

    Returns:
        A function from a message to the answer, or to an awaitable of it. Items that an agent
        yields are read to their end: texts are joined, other items make a list.

    Raises:
        ConfigError: The object that was made for the agent is no agent.
    """
    function = found
    if makes_agents(found):
        with _ExitNamed():
            function = _made(
                found, {QUEUE: queue, SESSION: conversation.session, **conversation.given()}
            )
    ask = _with_names(function, queue, conversation)
    if is_async(function):

        async def answer_async(message: str) -> object:
            return await _noted(conversation, message, ask(message), time.time_ns())

        return answer_async

    def answer(message: str) -> object:
        sent_ns = time.time_ns()
        with _ExitNamed():
            answer = ask(message)
            if inspect.isgenerator(answer):
                answer = _joined(list(cast("Iterable[object]", answer)))
        if inspect.isasyncgen(answer):
            answer = _read(answer)
        if inspect.isawaitable(answer):
            return _noted(conversation, message, answer, sent_ns)
        conversation.note(message, answer, sent_ns)
        return answer

    return answer


def _with_names(
    function: Agent, queue: "ScouterQueue", conversation: LiveConversation
) -> Callable[[str], Any]:
    """Give a function what it takes by name."""
    names = (*_NAMES, *conversation.given())
    call, taken = _passing(function, function, names), _names_taken(function, names)

    def ask(message: str) -> Any:  # noqa: ANN401 - whatever it answers
        given: dict[str, object] = {
            QUEUE: queue,
            SESSION: conversation.session,
            **conversation.given(),
        }
        if HISTORY in taken:
            given[HISTORY] = messages_of(conversation.turns)
        return call(message, {name: value for name, value in given.items() if name in taken})

    return ask


def _made(make: Agent, given: Mapping[str, object]) -> Agent:
    """Make the agent of one conversation."""
    taken = _by_name(make)
    made: object = make(**{name: value for name, value in given.items() if name in taken})
    if isinstance(made, type) and makes_agents(made):
        return _made(made, given)
    if inspect.iscoroutine(made):
        made.close()
        raise ConfigError(f"{_name(make)} {_ASYNC_MAKER}")
    if isinstance(made, type) or not callable(made):
        kind = made.__name__ if isinstance(made, type) else type(made).__name__
        raise ConfigError(
            f"{_name(make)} made {kind} for the agent, which cannot be called with a message"
        )
    if problem := misfit(made, given):
        raise ConfigError(f"{_name(make)} made {_name(made)} for the agent, which {problem}")
    return made


class _ExitNamed:
    """Turns `sys.exit` in an agent into an error of that scenario.

    A class, as the frames of a generator's context would stand before those of the agent.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, SystemExit):
            raise AgentExitError(error.code) from error


async def _noted(
    conversation: LiveConversation, message: str, answer: Awaitable[object], sent_ns: int
) -> object:
    with _ExitNamed():
        value = await answer
        if inspect.isasyncgen(value):
            value = await _read(value)
    conversation.note(message, value, sent_ns)
    return value


async def _read(items: AsyncIterable[object]) -> object:
    return _joined([item async for item in items])


def _joined(items: Sequence[object]) -> object:
    texts = [item for item in items if isinstance(item, str)]
    return "".join(texts) if len(texts) == len(items) else items


# --- parameters ---


def _parameters(function: Agent) -> Mapping[str, inspect.Parameter]:
    """Parameters that a call can still fill; empty where they are unknown."""
    signature = _signature(function)
    if signature is None:
        return {}
    bound = set[str]()
    while isinstance(function, functools.partial):
        bound |= function.keywords.keys()
        function = function.func
    return {name: item for name, item in signature.parameters.items() if name not in bound}


def _required(function: Agent) -> list[str]:
    return [
        name
        for name, item in _parameters(function).items()
        if item.default is inspect.Parameter.empty and item.kind not in _VARIADIC
    ]


def _message_parameter(function: Agent, meant: Collection[str]) -> str | None:
    """The parameter that gets the message: the first one that has no name of its own meaning."""
    names = [n for n, item in _parameters(function).items() if item.kind in _POSITIONAL]
    return next((name for name in names if name not in meant), names[0] if names else None)


def _passing(
    function: Agent, call: Agent, meant: Collection[str]
) -> Callable[[str, Mapping[str, object]], Any]:
    """Pass a message as the first argument, or by name where others stand before it."""
    own = _message_parameter(function, meant)
    if own is None or own == next(iter(_parameters(function))):
        return lambda message, named: call(message, **named)
    return lambda message, named: call(**{own: message}, **named)


def _names_taken(function: Agent, meant: Collection[str]) -> set[str]:
    """Give the keywords of a replay, such as `session`, that the agent takes beside the message."""
    return _by_name(function) & {*meant} - {_message_parameter(function, meant)}


def _by_name(function: Agent) -> set[str]:
    """Parameters that can be given by name."""
    return {name for name, item in _parameters(function).items() if item.kind in _KEYWORD}


def _signature(function: Agent) -> inspect.Signature | None:
    """Find the signature of a call.

    A wrapper with `**kwargs` hands on whatever it gets, so it has the signature of its function.
    """
    call: object = inspect.getattr_static(type(function), "__call__", None)
    if isinstance(call, staticmethod | classmethod):  # from which `inspect` takes one too many
        function = function.__call__
    own = signature_of(function, follow_wrapped=False)
    if own is None or any(item.kind is _Kind.VAR_KEYWORD for item in own.parameters.values()):
        return signature_of(function)
    return own


def signature_of(function: Agent, *, follow_wrapped: bool = True) -> inspect.Signature | None:
    """The signature of a function; None where it tells none."""
    try:
        return inspect.signature(function, follow_wrapped=follow_wrapped)
    except (TypeError, ValueError):  # written in C, and silent about its parameters
        return None


def _instance_call(cls: type) -> Agent | None:
    """`__call__` as instances of a class have it; None if they have none."""
    for base in cls.__mro__:
        call: Any = vars(base).get("__call__")
        if isinstance(call, staticmethod | classmethod):
            return cast("Agent", call.__get__(None, cls))
        if call is not None:
            return MethodType(call, cls) if inspect.isfunction(call) else call
    return None


def _name(function: object) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)
