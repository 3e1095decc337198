"""Labelling: the tasks that there are, the record that is next, and what people said."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, cast

from collector.web.render import natural, pruned, text_of
from collector.web.source import Shown, Source
from scouter.client.models.answer import Page
from scouter.client.models.labels import (
    LabelAgreement,
    LabelItem,
    LabelledRecord,
    LabelledRecords,
    LabelQueue,
    LabelTasks,
    QueueItem,
)

_TEN: Final = "t"
"""Key of the number 10, which has no digit of its own."""
_LAST: Final = 3
"""A person's newest labels, which the queue offers to take back."""
_PAGE: Final = 20
"""Labelled records that a view shows."""
_FIELDS: Final = 4
"""Fields of a record that a row of a list shows."""
_BEGINNING: Final = 160
"""Characters of each."""
_SURE: Final = 0.4
"""Width of an interval of kappa beyond which there are too few labels to say anything."""
DRAWN: Final = ("outcome", "random")
"""Orders that draw at random: only of their labels a rate can be made."""
_Labels: TypeAlias = Page[LabelItem]
STANDINGS: Final = {
    "contested": "people differ",
    "tied": "people are tied",
    "differs": "the {} and people differ",
    "undecided": "the {} did not decide",
    "good_passed": "most people say good, the {} passes",
    "good_failed": "most people say good, the {} fails",
    "bad_passed": "most people say bad, the {} passes",
    "bad_failed": "most people say bad, the {} fails",
}
"""In words, with a place for `judge` or `check`."""


async def label_tasks_view(source: Source, rater: str) -> Shown:
    """Collect the tasks that can be labelled: judges' first, then checks of a record's texts.

    Args:
        source: Asks the API.
        rater: The person, as far as the browser knows.

    Raises:
        ProblemError: The API refused.
    """
    rows = (await source.get(LabelTasks, "labels/tasks")).items
    newest = (await source.get(_Labels, "labels", limit=10)).items
    mine: Sequence[LabelItem] = ()
    if rater:
        mine = (await source.get(_Labels, "labels", rater=rater, limit=5)).items
    ordered = sorted(rows, key=lambda each: (not each.is_judge, each.profile))
    return {
        "rows": [each for each in ordered if each.is_readable],
        "of_spans": [each for each in ordered if not each.is_readable],
        "newest": newest,
        "mine": mine,
        "questions": await source.questions([*newest, *mine]),
        "rater": rater,
    }


async def queue_view(source: Source, given: Mapping[str, str]) -> Shown:
    """Collect the next record of a person's queue.

    Args:
        source: Asks the API.
        given: `profile`, `task`, `rater`, `order`, `reveal`, `offset`; `uid`, a record in place of
            the next one, and `back`, the view that led to it; `seen`, a record whose outcome was
            shown before; `undone`, that a label was taken back, and `drawn`, its order.

    Raises:
        ProblemError: The API refused.
    """
    chosen = {
        "profile": given.get("profile", ""),
        "task": given.get("task", ""),
        "rater": given.get("rater", "").strip()[:100],
        "order": given.get("order") or "outcome",
    }
    offset = natural(given.get("offset", ""))
    is_shown = given.get("reveal") == "yes"
    parameters = {"profile": chosen["profile"], "task_id": chosen["task"], "rater": chosen["rater"]}
    queue = await source.get(
        LabelQueue,
        "labels/queue",
        **parameters,
        order=chosen["order"],
        reveal="true" if is_shown else "false",
        uid=given.get("uid"),
        offset=offset,
        limit="1" if chosen["rater"] else "0",
    )
    chosen["rater"] = _spelt(chosen["rater"], queue.people)
    item = queue.items[0] if queue.items and chosen["rater"] else None
    elsewhere = 0
    if item is not None:
        item = item.model_copy(update={"context": pruned(item.context)})
    elif chosen["rater"] and chosen["order"] not in DRAWN:
        elsewhere = (await source.get(LabelQueue, "labels/queue", **parameters, limit="0")).waiting
    last: Sequence[LabelItem] = ()
    if chosen["rater"]:
        last = (await source.get(_Labels, "labels", **parameters, limit=_LAST)).items
    return {
        "queue": queue,
        "item": item,
        "questions": await source.questions([*([item] if item else []), *last]),
        "chosen": chosen,
        "offset": offset,
        "last": last,
        "is_undone": given.get("undone") == "yes",
        "back": given.get("back", ""),
        "is_shown": is_shown,
        "is_blind": not is_shown and _is_blind(item, given.get("seen", ""), chosen["order"]),
        "elsewhere": elsewhere,
        "it": "judge" if queue.is_judge else "check",
        "orders": _orders(is_judge=queue.is_judge),
        "drawn": _drawn(given, chosen["order"]),
        "is_example": chosen["order"] not in DRAWN,
        "steps": _keyed(queue.scale.steps if queue.scale else ()),
    }


def _spelt(name: str, people: Sequence[str]) -> str:
    """A name as the person spelt it first, as the API keeps it."""
    return next((each for each in people if each.casefold() == name.casefold()), name)


def _orders(*, is_judge: bool) -> list[tuple[str, str]]:
    """Orders that can apply, in words; a check is never uncertain."""
    it = "judge" if is_judge else "check"
    doubts = [("uncertain", "judge uncertain")] if is_judge else []
    return [
        ("outcome", f"{it} passed and failed, at random"),
        ("random", "all at random"),
        ("failed", f"{it} failed"),
        *doubts,
        ("disagrees", f"{it} differs from people"),
    ]


def _is_blind(item: QueueItem | None, seen: str, order: str) -> bool:
    """Tell whether a person who does not see the outcome now has not seen it before either."""
    if item is None or item.uid == seen or order == "failed":
        return False
    return item.own is None or item.own.is_blind is not False


def _drawn(given: Mapping[str, str], order: str) -> str:
    """Order that the record comes from; "" of one that a link named.

    One whose label was taken back keeps the order of that label.
    """
    if given.get("undone") == "yes":
        return given.get("drawn", "")
    return "" if given.get("uid") else order


def _keyed(steps: Sequence[float]) -> list[tuple[float, str]]:
    """Numbers to choose from, each with its key: its own digit, or else that of its place."""
    digits = [*map(str, range(10)), _TEN]
    is_own = all(each in range(11) for each in steps)
    return [(each, digits[int(each)] if is_own else digits[at]) for at, each in enumerate(steps)]


async def labelled_view(source: Source, given: Mapping[str, str]) -> Shown:
    """Collect records that have labels on a task.

    Args:
        source: Asks the API.
        given: `profile`, `task`; `standing`, how people and task stand to each other; `rater`, who
            labelled them; `offset`.

    Raises:
        ProblemError: The API refused.
    """
    chosen = {
        "profile": given.get("profile", ""),
        "task": given.get("task", ""),
        "standing": given.get("standing", ""),
        "rater": given.get("rater", "").strip()[:100],
    }
    offset = natural(given.get("offset", ""))
    parameters = {"profile": chosen["profile"], "task_id": chosen["task"]}
    found = await source.get(
        LabelledRecords, "labels/records", **parameters,
        standing=chosen["standing"], rater=chosen["rater"], offset=offset, limit=_PAGE,
    )  # fmt: skip
    chosen["rater"] = _spelt(chosen["rater"], found.people)
    it = "judge" if found.is_judge else "check"
    # A list of one's own shows no other's label.
    own = chosen["rater"] if not chosen["standing"] else ""
    return {
        "found": found,
        "records": [_listed(each, own) for each in found.items],
        "questions": await source.questions(found.items),
        "chosen": chosen,
        "offset": offset,
        "page": _PAGE,
        "it": it,
        "standings": {name: words.format(it) for name, words in STANDINGS.items()},
    }


def _listed(record: LabelledRecord, rater: str = "") -> Shown:
    """A record as a row of a list, with the labels of one person, or of all."""
    labels = [each for each in record.labels if rater in ("", each.rater)]
    return {**dict(record), "labels": labels, "beginning": beginning_of(record.context)}


def beginning_of(context: object) -> list[tuple[str, str]]:
    """The first fields of a record, and the beginning of each."""
    fields = cast("dict[str, object]", context) if isinstance(context, dict) else {"": context}
    shown = [(name, text_of(value)) for name, value in list(fields.items())[:_FIELDS]]
    return [
        (name, text[:_BEGINNING] + ("…" if len(text) > _BEGINNING else "")) for name, text in shown
    ]


async def agreement_view(source: Source, given: Mapping[str, str]) -> Shown:
    """Collect the agreement of people, and of the judge with them.

    Args:
        source: Asks the API.
        given: `profile`, its alias, and `task`.

    Raises:
        ProblemError: The API refused.
    """
    parameters = {"profile": given.get("profile", ""), "task_id": given.get("task", "")}
    found = await source.get(LabelAgreement, "labels/agreement", **parameters)
    contested: Sequence[LabelledRecord] = ()
    if found.contested:
        listed = await source.get(
            LabelledRecords, "labels/records", **parameters, standing="contested", limit=5
        )
        contested = listed.items
    judge = found.judge
    agreed = judge.good_passed + judge.bad_failed
    compared = agreed + judge.good_failed + judge.bad_passed
    kappas = [judge.kappa, *(each.kappa for each in found.pairs)]
    return {
        "found": found,
        "contested": [_listed(each) for each in contested],
        "questions": await source.questions(contested),
        "it": "judge" if found.is_judge else "check",
        "agreed": agreed,
        "compared": compared,
        "undecided": found.records - found.tied - compared,
        "is_sure": all(each.upper - each.lower <= _SURE for each in kappas),
    }
