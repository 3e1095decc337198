"""The comments of one pull request behind GitHub's GraphQL API and GitLab's REST API."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from graphql import (
    GraphQLError,
    build_schema,
    graphql_sync,  # pyright: ignore[reportUnknownVariableType] - a resolver in it has no type
)

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
        """What the token's user wrote."""
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
