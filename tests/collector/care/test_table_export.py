"""Tables as Parquet files: of any size in little memory, and never half a file under its name."""

import hashlib
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest

from collector.care.table_export import EXPORTED, export_tables
from collector.store.rows import TaskRow
from scouter.errors import ConfigError, TransientError
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import SPACE, evaluation, record, span
from tests.support.processes import ManagedProcess
from tests.support.store_appends import AppendingStore

_FILL_BYTES = 160 * 10**6
_LITTLE = 24 * 10**6
"""DuckDB's memory in the tests; the texts of one table take three times as much."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Contexts of 60 MB in all, some of 4 MB among small ones; long evaluations and spans, too."""
    folder = tmp_path_factory.mktemp("filled") / "data"
    store = AppendingStore(folder, _FILL_BYTES)
    for part in range(6):
        contexts = [{"n": n, "text": chr(97 + part) * 20_000} for n in range(300)]
        contexts += [{"n": n} for n in range(300, 400)]
        store.append_records(
            [record(f"{part} {n}", context=each) for n, each in enumerate(contexts)]
        ).result()
        store.append_records([record(f"{part} big", context="y" * 4_000_000)]).result()
    for part in range(40):
        tasks = [
            TaskRow(task_id=f"t{n}", task_type="A", outcome=Outcome.PASSED, actual=f"{n}" * 50_000)
            for n in range(5)
        ]
        store.append_evaluations([evaluation(f"0 {part}", tasks=tuple(tasks))]).result()
    for part in range(1, 8):
        spans = [
            span(n, trace_id=f"{part:032x}", attributes={"text": "z" * (10**6 if n < 3 else 9)})
            for n in range(1, 20)
        ]
        store.append_spans(SPACE, spans, 5).result()
    store.close()
    return folder


def rows(file: Path, columns: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        sql = f"SELECT {columns} FROM read_parquet(?) ORDER BY ALL"  # noqa: S608 our own words
        return connection.execute(sql, [str(file)]).fetchall()


def test_tables_of_more_than_memory_are_written_whole(filled: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    files = export_tables(filled, tmp_path / "tables", lines.append, _LITTLE)
    assert [file.name for file in files] == [f"{table}.parquet" for table in EXPORTED]
    assert sorted(tmp_path.joinpath("tables").iterdir()) == sorted(files)
    assert {each.partition(":")[0] for each in lines} >= {"records", "spans", "task_results"}
    by_name = {file.stem: file for file in files}

    contexts = {
        f"{part} {n}": f'{{"n":{n},"text":"{chr(97 + part) * 20_000}"}}' if n < 300
        else f'{{"n":{n}}}' for part in range(6) for n in range(400)
    } | {f"{part} big": f'"{"y" * 4_000_000}"' for part in range(6)}  # fmt: skip
    assert rows(by_name["records"], "uid, md5(context)") == sorted(
        (uid, hashlib.md5(text.encode(), usedforsecurity=False).hexdigest())
        for uid, text in contexts.items()
    )
    assert rows(by_name["task_results"], "record_uid, position, strlen(actual)") == sorted(
        (f"0 {part}", n, 50_002) for part in range(40) for n in range(5)
    )
    assert rows(by_name["spans"], "trace_id, span_id, strlen(attributes)") == sorted(
        (f"{part:032x}", f"{n:016x}", len('{"text":""}') + (10**6 if n < 3 else 9))
        for part in range(1, 8) for n in range(1, 20)
    )  # fmt: skip


class _Stop(BaseException):
    """Not one that anything expects."""


@pytest.mark.parametrize(
    ("fault", "seen"),
    [
        (OSError(28, "No space left on device"), ConfigError),
        (TransientError("no memory"), TransientError),
        (_Stop(), _Stop),
    ],
)
def test_a_failure_leaves_what_was_there(
    filled: Path, tmp_path: Path, fault: BaseException, seen: type[BaseException]
) -> None:
    """Files of an earlier export stay; of this one nothing does."""
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "records.parquet").write_bytes(b"older")

    def tell(text: str) -> None:
        if text.startswith("task_results"):
            assert (folder / "records.parquet.partial").exists()
            raise fault

    with pytest.raises(seen):
        export_tables(filled, folder, tell, _LITTLE)
    assert [(each.name, each.read_bytes()) for each in folder.iterdir()] == [
        ("records.parquet", b"older")
    ]


def test_a_kill_leaves_no_file_that_looks_whole(filled: Path, tmp_path: Path) -> None:
    """And the next run begins anew."""
    folder = tmp_path / "tables"
    command = [
        sys.executable, "-m", "scouter.cli.app", "collector", "export", folder, "--data", filled,
        "--memory-limit", "24MB",
    ]  # fmt: skip
    process = ManagedProcess(command, log=tmp_path / "export.log")
    pause = threading.Event()
    while not (folder / "spans.parquet.partial").exists():  # the first one; the rest takes longer
        assert process.is_running, process.tail()
        pause.wait(0.01)
    process.kill()
    names = {each.name for each in folder.iterdir()}
    assert names
    assert {name.rpartition(".")[2] for name in names} == {"partial"}

    subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL)
    assert {each.name for each in folder.iterdir()} == {f"{table}.parquet" for table in EXPORTED}
    assert len(rows(folder / "records.parquet", "uid")) == 6 * 401
