"""A judge task, compiled: its questions before the judge is called, its outcome after."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.engine.asking_task import Asking, AskingTask, ResultAndAnswer
from scouter.evaluate.engine.compiled_task import Run, Subject, compile_run
from scouter.evaluate.engine.judge_answer import (
    MAX_SHOWN_CHARS,
    AnswerForm,
    Vote,
    answer_form,
    middle,
    still_needed,
    tally,
    usage_of,
    winner,
)
from scouter.evaluate.judge.ask import Reply
from scouter.evaluate.judge.port import JudgeReply, JudgeRequest, Message
from scouter.evaluate.judge.prompt import Prompt, PromptMessage
from scouter.evaluate.judge.render import Render, compile_prompt
from scouter.evaluate.judge.shorten import JudgeExchange, shorten
from scouter.evaluate.outcome import Outcome, Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.judge import LLMJudgeTask, PairSwap

_REFERENCE: Final = "For reference, this is taken to be a right answer:\n${{{path}}}"
_NO_REFERENCE: Final = "There is no reference answer; judge without one."
_TIE: Final = 0.5
"""Score of a pair of which neither text is better; of the first one it is 1, of the second 0."""
_NOT_THE_ANSWER: Final = (Reason.ABSTAINED, Reason.EXPECTED)
"""Reasons why a readable answer leads to no outcome: it abstains, or nothing is expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTask(AskingTask):
    """Judge task ready to run: its prompts, the form of its answers and its comparison."""

    task: LLMJudgeTask
    form: AnswerForm
    renders: Mapping[bool, tuple[Render, ...]]
    """Renderers with (True) and without a reference, one for each order of the prompt's texts."""
    reference: Path | None
    compare: Run
    """Compares a value, which it takes in the place of the record's context."""

    def ask(
        self, scope: JsonValue, record_uid: str, base: JsonValue, spans: SpanTree | None = None
    ) -> Asking:
        """Ask about one record until there is an outcome.

        Raises:
            TaskFault: A variable leads nowhere; raised before any call.
        """
        del base, spans
        fields: JsonValue = scope if isinstance(scope, dict) else {"context": scope}
        orders = [render(fields) for render in self.renders[self._has_reference(fields)]]
        samples = self.task.samples
        replies: list[Reply] = []
        votes: list[Vote] = []
        wanted = samples if self.task.vote == "median" else still_needed(votes, samples)
        while wanted:
            numbers = range(len(votes), len(votes) + wanted)
            found = yield [
                self._request(messages, record_uid, number, scope)
                for number in numbers
                for messages in orders
            ]
            replies += found
            width = len(orders)
            votes += [
                self._vote(found[at : at + width], scope) for at in range(0, len(found), width)
            ]
            wanted = 0 if self.task.vote == "median" else still_needed(votes, samples)
        result, answer = self._decide(votes, scope)
        return result.using(usage_of(replies), JudgeExchange.of(orders[0], answer)), answer

    def _has_reference(self, fields: JsonValue) -> bool:
        if self.reference is None:
            return False
        try:
            return self.reference.get(fields) not in (None, "")
        except TaskFault:
            return False

    def _request(
        self, messages: Sequence[Message], record_uid: str, sample: int, scope: JsonValue
    ) -> JudgeRequest:
        prompt = self.task.prompt
        return JudgeRequest(
            task_id=self.spec.task_id,
            messages=tuple(messages),
            model=prompt.model,
            provider=str(prompt.provider),
            settings=prompt.model_settings or {},
            response_schema=self.form.schema,
            record_uid=record_uid,
            sample=sample,
            is_usable=partial(self._is_usable, scope),
        )

    def _is_usable(self, scope: JsonValue, reply: JudgeReply) -> bool:
        """Tell whether an answer can be read and compared, whatever the other answers are."""
        try:
            # Of a pair it is read as the answer in either order: those never agree, but each
            # names a choice or does not.
            result = self._vote([reply] * (1 if self.task.swap is None else 2), scope).result
        except Exception:  # noqa: BLE001 — the task meets it, too, and says what it is
            return False
        return result.outcome is not Outcome.ERRORED or result.reason in _NOT_THE_ANSWER

    # --- one sample -------------------------------------------------------------------------

    def _vote(self, replies: Sequence[Reply], scope: JsonValue) -> Vote:
        """Read what came of one sample: one reply, or one for each order of a pair."""
        try:
            if self.task.swap is not None:
                return self._pair_vote(replies, self.task.swap, scope)
            answer = self.form.read(replies[0])
            return self._single_vote(answer, scope)
        except TaskFault as fault:
            return Vote(self._errored(fault.reason, fault.message), None)

    def _single_vote(self, answer: JsonValue, scope: JsonValue) -> Vote:
        bounds = self.form.bounds(answer)
        reported = self.form.unmet(answer)
        if bounds is None:
            found = self._compared(answer, scope)
        else:
            worst, best = (self.compare(scope, None, value) for value in bounds)
            if worst.outcome is not best.outcome:
                raise TaskFault(
                    Reason.ABSTAINED, f"criteria that the judge could not tell: {reported}"
                )
            found = worst
        said = f"{found.message}; {reported}" if reported else found.message
        result = self._with_message(found, f"{said}; the judge answered {_shown(answer)}")
        return Vote(result.scored(self.form.score(answer)), answer)

    def _compared(self, answer: JsonValue, scope: JsonValue) -> EvalTaskResult:
        try:
            value = self.form.value(answer)
        except TaskFault as fault:
            return self._errored(fault.reason, fault.message)
        return self.compare(scope, None, value)

    def _pair_vote(self, replies: Sequence[Reply], swap: PairSwap, scope: JsonValue) -> Vote:
        answers = [self.form.read(reply) for reply in replies]
        first, second = (self._label(answer, swap) for answer in answers)
        turned = {swap.labels[0]: swap.labels[1], swap.labels[1]: swap.labels[0]}
        second = turned.get(second, second)
        shown = " and, the other way round, ".join(map(_shown, answers))
        if first == second:
            found = self.compare(scope, None, first)
            text = f"{found.message}; the judge answered {shown}"
            score = _TIE if first == swap.tie else float(first == swap.labels[0])
            return Vote(self._with_message(found, text).scored(score), answers[0])
        changed = f"the judge's choice changed with the order, from {first!r} to {second!r}"
        if swap.tie is None:
            raise TaskFault(Reason.ABSTAINED, f"{changed}; it answered {shown}")
        found = self.compare(scope, None, swap.tie)
        text = f"{found.message}; {changed}, which counts as {swap.tie!r}; it answered {shown}"
        return Vote(self._with_message(found, text).scored(_TIE), swap.tie)

    def _label(self, answer: JsonValue, swap: PairSwap) -> str:
        label = self.form.value(answer)
        known = [*swap.labels, *([] if swap.tie is None else [swap.tie])]
        if not isinstance(label, str) or label not in known:
            raise TaskFault(
                Reason.PARSE,
                f"the judge's choice is none of {', '.join(map(repr, known))}: {_shown(label)}",
            )
        return label

    # --- all samples ------------------------------------------------------------------------

    def _decide(self, votes: Sequence[Vote], scope: JsonValue) -> ResultAndAnswer:
        result, answer = self._by_votes(votes, scope)
        if result.outcome is Outcome.ERRORED:
            # Undecided while some were never called for: not the judge's failure.
            for vote in votes:
                if vote.result.reason is Reason.BUDGET:
                    return self._skipped(Reason.BUDGET, f"skipped: {vote.result.message}"), None
        return result, answer

    def _by_votes(self, votes: Sequence[Vote], scope: JsonValue) -> ResultAndAnswer:
        samples = self.task.samples
        if samples == 1:
            return votes[0].result, votes[0].answer
        try:
            if self.task.vote == "median":
                return self._by_median(votes, scope)
            vote = winner(votes, samples)
        except TaskFault as fault:
            return self._errored(fault.reason, fault.message), None
        share = f"{tally(votes)} of {samples} samples"
        result = self._with_message(vote.result, f"{share}; {vote.result.message}")
        scores = [score for each in votes if (score := each.result.score) is not None]
        return result.scored(fmean(scores)), vote.answer

    def _by_median(self, votes: Sequence[Vote], scope: JsonValue) -> ResultAndAnswer:
        value, vote = middle(votes, self.task.samples)
        found = self.compare(scope, None, value)
        of = ", ".join(
            str(each.result.actual) for each in votes if each.result.outcome is not Outcome.ERRORED
        )
        text = f"{found.message}; the median of {of}; the judge answered {_shown(vote.answer)}"
        return self._with_message(found, text), vote.answer

    # --- results ----------------------------------------------------------------------------

    def _with_message(self, found: EvalTaskResult, message: str) -> EvalTaskResult:
        return EvalTaskResult(
            self.spec, found.outcome, found.reason, found.expected, found.actual, message
        )


def compile_judge(task: LLMJudgeTask, stage: int) -> JudgeTask:
    """Prepare a judge task for many records.

    Raises:
        ConfigError: A path, a template, a pattern or the schema of the answer can never work.
    """
    form = answer_form(task)
    subject = Subject(
        task=task,
        stage=stage,
        assertion=task.context_path,
        label=f"the judge's {form.path.text!r}" if form.path.text else "the judge's answer",
    )
    compared = compile_run(subject, lambda _, __, value: value)
    return JudgeTask(
        spec=compared.spec,
        task=task,
        form=form,
        renders=_renders(task, form),
        reference=None if task.reference is None else Path(task.reference),
        compare=compared.run,
    )


def _renders(task: LLMJudgeTask, form: AnswerForm) -> dict[bool, tuple[Render, ...]]:
    """Prepare the questions with and without a reference, in every order."""
    if task.reference is None:
        return {False: _orders(task.prompt, form.notes, [], task.swap)}
    given = PromptMessage(content=_REFERENCE.format(path=task.reference))
    return {
        True: _orders(task.prompt, form.notes, [given], task.swap),
        False: _orders(task.prompt, (*form.notes, _NO_REFERENCE), [], task.swap),
    }


def _orders(
    prompt: Prompt, notes: Sequence[str], more: Sequence[PromptMessage], swap: PairSwap | None
) -> tuple[Render, ...]:
    first = compile_prompt(prompt, notes=notes, more=more)
    if swap is None:
        return (first,)
    other = {swap.first: swap.second, swap.second: swap.first}
    return first, compile_prompt(prompt, notes=notes, more=more, instead=other)


def _shown(answer: JsonValue) -> str:
    """Write an answer for a person to read, both ends of a long one."""
    return shorten(json.dumps(answer, ensure_ascii=False), MAX_SHOWN_CHARS)
