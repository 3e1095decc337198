"""Scenarios that are rows of a dataset: each turn is a record under the alias `ALIAS`."""

from typing import Final

from pydantic import JsonValue

from scouter.evaluate.scenario import EvalScenario

ALIAS: Final = "rows"
"""Alias of the records that are rows."""


class RowScenario(EvalScenario):
    """A scenario that also says what its rows expect, as a change of it changes the question.

    The records hold it, so a baseline cannot be judged by another reference.
    """

    rows: list[dict[str, JsonValue]]


def turn_name(turn: int) -> str:
    """Name the record of a turn, from 0."""
    return f"turn {turn + 1}"
