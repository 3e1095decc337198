"""Finds the stored runs that speak of what is erased, by the fields that name it."""

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from collector.store.letter_search import LetterSearch
from scouter.model.attributes import CONVERSATION_ID, SCENARIO_ID

_IDENTIFIERS: Final = {
    "scenario_id", "record_uid", "record_id", "session_id", "trace_id", "traceId",
}  # fmt: skip
_ATTRIBUTES: Final = {CONVERSATION_ID, SCENARIO_ID, "session.id"}
"""Attributes of a span that name a session or a scenario."""
_FREE: Final = {"contexts", "tags"}
"""Fields whose values are the sender's own: an id may stand anywhere in them."""
_JSON_STARTS: Final = ("{", "[")


class RunSearch:
    """Looks for ids and a tag where the file of a run names records.

    A run is full of words of its own format (`agent`, `failed`), of task ids and of expected
    values. An id that is such a word by chance is not found there.

    Args:
        search: Texts, trace ids and tag that are looked for.
    """

    def __init__(self, search: LetterSearch) -> None:
        self._search = search

    def finds(self, body: bytes) -> bool:
        """Say whether a run speaks of any of it.

        Args:
            body: The file; one that is no JSON is searched as a dead letter is.

        Cost: linear in the file.
        """
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return self._search.finds(body)
        todo: list[tuple[object, bool]] = [(value, False)]
        while todo:  # no recursion: a context may be nested as deep as it likes
            each, is_free = todo.pop()
            if isinstance(each, str):
                if is_free:
                    if self._search.is_id(each):
                        return True
                    todo += _parsed(each)
            elif isinstance(each, list):
                todo += [(item, is_free) for item in cast(list[object], each)]
            elif isinstance(each, dict):
                items = cast(Mapping[str, Any], each)
                if self._names(items, is_free):
                    return True
                todo += [(item, is_free or key in _FREE) for key, item in items.items()]
        return False

    def _names(self, items: Mapping[str, Any], is_free: bool) -> bool:
        """Say whether an object itself names it, by its own fields."""
        ids: list[object] = [items.get(key) for key in _IDENTIFIERS]
        contexts = items.get("contexts")
        if isinstance(contexts, dict) and not is_free:  # by the uids of their records
            ids += cast(Mapping[str, Any], contexts)
        if any(map(self._is_id, ids)):
            return True
        value = items.get("value")
        if not isinstance(value, dict):
            return is_free and self._search.has_tag(items)
        # An attribute of a span, as OTLP JSON.
        is_named = items.get("key") in _ATTRIBUTES
        text = cast(Mapping[str, Any], value).get("stringValue")
        return (is_named and self._is_id(text)) or self._search.has_tag(items)

    def _is_id(self, value: object) -> bool:
        return isinstance(value, str) and self._search.is_id(value)


def _parsed(text: str) -> list[tuple[object, bool]]:
    """The value of a text that is JSON itself."""
    if not text.startswith(_JSON_STARTS):
        return []
    try:
        return [(json.loads(text), True)]
    except (ValueError, RecursionError):
        return []
