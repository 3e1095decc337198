"""What is stored of sessions, and which version of a profile judges one."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from collector.pipeline.judge_session import uid_of
from collector.pipeline.profiles import ProfileRegistry, RegisteredProfile
from collector.pipeline.session_join import SessionKey
from collector.storage.port import Store
from collector.storage.rows import EvaluationRow, RecordRow


class SessionReader:
    """Reads records of sessions and the verdicts on them; any thread may ask.

    Args:
        store: Where they are.
        registry: Which profile a record means.
    """

    def __init__(self, store: Store, registry: ProfileRegistry) -> None:
        self._store, self._registry = store, registry

    def records(
        self, space: str, session_ids: Iterable[str]
    ) -> Mapping[SessionKey, list[RecordRow]]:
        """The records of some sessions, by the profile that they mean.

        Raises:
            TransientError: The store cannot be read now.
        """
        found: defaultdict[SessionKey, list[RecordRow]] = defaultdict(list)
        for row in self._store.session_records(space, session_ids):
            registered = self._registry.of_record(row)
            if registered is not None:
                found[key_of(row, registered)].append(row)
        return found

    def verdicts(self, keys: Iterable[SessionKey]) -> Mapping[SessionKey, EvaluationRow]:
        """The latest verdict on each session that has one.

        Raises:
            TransientError: The store cannot be read now.
        """
        uids = {key: (key.space, uid_of(key.profile_uid, key.session_id)) for key in keys}
        found = self._store.latest_verdicts(list(uids.values()))
        return {key: found[uid] for key, uid in uids.items() if uid in found}

    def judge_of(self, key: SessionKey, earlier: EvaluationRow | None) -> RegisteredProfile | None:
        """The version that judges a session: the one that did so last, else that of its records."""
        uid = key.profile_uid if earlier is None else earlier.profile_uid
        return self._registry.get(key.space, uid)


def key_of(row: RecordRow, registered: RegisteredProfile) -> SessionKey:
    """The session that a record belongs to; without a session id it is one of its own."""
    return SessionKey(row.space, registered.uid, row.session_id or row.uid)


def awaited(registered: RegisteredProfile, trace_id: str | None) -> str | None:
    """The trace whose spans a session waits for: none if no task of its plan reads any."""
    plan = registered.profile.plan.session
    return trace_id if plan is not None and plan.reads_spans else None


def traces_of(registered: RegisteredProfile, rows: Collection[RecordRow]) -> set[str]:
    """The traces that a version reads to judge a session of these records."""
    found = {awaited(registered, row.trace_id) for row in rows}
    return {trace_id for trace_id in found if trace_id is not None}
