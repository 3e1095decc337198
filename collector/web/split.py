"""The moment that parts failures into those before and those since."""

from collections.abc import Sequence
from datetime import datetime

from collector.web.incidents import Incident
from collector.web.source import Answer


def split_of(incidents: Sequence[Incident], versions: Sequence[Answer], since_s: float) -> Answer:
    """The moment that parts the failures before from those since, and its words.

    It is the begin of the version that fell, or of the newest one; without another version before
    it, the begin of the fall.

    Args:
        incidents: Those of a profile that are open.
        versions: Of the profile, as the API has them, the one that began last first.
        since_s: Begin of the period; a version that began earlier parts nothing.
    """
    opened = incidents[0] if incidents else None
    newest = versions[0]["version"] if versions else ""
    wanted = (opened and opened.version) or newest
    begun = next((each for each in versions[:-1] if each["version"] == wanted), None)
    if begun is not None and at_s(begun["first_at"]) > since_s:
        return {"at": begun["first_at"], "words": f"version {wanted} began"}
    if opened is not None and at_s(opened.since) > since_s:
        return {"at": opened.since, "words": "the fall began"}
    return {"at": "", "words": ""}


def at_s(text: str) -> float:
    """A time of the API in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()
