"""Exports as text, and the traces and scores that are read of them."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scouter.errors import FileFormatError
from scouter.evaluate.spans.derived import derive_record
from scouter.evaluate.spans.tree import SpanTree
from scouter.formats.exports.read import read_exports
from scouter.model.agent_work import why_unreported
from scouter.model.log_event import foreign_results
from scouter.model.span import Span, StatusCode

CASES: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("cases.yaml").read_text(encoding="utf-8")
)


def written(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        path.write_text(content, "utf-8")
    elif name.endswith(".jsonl"):
        path.write_text("".join(f"{json.dumps(each)}\n" for each in content), "utf-8")  # type: ignore[attr-defined]
    else:
        path.write_text(json.dumps(content), "utf-8")
    return path


def seen(name: str, spans: list[Span]) -> dict[str, Any]:
    """Everything that a case may say of a trace."""
    tree = SpanTree(spans)
    work = tree.agent_work
    return {
        "format": name,
        "id": spans[0].trace_id,
        "spans": [span.name for span in tree.spans],
        "roots": [span.name for span in tree.true_roots],
        "operation": [span.attributes.get("gen_ai.operation.name") for span in tree.spans],
        "question": work.question,
        "answer": work.content,
        "calls": [[call.name, call.arguments, call.result, call.error] for call in work.tool_calls],
        "tokens": [work.input_tokens, work.output_tokens],
        "model": work.model,
        "unreported": bool(why_unreported(work)),
        "incomplete": bool(tree.gaps.spans),
        "session": derive_record(spans).session_id,
        "user": tree.spans[0].attributes.get("user.id"),
        "resource": dict(tree.spans[0].resource.attributes),
        "seconds": tree.duration_ns / 1e9,
        "failed": [span.name for span in tree.spans if span.status is StatusCode.ERROR],
        "people": [
            event.attributes["gen_ai.evaluation.name"]
            for span in spans
            for event in span.events
            if event.attributes.get("gen_ai.evaluation.source") == "human"
        ],
        "scores": [
            [each.name, each.score, each.label, each.error] for each in foreign_results(spans)
        ],
    }  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_case(case: dict[str, Any], tmp_path: Path) -> None:
    paths = [written(tmp_path, name, content) for name, content in case["files"].items()]
    paths = [tmp_path / name for name in case.get("read", ())] or paths
    faults: list[FileFormatError] = []
    found = [seen(name, spans) for name, spans in read_exports(paths, faults.append)]
    wanted: list[dict[str, Any]] = case["traces"]
    assert [
        {key: each[key] for key in want} for each, want in zip(found, wanted, strict=True)
    ] == wanted
    said = [str(fault) for fault in faults]
    assert len(said) == len(case.get("faults", ())), said
    for part, whole in zip(case.get("faults", ()), said, strict=True):
        assert part in whole


def test_ids_do_not_change(tmp_path: Path) -> None:
    """What is imported twice is stored once: the spans of two readings are equal."""
    for case in CASES:
        paths = [written(tmp_path, name, content) for name, content in case["files"].items()]
        first, second = ([*read_exports(paths, lambda _: None)] for _ in range(2))
        assert first == second
