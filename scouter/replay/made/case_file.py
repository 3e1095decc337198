"""Files of made-up cases, for a person to review."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any, Final, cast

from pydantic import JsonValue

from scouter.evaluate.files.scenario_text import (
    check_scenario_path,
    dump_yaml,
    remark,
    write_scenario_text,
)

_HEAD: Final = """\
# Scenarios that a model made up for `scouter scenarios generate`. Nobody has looked at them yet,
# and `scouter eval` refuses them. For each: would a user say this, and is what it expects right?
# Correct it, then delete its line `unreviewed: true`.
"""
_CALLS: Final = (
    "Expected, as the model sees it: these calls in this order, others beside them; arguments that "
    "are not named may be anything."
)
_NO_TASK: Final = "The model expects no call, and nothing is checked: add a task, or use a profile."


def write_cases(path: Path, scenarios: Sequence[Mapping[str, JsonValue]]) -> None:
    """Write cases; the same ones give the same bytes.

    Args:
        path: `.yaml` or `.yml` has remarks, `.jsonl` has none.
        scenarios: At least one, as `make_cases` gives them.

    Raises:
        ConfigError: The file would be larger than YAML files may be, or cannot be written.
    """
    if check_scenario_path(path) == ".jsonl":
        text = "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in scenarios)
    else:
        text = f"{_HEAD}{dump_yaml({'collection_id': path.stem})}scenarios:\n"
        for each in scenarios:
            text += "  - " + indent("".join(_parts(each)), "    ").lstrip()
    write_scenario_text(path, text)


def _parts(scenario: Mapping[str, JsonValue]) -> Iterator[str]:
    made = cast("dict[str, Any]", scenario["metadata"])["made"]
    for name, value in scenario.items():
        if name == "unreviewed":
            if made["why"].strip():
                yield remark(made["why"])
            if "must_not" in made:
                yield remark(f"Must not happen: {made['must_not']}")
        elif name == "expected_trajectory":
            yield remark(_CALLS)
        elif name == "metadata" and "tasks" not in scenario:
            yield remark(_NO_TASK)
        yield dump_yaml({name: value})
