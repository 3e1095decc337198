"""Records whose context holds a text: the newest first, for as long as there is time.

There is no index of words: the contexts of what the other filters name are read, some at a time.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from collector.split import split
from collector.store.json_text import dump_json, load_json
from collector.store.record_queries import RecordQuery, TextPage
from collector.store.records import GROWTH, PART_BYTES, Candidate, Place, RecordReads
from collector.store.text_match import TextMatch, text_match

_FIRST: Final = 16
_MOST: Final = 512
"""Records of which the contexts are read together, at first and at most."""
_ESCAPE: Final = "\\u"
"""Characters that JSON may write in more than one way begin so."""


class ContextText:
    """Finds a text in contexts, in upper or lower case.

    Args:
        text: Not empty.
    """

    def __init__(self, text: str) -> None:
        self._text, self._lower = text, text.lower()
        self._form = dump_json(text)[1:-1].lower()

    def match(self, context: str) -> TextMatch | None:
        """The first name or value of a context that has the text, in the order of the context.

        Args:
            context: As the store has it.

        Cost: 3 ms for a megabyte without the text.
        """
        if self._form not in context.lower() and _ESCAPE not in context:
            return None
        left: list[tuple[str, JsonValue]] = [("", load_json(context))]
        while left:
            path, value = left.pop()
            if isinstance(value, dict):
                for name, inner in reversed(value.items()):
                    below = f"{path}.{name}" if path else name
                    left += [(below, inner), (below, name)]
            elif isinstance(value, list):
                left += [(f"{path}[{at}]", each) for at, each in reversed(list(enumerate(value)))]
            else:
                said = value if isinstance(value, str) else json.dumps(value)
                if self._lower in said.lower():
                    return text_match(path, said, self._text)
        return None


class RecordTextReads(RecordReads):
    """Searches of records."""

    def search_records(
        self, query: RecordQuery, text: str, is_over: Callable[[], bool]
    ) -> TextPage:
        """List accepted records whose context has a text in a value or a name, newest first.

        Args:
            query: The other filters.
            text: Not empty; upper and lower case are the same.
            is_over: Asked between two parts; true ends the search there.

        Cost: linear in the bytes of the contexts that are read.
        """
        finder = ContextText(text)
        found: list[Candidate] = []
        matches: dict[tuple[int, str], TextMatch] = {}
        last: Place | None = None
        looked_until_ns = None
        for part in _parts(self.matching_places(query)):
            if last is not None and is_over():
                looked_until_ns = last.received_ns
                break
            hits = self.context_matches(query.space, part, finder)
            found += self.stated(query, [each for each in part if each.key in hits])
            matches |= hits
            last = part[-1]
            if len(found) > query.limit:
                found = found[: query.limit]
                last = found[-1][0]
                break
        else:
            last = None
        items = self.record_summaries(query.space, found)
        return TextPage(
            items=tuple(
                replace(each, match=matches[each.record.seq, each.record.uid]) for each in items
            ),
            next_before=None if last is None else last[:2],
            looked_until_ns=looked_until_ns,
        )

    def context_matches(
        self, space: str, places: Sequence[Place], finder: ContextText
    ) -> dict[tuple[int, str], TextMatch]:
        """Where some records have a text in their contexts, by commit and uid.

        Args:
            space: Their space.
            places: Newest first.
            finder: Looks for the text.
        """
        matches = ((key, finder.match(context)) for key, context in self.contexts(space, places))
        return {key: match for key, match in matches if match is not None}


def _parts(found: Iterator[Sequence[Place]]) -> Iterator[list[Place]]:
    """Everything that a list holds, in parts that grow, of a few megabytes of contexts each."""
    size = _FIRST
    for left in found:
        while left:
            part = next(split(left, lambda each: (1, each.context_bytes), (size, PART_BYTES)))
            yield part
            left = left[len(part) :]
            size = min(_MOST, size * GROWTH)
