"""A check that changed since the baseline, by the real command: named first in every report."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as Xml

from tests.scouter.cli.conftest import Scouter
from tests.support.shop_project import SCENARIOS

RUN = ("eval", "shop.yaml", "--agent", "shop:answer", "--profile", "answers.yaml")
WEAKER = SCENARIOS.replace(
    'operator: Contains,\n         expected_value: "${expected_outcome}"',
    "operator: IsNotEmpty,\n         expected_value: true",
)
CHANGED = (
    "task 'right_hours' of 2 scenarios changed (expected_value: \"${expected_outcome}\" → true; "
    'operator: "Contains" → "IsNotEmpty"): the baseline was judged again by today\'s check'
)

COUNTING = """
silent = answer


def answer(message):
    with open("messages.txt", "a") as file:
        file.write(message)
    return silent(message)
"""


def test_each_report_names_it_first(scouter: Scouter, project: Path) -> None:
    """The agent broke in the same step; the weaker check passes both runs, and nobody is misled."""
    assert scouter(*RUN, "--save", "base.json").returncode == 0
    (project / "shop.yaml").write_text(WEAKER)
    reports = [f"--{kind}=r.{kind}" for kind in ("markdown", "html", "json", "junit")]
    options = ("--baseline", "base.json", "--save", "now.json", *reports)
    done = scouter(*RUN, *options, "--min-pass-rate", "0.5", BAD="paris")
    assert done.stdout.splitlines()[:2] == ["Changed since the baseline", f"  - {CHANGED}"]
    quiet = scouter("compare", "base.json", "now.json", "--quiet")
    assert quiet.stdout.splitlines()[:2] == ["Changed since the baseline", f"  - {CHANGED}"]

    markdown = Path("r.markdown").read_text()
    plain = re.sub(r"\\|\u200b", "", markdown)
    assert plain.index(CHANGED) < plain.index("scenarios passed")
    page = Path("r.html").read_text()
    assert page.index("Changed since the baseline") < page.index("scenarios passed")
    body = json.loads(Path("r.json").read_text())
    assert list(body)[:2] == ["schema_version", "changes"]
    [change] = body["changes"]
    assert (change["text"], change["fate"], change["ids"]) == (
        CHANGED, "judged again", ["right_hours"],
    )  # fmt: skip
    root = Xml.parse("r.junit").getroot()  # noqa: S314 our own file
    properties = root.iter("property")
    assert next(iter(properties)).get("value") == CHANGED


def test_a_person_looks_at_what_cannot_be_compared(scouter: Scouter, project: Path) -> None:
    """Another question under the same id: 3 with the way out, and 0 for who takes it.

    An id of which nothing changed is wrong input, and costs no run.
    """
    with (project / "shop.py").open("a") as file:
        file.write(COUNTING)
    assert scouter(*RUN, "--save", "base.json").returncode == 0
    changed = SCENARIOS.replace("And the one in Paris?", "Is the one in Paris open?")
    (project / "shop.yaml").write_text(changed)
    options = (*RUN, "--baseline", "base.json", "--quiet", "--save", "now.json")
    done = scouter(*options)
    assert done.returncode == 3
    assert (
        "cannot clear scenario 'paris', which changed: look at the results of the new run and pass "
        "--accept-changed paris, or save a new baseline"
    ) in done.stdout
    for command in (options, ("compare", "base.json", "now.json")):
        accepted = scouter(*command, "--accept-changed", "paris")
        assert accepted.returncode == 0
        assert "1 of 1 scenarios passed, 1 of 1 in the baseline, without what is left out" in (
            accepted.stdout
        )
        (project / "messages.txt").unlink(missing_ok=True)
        wrong = scouter(*command, "--accept-changed", "paris", "--accept-changed", "berlin")
        assert wrong.returncode == 2
        assert (
            "--accept-changed berlin: nothing of this id changed since the baseline; the ids of "
            "what did are 'paris'"
        ) in wrong.stderr
        assert not (project / "messages.txt").exists()
    broken = scouter(*options, "--accept-changed", "paris", BAD="berlin")
    assert broken.returncode == 1
    for beside in ((), ("--interleave", "shop:answer")):
        lone = scouter(*RUN, *beside, "--accept-changed", "paris")
        assert lone.returncode == 2
        assert "--accept-changed needs --baseline FILE" in lone.stderr
