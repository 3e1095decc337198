"""The short way to the routes that take data, and what does not go that way."""

import pytest
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.testclient import TestClient

from collector.receivers.http.receiver import IngestFront, endpoints_of
from tests.collector.conftest import Service

PATHS = ("/v1/traces", "/v1/logs", "/v1/metrics", "/v1/records")


def test_only_post_of_the_very_path_goes_the_short_way() -> None:
    ways: list[str] = []
    router = APIRouter()

    @router.post("/in")
    async def take(request: Request) -> Response:
        ways.append(request.url.path)
        return Response(await request.body())

    app = FastAPI()

    @app.middleware("http")
    async def behind(request: Request, _: object) -> Response:
        ways.append(f"behind {request.method} {request.url.path}")
        return Response(status_code=418)

    client = TestClient(IngestFront(app, endpoints_of(router)))
    assert client.post("/in?x=1", content=b"text").content == b"text"
    assert ways == ["/in"]
    assert client.get("/in").status_code == client.post("/in/").status_code == 418
    assert ways[1:] == ["behind GET /in", "behind POST /in/"]


@pytest.mark.parametrize("path", PATHS)
def test_other_methods_learn_what_is_allowed(untouched: Service, path: str) -> None:
    answer = untouched.http.get(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", PATHS)
def test_a_fault_is_a_problem_document(
    untouched: Service,
    path: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(untouched.collector.ingest, "lease", broken)
    answer = untouched.http.post(path, json={})
    assert (answer.status_code, answer.json()["title"]) == (500, "Internal Server Error")
    assert "secret" not in answer.text
    assert f"{path!r} failed" in caplog.text
