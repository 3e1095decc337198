"""The player of a journey's user."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from scouter.evaluate.journey.case import read_case
from scouter.evaluate.scenario import EvalScenario
from scouter.formats.watsonx.cases import StoryUser
from tests.support.journeys import hr

TALK = EvalScenario("hi", id="talk", simulated_user_persona="p")


def play(user: StoryUser, turns: int) -> list[str | None]:
    """Let a user answer so many times."""

    async def converse() -> list[str | None]:
        said: list[str | None] = []
        history: list[dict[str, Any]] = []
        for _ in range(turns):
            said.append(await user.reply(TALK, "well?", history))
            history.append({"user": "x", "agent": "well?"})
        return said

    return asyncio.run(converse())


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
