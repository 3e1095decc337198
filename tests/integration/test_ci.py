"""`deploy/ci`: the commands of the action and of the snippet run, and the comment is updated."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from graphql import (
    GraphQLError,
    build_schema,
    graphql_sync,  # pyright: ignore[reportUnknownVariableType] - a resolver in it has no type
)

from tests.scouter.cli.conftest import Scouter, project, scouter  # noqa: F401  # pyright: ignore[reportUnusedImport] fixtures
from tests.support.components import ROOT
from tests.support.shop_project import write_project

OWN: Final = 42
"""Id of the token's user."""
TOKEN: Final = "secret-of-the-bot"
_SCHEMA: Final = build_schema("""
type Query { repository(owner: String!, name: String!): Repository }
type Repository { pullRequest(number: Int!): PullRequest }
type PullRequest { id: ID! comments(first: Int, after: String): IssueCommentConnection! }
type IssueCommentConnection { nodes: [IssueComment] pageInfo: PageInfo! }
type PageInfo { hasNextPage: Boolean! endCursor: String }
type IssueComment { id: ID! body: String! url: String! viewerDidAuthor: Boolean! }
type IssueCommentEdge { node: IssueComment }
input AddCommentInput { subjectId: ID! body: String! }
type AddCommentPayload { commentEdge: IssueCommentEdge }
input UpdateIssueCommentInput { id: ID! body: String! }
type UpdateIssueCommentPayload { issueComment: IssueComment }
type Mutation {
  addComment(input: AddCommentInput!): AddCommentPayload
  updateIssueComment(input: UpdateIssueCommentInput!): UpdateIssueCommentPayload
}
""")
"""The part that the command uses, in the names of GitHub's public schema."""


@dataclass
class PullRequest:
    """Comments in the order in which they came, and who wrote them."""

    url: str = ""
    comments: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    may_write: bool = True

    def add(self, author: int, body: str) -> int:
        """Add a comment; returns its place, which is its id."""
        self.comments.append((author, body))
        return len(self.comments) - 1

    @property
    def own(self) -> list[str]:
        """Texts that the token's user wrote."""
        return [body for author, body in self.comments if author == OWN]

    def _change(self, place: int, body: str) -> None:
        author, _ = self.comments[place]
        self.comments[place] = author, body

    def _node(self, place: int) -> dict[str, Any]:
        author, body = self.comments[place]
        return {
            "id": f"IC_{place}", "body": body, "viewerDidAuthor": author == OWN,
            "url": f"{self.url}#{place}",
        }  # fmt: skip

    def graphql(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Answer a request to GitHub's `/graphql`."""

        def repository(_: object, owner: str, name: str) -> object:
            assert (owner, name) == ("shop", "agent")
            return {"pullRequest": pull_request}

        def pull_request(_: object, number: int) -> object:
            assert number == 7
            return {"id": "PR_7", "comments": page}

        def page(_: object, first: int, after: str | None = None) -> object:
            start = int(after or 0)
            places = range(start, min(start + first, len(self.comments)))
            more = {"hasNextPage": places.stop < len(self.comments), "endCursor": str(places.stop)}
            return {"nodes": [self._node(each) for each in places], "pageInfo": more}

        def writing(data: dict[str, str]) -> str:
            if not self.may_write:
                raise GraphQLError("Resource not accessible by integration")
            return data["body"]

        def add(_: object, input: dict[str, str]) -> object:
            body = writing(input)
            assert input["subjectId"] == "PR_7"
            return {"commentEdge": {"node": self._node(self.add(OWN, body))}}

        def update(_: object, input: dict[str, str]) -> object:
            place, body = int(input["id"].removeprefix("IC_")), writing(input)
            self._change(place, body)
            return {"issueComment": self._node(place)}

        root = {"repository": repository, "addComment": add, "updateIssueComment": update}
        done = graphql_sync(
            _SCHEMA, asked["query"], root, variable_values=asked["variables"],
        )  # fmt: skip
        return dict(done.formatted)

    def rest(self, method: str, path: str, sent: dict[str, str]) -> tuple[int, Any, str]:
        """Answer a request to GitLab's API: status, body and number of the next page."""
        parts = urlsplit(path)
        if (method, parts.path) == ("GET", "/user"):
            return 200, {"id": OWN}, ""
        notes, _, place = parts.path.partition("/projects/5/merge_requests/7/notes")[2].partition(
            "/"
        )
        assert notes == ""
        if method == "GET":
            query = parse_qs(parts.query)
            size, number = int(query["per_page"][0]), int(query["page"][0])
            assert size <= 100, "GitLab gives no more on a page"
            start = (number - 1) * size
            shown = [
                {"id": start + at, "author": {"id": author}, "body": body}
                for at, (author, body) in enumerate(self.comments[start : start + size])
            ]
            return 200, shown, str(number + 1) if start + size < len(self.comments) else ""
        if not self.may_write:
            return 403, {"message": "403 Forbidden"}, ""
        if method == "POST":
            return 201, {"id": self.add(OWN, sent["body"])}, ""
        self._change(int(place), sent["body"])
        return 200, {"id": int(place)}, ""


@contextmanager
def serve_pull_request() -> Generator[PullRequest]:
    """Serve pull request 7 of shop/agent, and merge request 7 of project 5."""
    held = PullRequest()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            sent: Any = json.loads(self.rfile.read(length)) if length else {}
            given = self.headers.get("Authorization") or f"Bearer {self.headers['PRIVATE-TOKEN']}"
            if given != f"Bearer {TOKEN}":
                status, answer, following = 401, {"message": "Bad credentials"}, ""
            elif self.path == "/graphql":
                status, answer, following = 200, held.graphql(sent), ""
            else:
                status, answer, following = held.rest(self.command, self.path, sent)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("X-Next-Page", following)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    held.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield held
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


ACTION = ROOT / "deploy" / "ci" / "github" / "action.yml"
SNIPPET = ROOT / "deploy" / "ci" / "gitlab.yml"
CHECK = (
    "scouter eval shop.yaml --agent shop:answer --profile answers.yaml --min-scenario-pass-rate 1\n"
)
STRANGER = 1


@pytest.mark.parametrize(
    ("schema", "file"), [("vendor.github-actions", ACTION), ("vendor.gitlab-ci", SNIPPET)]
)
def test_the_files_have_the_form_of_their_systems(schema: str, file: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def pull_request() -> Iterator[PullRequest]:
    with serve_pull_request() as found:
        yield found


def bash(script: str, folder: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run lines as both systems do: in bash, until one fails."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    known = {"PATH": path, "HOME": str(folder), "PYTHONPATH": str(folder), **env}
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script], cwd=folder, env=known,
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


class GitHub:
    """A job of GitHub Actions that uses the action."""

    def __init__(self, folder: Path, pull_request: PullRequest) -> None:
        self.folder, self.log = folder, ""
        self.summary, self.output = folder / "summary.md", folder / "output"
        event = folder / "event.json"
        event.write_text(json.dumps({"pull_request": {"number": 7}}))
        self.env = {
            "GITHUB_REPOSITORY": "shop/agent", "GITHUB_EVENT_PATH": str(event),
            "GITHUB_GRAPHQL_URL": f"{pull_request.url}/graphql", "RUNNER_TEMP": str(folder),
            "GITHUB_STEP_SUMMARY": str(self.summary), "GITHUB_OUTPUT": str(self.output),
        }  # fmt: skip
        self.token = TOKEN

    def run(self, check: str = CHECK, **env: str) -> int:
        """Run the action's steps but the upload; returns the exit code of the last."""
        action = yaml.safe_load(ACTION.read_text())
        known = {f"inputs.{name}": str(it.get("default")) for name, it in action["inputs"].items()}
        known |= {"inputs.check": check, "inputs.token": self.token}
        code = 0
        for step in action["runs"]["steps"]:
            if "run" in step:
                given = {name: self.fill(text, known) for name, text in step.get("env", {}).items()}
                done = bash(step["run"], self.folder, **self.env, **given, **env)
                code = done.returncode
                self.log += done.stdout + done.stderr
                assert code == 0 or step is action["runs"]["steps"][-1], self.log
            if step.get("id") == "check":
                lines = self.output.read_text().splitlines()
                known |= {f"steps.check.outputs.{k}": v for k, v in (x.split("=") for x in lines)}
        self.reports = Path(known["steps.check.outputs.reports"])
        return code

    @staticmethod
    def fill(text: str, known: dict[str, str]) -> str:
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: known[found[1]], text)


class GitLab:
    """A job of GitLab CI that extends the snippet."""

    def __init__(self, folder: Path, pull_request: PullRequest) -> None:
        self.folder, self.log, self.reports = folder, "", folder / "reports"
        self.env = {
            "GITLAB_CI": "true", "CI_API_V4_URL": pull_request.url, "CI_JOB_NAME": "release-check",
            "CI_MERGE_REQUEST_PROJECT_ID": "5", "CI_MERGE_REQUEST_IID": "7",
            "CI_MERGE_REQUEST_PROJECT_URL": "https://gitlab.example/shop/agent",
        }  # fmt: skip
        self.token = TOKEN

    def run(self, check: str = CHECK, **env: str) -> int:
        """Run the script, then what comes after it; returns the exit code of the script."""
        snippet: dict[str, Any] = yaml.safe_load(SNIPPET.read_text())[".scouter"]
        for old in self.reports.glob("*"):
            old.unlink()  # each job has a folder of its own
        given = {**self.env, "GITLAB_TOKEN": self.token, "CHECK": check, **env}
        done = bash("\n".join(snippet["script"]), self.folder, **given)
        after = bash("\n".join(snippet["after_script"]), self.folder, **given)
        self.log += done.stdout + done.stderr + after.stdout + after.stderr
        return done.returncode


Job = GitHub | GitLab


@pytest.fixture(params=[GitHub, GitLab])
def job(request: pytest.FixtureRequest, tmp_path: Path, pull_request: PullRequest) -> Job:
    write_project(tmp_path)
    return request.param(tmp_path, pull_request)


def test_one_comment_is_updated(job: Job, pull_request: PullRequest) -> None:
    """A good version, a worse one, and a check that cannot run: the comment is of the last run.

    A green comment from an earlier run would speak for a version that nobody looked at. Code of
    the pull request runs in the check: it does not see the token.
    """
    pull_request.add(
        STRANGER, "<!-- scouter: release-check -->\n## ✅ all is well, says a stranger"
    )
    for number in range(150):
        pull_request.add(OWN, f"talk {number}")
    assert job.run(f"env > seen && {CHECK}") == 0, job.log
    assert TOKEN not in (job.folder / "seen").read_text()
    assert len(pull_request.comments) == 152
    first = pull_request.own[-1]
    assert first.startswith("<!-- scouter: release-check -->\n## ✅")

    pull_request.add(OWN, "<!-- scouter: another -->")
    assert job.run(BAD="paris") == 1, job.log
    assert len(pull_request.comments) == 153
    assert pull_request.own[-2].startswith("<!-- scouter: release-check -->\n## ❌")
    assert "10 to 19" in pull_request.own[-2]
    assert pull_request.comments[0][1].endswith("says a stranger")

    names = {path.name for path in job.reports.iterdir()}
    assert names == {"check.md", "check.html", "check.json", "junit.xml"}
    assert json.loads((job.reports / "check.json").read_text())["exit_code"] == 1
    if isinstance(job, GitHub):
        assert "## ❌" in job.summary.read_text()

    gone = "scouter eval gone.yaml --agent shop:answer --profile answers.yaml"
    assert job.run(gone) == 2, job.log
    assert len(pull_request.comments) == 153
    assert pull_request.own[-2].startswith("<!-- scouter: release-check -->\n## ❌ No decision")


def test_without_a_comment_the_check_decides(job: Job, pull_request: PullRequest) -> None:
    """The token of a pull request from a fork may only read; another one is not known."""
    pull_request.may_write = False
    assert job.run() == 0, job.log
    assert ("Resource not accessible" if isinstance(job, GitHub) else "403") in job.log
    job.token = "of another"
    assert job.run(BAD="paris") == 1, job.log
    assert "401" in job.log
    assert pull_request.comments == []
    assert job.log.count("no comment: ") == 2
    assert TOKEN not in job.log


@pytest.mark.parametrize(
    ("arguments", "env", "said"),
    [
        ("gone.md", {}, "gone.md: cannot be read"),
        ("empty.md", {}, "empty.md is empty"),
        ("check.md --name a-->b", {}, "--name 'a-->b': expected"),
        ("check.md", {}, "GITHUB_REPOSITORY, GITHUB_EVENT_PATH, GITHUB_TOKEN not set"),
        ("check.md", {"GITLAB_CI": "true", "CI_API_V4_URL": "x"}, "CI_MERGE_REQUEST_IID, GITLAB"),
        (
            "check.md",
            {"GITHUB_REPOSITORY": "a/b", "GITHUB_EVENT_PATH": "push.json", "GITHUB_TOKEN": "t"},
            "push.json names no pull request",
        ),
        (
            "check.md",
            {
                "GITHUB_REPOSITORY": "a/b", "GITHUB_EVENT_PATH": "pr.json", "GITHUB_TOKEN": "t",
                "GITHUB_GRAPHQL_URL": "http://127.0.0.1:9/",
            },
            "no comment: ",
        ),
    ],
)  # fmt: skip
def test_what_stops_a_comment_is_said(
    arguments: str,
    env: dict[str, str],
    said: str,
    scouter: Scouter,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [each for each in os.environ if each.startswith(("GITHUB_", "GITLAB_", "CI_"))]:
        monkeypatch.delenv(name)  # of a job that this runs in
    (tmp_path / "check.md").write_text("## ✅ Go")
    (tmp_path / "empty.md").write_text("\n")
    (tmp_path / "push.json").write_text('{"ref": "refs/heads/main", "commits": []}')
    (tmp_path / "pr.json").write_text('{"pull_request": {"number": 1}}')
    done = scouter("comment", *arguments.split(), **env)
    assert done.returncode == 2
    assert said in done.stderr
