"""The port of the judge: the engine's question to a language model, its answer, and their usage."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Protocol, TypeAlias, cast, runtime_checkable

from pydantic import JsonValue
from typing_extensions import TypedDict  # pydantic asks for this one below Python 3.12

from scouter.errors import ConfigError, ScouterError, TransientError
from scouter.evaluate.outcome import Reason
from scouter.model.json_value import to_json_value


@dataclass(slots=True)
class TokenUsage:
    """Tokens of one response; None where a provider does not say.

    Args:
        input_tokens: Read.
        output_tokens: Written.
        total_tokens: Both, as the provider counts them.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeUsage:
    """Sums over the questions of one task and record; a sum is None where no reply tells.

    Args:
        calls: Questions that were put, answered or not; each attempt at one, where its provider
            failed, is a question of its own.
        cached: Questions that were not put, as their answers were there already; they take
            nothing.
        input_tokens: Read by the model.
        output_tokens: Written by it.
        cost_usd: In US dollars, of the calls whose cost is known.
        unpriced_calls: Calls whose cost is not known, and which `cost_usd` leaves out; all of them
            where that is None.
    """

    calls: int = 0
    cached: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    unpriced_calls: int = 0

    def __post_init__(self) -> None:
        if self.cost_usd is None:
            object.__setattr__(self, "unpriced_calls", self.calls)  # frozen for everybody else

    def to_json(self) -> dict[str, JsonValue]:
        """Write all fields as plain JSON."""
        return asdict(self)


def sum_of(usages: Iterable[JudgeUsage]) -> JudgeUsage:
    """Add up what questions took.

    Answers that were there already take nothing, and do not make a sum known.
    """
    found = list(usages)
    cached = sum(each.cached for each in found)
    called = [each for each in found if each.calls]
    if not called:
        return (
            JudgeUsage(cached=cached, input_tokens=0, output_tokens=0, cost_usd=0.0)
            if cached
            else JudgeUsage()
        )
    read = [each.input_tokens for each in called if each.input_tokens is not None]
    written = [each.output_tokens for each in called if each.output_tokens is not None]
    paid = [each.cost_usd for each in called if each.cost_usd is not None]
    return JudgeUsage(
        calls=sum(each.calls for each in called),
        cached=cached,
        input_tokens=sum(read) if read else None,
        output_tokens=sum(written) if written else None,
        cost_usd=sum(paid) if paid else None,
        unpriced_calls=sum(each.unpriced_calls for each in called),
    )


class Message(TypedDict):
    """One message of a conversation with a model."""

    role: str
    """`system`, `developer`, `user`, `assistant`, `model` or `tool`."""
    content: str


def _always(reply: "JudgeReply") -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """One question to a judge."""

    task_id: str
    """The task that asks, for logs and scripts; for a simulated user `simulated_user`."""
    messages: tuple[Message, ...]
    """Rendered: nothing in them is a template any more."""
    model: str = ""
    provider: str = ""
    """A provider's name, or that of an entry in the user's settings; never an address or a key."""
    settings: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Model settings that the prompt's author chose, such as `temperature`."""
    response_schema: Mapping[str, JsonValue] | None = None
    """JSON schema of the wanted answer; None for free text."""
    record_uid: str = ""
    """Key of the record that is judged; empty for a simulated user."""
    sample: int = 0
    """Number of the sample, from 0; each sample puts the same question again, for a new answer."""
    is_usable: Callable[["JudgeReply"], bool] = field(default=_always, compare=False, repr=False)
    """Tells whether who asks can use an answer, for whoever keeps answers: what is of no use is
    neither stored nor given again. Never raises. No part of the question: no judge reads it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """A judge's answer, with its cost."""

    response: JsonValue
    """Structured, or a text; a text is read as JSON where structure is wanted."""
    model: str = ""
    """The model that answered, where it says so."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    is_cached: bool = False
    """True where no judge was called: the answer was there already, and so took nothing."""
    earlier: JudgeUsage | None = None
    """Usage of earlier attempts that failed, as reported by the caller that tried again."""

    @property
    def taken(self) -> JudgeUsage:
        """The cost, as far as it is reported, with the attempts before."""
        own = JudgeUsage(
            calls=1,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cost_usd=self.cost_usd,
        )
        own = JudgeUsage(cached=1) if self.is_cached else own
        return own if self.earlier is None else sum_of((self.earlier, own))

    def after(self, earlier: JudgeUsage) -> "JudgeReply":
        """Make a copy of the answer that counts the usage of earlier attempts."""
        known = () if self.earlier is None else (self.earlier,)
        return replace(self, earlier=sum_of((earlier, *known)))


def readable_by(read: Callable[[JudgeReply], object]) -> Callable[[JudgeReply], bool]:
    """Make a test of answers, as `JudgeRequest.is_usable`: `read` raises no `JudgeError`."""

    def is_usable(reply: JudgeReply) -> bool:
        try:
            read(reply)
        except JudgeError:
            return False
        return True

    return is_usable


class JudgeError(ScouterError):
    """A judge gave no usable answer; becomes the `errored` result of the one task that called it.

    Args:
        reason: `PROVIDER` (nobody answered; called again), `PARSE` (not what was requested),
            `REFUSAL` (the model declined), `ABSTAINED` (it could not tell) or `BUDGET` (there is
            no money left to ask with; the task is then skipped).
        message: The fault, without secrets.
        retry_after_s: Seconds that the provider requires to wait.
        permanent: Asking again is useless although it is the provider: a wrong key, an unknown
            model.
        usage: Tokens and time of the question: a refused answer is paid for, too. `JudgeUsage()`
            where no provider was called, None where the usage is not known.
    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        retry_after_s: float | None = None,
        permanent: bool = False,
        usage: JudgeUsage | None = None,
    ) -> None:
        super().__init__(reason, message, retry_after_s, permanent, usage)
        self.reason, self.message = reason, message
        self.retry_after_s, self.permanent = retry_after_s, permanent
        self.usage = usage

    def __str__(self) -> str:
        return self.message

    @property
    def taken(self) -> JudgeUsage:
        """The cost, as far as it is known; one question if nothing is."""
        return JudgeUsage(calls=1) if self.usage is None else self.usage

    def after(self, earlier: JudgeUsage) -> "JudgeError":
        """Make a copy of the error that counts the usage of earlier attempts."""
        taken = sum_of((earlier, self.taken))
        return JudgeError(self.reason, self.message, self.retry_after_s, self.permanent, taken)

    @property
    def is_worth_retrying(self) -> bool:
        """True for what a later call may not meet again."""
        return self.reason is Reason.PROVIDER and not self.permanent


@runtime_checkable
class Judge(Protocol):
    """Answers questions. Called from one event loop, many questions at a time."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Answer one question.

        Raises:
            JudgeError: There is no usable answer.
        """
        ...


Answer: TypeAlias = JudgeReply | JsonValue
JudgeFunction: TypeAlias = Callable[[JudgeRequest], "Answer | Awaitable[Answer]"]
AnyJudge: TypeAlias = Judge | JudgeFunction
"""All forms in which a judge may be given: an object, or a plain or async function."""

TIME_LIMIT_S: Final = 60.0
"""Most seconds for one question to a judge that does not say how long it may take."""

NO_JUDGE: Final = (
    "no judge is configured; in code, pass judge= (ModelJudge(), an object with `async def "
    "ask(request)`, or a function from request to answer) to evaluate() or run()"
)


_USUAL: Final = "scouter.agent.model_judge:ModelJudge"
"""Name of the usual judge, which this lower package may not import."""


def usual_judge() -> Judge:
    """Make the judge that is called where none is given: `ModelJudge()`, as in `scouter eval`.

    Raises:
        ConfigError: The settings file of the provider entries is wrong.
    """
    from pkgutil import resolve_name  # needed only where a task asks

    judge: Judge = resolve_name(_USUAL)()
    return judge


def as_judge(obj: object, time_limit_s: float | None = None) -> Judge:
    """Make a judge of anything that can answer.

    Args:
        obj: A judge, or a plain or async function from `JudgeRequest` to a `JudgeReply` or to
            the answer alone (anything with a JSON form). A plain function, and an `ask` that is
            not async, is called in threads of its own, several at a time. A question that takes
            longer than the attribute `time_limit_s` of the object or function (`TIME_LIMIT_S`
            seconds without it) is an error.
        time_limit_s: Takes the place of the attribute.

    Raises:
        ConfigError: It can answer nothing.
    """
    if isinstance(obj, Judge) and not isinstance(obj, type):
        if time_limit_s is None and inspect.iscoroutinefunction(obj.ask):
            return obj
        return _FunctionJudge(obj.ask, time_limit_s)
    if callable(obj) and not isinstance(obj, type):
        return _FunctionJudge(cast("JudgeFunction", obj), time_limit_s)
    raise ConfigError(
        f"judge: expected an object with `async def ask(request)` or a function from request to "
        f"answer, got {obj if isinstance(obj, type) else type(obj).__name__}"
    )


def concurrency_of(judge: object) -> int | None:
    """Questions at a time for a judge that bounds itself, as by the limits of its providers.

    Returns:
        Its attribute `concurrency`; None for a judge that has none.
    """
    found = getattr(judge, "concurrency", None)
    return found if isinstance(found, int) and found >= 1 else None


def time_limit_of(judge: object) -> float | None:
    """Most seconds that one question may take.

    Returns:
        Its attribute `time_limit_s`, where None stands for a judge that bounds itself;
        `TIME_LIMIT_S` for one without.
    """
    found = getattr(judge, "time_limit_s", TIME_LIMIT_S)
    return float(found) if isinstance(found, int | float) else None


class _FunctionJudge:
    """A judge around a function."""

    def __init__(self, function: JudgeFunction, time_limit_s: float | None) -> None:
        self._function = function
        call = getattr(type(function), "__call__", None)  # noqa: B004 — to look at, not to call
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
        self.judge = owner = getattr(function, "__self__", function)  # of a method, not async
        self.time_limit_s = time_limit_of(owner) if time_limit_s is None else time_limit_s
        self.concurrency = concurrency_of(owner)

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Call the function: in the loop if it is async, else in a thread."""
        if self._is_async:
            answer: object = self._function(request)
        else:
            answer = await _in_thread(self._function, request)
        while inspect.isawaitable(answer):
            answer = await answer
        return to_answer(answer)


async def _in_thread(function: JudgeFunction, request: JudgeRequest) -> object:
    """Call a function in a thread of its own, which nobody waits for if the asker gives up.

    A thread of a pool would keep the process from ending where the function hangs.
    """
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    future: asyncio.Future[object] = loop.create_future()

    def hand_over(answer: object, error: BaseException | None) -> None:
        if future.done():
            close_unawaited(answer)
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(answer)

    def work() -> None:
        answer, error = None, None
        try:
            answer = context.run(function, request)
        except BaseException as raised:  # noqa: BLE001 — raised again where it is waited for
            error = raised
        if isinstance(error, StopIteration):  # a future takes none
            error = RuntimeError("the judge raised StopIteration")
        try:
            loop.call_soon_threadsafe(hand_over, answer, error)
        except RuntimeError:  # the loop has closed: nobody waits any more
            close_unawaited(answer)

    threading.Thread(target=work, name="scouter-judge-call", daemon=True).start()
    return await future


def close_unawaited(answer: object) -> None:
    """Let go of a coroutine that nobody will await."""
    if inspect.iscoroutine(answer):
        answer.close()


def to_answer(answer: object) -> JudgeReply:
    """Make a reply of what a function gave back: a reply, or anything with a JSON form.

    Raises:
        JudgeError: It has no JSON form; names the place.
    """
    if isinstance(answer, JudgeReply):
        return answer
    try:
        return JudgeReply(response=to_json_value(answer))
    except ValueError as error:
        text = f"the judge's answer has no JSON form: {error}"
        raise JudgeError(Reason.PARSE, text) from error


def to_judge_error(error: Exception) -> JudgeError:
    """Turn an error that a judge raised into a `JudgeError`.

    The question is put again after a fault that may pass: a `TransientError` and any error of
    connections, files and time limits (`OSError`). Any other exception counts as the provider's,
    too, but is taken for a mistake in the judge that asking again does not mend.
    """
    if isinstance(error, JudgeError):
        return error
    name = type(error).__name__
    if isinstance(error, TransientError):
        return JudgeError(Reason.PROVIDER, error.message, error.retry_after_s)
    if isinstance(error, OSError):
        return JudgeError(Reason.PROVIDER, f"{name}: {error}")
    return JudgeError(Reason.PROVIDER, f"the judge raised {name}: {error}", permanent=True)
