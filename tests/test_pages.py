"""The pages on production: their examples run, their tables are those of the code."""

import json
import os
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from fastapi import FastAPI
from pydantic import SecretStr
from typer.testing import CliRunner

import scouter.transport
from collector.care.data_folder import known_backups
from collector.care.table_export import EXPORTED
from collector.items.drop_reports import REASONS
from collector.settings.load import load_settings
from collector.settings.model import CollectorSettings
from collector.store.rows import Completeness
from collector.store.schema import COLUMNS
from scouter.cli.app import make_app
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.transport.config import RemoteConfig, TransportConfig
from tests.collector.conftest import Start, start  # noqa: F401  # pyright: ignore[reportUnusedImport] a fixture
from tests.contracts.store_data import SPACE, span
from tests.support.store_appends import AppendingStore

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", read(page), flags=re.DOTALL)


def rows(page: str) -> list[list[str]]:
    """The cells of all tables' rows, without the code marks."""
    lines = re.findall(r"^\| ?(`.*)\|$", read(page), flags=re.MULTILINE)
    return [[cell.strip().replace("`", "") for cell in line.split("|")] for line in lines]


def test_the_transports_and_their_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Defaults, variables and extras of the table are those of the classes."""
    table = {row[0]: row for row in rows("transports.md") if row[0].endswith("Config")}
    public = set(scouter.transport.__all__) - {"SpoolConfig", "TransportConfig"}
    assert set(table) == public
    for name in list(os.environ):
        if name.startswith(("SCOUTER_", "KAFKA_", "REDIS_", "RABBITMQ_", "OTEL_EXPORTER_OTLP_")):
            monkeypatch.delenv(name)
    for name, row in table.items():
        if row[3] == "–":
            continue
        cls: type[TransportConfig] = getattr(scouter.transport, name)
        field, default, variable = row[3].replace(",", "").split()
        assert getattr(cls(), field) == default
        extra = "" if row[2] == "–" else f"needs the extra `{row[2]}`"
        assert extra in (cls.__doc__ or "")
        monkeypatch.setenv(variable, f"{default}1")
        assert getattr(cls(), field) == f"{default}1"
        for other in row[4].split(", "):
            monkeypatch.setenv(other, "given")
            shown = [
                value.get_secret_value() if isinstance(value, SecretStr) else value
                for _, value in cls()
            ]
            assert "given" in shown, other
            monkeypatch.delenv(other)
    assert [name for name in public if "spool" not in _fields(name)] == ["MockConfig"]


def _fields(name: str) -> set[str]:
    cls = getattr(scouter.transport, name)
    return set(RemoteConfig.model_fields) if issubclass(cls, RemoteConfig) else set()


def test_the_reasons_of_drops() -> None:
    """The table has those that the collector knows."""
    text = read("transports.md").split("## Dropped data")[1]
    cells = re.findall(r"^\| (`[^|]*) \|", text, flags=re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == REASONS


def test_the_examples_on_transports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"app": FastAPI()}
    for example in blocks("transports.md", "python"):
        exec(compile(example, "transports.md", "exec"), names)  # noqa: S102 our own page
    names["queue"].shutdown()
    assert names["stats"].inserted == 0
    assert (names["on_disk"].written, names["on_disk"].waiting_bytes) == (0, 0)
    assert names["transport"].spool.max_bytes == 67_108_864


def test_the_example_on_redaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The context leaves as the page says, but for the digest that it shortens."""
    (example,) = blocks("redaction.md", "python")
    before, after = (json.loads(text) for text in blocks("redaction.md", "json"))
    monkeypatch.setenv("SCOUTER_SERVER_URI", "http://127.0.0.1:9")
    names: dict[str, Any] = {}
    exec(compile(example, "redaction.md", "exec"), names)  # noqa: S102 our own page
    queue: ScouterQueue = names["queue"]
    try:
        queue["geographer"].insert(EvalRecord(context=before))
        redactor = queue.redactor
        assert redactor is not None
        found = redactor.context(before)
    finally:
        queue.shutdown(0.1)
    assert isinstance(found, dict)
    answer = re.sub(r"(hmac:[0-9a-f]{4})[0-9a-f]{60}\b", r"\1", str(found["answer"]))
    assert {**found, "answer": answer} == after
    assert redactor.attributes({"gen_ai.input.messages": "x", "n": 1}) == {
        "gen_ai.input.messages": "[redacted]", "n": 1,
    }  # fmt: skip


def test_the_settings_of_the_join() -> None:
    table = {row[0]: row[1] for row in rows("join.md") if row[0] in CollectorSettings.model_fields}
    assert len(table) == 8
    for name, default in table.items():
        assert float(default.split()[0]) == CollectorSettings.model_fields[name].default, name
    assert {row[0] for row in rows("join.md")} >= {each.value for each in Completeness}


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("join.md", {"settle_s": 0.5, "quiet_s": 10, "late_window_s": 7200}),
        ("retention.md", {"retention_days": 30, "max_store_bytes": 20 * 10**9}),
    ],
)
def test_the_settings_files(page: str, expected: dict[str, float], tmp_path: Path) -> None:
    (text,) = blocks(page, "yaml")
    assert set(yaml.safe_load(text)) == set(expected)
    file = tmp_path / "collector.yaml"
    file.write_text(text, encoding="utf-8")
    settings = load_settings({}, file)
    assert {name: getattr(settings, name) for name in expected} == expected


def test_the_example_on_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The backup can be opened, and the export has the span."""
    monkeypatch.chdir(tmp_path)
    store = AppendingStore(Path("scouter-data"))
    store.append_spans(SPACE, [span(1)], 1).result()
    store.close()
    (example,) = blocks("retention.md", "console")
    for line in example.splitlines():
        done = CliRunner().invoke(make_app(), line.split()[2:])
        assert done.exit_code == 0, done.output
    assert [Path(each.path).name for each in known_backups(Path("scouter-data"))] == ["monday"]
    copy = AppendingStore(Path("monday"))
    assert copy.conservation(SPACE).spans.stored == 1
    copy.close()
    assert {path.stem for path in Path("tables").iterdir()} == set(EXPORTED)
    assert duckdb.connect().execute("SELECT count(*) FROM 'tables/spans.parquet'").fetchall() == [
        (1,)
    ]


def test_the_tables_series_and_sums_of_storage(start: Start) -> None:  # noqa: F811 the fixture
    """Every table has its row, every series is shown, every state is in the sums."""
    named = {name for row in rows("internals/store.md") for name in row[0].split(", ")}
    assert set(COLUMNS) <= named
    service = start()
    shown = service.http.get("/metrics").text
    for name in named - set(COLUMNS):
        family = name.split("{")[0]
        assert f"# TYPE {family} " in shown, name
    sheet = service.get("/api/v1/conservation")
    aside = {
        "records": {"duplicates", "derived", "superseded"},
        "spans": {"duplicates", "late", "dead_lettered"},
    }
    for kind, beside in aside.items():
        (line,) = re.findall(
            rf"^    {kind}: +(.*)$", read("internals/store.md"), flags=re.MULTILINE
        )
        assert set(re.findall(r"\w+", line)) == set(sheet[kind]) - beside


INTERNALS = sorted(path.name for path in (DOCS / "internals").iterdir())


@pytest.mark.parametrize("page", INTERNALS)
def test_every_file_that_a_page_for_developers_names_is_there(page: str) -> None:
    """A newcomer who looks for a file that was renamed has lost the way."""
    rooms = ("scouter", "collector", "tests", "docs", "deploy")
    there = [f"/{path.relative_to(ROOT)}" for room in rooms for path in (ROOT / room).rglob("*.*")]
    named = re.findall(r"`([\w/]+\.(?:py|md|html|txt|yaml))`", read(f"internals/{page}"))
    assert named
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in there)] == []
