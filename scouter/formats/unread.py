"""Fields of files of other systems that ask for a check which nothing here makes."""

from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import JsonValue

ASKING: Final = (
    "rubrics", "rubric_groups", "criteria", "evaluators", "metrics", "custom_metrics",
    "custom_metrics_config", "extractors_config", "final_session_state",
)  # fmt: skip
"""Names of such fields, whatever the system."""


def unread_fields(items: Iterable[Mapping[str, JsonValue]], what: str) -> list[str]:
    """Name the fields that ask for a check and say something.

    Args:
        items: Objects of a file, such as its rows.
        what: One of them, as in `3 of 5 rows`.

    Returns:
        Each field with the number of its items; none where nothing is requested.
    """
    found = list(items)
    counts = {name: sum(bool(item.get(name)) for item in found) for name in ASKING}
    noun = what if len(found) == 1 else f"{what}s"
    return [f"{name} ({n} of {len(found)} {noun})" for name, n in counts.items() if n]
