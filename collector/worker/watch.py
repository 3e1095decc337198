"""Selects the traces that profiles watch, from their spans as they come, in any order."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from collector.store.rows import RecordRow, watched_uid
from collector.worker.profiles import ProfileRegistry, RegisteredProfile, Watching
from scouter.model.span import Span

_FEW_MARKS: Final = 8
"""Marks that are looked for one by one."""
_DIGEST: Final = "derived"
"""Digest of every derived record: whatever it is made of, it is the same record."""


class Watcher:
    """Finds what is watched.

    Args:
        registry: The profiles.
    """

    def __init__(self, registry: ProfileRegistry) -> None:
        self._registry = registry

    def selected(
        self,
        space: str,
        trace_id: str,
        spans: Sequence[Span],
        seq: int,
        known: frozenset[str] = frozenset(),
    ) -> Iterator[RegisteredProfile]:
        """The profiles that some spans of a trace select, one for each alias.

        Args:
            space: Their space.
            trace_id: The trace.
            spans: Of this trace.
            seq: The last commit with one of them; profiles that changed since do not look at them.
            known: Aliases of profiles that watch the trace already, which are left out.

        Cost: linear in spans and watching profiles; without any, a look into a table.
        """
        watching = self._registry.watching(space)
        if watching is None:
            return
        found: dict[str, RegisteredProfile] = {}
        for each in watching.active:
            alias, matches = each.profile.alias, each.matches
            if alias in known or matches is None or not each.watches(trace_id):
                continue
            if any(map(matches, spans)):
                found[alias] = each
        for each in _marked(watching, spans):
            if each.profile.alias not in known and each.watches(trace_id):
                found.setdefault(each.profile.alias, each)
        for each in found.values():
            if self._registry.changed_at(each) <= seq:
                yield each

    def row(
        self, registered: RegisteredProfile, trace_id: str, seq: int, received_ns: int
    ) -> RecordRow:
        """The record that is to be derived, without what only the spans tell."""
        profile = registered.profile
        return RecordRow(
            space=registered.space,
            uid=watched_uid(trace_id, profile.alias),
            digest=_DIGEST,
            profile_ref=registered.uid,
            profile_uid=registered.uid,
            profile_name=profile.name,
            alias=profile.alias,
            trace_id=trace_id,
            created_ns=received_ns,
            received_ns=received_ns,
            seq=seq,
        )


def _marked(watching: Watching, spans: Sequence[Span]) -> Iterator[RegisteredProfile]:
    """The profiles that spans are marked with."""
    marked = watching.marked
    found: dict[str, RegisteredProfile] = {}
    for span in spans:
        attributes = span.attributes
        if len(marked) > _FEW_MARKS:
            keys: Iterable[str] = marked.keys() & attributes.keys()
        else:  # attributes that nobody has read are searched for them
            get = getattr(attributes, "get_rare", attributes.get)
            keys = [key for key in marked if get(key) is not None]
        for key in keys:
            if attributes.get(key) == marked[key].uid:
                found[key] = marked[key]
    yield from found.values()
