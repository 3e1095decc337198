"""A judge task, compiled: the question before the judge is asked, the verdict after it."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.evaluate.engine.compiled_task import Run, Subject, compile_run, errored
from scouter.evaluate.fault import TaskFault
from scouter.evaluate.judge import NO_JUDGE, JudgeError, JudgeReply, JudgeRequest
from scouter.evaluate.operators.show import show
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.paths import Path
from scouter.evaluate.prompt import Prompt, Render, compile_prompt
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.task_result import EvalTaskResult, TaskSpec
from scouter.evaluate.tasks.judge import LLMJudgeTask

Check: TypeAlias = Callable[[JsonValue], str]
"""From a judge's answer to what is wrong with it, "" if nothing is; raises `TaskFault`."""

_FENCE: Final = re.compile(r"\s*```[A-Za-z]*\s*\n(.*)\n\s*```\s*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTask:
    """Both halves of a judge task."""

    spec: TaskSpec
    expected: JsonValue
    prompt: Prompt
    max_retries: int
    render: Render
    check: Check | None
    is_structured: bool
    """True if a text has to be read as JSON: there is a schema, or a path into the answer."""
    compare: Run
    """Compares the answer, which it takes in the place of the record's context."""

    def question(self, scope: JsonValue, record_uid: str) -> JudgeRequest:
        """Fill the prompt in.

        Args:
            scope: The record's context and what the task depends on; anything but an object can
                be read as `${context}`.
            record_uid: Key of the record.

        Raises:
            TaskFault: A variable leads nowhere.
        """
        scope = scope if isinstance(scope, dict) else {"context": scope}
        prompt = self.prompt
        return JudgeRequest(
            task_id=self.spec.task_id,
            messages=self.render(scope),
            model=prompt.model,
            provider=str(prompt.provider),
            settings=prompt.model_settings or {},
            response_schema=prompt.output_type,
            record_uid=record_uid,
        )

    def verdict(
        self, reply: JudgeReply | JudgeError, scope: JsonValue
    ) -> tuple[EvalTaskResult, JsonValue]:
        """Check and compare what came back.

        Returns:
            The task's result, and the answer that dependent tasks read.
        """
        if isinstance(reply, JudgeError):
            return self._errored(reply.reason, reply.message), None
        answer = reply.response
        if self.is_structured and isinstance(answer, str):
            answer = _parse(answer)
            if answer is _NO_JSON:
                text = f"the judge's answer is no JSON: {show(reply.response)}"
                return self._errored(Reason.PARSE, text), None
        try:
            problem = "" if self.check is None else self.check(answer)
        except TaskFault as fault:
            return self._errored(fault.reason, fault.message), None
        if problem:
            text = f"the judge's answer is not of the wanted form: {problem}; it is {show(answer)}"
            return self._errored(Reason.PARSE, text), None
        found = self.compare(scope, None, answer)
        message = f"{found.message}; the judge answered {show(answer)}"
        result = EvalTaskResult(
            self.spec, found.outcome, found.reason, found.expected, found.actual, message
        )
        return result, answer

    def _errored(self, reason: Reason, message: str) -> EvalTaskResult:
        return EvalTaskResult(self.spec, Outcome.ERRORED, reason, self.expected, None, message)

    def fault(self, error: Exception) -> EvalTaskResult:
        """The result where the question could not even be put."""
        if isinstance(error, TaskFault):
            return self._errored(error.reason, error.message)
        return errored(self.spec, self.expected, None, error)

    def run(self, scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> EvalTaskResult:
        """The result where nobody is there to answer."""
        return self._errored(Reason.PROVIDER, NO_JUDGE)


def compile_judge(task: LLMJudgeTask, stage: int) -> JudgeTask:
    """Prepare a judge task for many records.

    Raises:
        ConfigError: A path, a template, a pattern or the schema of the answer can never work.
    """
    path = Path(task.context_path)
    label = f"the judge's {path.text!r}" if path.text else "the judge's answer"
    subject = Subject(
        task_id=task.id,
        task_type=task.task_type,
        operator=task.operator,
        expected=task.expected_value,
        condition=task.condition,
        stage=stage,
        assertion=task.context_path,
        label=label,
    )
    schema = task.prompt.output_type
    compared = compile_run(subject, lambda _, __, answer: path.get(answer))
    return JudgeTask(
        spec=compared.spec,
        expected=task.expected_value,
        prompt=task.prompt,
        max_retries=task.max_retries,
        render=compile_prompt(task.prompt),
        check=None if schema is None else _compile_check(schema),
        is_structured=bool(path.text) or (schema is not None and not _wants_text(schema)),
        compare=compared.run,
    )


def _wants_text(schema: dict[str, JsonValue]) -> bool:
    return schema.get("type") == "string"


_NO_JSON: Final = cast(JsonValue, object())
"""Stands for a text that is no JSON, as None is JSON's null."""


def _parse(text: str) -> JsonValue:
    """Read a text as JSON, also where a model put it between fences."""
    fenced = _FENCE.fullmatch(text)
    try:
        return json.loads(text if fenced is None else fenced.group(1), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return _NO_JSON


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is no JSON value")


def _compile_check(schema: dict[str, JsonValue]) -> Check:
    # Loaded here, as it takes a tenth of a second and only answers with a schema need it.
    from scouter.evaluate.schemas import compile_schema

    return compile_schema(schema, "prompt.output_type").explain
