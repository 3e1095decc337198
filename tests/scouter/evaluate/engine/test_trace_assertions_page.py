"""The page on trace and agent assertions: its example runs, its tables are complete."""

import re
from pathlib import Path

import pytest

from scouter.evaluate.tasks.agent import AgentAssertion
from scouter.evaluate.tasks.base import Tagged
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion

PAGE = (Path(__file__).parents[4] / "docs/trace_assertions.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    example, printed = re.findall(r"```(?:python|text)\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "docs/trace_assertions.md", "exec"), {})  # noqa: S102 — our own page
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("family", [SpanFilter, TraceAssertion, AgentAssertion])
def test_every_kind_is_in_a_table(family: type[Tagged]) -> None:
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
    for kind in family.kinds:
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()
        assert f"{name}(" in rows or f"{name}_(" in rows, kind
