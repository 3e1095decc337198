"""History read from the folder of a collector that has ended."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from collector.store.files import DamagedStoreError, OfflineReads
from collector.store.history import StoredHistory
from collector.store.schema import duckdb_tables
from scouter.drift.config import AgentEvalConfig
from scouter.drift.history.replay import Mix, Period
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.series import Agent, Kind, SeriesKey
from scouter.errors import ConfigError
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.contracts.store_data import SPACE, evaluation, span
from tests.contracts.store_data import profile as profile_row
from tests.support.store_appends import AppendingStore

TASK = AssertionTask("t1", "answer", 42, ComparisonOperator.Equals)
MADE = AgentEvalProfile([TASK], AgentEvalConfig(name="answers"), alias="answers")
OPENED = """
import sys
from pathlib import Path
from typing import Any
from collector.store.file_store import FileStore
store = FileStore(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def stored(folder: Path) -> Path:
    """Four results of a profile, the last two failed; one of another; calls of two tools."""
    store = AppendingStore(folder)
    given: dict[str, Any] = {"digest": MADE.digest, "name": MADE.name}
    body = MADE.model_dump_json()
    store.append_profile(profile_row(MADE.uid, body="{}", **given))
    store.append_profile(profile_row(MADE.uid, body=body, is_active=True, **given))
    store.append_profile(profile_row("other", space="elsewhere"))
    store.append_profile(profile_row("broken", body="no profile"))
    rows = [
        evaluation(
            f"u{at}", Outcome.PASSED if at < 2 else Outcome.FAILED, evaluated_ns=at, tags={},
            profile_uid=MADE.uid, profile_digest=MADE.digest, trace_id=f"{at:032x}",
            service_name="bot",
        )
        for at in range(4)
    ]  # fmt: skip
    store.append_evaluations(rows).result()
    store.append_evaluations([evaluation("x", profile_uid="other", alias="other")]).result()
    for at in range(4):
        name = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ab"[at == 3]}
        spans = [span(1, trace_id=f"{at:032x}", start_ns=at, end_ns=at + 1, attributes=name)]
        store.append_spans(SPACE, spans, 1).result()
    store.close()
    return folder


def test_history_is_what_was_stored(stored: Path) -> None:
    before = {path: path.read_bytes() for path in stored.iterdir()}
    with StoredHistory(stored, SPACE) as history:
        profiles = history.profiles()
        assert set(profiles) == {MADE.uid, "broken"}
        assert (profiles[MADE.uid].alias, profiles[MADE.uid].digest) == ("answers", MADE.digest)
        for which in ("answers", MADE.uid, MADE.digest):
            found = history.results(Period(profile=which, since_ns=1, until_ns=4))
            assert [each.evaluation_id for each in found] == [
                f"evaluation of u{at}" for at in (1, 2, 3)
            ]
        key = SeriesKey(SPACE, MADE.uid, Agent("bot", "", ""), "t1", Kind.PASS)
        assert history.explain(key, 2) is None  # two results on either side are too few
        assert history.calls(Mix.TOOL, None, None) == {"a": 3, "b": 1}
        assert history.calls(Mix.TOOL, 1, 3) == {"a": 2}
    assert {path: path.read_bytes() for path in stored.iterdir()} == before


def test_a_copy_that_was_never_finished_is_passed_over(stored: Path) -> None:
    with duckdb.connect(str(stored / "store-2.duckdb")) as connection:
        for statement in duckdb_tables():
            connection.execute(statement)
    with OfflineReads(stored) as store:
        assert store.path == stored / "store-1.duckdb"
        assert store.last_seq() == 10
        with pytest.raises(ConfigError, match="reading alone"):
            store.write({})


def test_what_cannot_be_read_is_refused(stored: Path, tmp_path: Path) -> None:
    """No folder, one of another program, one of a running collector, and a damaged one."""
    with pytest.raises(ConfigError, match=r"no store in .*--data"):
        StoredHistory(tmp_path / "none", SPACE)
    words = [sys.executable, "-c", OPENED, str(stored)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"open\n"
        with pytest.raises(ConfigError, match="has it open"):
            StoredHistory(stored, SPACE)
        running.communicate()
    path = stored / "store-1.duckdb"
    path.write_bytes(b"\0" * 100)
    with pytest.raises(DamagedStoreError):
        StoredHistory(stored, SPACE)
