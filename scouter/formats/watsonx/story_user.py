"""The user of a journey: a script, or somebody who plays the story; and the times of the turns."""

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from opentelemetry import baggage

from scouter.evaluate.journey.case import Case
from scouter.evaluate.scenario import EvalScenario
from scouter.model.attributes import SCENARIO_ATTEMPT
from scouter.replay.turn import Turn

_NS: Final = 1e9


@dataclass(slots=True)
class Times:
    """When the turns of one attempt ended, and when the next began."""

    ends_ns: list[int] = field(default_factory=list[int])
    starts_ns: list[int] = field(default_factory=list[int])

    def seconds(self, turns: int, total_ns: int) -> list[float | None]:
        """How long the agent took for each turn.

        Args:
            turns: How many there were.
            total_ns: How long the conversation took, the user included.

        Returns:
            Seconds; of turns whose beginning or end nobody saw an equal share of the rest.
        """
        known: dict[int, float] = {
            at: (end - start) / _NS
            for at, (start, end) in enumerate(
                zip(self.starts_ns, self.ends_ns[1:], strict=False), start=1
            )
        }
        spoken = sum(
            (start - end) / _NS for end, start in zip(self.ends_ns, self.starts_ns, strict=False)
        )
        left = turns - len([at for at in known if at < turns])
        rest = max(0.0, total_ns / _NS - spoken - sum(known.values()))
        return [known.get(at, rest / left if left else None) for at in range(turns)]


class StoryUser:
    """Plays the users of several journeys.

    Args:
        cases: By name; one with `user_prompts` says these, and nothing more.
        user: Plays the others: an object with `reply(scenario, agent_response, history)`, or a
            function of first message, last answer and the exchanges before it; plain or async.
        clock: Gives ns since the epoch.
    """

    def __init__(
        self,
        cases: Mapping[str, Case],
        user: object,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._cases = cases
        self._user = user
        self._clock = clock
        self.times: dict[tuple[str, int], Times] = {}
        """By case and attempt."""

    async def reply(
        self, scenario: EvalScenario, agent_response: object, history: Sequence[Turn]
    ) -> str | None:
        """Say what the user says next; None ends the conversation."""
        attempt = int(cast("str", baggage.get_baggage(SCENARIO_ATTEMPT) or "0"))
        key = scenario.id, attempt
        if not history:
            self.times[key] = Times()
        times = self.times.setdefault(key, Times())
        times.ends_ns.append(self._clock())
        try:
            return await self._next(scenario, agent_response, history)
        finally:
            times.starts_ns.append(self._clock())

    async def _next(
        self, scenario: EvalScenario, agent_response: object, history: Sequence[Turn]
    ) -> str | None:
        prompts = self._cases[scenario.id].user_prompts
        if prompts is not None:
            return prompts[len(history)] if len(history) < len(prompts) else None
        found: Any = getattr(self._user, "reply", None)
        if callable(found):
            answer: Any = found(scenario, agent_response, list(history))
        else:
            answer = cast("Callable[..., Any]", self._user)(
                scenario.initial_query, agent_response, list(history)
            )
        while inspect.isawaitable(answer):
            answer = await answer
        return answer
