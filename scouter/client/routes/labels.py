"""Routes of the labels of people, and of judges."""

from collections.abc import Iterator
from typing import Literal, TypeAlias

from pydantic import JsonValue

from scouter.client.connection import Connection
from scouter.client.models.labels import (
    GoldJudges,
    JudgeAnswer,
    KeptJudgeAnswer,
    LabelAgreement,
    LabelItem,
    LabelledRecords,
    LabelQueue,
    LabelTasks,
)
from scouter.client.models.operation import FeedbackTaken
from scouter.client.request import arguments

LabelOrder: TypeAlias = Literal["random", "outcome", "failed", "uncertain", "disagrees"]


LabelStanding: TypeAlias = Literal[
    "contested", "tied", "differs", "undecided",
    "good_passed", "good_failed", "bad_passed", "bad_failed",
]  # fmt: skip


class LabelRoutes(Connection):
    """Routes of the labels of people, and of judges."""

    def labels(
        self,
        *,
        profile: str | None = None,
        task_id: str | None = None,
        rater: str | None = None,
        uid: str | None = None,
        limit: int | None = None,
    ) -> Iterator[LabelItem]:
        """Labels of records, the newest first; the last one of each person, task and record.

        Args:
            profile: Alias.
            task_id: Of the task.
            rater: The person.
            uid: Of the record.
            limit: Items per page, 1 to 1000; all pages are read, one after the other.
        """
        return self._pages(LabelItem, "/labels", arguments(locals()))

    def label(
        self,
        uid: str,
        task_id: str,
        label: bool | None,
        rater: str,
        notes: str = "",
        *,
        score: float | None = None,
        is_blind: bool | None = None,
        order: LabelOrder | None = None,
    ) -> LabelItem:
        """Say whether a record is good, as a task on it wants to know. Needs the scope label.

        Args:
            uid: Of the record.
            task_id: Of the task.
            label: Whether it is good; None beside a score, and to take an earlier label back.
            rater: The person.
            notes: For people.
            score: In place of the label: a number on the scale of the task.
            is_blind: Whether they gave it without having seen the outcome or other labels.
            order: Order of the queue that the record came from; None if from none.
        """
        return self._post(LabelItem, "/labels", body=arguments(locals()))

    def feedback(
        self,
        value: bool | float | None = None,
        text: str = "",
        *,
        trace_id: str | None = None,
        record_uid: str | None = None,
        record_id: str | None = None,
        session_id: str | None = None,
        name: str = "feedback",
        stars: int | None = None,
        label: str = "",
        user_id: str = "",
        id: str = "",
        at: int | str | None = None,
    ) -> FeedbackTaken:
        """Pass on what a user says of an answer, also days later. Needs the scope ingest.

        Args:
            value: A thumb, true for up; or a number on the scale of the score.
            text: In the user's words.
            trace_id: What it is about: a trace,
            record_uid: a record by its key,
            record_id: the newest record of this id,
            session_id: or a conversation.
            name: Of the score, which is that of the task.
            stars: 1 to 5, in place of a value.
            label: One word.
            user_id: The user; erasing by the tag `user.id` takes the feedback.
            id: Key of the feedback. It counts once, however often it is sent; without an id the
                same feedback does.
            at: When it was given, in ns since the epoch or RFC 3339; now by default.
        """
        return self._post(FeedbackTaken, "/feedback", body=arguments(locals()))

    def label_tasks(self) -> LabelTasks:
        """Tasks of active profiles, with their labels and the calibration of their judge."""
        return self._get(LabelTasks, "/labels/tasks")

    def label_queue(
        self,
        profile: str,
        task_id: str,
        *,
        rater: str = "",
        order: LabelOrder = "random",
        reveal: bool = False,
        uid: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> LabelQueue:
        """Records that a person has not labelled, in order.

        Args:
            profile: Alias.
            task_id: Of the task.
            rater: The person.
            order: Records that come first.
            reveal: Tell how the task ended, and what others said.
            uid: This record in place of the next, whether they labelled it or not.
            offset: Records to pass over.
            limit: Records, up to 20; by default one. 0 counts only.
        """
        return self._get(LabelQueue, "/labels/queue", arguments(locals()))

    def label_records(
        self,
        profile: str,
        task_id: str,
        *,
        standing: LabelStanding | None = None,
        rater: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> LabelledRecords:
        """Records that have labels, with all labels on them and how the task ended.

        Args:
            profile: Alias.
            task_id: Of the task.
            standing: Those of which people and task stand so to each other.
            rater: Those that this person labelled.
            offset: Records to pass over.
            limit: Records, up to 100; by default 20.
        """
        return self._get(LabelledRecords, "/labels/records", arguments(locals()))

    def label_agreement(self, profile: str, task_id: str) -> LabelAgreement:
        """Agreement of people with each other on a task, and of its judge with most of them.

        Args:
            profile: Alias.
            task_id: Of the task.
        """
        return self._get(LabelAgreement, "/labels/agreement", arguments(locals()))

    def label_file(
        self,
        profile: str,
        task_id: str,
        *,
        contexts: bool | None = None,
        format: Literal["jsonl", "csv"] | None = None,
        draw: int | None = None,
    ) -> Iterator[bytes]:
        """Labels on a task as the lines that `scouter judge calibrate` reads; or lines to fill in.

        Args:
            profile: Alias.
            task_id: Of the task.
            contexts: With the records' contexts, as by default, so that a judge can be called.
            format: JSON lines, as by default, or CSV.
            draw: In place of the labels so many records, drawn at random of each outcome.
        """
        return self._parts("/labels/file", arguments(locals()))

    def gold_judges(self) -> GoldJudges:
        """Read the agreement of judges with people on the collector's gold items.

        Gold items are in no other answer of the collector.
        """
        return self._get(GoldJudges, "/judges/gold")

    def judge_answer(self, key: str) -> JudgeAnswer:
        """Read the answer to a question that the collector's judges, or other clients, have sent.

        Args:
            key: The question's SHA-256 as hex digits; see `scouter.agent.cached_judge`.
        """
        return self._get(JudgeAnswer, "/judge-answers/{key}", arguments(locals()))

    def keep_judge_answer(self, key: str, response: str, model: str = "") -> KeptJudgeAnswer:
        """Store an answer for other clients of the same space. Needs the scope profile.

        Args:
            key: The question's SHA-256 as hex digits.
            response: The answer, written as JSON.
            model: The model that answered.
        """
        body: dict[str, JsonValue] = {"response": response, "model": model}
        return self._put(KeptJudgeAnswer, "/judge-answers/{key}", {"key": key}, body)
