"""What the store has no memory to read: tried alone some times, then it ends with the reason."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from collector.store.commit import Commit
from collector.store.file_store import FileStore
from collector.store.letters import LetterQuery
from collector.store.reads import NoMemoryError
from collector.worker import committer
from collector.worker.turns import Pace
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from tests.collector.worker.process_support import TIMES
from tests.contracts import store_data
from tests.support.worker_room import SPACE, WorkerRoom, record, registry_of, span, trace_id

RIGHT: Final = AgentEvalProfile([AssertionTask("right", "answer", 42, "Equals")], alias="right")
TWO: Final = AgentEvalProfile(
    [
        TraceAssertionTask("two", TraceAssertion.trace_span_count(), 2, "Equals"),
        AssertionTask("right", "answer", 42, "Equals"),
    ],
    alias="two",
)
TALK: Final = AgentEvalProfile(
    [AssertionTask("said", "records[*].context.answer", [42], "Equals", scope="session")],
    alias="chat",
)
PROFILES: Final = {SPACE: [RIGHT, TWO, TALK], "other": [RIGHT]}
SMALL: Final = 8 * 2**20


def small(folder: Path) -> FileStore:
    """A store with little memory."""
    return FileStore(folder, SMALL)


@pytest.fixture
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "RETRY_S", 0.0)


def left(folder: Path, profile: AgentEvalProfile, **fields: Any) -> None:
    """A process with more memory has accepted a record of 14 MB, and small ones beside it."""
    store = FileStore(folder)
    registered = registry_of(PROFILES).resolve(SPACE, profile.alias)
    assert registered is not None
    rows = [
        store_data.record(
            uid, profile_uid=registered.uid, alias=profile.alias, profile_ref=profile.alias,
            context={"answer": 42, "text": text}, session_id=f"of {uid}", **fields,
        )
        for uid, text in (("a", ""), ("large", "x" * 14_000_000), ("z", ""))
    ]  # fmt: skip
    for each in rows:
        store.commit(Commit(records=[each]))
    store.close()


@pytest.mark.usefixtures("no_wait")
@pytest.mark.parametrize("profile", [RIGHT, TWO], ids=["alone", "with a trace"])
def test_a_record_whose_context_cannot_be_read_is_a_letter(
    tmp_path: Path, profile: AgentEvalProfile
) -> None:
    """All others are judged; once there is more memory a replay has it judged, too."""
    left(tmp_path, profile, trace_id=trace_id(1) if profile is TWO else None)
    room = WorkerRoom(tmp_path, PROFILES, TIMES, store=small)
    room.spans(span(1, 0), span(1, 1, 0))
    room.pass_s(10)
    assert {uid: row.outcome.value for uid, row in room.evaluations().items()} == {
        "a": "passed", "z": "passed",
    }  # fmt: skip
    (stored,) = room.store.dead_letters(LetterQuery(space=SPACE))
    letter = stored.letter
    assert (letter.reason, letter.uid, letter.was_accepted) == ("limit", "large", True)
    assert "raise memory_limit, then replay" in letter.message
    assert room.worker.waiting == 0
    room.close()

    again = WorkerRoom(tmp_path, PROFILES, TIMES)
    again.again("large", stored.letter_id)
    again.pass_s(10)
    assert again.evaluations()["large"].outcome.value == "passed"
    assert again.letters() == []
    again.close()


@pytest.mark.usefixtures("no_wait")
def test_a_session_whose_contexts_cannot_be_read_is_errored(tmp_path: Path) -> None:
    left(tmp_path, TALK)
    room = WorkerRoom(tmp_path, PROFILES, TIMES, store=small)
    room.pass_s(62)
    found = {row.session_id: row.tasks[0] for row in room.evaluations().values() if row.tasks}
    assert {key: task.outcome.value for key, task in found.items()} == {
        "of a": "passed", "of large": "errored", "of z": "passed",
    }  # fmt: skip
    assert found["of large"].reason == "limit"
    assert "not enough memory" in (found["of large"].message or "")
    room.close()


class Short:
    """Reads of a store that fail for want of memory: of more than so many things, or some times."""

    def __init__(self, read: Callable[..., Any], most: int, times: int) -> None:
        self._read, self._most, self.times = read, most, times
        self.sizes: list[int] = []

    def __call__(self, space: str, wanted: Sequence[object], *more: Any, **fields: Any) -> Any:
        self.sizes.append(len(wanted))
        if self.times and len(wanted) > self._most:
            self.times -= 1
            raise NoMemoryError("not now")
        return self._read(space, wanted, *more, **fields)


@pytest.mark.usefixtures("no_wait")
def test_what_finds_memory_after_some_tries_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others use it meanwhile: records with them, traces, and contexts of late spans."""
    room = WorkerRoom(tmp_path, PROFILES, TIMES)
    for name in ("records_at", "spans_at", "records_of"):
        monkeypatch.setattr(room.store, name, Short(getattr(room.store, name), 0, 4))
    room.records(*(record(f"r{n}", "two", n, answer=42) for n in range(9)))
    room.spans(*(span(n, 0) for n in range(9)))
    room.pass_s(9)
    room.spans(*(span(n, 1, 0) for n in range(9)))
    room.pass_s(9)
    assert {row.outcome.value for row in room.evaluations().values()} == {"passed"}
    assert {row.revision for row in room.evaluations().values()} == {2}
    assert (len(room.evaluations()), room.letters()) == (9, [])
    room.close()


@pytest.mark.usefixtures("no_wait")
def test_a_trace_that_cannot_be_read_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is quiet, tasks that read its spans are errored, and others evaluated."""
    room = WorkerRoom(tmp_path, PROFILES, TIMES)
    monkeypatch.setattr(room.store, "spans_at", Short(room.store.spans_at, 0, 10**9))
    room.records(record("r", "two", 1, answer=42))
    room.spans(span(1, 0))
    room.pass_s(33)
    tasks = {task.task_id: task for task in room.evaluations()["r"].tasks}
    assert (tasks["two"].outcome.value, tasks["two"].reason) == ("errored", "limit")
    assert "not enough memory" in (tasks["two"].message or "")
    assert tasks["right"].outcome.value == "passed"
    room.close()


@pytest.mark.usefixtures("no_wait")
def test_a_result_stands_whose_record_cannot_be_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    room = WorkerRoom(tmp_path, PROFILES, TIMES)
    room.records(record("r", "two", 1, answer=42))
    room.spans(span(1, 0), span(1, 1, 0))
    room.pass_s(9)
    with monkeypatch.context() as patch:
        patch.setattr(room.store, "records_of", Short(room.store.records_of, 0, 10**9))
        room.spans(span(1, 2, 0))
        room.pass_s(9)
    assert "1 results, which stand" in caplog.text
    room.records(record("s", "two", 2, answer=42))
    room.pass_s(40)
    assert {uid: row.revision for uid, row in room.evaluations().items()} == {"r": 1, "s": 1}
    room.close()


def test_a_space_takes_one_thing_after_it_found_no_memory() -> None:
    pace = Pace(0.5, 40, 1000)
    pace.no_memory("a", 40)
    assert (pace.of("a"), pace.is_short("a"), pace.gives_up("a")) == (1, False, False)
    for _ in range(5):
        assert not pace.gives_up("a")
        pace.no_memory("a", 1)
    assert (pace.is_short("a"), pace.gives_up("a"), pace.gives_up("b")) == (True, True, False)
    pace.was_read("a")
    pace.took("a", 1, 0.01, 0.01)
    assert (pace.of("a"), pace.of("b"), pace.gives_up("a")) == (2, 40, False)
