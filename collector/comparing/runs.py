"""Offline runs as they are stored: read, summed up, and looked into."""

import hashlib
from typing import Final

from pydantic import BaseModel, ConfigDict

from collector.store.runs import RunRow
from scouter.errors import ConfigError
from scouter.evaluate.api.saved import SavedRun, read_saved
from scouter.evaluate.compare.gate_counts import scenarios_passed
from scouter.evaluate.files.read import parse_json
from scouter.model.otlp_json import MAX_TIME_NS

_ID_DIGITS: Final = 32


class RunSummary(BaseModel):
    """Summary of a run, for lists."""

    model_config = ConfigDict(frozen=True)

    is_replay: bool
    """False of results of records without scenarios."""
    profiles: dict[str, str]
    """Digest of the profile by alias; empty where the file does not say."""
    records: int
    pass_rate: float
    """Pass rate of all task results."""
    scenarios: int
    scenarios_passed: int
    agent: str
    agent_version: str
    ended_ns: int
    """0 where the file does not say."""


def read_body(name: str, body: bytes) -> SavedRun:
    """Read a file of results.

    Args:
        name: Of the file, for messages.
        body: UTF-8.

    Raises:
        FileFormatError: It is none; names line and field where they are known.
        UnicodeDecodeError: It is no UTF-8.
    """
    return read_saved(parse_json(name, body.decode("utf-8")))


def summary_of(run: SavedRun) -> RunSummary:
    """Sum a run up."""
    results = run.results
    passed, decided = scenarios_passed(results)
    provenance = results.provenance
    digests = provenance.profile_digests
    return RunSummary(
        is_replay=not run.is_bare,
        profiles={alias: digests.get(alias, "") for alias in results.dataset_results},
        records=sum(each.record_count for each in results.dataset_results.values()),
        pass_rate=results.metrics.overall_pass_rate,
        scenarios=decided,
        scenarios_passed=passed,
        agent=provenance.agent,
        agent_version=provenance.agent_version or (provenance.git_revision or "")[:12],
        ended_ns=provenance.ended_ns,
    )


def row_of(
    space: str, name: str, body: bytes, *, added_ns: int, added_by: str
) -> tuple[RunRow, RunSummary]:
    """Make the row of a file that was sent; it is read first.

    Raises:
        FileFormatError: It holds no results.
        UnicodeDecodeError: It is no UTF-8.
        ConfigError: A time or a name in it is none.
    """
    summary = summary_of(read_body(name or "the body", body))
    if not 0 <= summary.ended_ns <= MAX_TIME_NS:
        raise ConfigError(
            f"provenance.ended_ns: {summary.ended_ns} is no time; expected nanoseconds since 1970"
        )
    try:
        text = summary.model_dump_json()
    except ValueError as error:  # half a character
        raise ConfigError(f"a name in it cannot be written as UTF-8: {error}") from error
    row = RunRow(
        space=space,
        run_id=hashlib.sha256(body).hexdigest()[:_ID_DIGITS],
        name=name or _name_of(summary),
        added_ns=added_ns,
        added_by=added_by,
        summary=text,
        body=body,
    )
    return row, summary


def _name_of(summary: RunSummary) -> str:
    """A name for a run that has none."""
    return " ".join(filter(None, (summary.agent, summary.agent_version))) or "unnamed run"


def stored_summary(row: RunRow) -> RunSummary:
    """The summary of a stored run."""
    return RunSummary.model_validate_json(row.summary)
