"""Material of made-up cases, and their files for a person to review."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, TypeAdapter

from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.files.read import check_extension, load_model, read_csv, read_document
from scouter.evaluate.files.scenario_text import (
    check_scenario_path,
    dump_yaml,
    remark,
    write_scenario_text,
)
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.model.visible import or_meant

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


ALL: Final = "all"
_FILE: Final = Path(__file__).with_name("attacks.yaml")
_EXAMPLES: Final = 10
"""Most conversations that a question shows."""


def _story(value: object) -> object:
    return {"story": value} if isinstance(value, str) else value


class Story(BaseModel):
    """A user of the agent, and what brings them.

    Args:
        id: Name of the story in the ids of cases; by default `story-1` and so on.
        story: Who the user is, what they want, and what they know.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)

    id: str = Field(default="", max_length=80)
    story: str = Field(min_length=1, max_length=20_000)


_STORIES: Final = TypeAdapter(
    Annotated[list[Annotated[Story, BeforeValidator(_story)]], Field(min_length=1)]
)


def read_stories(path: Path) -> tuple[Story, ...]:
    """Read stories.

    Args:
        path: .yaml or .json with a list of texts or of `{id, story}`, or an object that has the
            list under `stories`; or .csv with a column `story`, and perhaps `id`.

    Returns:
        In their order, each with an id of its own.

    Raises:
        FileFormatError: None of these; names the place.
        ConfigError: Two stories have one id.
    """
    if check_extension(path, (".yaml", ".yml", ".json", ".csv")) == ".csv":
        found = list(_rows(path))
        if not found:
            raise FileFormatError(str(path), "there is no row", expected="a story in each")
    else:
        document = read_document(path)
        value, place = document.inside("stories")
        try:
            found = _STORIES.validate_python(value)
        except ValueError as error:
            raise document.wrap(error, place) from error
    named = [
        story if story.id else story.model_copy(update={"id": f"story-{number}"})
        for number, story in enumerate(found, start=1)
    ]
    ids = [story.id for story in named]
    twice = [name for name in ids if ids.count(name) > 1]
    if twice:
        raise ConfigError(f"--stories {path}: two stories have the id {twice[0]!r}; ids are unique")
    return tuple(named)


def _rows(path: Path) -> Iterator[Story]:
    for at, row in enumerate(read_csv(path), start=1):
        if "story" not in row:
            there = ", ".join(row)
            raise FileFormatError(
                str(path), f"its columns are {there}", expected="a column 'story'"
            )
        try:
            yield Story(id=row.get("id", ""), story=row["story"])
        except ValueError as error:
            raise FileFormatError(str(path), f"row {at}: a story is empty or too long") from error


def read_conversations(path: Path | None) -> tuple[JsonValue, ...]:
    """Read how users write to the agent: scenarios, such as those that `harvest` writes.

    Returns:
        At most 10, spread over the file, each with the user's messages and, where they are there,
        the calls that the agent made.

    Raises:
        FileFormatError: No file of scenarios.
    """
    if path is None:
        return ()
    scenarios: Sequence[EvalScenario] = EvalScenarios.from_path(path).scenarios
    step = -(-len(scenarios) // _EXAMPLES)
    return tuple(_conversation(scenario) for scenario in scenarios[::step])


def _conversation(scenario: EvalScenario) -> JsonValue:
    said: list[JsonValue] = [scenario.initial_query, *scenario.predefined_turns]
    calls = (scenario.metadata or {}).get("tool_calls")
    return {"user": said, "calls": calls} if calls else {"user": said}


class Attack(BaseModel):
    """One kind of attack."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str
    aim: str
    way: str
    shown_by: Literal["calls", "answer"]
    """Evidence that the agent gave in: calls of tools, or what it says."""


class _Catalogue(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    attacks: tuple[Attack, ...]


@cache
def all_attacks() -> tuple[Attack, ...]:
    """Read the catalogue of this package."""
    return load_model(_FILE, _Catalogue).attacks


def attacks_of(names: str) -> tuple[Attack, ...]:
    """Choose attacks.

    Args:
        names: `all`, or kinds with commas between them.

    Returns:
        In the order of the catalogue, each once.

    Raises:
        ConfigError: There is no such kind; names those there are.
    """
    known = {attack.kind: attack for attack in all_attacks()}
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name != ALL and name not in known:
            raise ConfigError(
                f"--attacks: no kind {name!r}; expected {ALL}, or some of {', '.join(known)}"
                f"{or_meant(name, known)}"
            )
    if not wanted:
        raise ConfigError(f"--attacks: expected {ALL}, or some of {', '.join(known)}")
    return tuple(known[kind] for kind in known if kind in wanted or ALL in wanted)
