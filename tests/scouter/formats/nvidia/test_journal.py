"""The journal of an interrupted run, and its use by the next one."""

from pathlib import Path

import pytest

from scouter.errors import ConfigError
from scouter.evaluate.report.verdicts import ItemVerdict
from scouter.formats.nvidia.journal import RunJournal, digest_of

GOOD = ItemVerdict(id="1", score=0.5, reasoning={"reasoning": "größe\nzwei"})
SKIPPED = ItemVerdict(id="2", reasoning="Skipped", is_skipped=True)
ERRORED = ItemVerdict(id="3", error="the judge is away")


def test_verdicts_come_back(tmp_path: Path) -> None:
    """But for those that a judge did not give: they are asked for again."""
    first = RunJournal.open(tmp_path, "d1")
    for verdict in (GOOD, SKIPPED, ERRORED):
        first.add("qa", verdict)
    again = RunJournal.open(tmp_path, "d1")
    assert again.verdicts == {("qa", "1"): GOOD, ("qa", "2"): SKIPPED}
    assert RunJournal.open(tmp_path, "d2").verdicts == {}


def test_a_line_that_was_being_written_is_left_out(tmp_path: Path) -> None:
    RunJournal.open(tmp_path, "d1").add("qa", GOOD)
    [file] = (tmp_path / ".scouter").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:40])
    again = RunJournal.open(tmp_path, "d1")
    assert again.verdicts == {("qa", "1"): GOOD}
    again.add("qa", SKIPPED)
    assert set(RunJournal.open(tmp_path, "d1").verdicts) == {("qa", "1"), ("qa", "2")}
    file.write_text("no JSON\n", "utf-8")
    with pytest.raises(ConfigError, match="is damaged; remove it"):
        RunJournal.open(tmp_path, "d1")


def test_what_is_done_is_removed_and_nothing_else(tmp_path: Path) -> None:
    first, other = RunJournal.open(tmp_path, "d1"), RunJournal.open(tmp_path, "d2")
    for journal in (first, other):
        journal.add("qa", GOOD)
    first.finish()
    assert [path.name for path in (tmp_path / ".scouter").iterdir()] == ["d2.verdicts.jsonl"]
    other.finish()
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_known_by_what_it_depends_on() -> None:
    assert digest_of({"a": 1, "b": [2]}) == digest_of({"b": [2], "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})
