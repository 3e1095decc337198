"""Spans of an earlier version of the program get the columns that it did not know."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pytest

from collector.storage.duckdb.database import FILE_NAME
from collector.storage.duckdb.store import DuckDBStore
from collector.store.span_queries import SpanQuery
from collector.store.usage import UsageGroup, UsageQuery
from scouter.model.span import AttributeValue, Span
from tests.support.old_stores import take_arguments_out, take_facts_out

SPACE, WAIT_S = "default", 120.0
IN_ONE_COMMIT = 8192
"""Spans, as `span_fill` fills them and as a block has them."""


def spans(first: int, count: int) -> list[Span]:
    """Calls of models and tools, told as OpenInference does."""
    found: list[Span] = []
    for number in range(first, first + count):
        attributes: dict[str, AttributeValue] = {
            "openinference.span.kind": "LLM", "llm.provider": "openai", "llm.model_name": "m",
            "llm.token_count.prompt": 7, "session.id": f"s{number % 3}",
        }  # fmt: skip
        if number % 2:
            attributes = {"openinference.span.kind": "TOOL", "tool.name": f"tool {number % 4}"}
        found.append(
            Span(trace_id=f"{number // 10 + 1:032x}", span_id=f"{number + 1:016x}", name="step",
                 start_ns=number, end_ns=number + 1, attributes=attributes)
        )  # fmt: skip
    return found


@pytest.fixture(scope="module")
def unfilled_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three parts to fill, of which two have a block."""
    folder = tmp_path_factory.mktemp("old")
    store = DuckDBStore(folder)
    for part in range(2):
        store.append_spans(SPACE, spans(part * IN_ONE_COMMIT, IN_ONE_COMMIT), 1).result()
    store.append_spans(SPACE, spans(2 * IN_ONE_COMMIT, 100), 1).result()
    store.close()
    take_facts_out(folder)
    return folder


@pytest.fixture
def old(unfilled_folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may fill."""
    return Path(shutil.copytree(unfilled_folder, tmp_path / "data"))


def calls(store: DuckDBStore, group_by: UsageGroup) -> dict[str, int]:
    items = store.usage(UsageQuery(space=SPACE, group_by=group_by)).items
    return {each.key: each.calls for each in items}


def check_filled(folder: Path) -> None:
    """Every second of the 16,484 spans is a call of a model, the others of two tools by turns."""
    store = DuckDBStore(folder)
    try:
        assert store.columns_filled.wait(WAIT_S)
        half = IN_ONE_COMMIT + 50
        assert calls(store, UsageGroup.PROVIDER) == {"openai": half}
        assert calls(store, UsageGroup.TOOL) == {"tool 1": half // 2, "tool 3": half // 2}
        for first in (0, IN_ONE_COMMIT, 2 * IN_ONE_COMMIT):  # one of each part, by the filters
            found = store.spans(
                SpanQuery(space=SPACE, columns={"tool_name": "tool 1"}, since_ns=first,
                          until_ns=first + 4)
            )  # fmt: skip
            assert [each.position.start_ns for each in found.items] == [first + 1]
        page = store.spans(SpanQuery(space=SPACE, columns={"provider": "openai"}, limit=1))
        assert page.items[0].columns["response_model"] == "m"
    finally:
        store.close()


def unfilled(folder: Path) -> int:
    with duckdb.connect(folder / FILE_NAME, read_only=True) as connection:
        row = connection.execute("SELECT count(*) FROM spans WHERE genai_kind IS NULL").fetchone()
    assert row is not None
    return row[0]


def test_an_old_store_is_filled(old: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    check_filled(old)
    assert unfilled(old) == 0
    told = [each.message for each in caplog.records if "columns of" in each.message]
    total = 2 * IN_ONE_COMMIT + 100
    assert told[0] == f"filling columns of {total} spans that an earlier version stored"
    assert told[-1] == f"the columns of all {total} older spans are filled"


_PROGRAM = """
import sys
from pathlib import Path
from collector.storage.duckdb.store import DuckDBStore
from collector.storage.duckdb.group_commit import GroupWriter
print("opened", flush=True)
store = DuckDBStore(Path(sys.argv[1]))
store.observe_commits(lambda seconds: print("commit", flush=True))
store.columns_filled.wait()
print("filled", flush=True)
"""


def lines(program: subprocess.Popen[str]) -> Iterator[str]:
    assert program.stdout is not None
    yield from map(str.strip, program.stdout)


def test_a_kill_between_two_commits_loses_nothing(old: Path) -> None:
    """It goes on at the next start with what was left."""
    command: Sequence[str] = (sys.executable, "-c", _PROGRAM, str(old))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        seen = next(line for line in lines(program) if line in ("commit", "filled"))
        program.kill()
    assert seen == "commit"
    check_filled(old)
    assert unfilled(old) == 0


def test_what_cannot_be_read_any_more_is_passed_over(old: Path) -> None:
    """Spans whose bytes are damaged stay as they are, and are not tried at every start."""
    for file in (old / "spans").glob("*.spans"):
        data = bytearray(file.read_bytes())
        at = data.index(b"tool 1") if b"tool 1" in data else -1
        if at >= 0:
            data[at] ^= 1
            file.write_bytes(data)
            break
    store = DuckDBStore(old)
    assert store.columns_filled.wait(WAIT_S)
    store.close()
    assert unfilled(old) == 0


def test_arguments_and_finish_reasons_of_an_old_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Spans of models and tools are read again, and no others: what they tell was not asked for."""
    model: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
        "gen_ai.response.finish_reasons": ("max_tokens",),
    }  # fmt: skip
    walk: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "walk",
    }
    told: list[dict[str, AttributeValue]] = [
        model,
        {**walk, "gen_ai.tool.call.arguments": '{"depth": 1}'},
        {**walk, "gen_ai.tool.call.arguments": '{"depth": 2}'},
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"},
    ]
    parents = (None, None, f"{2:016x}", None)
    store = DuckDBStore(tmp_path)
    spans = [
        Span(trace_id="1" * 32, span_id=f"{n:016x}", parent_span_id=parent, name="step",
             start_ns=n, end_ns=20 - n, attributes=attributes)
        for n, (attributes, parent) in enumerate(zip(told, parents, strict=True), start=1)
    ]  # fmt: skip
    store.append_spans(SPACE, spans, 1).result()
    store.close()
    take_arguments_out(tmp_path)

    caplog.set_level("INFO")
    for _ in range(2):  # the second time nothing is left
        store = DuckDBStore(tmp_path)
        assert store.columns_filled.wait(WAIT_S)
        assert calls(store, UsageGroup.TOOL) == {"walk": 2}
        (found,) = store.spans(SpanQuery(space=SPACE, columns={"finish_reason": "length"})).items
        assert found.columns["finish_reason"] == "length"
        store.close()
    filled = [each.message for each in caplog.records if "filling columns" in each.message]
    assert filled == ["filling columns of 3 spans that an earlier version stored"]
    assert unfilled(tmp_path) == 0
