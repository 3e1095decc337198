"""Texts of an agent stay text, wherever a sender or a person puts them."""

from tests.collector.web.conftest import HOSTILE, Shown, trace_of
from tests.collector.web.test_lists import links, rows
from tests.collector.web.test_views import Parts, view
from tests.support.browser import browser_page, open_view

QUEUE = "/labels/queue?profile=answers&task=right"


def test_no_text_of_an_agent_does_anything(shown: Shown) -> None:
    """No dialog, no request to another site, no error, nothing that the policy had to stop."""
    with browser_page(shown.url) as (page, seen):
        for address in shown.addresses:
            open_view(page, address)
            assert page.evaluate("window.violations") == [], address
        assert ["404" in each for each in seen.problems] == [True], (
            seen.problems
        )  # of /records/none


def test_what_is_hostile_stays_text(shown: Shown) -> None:
    """Each text in every place that a sender fills; the views have no more tags for it."""
    tags: dict[str, set[str]] = {}
    for number, text in enumerate(["plain", *HOSTILE]):
        for kind, address in (
            ("record", f"/records/u{number}"),
            ("trace", f"/traces/{trace_of(number)}"),
            ("conversation", f"/conversations/u{number}"),
        ):
            parts = Parts(view(shown.service, address))
            assert set(parts.tags) == tags.setdefault(kind, set(parts.tags)), text
            assert not [name for _, name, _ in parts.attributes if name.startswith("on")], text
            assert all(
                value.startswith(("/", "#", "?"))
                for _, name, value in parts.attributes
                if name in ("href", "src", "action", "hx-get")
            ), text
            if text.isprintable():
                assert any(text in each for each in parts.text), (kind, text)
    for address in shown.addresses[:15]:
        parts = Parts(view(shown.service, address))
        assert "script" not in parts.tags[parts.tags.index("body") :]
        assert not {"iframe", "img", "object", "base"} & set(parts.tags)


def test_values_that_are_hostile_stay_text(shown: Shown) -> None:
    """Every text is a tool's name there; the links lead to its traces, and nowhere else."""
    text = view(shown.service, "/facets/traces")
    parts = Parts(text)
    assert not [name for _, name, _ in parts.attributes if name.startswith("on")]
    assert all(
        value.startswith(("/", "#", "?"))
        for _, name, value in parts.attributes
        if name in ("href", "src", "action", "hx-get")
    )
    assert not {"iframe", "img", "object", "base"} & set(parts.tags)
    names = {
        each["value"]
        for facet in shown.service.get("/api/v1/facets/traces")["items"]
        for each in facet["values"]
        if facet["name"] == "tool_name"
    }
    assert names & set(HOSTILE)
    for (label, value), (link, count) in links(text).items():
        if label == "Tool":
            assert rows(view(shown.service, link)) == count, value


def test_labels_and_notes_stay_text(shown: Shown) -> None:
    """Every hostile record is labelled, and its text stands in notes and names, too."""
    for number, text in enumerate(HOSTILE, 1):
        form = {
            "uid": f"u{number}",
            "profile": "answers",
            "task": "right",
            "rater": HOSTILE[0],
            "notes": text,
        }
        answer = shown.service.http.post("/labels", data={**form, "label": "bad"})
        assert answer.is_success, answer.text
    with browser_page(shown.url) as (page, seen):
        page.goto(QUEUE)
        page.get_by_label("Your name").fill("ada")
        page.get_by_role("button", name="Begin").click()
        page.get_by_label("Notes").fill(HOSTILE[0])
        page.get_by_role("link", name="Reveal outcome").click()
        page.get_by_role("button", name="Bad B").click()
        page.get_by_text("1 labelled by ada").wait_for()
        for skipped in range(len(HOSTILE)):
            page.goto(f"{QUEUE}&rater=ada&reveal=yes&offset={skipped}")
            assert page.get_by_role("region", name="Outcome").is_visible()
            assert page.evaluate("window.violations") == []
        for address in ("/labels", "/labels/agreement?profile=answers&task=right"):
            page.goto(address)
            assert HOSTILE[0] in page.locator("main").inner_text()
            assert page.evaluate("window.violations") == []
            assert page.locator("main script, main img, main iframe").count() == 0
        assert seen.problems == []
