"""Spans of real instrumentations of agent frameworks are read as the runs happened.

docs/conventions.md shows the figures: `python -m tests.integration.test_agent_traces` writes them.
"""

import re
from collections.abc import Iterable
from typing import Final

import pytest

from tests.support.agent_traces import UNSEEN, Client, cells_of, find_clients, load_client
from tests.support.conventions_page import PAGE

LEAST_RIGHT: Final = 0.98
START: Final = "<!-- clients: python -m tests.integration.test_agent_traces -->"
END: Final = "<!-- end of the clients -->"


def read_all() -> list[tuple[Client, dict[str, str]]]:
    """Every client with its cells."""
    clients = [load_client(file) for file in find_clients()]
    return [(client, cells_of(client)) for client in clients]


@pytest.fixture(scope="module")
def read() -> list[tuple[Client, dict[str, str]]]:
    return read_all()


def test_what_agents_did_is_read(read: list[tuple[Client, dict[str, str]]]) -> None:
    wrong = [
        f"{client.name}: {cell}: {problem}"
        for client, cells in read
        for cell, problem in cells.items()
        if problem
    ]
    told = sum(len(cells) for _, cells in read)

    assert len(read) >= 49
    assert not [problem for problem in wrong if f": {UNSEEN}: " in problem]
    assert told - len(wrong) >= LEAST_RIGHT * told, "\n".join(wrong)


def test_the_page_shows_the_figures(read: list[tuple[Client, dict[str, str]]]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_clients(page, read)


def with_clients(page: str, read: Iterable[tuple[Client, dict[str, str]]]) -> str:
    """The page with the figures of today in it."""
    lines = ["| client | conventions | cells reported | right | wrong |", "|---|---|---|---|---|"]
    told = right = 0
    for client, cells in read:
        wrong = [cell for cell, problem in cells.items() if problem]
        told, right = told + len(cells), right + len(cells) - len(wrong)
        version = re.sub(r"\s+", " ", client.convention())
        lines.append(
            f"| {client.name} | {version} | {len(cells)} | {len(cells) - len(wrong)} "
            f"| {', '.join(wrong)} |"
        )
    lines.append(f"| all | | {told} | {right} ({right / max(told, 1):.1%}) | |")
    head, _, rest = page.partition(START)
    _, _, tail = rest.partition(END)
    return f"{head}{START}\n\n" + "\n".join(lines) + f"\n\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(with_clients(PAGE.read_text(encoding="utf-8"), read_all()), encoding="utf-8")
