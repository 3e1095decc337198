"""Frames that pandas wrote, and runs of a real LangChain agent as LangSmith's SDK posts them."""

import datetime
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from scouter.errors import FileFormatError
from scouter.evaluate.spans.parquet import pyarrow
from scouter.formats.exports.read import read_exports
from tests.scouter.formats.exports.test_cases import seen


def refuse(fault: FileFormatError) -> None:
    raise fault


def at(second: int) -> datetime.datetime:
    return datetime.datetime(2026, 1, 1, 0, 0, second, 123456, tzinfo=datetime.UTC)


def frame() -> pd.DataFrame:
    """Columns as `get_spans_dataframe` of Phoenix has them: messages are lists of objects."""
    shared: dict[str, Any] = {"events": [], "status_message": "", "context.trace_id": "1" * 32}
    rows: list[dict[str, Any]] = [
        {"name": "agent", "span_kind": "AGENT", "parent_id": None, "start_time": at(0),
         "end_time": at(5), "status_code": "OK", "context.span_id": "a" * 16,
         "attributes.input.value": "Where is order 7?", "attributes.output.value": "On its way.",
         "attributes.session.id": "s1", "attributes.metadata": {"tier": "pro"}},
        {"name": "chat", "span_kind": "LLM", "parent_id": "a" * 16, "start_time": at(1),
         "end_time": at(2), "status_code": "OK", "context.span_id": "b" * 16,
         "attributes.llm.model_name": "gpt-4o", "attributes.llm.token_count.prompt": 10.0,
         "attributes.llm.token_count.completion": 3.0,
         "attributes.llm.input_messages": [
             {"message.role": "user", "message.content": "Where is order 7?"}],
         "attributes.llm.output_messages": [
             {"message.role": "assistant", "message.tool_calls": [
                 {"tool_call.id": "c1", "tool_call.function.name": "find_order",
                  "tool_call.function.arguments": '{"order": 7}'}]}]},
        {"name": "find_order", "span_kind": "TOOL", "parent_id": "a" * 16, "start_time": at(2),
         "end_time": at(3), "status_code": "ERROR", "context.span_id": "c" * 16,
         "attributes.tool.name": "find_order", "attributes.input.value": '{"order": 7}',
         "attributes.output.value": "none"},
    ]  # fmt: skip
    return pd.DataFrame([{**shared, **row} for row in rows]).set_index(
        "context.span_id", drop=False
    )


@pytest.mark.parametrize("form", ["parquet", "records", "lines", "columns", "index", "csv"])
def test_frames_of_phoenix(form: str, tmp_path: Path) -> None:
    """Every way in which pandas writes one gives the same trace."""
    path, made = tmp_path / f"spans.{form}", frame()
    iso: dict[str, Any] = {"date_format": "iso", "date_unit": "us"}
    if form == "parquet":
        made.to_parquet(path)
    elif form == "csv":
        made.to_csv(path)
    elif form in ("columns", "index"):
        made.to_json(path, orient=form, **iso)
    else:
        made.to_json(path, orient="records", lines=form == "lines", **iso)
    [(name, spans)] = read_exports([path], refuse)
    found = seen(name, spans)
    assert found["spans"] == ["agent", "chat", "find_order"]
    assert found["operation"] == ["invoke_agent", "chat", "execute_tool"]
    assert (found["question"], found["answer"]) == ("Where is order 7?", "On its way.")
    assert found["calls"] == [["find_order", {"order": 7}, "none", "error"]]
    assert (found["tokens"], found["model"], found["session"]) == ([10, 3], "gpt-4o", "s1")
    assert spans[0].attributes["metadata"] == '{"tier": "pro"}'
    assert [span.start_ns for span in spans] == [
        int(at(second).timestamp()) * 10**9 + 123_456_000 for second in (0, 1, 2)
    ]


def test_maps_and_nanoseconds_of_parquet(tmp_path: Path) -> None:
    """Langfuse's blob storage has maps of counts; what is finer than a microsecond is cut."""
    pa: Any = pyarrow()
    ns: Any = pa.timestamp("ns")
    table: Any = pa.table(
        {
            "id": ["o1"], "trace_id": ["t"], "type": ["GENERATION"], "name": ["llm"],
            "start_time": pa.array([1_767_225_600_000_000_123], ns),
            "end_time": pa.array([1_767_225_601_000_000_000], ns),
            "input": ["Hi"], "output": ["Hello."],
            "usage_details": pa.array([[("input", 4), ("output", 2)]], pa.map_("string", "int64")),
        }
    )  # fmt: skip
    pa.parquet.write_table(table, tmp_path / "observations.parquet")
    [(name, spans)] = read_exports([tmp_path / "observations.parquet"], refuse)
    found = seen(name, spans)
    assert (found["question"], found["answer"], found["tokens"]) == ("Hi", "Hello.", [4, 2])
    assert spans[0].start_ns == 1_767_225_600_000_000_000


def posted_runs(folder: Path) -> Path:
    """Run a LangChain agent whose tracer posts to a server of this test; gives its runs."""
    import langchain.agents as agents
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.tools import tool
    from langchain_core.tracers.langchain import LangChainTracer
    from langsmith import Client

    runs: dict[str, dict[str, Any]] = {}

    class Server(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
            if body:
                run_id = body.get("id") or self.path.rpartition("/")[2]
                run = runs.setdefault(run_id, {"id": run_id})
                run.update({key: value for key, value in body.items() if value is not None})
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_POST = do_PATCH = answer

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

    @tool
    def find_order(order: int) -> str:
        """Find an order."""
        return "sent on Monday"

    def says(text: str, usage: tuple[int, int], *calls: Any) -> AIMessage:
        counts: Any = dict(zip(("input_tokens", "output_tokens"), usage, strict=True))
        return AIMessage(
            text, tool_calls=list(calls), usage_metadata={**counts, "total_tokens": sum(usage)}
        )

    call = {"name": "find_order", "args": {"order": 7}, "id": "c1"}
    model = Model(messages=iter([says("", (10, 3), call), says("On Monday.", (20, 5))]))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    client = Client(f"http://127.0.0.1:{server.server_port}", api_key="x", auto_batch_tracing=False)
    tracer = LangChainTracer(project_name="shop", client=client)
    make: Any = vars(agents)["create_agent"]  # its types are not complete
    make(model, [find_order]).invoke(
        {"messages": [{"role": "user", "content": "Where is order 7?"}]},
        {"callbacks": [tracer], "metadata": {"thread_id": "s1", "user_id": "anna"}},
    )
    tracer.wait_for_futures()
    server.shutdown()
    server.server_close()
    path = folder / "runs.jsonl"
    path.write_text("".join(f"{json.dumps(run)}\n" for run in runs.values()), "utf-8")
    return path


def test_runs_of_a_real_agent(tmp_path: Path) -> None:
    [(name, spans)] = read_exports([posted_runs(tmp_path)], refuse)
    found = seen(name, spans)
    assert found["spans"] == [
        "LangGraph", "model", "Model", "tools", "find_order", "model", "Model",
    ]  # fmt: skip
    assert (found["question"], found["answer"]) == ("Where is order 7?", "On Monday.")
    assert found["calls"] == [["find_order", {"order": 7}, "sent on Monday", ""]]
    assert (found["tokens"], found["session"], found["user"]) == ([30, 8], "s1", "anna")
    assert found["resource"] == {"service.name": "shop"}
