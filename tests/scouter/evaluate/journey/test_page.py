"""The page on watsonx Orchestrate: its example runs and prints what it says."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[4] / "docs" / "from_watsonx.md").read_text(encoding="utf-8")


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (example,) = (text for text in examples if "evaluate_journey" in text)
    printed = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    names: dict[str, Any] = {}
    exec(compile(example, "from_watsonx.md", "exec"), names)  # noqa: S102 our own page
    assert capsys.readouterr().out == printed
