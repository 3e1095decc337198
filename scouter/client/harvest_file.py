"""Scenario files for people to correct: YAML with remarks, or plain JSON lines."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any, Final

from pydantic import JsonValue

from scouter.client.harvest import Harvested
from scouter.evaluate.files.json_ends import is_longer
from scouter.evaluate.files.read import MAX_YAML_BYTES
from scouter.evaluate.files.scenario_text import (
    check_scenario_path,
    dump_yaml,
    remark,
    too_large,
    write_scenario_text,
)
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.task import Task

_HEAD: Final = """\
# Scenarios made from stored traffic by `scouter scenarios harvest`. `expected_outcome` is what the
# record, or a task on it, says was expected; what was merely observed is marked so. Before they
# decide over a release, a person should look at each: what should the agent have answered, and are
# the tools those that it should have called?
"""


def write_scenarios(path: Path, items: Sequence[Harvested]) -> None:
    """Write scenarios; the same ones give the same bytes.

    Args:
        path: `.yaml` or `.yml` has remarks, `.jsonl` has none.
        items: At least one.

    Raises:
        ConfigError: The file would be larger than YAML files may be, or cannot be written.
    """
    is_plain = check_scenario_path(path) == ".jsonl"
    told: list[JsonValue] = [
        item.scenario.model_dump(mode="json", exclude_defaults=True) for item in items
    ]
    if not is_plain and is_longer(told, MAX_YAML_BYTES):  # to write it takes half a minute
        raise too_large(path)
    write_scenario_text(path, _json_lines(items) if is_plain else scenario_yaml(path.stem, items))


def _json_lines(items: Sequence[Harvested]) -> str:
    return "".join(f"{item.scenario.model_dump_json(exclude_defaults=True)}\n" for item in items)


def scenario_yaml(name: str, items: Sequence[Harvested]) -> str:
    """Write scenarios as YAML.

    Args:
        name: Of the collection.
        items: At least one.
    """
    head = f"{_HEAD}{dump_yaml({'collection_id': name})}scenarios:\n"
    return head + "".join(_scenario(item) for item in items)


def _scenario(item: Harvested) -> str:
    return "  - " + indent("".join(_fields(item)), "    ").lstrip()


def _fields(item: Harvested) -> Iterator[str]:
    scenario, evaluation = item.scenario, item.evaluation
    yield dump_yaml({"id": scenario.id})
    name = f"{evaluation.record_id or evaluation.uid}: {evaluation.outcome}"
    wrong = [task["task_id"] for task in _failed(item)]
    yield remark(f"Record {name}" + (f" in {', '.join(wrong)}." if wrong else "."))
    for each in item.earlier:
        yield remark(f"Before it in the session: {each.record_id or each.uid}: {each.outcome}.")
    yield dump_yaml({"initial_query": scenario.initial_query})
    if scenario.predefined_turns:
        yield dump_yaml({"predefined_turns": scenario.predefined_turns})
    if scenario.expected_outcome is not None:
        yield remark("Expected: the record, or a task on it, says so.")
        yield dump_yaml({"expected_outcome": scenario.expected_outcome})
    elif _observed(item) is None:
        yield remark("Nothing says what was expected, or what was answered.")
    elif evaluation.outcome is Outcome.PASSED:
        yield remark("Observed, not expected. If the answer was right, remove the mark:")
        yield indent(dump_yaml({"expected_outcome": _observed(item)}), "# ", lambda _: True)
    else:
        yield remark(
            "Nothing says what was expected, and the answer was observed in a record that "
            f"{evaluation.outcome}: see observed_answer in the metadata, and write "
            "expected_outcome."
        )
    if scenario.tasks:
        yield dump_yaml({"tasks": [_wire(task) for task in scenario.tasks]})
    if item.draft:
        yield remark(
            "Observed, not expected: the tools that were called. Correct them, and make it a task "
            "by removing the marks:"
        )
        body = dump_yaml([_wire(task) for task in item.draft])
        yield indent(body if scenario.tasks else f"tasks:\n{body}", "# ", lambda _: True)
    left = [task["task_id"] for task in _failed(item) if task["judged_by"] == "profile"]
    if left:
        yield remark(
            f"Read the record that the agent leaves, so they need --profile: {', '.join(left)}"
        )
    yield dump_yaml({"metadata": scenario.metadata})


def _observed(item: Harvested) -> JsonValue:
    return (item.scenario.metadata or {}).get("observed_answer")


def _failed(item: Harvested) -> list[dict[str, str]]:
    metadata: dict[str, Any] = item.scenario.metadata or {}
    return metadata["failed_tasks"]


def _wire(task: Task) -> dict[str, Any]:
    wire = task.model_dump(mode="json", exclude_none=True)
    wire["expected_value"] = task.expected_value  # None is a value there
    return {
        name: value
        for name, value in wire.items()
        if value not in ([], False) or name == "expected_value"
    }
