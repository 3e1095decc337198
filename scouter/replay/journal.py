"""The journal of a run that may be interrupted: JSON lines, one for each attempt that ended."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Annotated, Any, Final, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, JsonValue, PlainSerializer, PlainValidator

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.files.read import parse_json
from scouter.evaluate.outcome import Reason
from scouter.evaluate.results.attempt import Exchange, JsonSpans
from scouter.evaluate.results.run import Loss
from scouter.evaluate.scenario import EvalScenario, scenarios_digest
from scouter.model.record import EvalRecord

try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None

FORMAT: Final = 1
"""Raised when an older version could no longer read the lines."""


def _read_record(value: object) -> EvalRecord:
    if isinstance(value, EvalRecord):
        return value
    fields = dict(cast("Mapping[str, Any]", value))
    record = EvalRecord(fields.pop("context"), id=fields.pop("record_id"), **fields)
    record.freeze()
    return record


def _write_record(record: EvalRecord) -> dict[str, JsonValue]:
    return {
        "uid": record.uid,
        "record_id": record.record_id,
        "session_id": record.session_id,
        "trace_id": record.trace_id,
        "created_ns": record.created_ns,
        "tags": dict(record.tag_map),
        "context": record.context,
    }


JsonRecord = Annotated[EvalRecord, PlainValidator(_read_record), PlainSerializer(_write_record)]


class Entry(BaseModel):
    """One line: the end of an attempt, or the records and spans that came after it."""

    model_config = ConfigDict(frozen=True, extra="ignore", arbitrary_types_allowed=True)

    kind: Literal["attempt", "late"] = "attempt"
    scenario_id: str
    attempt: int
    response: JsonValue = None
    turns: tuple[Exchange, ...] = ()
    turn_times_ns: tuple[tuple[int, int], ...] = ()
    error: str | None = None
    error_reason: Reason | None = None
    error_frames: tuple[str, ...] = ()
    duration_ns: int = 0
    records: dict[str, tuple[JsonRecord, ...]] = {}
    spans: JsonSpans = ()
    is_again: bool = False
    """True for an attempt made to see whether a failure was bad luck; it is in no rate."""
    lost: dict[Loss, int] = {}
    """Number of records and spans that the run lost since the line before, in any attempt."""


class _Header(BaseModel):
    """The first line: the scenarios, the profiles and the agent of the run."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    scouter_journal: int
    scenarios: str
    """Digest of all scenarios, in their order."""
    profiles: dict[str, str]
    """Digest of each alias' tasks."""
    agent: str = ""
    """Name of the agent; empty in journals of earlier versions."""


class Journal:
    """Reads what an earlier run has done, and writes down what this one does.

    A line is written when its attempt has ended, and is on the disk before the next step. A last
    line that was not written to its end (the process was killed) is cut off.

    Args:
        path: The file; made if it is not there.
        scenarios: Those of this run.
        profiles: Those of this run, by alias.
        agent: Name of the agent that is called.

    Raises:
        ConfigError: The file belongs to another agent, other scenarios or profiles, or another
            run writes it.
        FileFormatError: It is no journal; names the line.
    """

    def __init__(
        self,
        path: Path,
        scenarios: Iterable[EvalScenario],
        profiles: Mapping[str, AgentEvalProfile],
        agent: str = "",
    ) -> None:
        self._path = path
        header = _Header(
            scouter_journal=FORMAT,
            scenarios=scenarios_digest(scenarios),
            profiles={alias: profile.digest for alias, profile in profiles.items()},
            agent=agent,
        )
        try:
            self._file: IO[bytes] = path.open("a+b", buffering=0)
        except OSError as error:
            raise FileFormatError(str(path), f"cannot be opened: {error.strerror}") from error
        try:
            self._lock()
            self.entries: Sequence[Entry] = self._read(header)
            """Entries of earlier runs, in the order of the lines."""
        except BaseException:
            self._file.close()
            raise

    def append(self, entry: Entry) -> None:
        """Write one line, on the disk when this returns."""
        self._write(entry.model_dump(mode="json", exclude_defaults=True))

    def close(self) -> None:
        """Let other runs use the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                f"{self._path}: another run is writing this journal; wait for its end, or give "
                "this run a file of its own"
            ) from None

    def _read(self, wanted: _Header) -> list[Entry]:
        self._file.seek(0)
        content = self._file.read()
        whole, _, half = content.rpartition(b"\n")
        lines = whole.split(b"\n") if whole else []
        if not lines:
            if not _line(wanted.model_dump(mode="json")).startswith(half):
                raise FileFormatError(
                    str(self._path), "is no journal of a run", line=1, expected=_EXPECTED
                )
            self._file.truncate(0)
            self._write(wanted.model_dump(mode="json"))
            return []
        self._check_header(lines[0], wanted)
        entries = [self._entry(number, line) for number, line in enumerate(lines[1:], start=2)]
        self._file.truncate(len(content) - len(half))
        return entries

    def _check_header(self, line: bytes, wanted: _Header) -> None:
        try:
            found = _Header.model_validate_json(line)
        except ValueError as error:
            raise FileFormatError(
                str(self._path), "is no journal of a run", line=1, expected=_EXPECTED
            ) from error
        if found.scouter_journal != FORMAT:
            raise ConfigError(
                f"{self._path}: a journal of format {found.scouter_journal}, and this version "
                f"reads format {FORMAT}; start a new one"
            )
        if found.agent != wanted.agent:
            raise ConfigError(
                f"{self._path}: this journal holds answers of the agent {found.agent!r}, and this "
                f"run asks {wanted.agent!r}; give each agent a file of its own"
            )
        changed = ["the scenarios"] if found.scenarios != wanted.scenarios else []
        changed += [
            f"the tasks of profile {alias!r}"
            for alias in dict.fromkeys([*found.profiles, *wanted.profiles])
            if found.profiles.get(alias) != wanted.profiles.get(alias)
        ]
        if changed:
            raise ConfigError(
                f"{self._path}: {' and '.join(changed)} changed since this journal was started, so "
                "its attempts cannot be mixed with new ones; delete it, or name another file"
            )

    def _entry(self, number: int, line: bytes) -> Entry:
        try:
            document = parse_json(str(self._path), line.decode())
            return Entry.model_validate(document.value)
        except (ValueError, TypeError, KeyError) as error:
            said = error.problem if isinstance(error, FileFormatError) else error
            raise FileFormatError(
                str(self._path), f"the line cannot be read: {said}", line=number,
                expected="a line as a run writes it",
            ) from error  # fmt: skip

    def _write(self, value: JsonValue) -> None:
        line = _line(value)
        while line:  # a write may be cut short by a full disk, and then says how far it came
            line = line[self._file.write(line) :]
        os.fsync(self._file.fileno())


_EXPECTED: Final = "a file that `resume=` of an earlier run has made, or none"


def _line(value: JsonValue) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"
