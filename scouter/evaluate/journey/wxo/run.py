"""One evaluation by the original's rules, operator by operator: what was found so far."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from scouter.evaluate.journey.case import Case
from scouter.evaluate.journey.message import AskedCall, JourneyMessage
from scouter.evaluate.journey.result import ArgumentMatch, CheckResult, Measure
from scouter.evaluate.journey.wxo.client import Client


@dataclass(slots=True)
class Run:
    """One evaluation, operator by operator; what raises loses its measures."""

    case: Case
    messages: Sequence[JourneyMessage]
    client: Client
    metrics: dict[str, Measure] = field(default_factory=dict[str, Measure])
    problems: list[str] = field(default_factory=list[str])
    tools: "Tools | None" = None
    texts: "Texts | None" = None
    interactions: tuple[str, ...] = ()
    checks: tuple[CheckResult, ...] = ()

    def operator(self, name: str, work: Callable[[], Iterable[tuple[str, Measure]]]) -> None:
        """Take what an operator measures; what it raises loses its measures."""
        try:
            self.metrics.update(work())
        except Exception as error:  # noqa: BLE001 - the original loses measures to any
            self.problems.append(f"{name}: {type(error).__name__}: {error}")


@dataclass(slots=True)
class Tools:
    """Calls sorted by whether they met a goal of the journey."""

    met: dict[str, int] = field(default_factory=dict[str, int])
    """Message that met each goal, in the order of messages."""
    relevant: list[int] = field(default_factory=list[int])
    irrelevant: list[int] = field(default_factory=list[int])
    incorrect: dict[int, tuple[ArgumentMatch, ...] | None] = field(
        default_factory=dict[int, "tuple[ArgumentMatch, ...] | None"]
    )
    """Arguments of incorrect calls against the nearest goal; None where all its goals are met."""
    missed: tuple[str, ...] = ()


@dataclass(slots=True)
class Texts:
    """Text goals that were met, and their counts."""

    met: tuple[str, ...]
    """Names of goals, in their order."""
    count: int
    met_count: int


def first_call(message: JourneyMessage) -> AskedCall | None:
    """The one call of a message that the original looks at."""
    return message.calls[0] if message.calls else None
