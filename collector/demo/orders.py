"""The shop that the demo's agent answers questions about."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One order of the shop."""

    id: str
    item: str
    category: str
    state: str
    arrives: str


ORDERS: Final = {
    order.id: order
    for order in (
        Order(id="A-1001", item="kettle", category="kitchen", state="shipped", arrives="24 May"),
        Order(id="A-1002", item="desk lamp", category="home", state="packed", arrives="26 May"),
        Order(id="A-1003", item="trail shoes", category="sport", state="shipped", arrives="23 May"),
        Order(id="A-1004", item="café set", category="kitchen", state="delayed", arrives="2 June"),
        Order(id="A-1005", item="tent", category="sport", state="packed", arrives="28 May"),
        Order(id="A-1006", item="bookshelf", category="home", state="shipped", arrives="25 May"),
        Order(id="A-1007", item="bread bin", category="kitchen", state="packed", arrives="27 May"),
        Order(id="A-1008", item="yoga mat", category="sport", state="delayed", arrives="4 June"),
    )
}

RETURN_DAYS: Final = {"kitchen": 30, "home": 14, "sport": 60}

_QUESTIONS: Final = (
    "Where is my order {id}, and until when can I return it?",
    "When does {id} arrive? I may want to send it back.",
    "Please check order {id} and tell me how long I can return it.",
)


def conversations(count: int) -> list[tuple[str, str]]:
    """Make questions that differ but are the same at every run.

    Args:
        count: Number of questions.

    Returns:
        Pairs of question and the id of the order that it is about.
    """
    ids = tuple(ORDERS)
    return [
        (_QUESTIONS[i % len(_QUESTIONS)].format(id=ids[i % len(ids)]), ids[i % len(ids)])
        for i in range(count)
    ]
