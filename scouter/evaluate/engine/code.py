"""Code tasks, compiled: what a function of somebody's own says of a record."""

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.engine.checks import GROUP, check_names, run_check
from scouter.evaluate.engine.compiled_task import CompiledTask, Subject
from scouter.evaluate.engine.doubt import doubting_growth
from scouter.evaluate.engine.metric import Measured, compile_metric
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.code import CodeTask
from scouter.model.span import Span


def compile_code(task: CodeTask, subject: Subject) -> CompiledTask:
    """Turn a code task into a function from record to result.

    With missing spans the task is errored: nobody knows what the check would say of them.

    Args:
        task: The task.
        subject: Fields that its results share.

    Raises:
        ConfigError: There is no such check; names those that there are.
    """
    known = check_names()
    if task.check not in known:
        found = f"there are {', '.join(map(repr, known))}" if known else "there is none"
        raise ConfigError(
            f"check: no check is called {task.check!r}, {found}; checks are entry points of the "
            f"group {GROUP!r} of installed packages, and offline functions of --checks MODULE"
        )

    def measure(scope: JsonValue, spans: SpanTree | None, _: JsonValue) -> Measured:
        seen = _spans_of(spans) if task.reads_spans else ()
        value, message = run_check(task.check, scope, seen, task.timeout_s)
        return Measured(score=float(value), told=message)

    compiled = compile_metric(subject, measure)
    return doubting_growth(compiled, lambda _: False) if task.reads_spans else compiled


def _spans_of(tree: SpanTree | None) -> tuple[Span, ...]:
    if tree is not None and tree.unread:
        raise TaskFault(Reason.LIMIT, tree.unread)
    if not tree:
        raise TaskFault(Reason.NO_SPANS, "the record's trace has no spans here")
    return tree.spans
