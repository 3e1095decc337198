"""The command `scouter comment`: a report on a pull request, as one comment that is updated."""

import json
import re
from collections.abc import Iterator, Mapping
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from scouter.errors import ConfigError, TransientError

if TYPE_CHECKING:
    import httpx

_NAME: Final = re.compile(r"(?!.*--)[^<>\x00-\x1f]{1,100}")
"""Form of an HTML comment."""
_TIMEOUT_S: Final = 30.0
_SHOWN: Final = 300

_FIND: Final = """
query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) { id
    comments(first: 100, after: $after) {
      nodes { id body viewerDidAuthor } pageInfo { hasNextPage endCursor } } } } }"""
_ADD: Final = """
mutation($id: ID!, $body: String!) { addComment(input: {subjectId: $id, body: $body}) {
  commentEdge { node { url } } } }"""
_UPDATE: Final = """
mutation($id: ID!, $body: String!) { updateIssueComment(input: {id: $id, body: $body}) {
  issueComment { url } } }"""


def comment(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The report, from --markdown of a check.")
    ],
    name: Annotated[
        str,
        typer.Option(metavar="NAME", help="Name of the check: each has a comment of its own."),
    ] = "check",
) -> None:
    """Put a report on the pull request of this CI job: one comment, updated by every run.

    Where the pull request is, the variables of the job say. GitHub Actions: the token is
    GITHUB_TOKEN, with the permission pull-requests: write. GitLab CI: the token is GITLAB_TOKEN, an
    access token of the project with the scope api; the token of the job itself cannot comment.

    Only a comment of the token's own user is updated, and only if it starts with this check's
    hidden mark. The exit code is 0 if the comment is there, else 2.

    **Example**

        scouter comment check.md
        scouter comment check.md --name desk
    """
    import httpx  # a twentieth of a second, which --help does without

    from scouter.transport.http_client import trusted

    if not _NAME.fullmatch(name):
        raise ConfigError(f"--name {name!r}: expected up to 100 letters without --, < and >")
    try:
        report = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error
    if not report:
        raise ConfigError(f"{file} is empty; expected the report that --markdown {file} writes")
    mark = f"<!-- scouter: {name} -->"
    put = _on_gitlab if environ.get("GITLAB_CI") else _on_github
    with httpx.Client(timeout=_TIMEOUT_S, verify=trusted()) as http:
        try:
            typer.echo(put(http, environ, mark, f"{mark}\n{report}\n"), err=True)
        except httpx.HTTPError as error:
            raise TransientError(f"no comment: {error}") from error


def _on_github(http: "httpx.Client", env: Mapping[str, str], mark: str, body: str) -> str:
    """Add or update the comment.

    Source: GitHub's GraphQL API; `viewerDidAuthor` is what its REST API does not tell the token of
    a workflow, which may read no user.
    """
    needed = "GITHUB_REPOSITORY", "GITHUB_EVENT_PATH", "GITHUB_TOKEN"
    repository, event_path, token = _variables(env, *needed)
    try:
        event = json.loads(Path(event_path).read_text(encoding="utf-8"))
        number = (event.get("pull_request") or event["issue"])["number"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"no comment: GITHUB_EVENT_PATH {event_path} names no pull request; run this on "
            "pull_request"
        ) from error
    owner, _, name = repository.partition("/")
    where: dict[str, Any] = {"owner": owner, "name": name, "number": number}
    url = env.get("GITHUB_GRAPHQL_URL") or "https://api.github.com/graphql"

    def call(query: str, variables: Mapping[str, Any]) -> Any:  # noqa: ANN401 JSON
        answer = _call(
            http, "POST", url, {"Authorization": f"Bearer {token}"},
            {"query": query, "variables": variables},
        ).json()  # fmt: skip
        if faults := answer.get("errors"):
            reasons = "; ".join(str(fault.get("message")) for fault in faults)
            raise ConfigError(
                f"no comment: GitHub: {reasons[:_SHOWN]}; the job needs permissions: "
                "{pull-requests: write}, which a pull request from a fork does not get"
            )
        return answer["data"]

    while True:
        found = call(_FIND, where)["repository"]["pullRequest"]
        for each in found["comments"]["nodes"]:
            if each["viewerDidAuthor"] and each["body"].startswith(mark):
                changed = call(_UPDATE, {"id": each["id"], "body": body})
                return f"updated {changed['updateIssueComment']['issueComment']['url']}"
        page = found["comments"]["pageInfo"]
        if not page["hasNextPage"]:
            added = call(_ADD, {"id": found["id"], "body": body})
            return f"added {added['addComment']['commentEdge']['node']['url']}"
        where["after"] = page["endCursor"]


def _on_gitlab(http: "httpx.Client", env: Mapping[str, str], mark: str, body: str) -> str:
    """Add or update the note.

    Source: GitLab's REST API, version 4, Notes.
    """
    api, project, request, token = _variables(
        env, "CI_API_V4_URL", "CI_MERGE_REQUEST_PROJECT_ID", "CI_MERGE_REQUEST_IID", "GITLAB_TOKEN"
    )
    headers = {"PRIVATE-TOKEN": token}
    notes = f"{api}/projects/{project}/merge_requests/{request}/notes"

    def own() -> Iterator[int]:
        me = _call(http, "GET", f"{api}/user", headers).json()["id"]
        page = "1"
        while page:
            answer = _call(http, "GET", f"{notes}?per_page=100&sort=asc&page={page}", headers)
            for note in answer.json():
                if note["author"]["id"] == me and note["body"].startswith(mark):
                    yield note["id"]
            page = answer.headers.get("X-Next-Page", "")

    note = next(own(), None)
    method, url = ("POST", notes) if note is None else ("PUT", f"{notes}/{note}")
    stored = _call(http, method, url, headers, {"body": body}).json()
    page = env.get("CI_MERGE_REQUEST_PROJECT_URL", "")
    return (
        f"{'added' if note is None else 'updated'} "
        f"{page}/-/merge_requests/{request}#note_{stored['id']}"
    )


def _variables(env: Mapping[str, str], *names: str) -> list[str]:
    missing = [name for name in names if not env.get(name)]
    if missing:
        raise ConfigError(
            f"no comment: {', '.join(missing)} not set; this command is for a job of GitHub "
            "Actions or GitLab CI on a pull request (scouter comment --help)"
        )
    return [env[name] for name in names]


def _call(
    http: "httpx.Client", method: str, url: str, headers: Mapping[str, str], sent: object = None
) -> "httpx.Response":
    answer = http.request(method, url, headers=dict(headers), json=sent)
    if answer.is_success:
        return answer
    advice = "; scouter comment --help says which token it takes" if answer.is_client_error else ""
    raise ConfigError(
        f"no comment: {method} {url}: {answer.status_code} {answer.text[:_SHOWN]}{advice}"
    )
