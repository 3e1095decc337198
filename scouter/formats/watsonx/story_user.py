"""The user of a journey: a script, or somebody who plays the story."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from scouter.evaluate.journey.case import Case
from scouter.evaluate.results.provenance import name_of
from scouter.evaluate.scenario import EvalScenario
from scouter.replay.simulated_user import SimulatedUser
from scouter.replay.turn import Line, Turn

END: Final = re.compile(r"(?:^|\s)END[\s.!\"')]*$")
"""The original's word for the end, where it is the last one: `Please SEND it` ends nothing."""


class StoryUser:
    """Plays the users of several journeys.

    Args:
        cases: By name; one with `user_prompts` says these, and nothing more.
        user: Plays the others: an object with `reply(scenario, agent_response, history)`, or a
            function of first message, last answer and the exchanges before it; plain or async.
    """

    ends_itself: Final = True
    """A script has an end, and whoever plays a story says `END` or None."""

    def __init__(self, cases: Mapping[str, Case], user: object) -> None:
        self._cases = cases
        self._user = user
        self.name = "" if user is None else str(getattr(user, "name", "") or name_of(user))
        """Name of who plays, for results."""

    async def opening(self, scenario: EvalScenario) -> str:
        """Say the first message of a case without `starting_sentence`."""
        user = self._user
        return await user.opening(scenario) if isinstance(user, SimulatedUser) else ""

    async def reply(
        self, scenario: EvalScenario, agent_response: object, history: Sequence[Turn]
    ) -> str | None:
        """Say what the user says next; None ends the conversation."""
        prompts = self._cases[scenario.id].user_prompts
        if prompts is not None:
            return Line(prompts[len(history)]) if len(history) < len(prompts) else None
        found: Any = getattr(self._user, "reply", None)
        if callable(found):
            answer: Any = found(scenario, agent_response, list(history))
        else:
            answer = cast("Callable[..., Any]", self._user)(
                scenario.initial_query, agent_response, list(history)
            )
        while inspect.isawaitable(answer):
            answer = await answer
        return None if isinstance(answer, str) and END.search(answer) else answer
