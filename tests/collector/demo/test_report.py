"""The tables of `scouter demo` on a terminal of 80 columns."""

import io
from typing import Any

from rich.console import Console

from collector.demo.report import pass_rates


def item(task: str, passed: int) -> dict[str, Any]:
    """One of `items` of `GET /api/v1/tasks`, of 40 results."""
    return {
        "alias": "support_retriever", "task_id": task, "pass_rate": passed / 40,
        "passed": passed, "failed": 40 - passed, "errored": 0, "skipped": 0, "total": 40,
    }  # fmt: skip


def test_names_stand_whole_and_a_fall_is_in_points() -> None:
    """20 of 40 after 40 of 40 are 50 points less."""
    out = io.StringIO()
    before, after = [item("order_before_policy", 40)], [item("order_before_policy", 20)]
    Console(file=out, width=80).print(pass_rates(before, after, ("1.0.0", "2.0.0")))
    alias, task = (line.replace("│", " ").split() for line in out.getvalue().splitlines()[-3:-1])
    assert alias == ["support_retriever"]
    assert task == [
        "order_before_policy", "100%", "(40/40)", "50%", "(20/40)", "-50", "pp", "20", "failed",
    ]  # fmt: skip
