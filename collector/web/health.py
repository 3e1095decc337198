"""Health of the collector: the conservation sheet, its lag, store and receivers, and the tokens."""

import asyncio
from collections.abc import Mapping
from typing import Final

from collector.web.source import Answer, Source

_SUMS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "records": (
        "accepted",
        ("waiting", "evaluated", "skipped", "expired", "dead_lettered", "erased", "lost"),
    ),
    "spans": ("accepted", ("stored", "expired", "erased", "lost")),
    "events": ("accepted", ("stored", "expired", "erased", "lost")),
}
"""Whole of each kind, and the states that make it up."""


async def health_view(source: Source) -> Answer:
    """Collect the view of the collector's health.

    Args:
        source: Asks the API.

    Raises:
        AskError: The API refused.
    """
    sheet, state, letters = await asyncio.gather(
        source.get("conservation"), source.get("status"), source.get("dead-letters", limit=20)
    )
    return {
        "sheet": sheet,
        "state": state,
        "kinds": {
            kind: {
                "whole": sheet[kind][whole],
                "states": {name: sheet[kind][name] for name in states},
                "beside": {
                    name: count
                    for name, count in sheet[kind].items()
                    if name != whole and name not in states
                },
                "missing": sheet[kind][whole] - sum(sheet[kind][name] for name in states),
            }
            for kind, (whole, states) in _SUMS.items()
        },
        "letters": letters["items"],
        "may_replay": "admin" in state["scopes"],
    }
