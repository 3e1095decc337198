"""The manifests of the page, as the rollout controllers read them and ask.

Source: Argo Rollouts, "Analysis" (web metric; limits of inconclusive and failed measurements, and
what it makes of a count that is reached); Flagger, "Webhooks" (payload and status codes).
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import jsonpath
import pytest
import yaml

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from tests.collector.api.test_canary import send
from tests.collector.conftest import Service, Start
from tests.support.components import ROOT
from tests.support.processes import wait_until

PAGE = (ROOT / "docs" / "drift.md").read_text()
RIGHT, WRONG = {"answer": 42}, {"answer": 41}


def manifest(heading: str) -> Any:
    """The first YAML below a heading of the page."""
    found = re.search(rf"^### {heading}$.*?^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return yaml.safe_load(found[1])


def metric() -> dict[str, Any]:
    (found,) = manifest("Argo Rollouts")["spec"]["metrics"]
    return found


@pytest.fixture
def service(start: Start, tmp_path: Path) -> Service:
    count = TraceAssertion.span_count(SpanFilter.by_name("turn"))
    tasks = [
        AssertionTask("right", "answer", 42, "Equals"),
        TraceAssertionTask("spans", count, 1, "Equals"),
    ]
    file = AgentEvalProfile(tasks, alias="answers").save_to_json(tmp_path / "p.json")
    return start(profile=[str(file)])


def measured(service: Service) -> str:
    """One measurement by the manifest, and the phase that its conditions give it."""
    rule = metric()
    web, args = rule["provider"]["web"], {"stable": "1", "candidate": "2", "token": "t"}
    url = re.sub(r"\{\{\s*args\.(\w+)\s*\}\}", lambda match: args[match[1]], web["url"])
    parts = urlsplit(url)
    headers = {each["key"]: "Bearer t" for each in web["headers"]}
    answer = service.http.get(f"{parts.path}?{parts.query}", headers=headers)
    assert answer.status_code == 200, answer.text
    path = cast(str, web["jsonPath"]).strip("{}")
    (result,) = jsonpath.findall(path, answer.json())
    assert isinstance(result, str)
    if rule["failureCondition"] == f'result == "{result}"':
        return "Failed"
    return "Successful" if rule["successCondition"] == f'result == "{result}"' else "Inconclusive"


def run_of(phases: Sequence[str]) -> str:
    """The end of a run by the controller's rules; `Running` while there is none."""
    rule = metric()
    for count in range(1, len(phases) + 1):
        so_far = phases[:count]
        if so_far.count("Failed") > rule.get("failureLimit", 0):
            return "Failed"
        if so_far.count("Inconclusive") > rule.get("inconclusiveLimit", 0):
            return "Inconclusive"
        if count >= rule["count"]:
            return "Successful"
    return "Running"


@pytest.mark.parametrize(
    ("phases", "end"),
    [
        pytest.param(["Inconclusive"] * 60, "Inconclusive", id="nothing is proven in an hour"),
        pytest.param(["Inconclusive"] * 59, "Running", id="nothing is proven yet"),
        pytest.param(["Inconclusive"] * 9 + ["Failed"], "Failed", id="a fall is proven"),
        pytest.param(["Inconclusive"] * 30 + ["Successful"] * 30, "Successful", id="it is as good"),
    ],
)
def test_argo_rollouts_promotes_what_is_proven(phases: list[str], end: str) -> None:
    assert run_of(phases) == end


def test_every_argument_of_the_manifest_is_declared() -> None:
    spec = manifest("Argo Rollouts")["spec"]
    used = set(re.findall(r"\{\{\s*args\.(\w+)\s*\}\}", yaml.safe_dump(spec["metrics"])))
    assert used == {each["name"] for each in spec["args"]}


def gates(service: Service) -> dict[str, int]:
    """The answers to Flagger's webhooks, by their type."""
    found: dict[str, int] = {}
    hooks = cast(list[dict[str, str]], manifest("Flagger")["analysis"]["webhooks"])
    for hook in hooks:
        parts = urlsplit(hook["url"])
        query = parts.query.replace("1.4.0", "1").replace("1.5.0", "2")
        payload: dict[str, Any] = {
            "name": "bot",
            "namespace": "test",
            "phase": "Progressing",
            "metadata": {},
        }
        answer = service.http.post(f"{parts.path}?{query}", json=payload)
        found[hook["type"]] = answer.status_code
    return found


@pytest.mark.parametrize(
    ("candidate", "phase", "codes"),
    [
        pytest.param([WRONG] * 40, "Failed", (409, 200), id="worse"),
        pytest.param([RIGHT] * 600, "Successful", (200, 409), id="as good"),
    ],
)
def test_controllers_follow_the_decision(
    service: Service, candidate: list[dict[str, Any]], phase: str, codes: tuple[int, int]
) -> None:
    """Nothing is known first; then the candidate is worse, or as good."""
    assert measured(service) == "Inconclusive"
    assert gates(service) == {"confirm-promotion": 409, "rollback": 409}
    send(service, "2", candidate)
    send(service, "1", [RIGHT] * 600)
    wait_until(lambda: measured(service) == phase, what=f"a measurement is {phase}")
    assert gates(service) == dict(zip(("confirm-promotion", "rollback"), codes, strict=True))
