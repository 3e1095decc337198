"""The Grafana dashboard as a file; `tests/integration/test_series_read.py` asks its queries."""

import json
from typing import Any

from scouter.drift.prometheus.rules import dashboard_text
from tests.scouter.cli.conftest import Scouter, project, scouter
from tests.support.components import ROOT

__all__ = ("project", "scouter")

SHIPPED = ROOT / "deploy" / "grafana" / "scouter.json"


def panels() -> list[dict[str, Any]]:
    return json.loads(dashboard_text())["panels"]


def test_the_shipped_dashboard_is_that_of_the_command(scouter: Scouter) -> None:
    done = scouter("profile", "dashboard")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == SHIPPED.read_text() == dashboard_text()


def test_no_panel_lies_on_another() -> None:
    taken: set[tuple[int, int]] = set()
    for each in panels():
        place = each["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
    ids = [each["id"] for each in panels()]
    assert len(set(ids)) == len(ids)


def test_every_picture_says_what_it_shows_and_asks_the_chosen_source() -> None:
    for each in panels():
        if each["type"] == "row":
            continue
        assert each["title"]
        assert each["description"]
        assert {target["datasource"]["uid"] for target in each["targets"]} == {"${datasource}"}
        letters = [target["refId"] for target in each["targets"]]
        assert len(set(letters)) == len(letters)
