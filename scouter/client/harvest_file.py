"""Scenario files for people to correct: YAML with remarks, or plain JSON lines."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any, Final

import yaml
from pydantic import JsonValue

from scouter.client.harvest import Harvested
from scouter.errors import ConfigError
from scouter.evaluate.files.json_ends import is_longer
from scouter.evaluate.files.read import MAX_YAML_BYTES, check_extension
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.task import Task
from scouter.model.visible import visible

EXTENSIONS: Final = (".yaml", ".yml", ".jsonl")
_WIDE: Final = sys.maxsize
_HEAD: Final = """\
# Scenarios made from stored traffic by `scouter scenarios harvest`. `expected_outcome` is what the
# record, or a task on it, says was expected; what was merely observed is marked so. Before they
# decide over a release, a person should look at each: what should the agent have answered, and are
# the tools those that it should have called?
"""


def check_scenario_path(path: Path) -> str:
    """Return the extension of a file that can be written.

    Raises:
        FileFormatError: It is another one.
    """
    return check_extension(path, EXTENSIONS)


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
        raise _too_large(path)
    data = (_json_lines(items) if is_plain else scenario_yaml(path.stem, items)).encode()
    if not is_plain and len(data) > MAX_YAML_BYTES:
        raise _too_large(path)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error


def _too_large(path: Path) -> ConfigError:
    return ConfigError(
        f"{path}: more than the {MAX_YAML_BYTES:,} bytes that a YAML file may have; write a .jsonl "
        "file"
    )


def _json_lines(items: Sequence[Harvested]) -> str:
    return "".join(f"{item.scenario.model_dump_json(exclude_defaults=True)}\n" for item in items)


def scenario_yaml(name: str, items: Sequence[Harvested]) -> str:
    """Write scenarios as YAML.

    Args:
        name: Of the collection.
        items: At least one.
    """
    head = f"{_HEAD}{_dump({'collection_id': name})}scenarios:\n"
    return head + "".join(_scenario(item) for item in items)


def _scenario(item: Harvested) -> str:
    return "  - " + indent("".join(_fields(item)), "    ").lstrip()


def _fields(item: Harvested) -> Iterator[str]:
    scenario, evaluation = item.scenario, item.evaluation
    yield _dump({"id": scenario.id})
    name = f"{evaluation.record_id or evaluation.uid}: {evaluation.outcome}"
    wrong = [task["task_id"] for task in _failed(item)]
    yield _remark(f"Record {name}" + (f" in {', '.join(wrong)}." if wrong else "."))
    yield _dump({"initial_query": scenario.initial_query})
    if scenario.predefined_turns:
        yield _dump({"predefined_turns": scenario.predefined_turns})
    if scenario.expected_outcome is not None:
        yield _remark("Expected: the record, or a task on it, says so.")
        yield _dump({"expected_outcome": scenario.expected_outcome})
    elif _observed(item) is None:
        yield _remark("Nothing says what was expected, or what was answered.")
    elif evaluation.outcome is Outcome.PASSED:
        yield _remark("Observed, not expected. If the answer was right, remove the mark:")
        yield indent(_dump({"expected_outcome": _observed(item)}), "# ", lambda _: True)
    else:
        yield _remark(
            "Nothing says what was expected, and the answer was observed in a record that "
            f"{evaluation.outcome}: see observed_answer in the metadata, and write "
            "expected_outcome."
        )
    if scenario.tasks:
        yield _dump({"tasks": [_wire(task) for task in scenario.tasks]})
    if item.draft:
        yield _remark(
            "Observed, not expected: the tools that were called. Correct them, and make it a task "
            "by removing the marks:"
        )
        body = _dump([_wire(task) for task in item.draft])
        yield indent(body if scenario.tasks else f"tasks:\n{body}", "# ", lambda _: True)
    left = [task["task_id"] for task in _failed(item) if task["judged_by"] == "profile"]
    if left:
        yield _remark(
            f"Read the record that the agent leaves, so they need --profile: {', '.join(left)}"
        )
    yield _dump({"metadata": scenario.metadata})


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


def _remark(text: str) -> str:
    """A comment; what comes from records cannot end it, as no line break is left."""
    return f"# {visible(text)}\n"


class _Dumper(yaml.SafeDumper):
    """Writes texts so that YAML 1.1 and 1.2 agree on them."""

    def ignore_aliases(self, data: object) -> bool:
        """Write everything in full."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    line = text.replace("\n", " ")
    style = '"'
    if text[:1].isalpha() and visible(line) == line:  # breaks of other kinds only in escapes
        style = None if line == text else "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _dump(value: JsonValue | dict[str, Any]) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDE)
