"""Who plays the user of a journey, and the times of its turns by a clock of the test."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from scouter.evaluate.journey.case import read_case
from scouter.evaluate.scenario import EvalScenario
from scouter.formats.watsonx.story_user import StoryUser, Times
from tests.support.journeys import hr

S = 1_000_000_000
TALK = EvalScenario("hi", id="talk", simulated_user_persona="p")


def play(user: StoryUser, turns: int) -> list[str | None]:
    """Let a user answer so many times."""

    async def talk() -> list[str | None]:
        said: list[str | None] = []
        history: list[dict[str, Any]] = []
        for _ in range(turns):
            said.append(await user.reply(TALK, "well?", history))
            history.append({"user": "x", "agent": "well?"})
        return said

    return asyncio.run(talk())


def test_a_script_is_said_to_its_end() -> None:
    case = read_case(hr(user_prompts=["one", "two"]))
    assert play(StoryUser({"talk": case}, None), 3) == ["one", "two", None]


class Player:
    async def reply(
        self, scenario: EvalScenario, response: object, history: Sequence[Any]
    ) -> str | None:
        return f"{scenario.id} {response} {len(history)}"


def by_function(first: str, response: object, history: Sequence[Any]) -> str:
    return f"{first} {response} {len(history)}"


@pytest.mark.parametrize(
    ("player", "said"),
    [(Player(), ["talk well? 0", "talk well? 1"]), (by_function, ["hi well? 0", "hi well? 1"])],
)
def test_a_story_is_played(player: object, said: list[str]) -> None:
    assert play(StoryUser({"talk": read_case(hr())}, player), 2) == said


def test_the_times_of_turns() -> None:
    """Turns end at 2 and 9 s, the user speaks until 5 and 10; all takes 13 s, 4 of them the user's.

    The second turn takes from 5 to 9. What is left, 13 - 4 - 4 = 5 s, is of the other two.
    """
    clock: Iterator[int] = iter([2 * S, 5 * S, 9 * S, 10 * S])
    user = StoryUser({"talk": read_case(hr())}, by_function, lambda: next(clock))
    play(user, 2)
    times = user.times["talk", 0]
    assert times.ends_ns == [2 * S, 9 * S]
    assert times.seconds(3, 13 * S) == [2.5, 4.0, 2.5]
    assert times.seconds(2, 12 * S) == [4.0, 4.0]


def test_where_nobody_spoke_the_turn_took_all_the_time() -> None:
    assert Times().seconds(1, 3 * S) == [3.0]
    assert Times().seconds(0, 3 * S) == []
