"""Expected outcomes that nothing compares with what the agent did: they look like a check."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from scouter.evaluate.paths.path import Path
from scouter.evaluate.paths.templates import template_paths
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.function import CodeTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.model.visible import some_of

if TYPE_CHECKING:
    from scouter.evaluate.scenario import EvalScenario
    from scouter.evaluate.tasks.task import Task

_OUTCOME: Final = "expected_outcome"
_AGENT: Final = "response"
_ALL: Final = frozenset({_OUTCOME, _AGENT})
_SHOWN: Final = 5


def unread_outcomes(scenarios: Iterable["EvalScenario"]) -> list["EvalScenario"]:
    """Find the scenarios whose expected outcome no task of theirs compares.

    A task compares it where it reads the outcome (a path, a template in the expected value, a
    variable of a judge's prompt, another task's value) and the agent's answer or its spans.

    Returns:
        In their order.

    Cost: linear in tasks.
    """
    return [
        scenario
        for scenario in scenarios
        if scenario.expected_outcome is not None and not _compares(scenario.tasks)
    ]


def unread_warning(scenarios: Iterable["EvalScenario"]) -> str | None:
    """Say which expected outcomes nothing compares, and what to do; None if there are none."""
    found = unread_outcomes(scenarios)
    if not found:
        return None
    names = some_of([repr(each.id) for each in found], _SHOWN)
    return (
        f"no task compares the expected_outcome of {names}: an answer that differs from it "
        "passes; add a task such as {task_type: Assertion, id: right, context_path: response, "
        'operator: Contains, expected_value: "${expected_outcome}"}'
    )


def _compares(tasks: Sequence["Task"]) -> bool:
    by_id = {task.id: task for task in tasks}
    known: dict[str, frozenset[str]] = {}

    def reads(task: "Task") -> frozenset[str]:
        if task.id not in known:
            own = frozenset(_reads(task))
            through = [reads(by_id[name]) for name in task.depends_on if name in own]
            known[task.id] = own.union(*through)
        return known[task.id]

    return any(reads(task) >= _ALL for task in tasks)


def _reads(task: "Task") -> Iterator[str]:
    """First steps of the paths in a scenario's context; the spans are the agent's, too."""
    if isinstance(task, AssertionTask):
        yield from _first(Path(task.context_path))
    elif isinstance(task, LLMJudgeTask):
        for text in (*task.prompt.parameters, *filter(None, (task.reference,))):
            yield from _first(Path(text))
    elif isinstance(task, CodeTask):
        yield from _ALL
    else:
        yield _AGENT
        for prompt in task.prompts.values() if isinstance(task, TrajectoryTask) else ():
            yield from (name for text in prompt.parameters for name in _first(Path(text)))
    for path in template_paths(task.expected_value):
        yield from _first(path)


def _first(path: Path) -> Iterable[str]:
    if path.text.startswith("$"):  # a JSONPath may begin anywhere
        return [name for name in _ALL if name in path.text] or _ALL
    if not path.segments or not isinstance(path.segments[0], str):
        return _ALL  # the whole context
    return (path.segments[0],)
