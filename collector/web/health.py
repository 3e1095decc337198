"""Health of the collector: the conservation sheet, its lag, store and receivers, and the tokens."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
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
_PATIENCE_S: Final = 60
"""Evaluation that stood still for longer, while something is due, is a fault."""


async def health_view(source: Source) -> Answer:
    """Collect the view of the collector's health.

    Args:
        source: Asks the API.

    Raises:
        AskError: The API refused.
    """
    sheet, state, letters, alerts, newest = await asyncio.gather(
        source.get("conservation"), source.get("status"), source.get("dead-letters", limit=20),
        source.get("alerts"), source.get("records", limit=1),
    )  # fmt: skip
    lag = state["lag"]
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
        "trouble": alerts["trouble"],
        "is_stalled": lag is not None and lag["stalled_s"] > _PATIENCE_S,
        "lost": sum(sheet[kind]["lost"] for kind in _SUMS),
        "quiet_ms": _age_ms(newest["items"][0]["received_at"]) if newest["items"] else None,
        "letters": letters["items"],
        "may_replay": "admin" in state["scopes"],
    }


def _age_ms(text: str) -> float:
    """Milliseconds since a time of the API."""
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds() * 1000)
