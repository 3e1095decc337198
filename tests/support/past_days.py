"""Past days as a fleet writes them, made without one."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from collector.store.bodies import compress
from collector.store.span_export import SPAN_COLUMNS, span_table
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.otlp import encode_request
from scouter.model.span import Span
from tests.support.store_commits import row_of

_RECORD = pa.schema(
    [
        *((name, pa.string()) for name in ("space", "uid", "record_id", "session_id", "trace_id")),
        ("created_ns", pa.int64()), ("tags", pa.list_(pa.string())), ("context", pa.string()),
        ("alias", pa.string()),
    ]
)  # fmt: skip


def profile(alias: str = "desk", answer: str = "Berlin") -> AgentEvalProfile:
    """Four tasks, on the context and on the spans."""
    tasks = [
        AssertionTask("right", "answer", answer, ComparisonOperator.Equals),
        AssertionTask("long", "answer", 3, ComparisonOperator.HasLengthGreaterThan),
        AgentAssertionTask("looked", AgentAssertion.tool_called("search"), True,
                           ComparisonOperator.Equals, source="spans"),
        TraceAssertionTask("quick", TraceAssertion.trace_duration(), 100,
                           ComparisonOperator.LessThan),
    ]  # fmt: skip
    return AgentEvalProfile(tasks, alias=alias)


def trace(number: int, size: int, text: str) -> list[Span]:
    """A root, and calls of models and of a tool below it."""
    at = 1_790_000_000_000_000_000 + number
    spans: list[Span] = []
    for n in range(size):
        is_tool = n % 3 == 1
        spans.append(
            Span(
                trace_id=f"{number + 1:032x}", span_id=f"{n + 1:016x}",
                parent_span_id=f"{1:016x}" if n else None,
                name="execute_tool search" if is_tool else "chat",
                start_ns=at + n, end_ns=at + n + 50 + number % 2 * 200_000_000,
                attributes={
                    "gen_ai.operation.name": "execute_tool" if is_tool else "chat",
                    **({"gen_ai.tool.name": "search"} if is_tool else {}),
                    "gen_ai.input.messages": text, "gen_ai.output.messages": text,
                },
            )
        )  # fmt: skip
    return spans


def record(number: int, **fields: Any) -> dict[str, Any]:
    """A record about `trace` of the same number; each fifth has a wrong answer."""
    answer = "Berlin" if number % 5 else "x"
    given = {
        "space": "default", "uid": f"u{number}", "record_id": f"r{number}", "session_id": "",
        "trace_id": f"{number + 1:032x}", "created_ns": number, "tags": ["a%3Db=c"],
        "context": json.dumps({"answer": answer}), "alias": "desk",
    }  # fmt: skip
    return given | fields


def write_spans(path: Path, spans: Sequence[Span]) -> None:
    """A file of spans, each in the form that a fleet gives it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = compress(encode_request(spans).SerializeToString())
    names = SPAN_COLUMNS.split(", ")
    rows = [
        tuple(
            1 if name == "seq" else "default" if name == "space"
            else getattr(each, name, None)
            for name in names
        )
        for each in (row_of("default", span, 1) for span in spans)
    ]  # fmt: skip
    pq.write_table(span_table(rows, [(1, "default", body)]), path, row_group_size=1_000)


def write_records(path: Path, records: Sequence[dict[str, Any]]) -> None:
    """A file of records, with the columns that judging reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(records), schema=_RECORD), path)


def write_day(folder: Path, numbers: range, files: int, *, spans: int = 4, size: int = 20) -> None:
    """A day of records and their traces, in files of as many records."""
    random_ = random.Random(numbers.start)
    per = -(-len(numbers) // files)
    for n in range(files):
        part = numbers[n * per : (n + 1) * per]
        text = [
            json.dumps([{"role": "user", "parts": [{"type": "text", "content": random_.randbytes(
                size // 2).hex()}]}])
            for _ in part
        ]  # fmt: skip
        write_records(folder / f"records-{n}.parquet", [record(each) for each in part])
        write_spans(
            folder / f"spans-{n}.parquet",
            [
                span
                for each, said in zip(part, text, strict=True)
                for span in trace(each, spans, said)
            ],
        )
