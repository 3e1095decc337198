"""The command `scouter mcp`."""

import os
import socket
from contextlib import nullcontext, suppress
from typing import Annotated, Final

import typer
import uvicorn

from scouter.cli.asking import TokenFile, Url, connect
from scouter.cli.mcp.server import callers_client, make_server
from scouter.client.environment import TOKEN_VARIABLE
from scouter.client.errors import ApiError
from scouter.errors import ConfigError

_HERE: Final = ("127.0.0.1", "localhost", "::1")
"""Addresses for which the SDK checks the `Host` header, against pages that rebind a name."""


def mcp(
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Listen there (streamable HTTP, path /mcp) in place of stdin and stdout. Callers "
            "bring tokens of the collector as bearer tokens.",
        ),
    ] = None,
    allow_run: Annotated[
        bool,
        typer.Option(
            "--allow-run", help="Offer run_release_check, which runs the agent of this folder."
        ),
    ] = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Let a coding agent ask a collector, by the Model Context Protocol.

    The agent finds what got worse, why, and examples; it compares versions, reads traces in parts,
    explains checks, and tries a profile on stored traces. It can only read, unless --allow-run lets
    it run a release check.

    A coding agent starts this command itself: docs/mcp.md has the settings of the common ones.

        scouter mcp
        scouter mcp --url https://scouter.example --token-file token
        scouter mcp --allow-run
        scouter mcp --http 127.0.0.1:4320
    """
    if http is None:
        with connect(url, token_file) as client:
            make_server(lambda: nullcontext(client), may_run=allow_run).run()
        return
    if allow_run:
        raise ConfigError(
            "--allow-run runs code of this folder, which no caller over --http may; leave one out"
        )
    if token_file is not None:
        raise ConfigError("--token-file: callers over --http bring their own; leave it out")
    os.environ.pop(TOKEN_VARIABLE, None)  # lent to nobody
    with connect(url, None) as client:
        try:
            client.status()
            needs_token = False
        except ApiError as error:
            if error.status != 401:
                raise
            needs_token = True
    listener, host = _listen(http, is_open=not needs_token)
    server = make_server(
        lambda: callers_client(client.url),
        asks_tokens_of=client.url if needs_token else None,
    )
    app = server.streamable_http_app(stateless_http=True, json_response=True, host=host)
    port = listener.getsockname()[1]
    typer.echo(f"scouter: http://{f'[{host}]' if ':' in host else host}:{port}/mcp", err=True)
    with listener, suppress(KeyboardInterrupt):
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run([listener])


def _listen(address: str, *, is_open: bool) -> tuple[socket.socket, str]:
    """Listen at `HOST:PORT`; `is_open` if nobody asks callers for a token.

    Raises:
        ConfigError: It is no address, is in use, or lets other machines in without a token.
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise ConfigError(f"--http: {address!r} is no HOST:PORT; expected such as 127.0.0.1:4320")
    if is_open and host not in _HERE:
        raise ConfigError(
            f"--http: other machines reach {host}, and the collector asks nobody for a token; "
            "create one first (scouter token create --scope read), or listen at 127.0.0.1"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family), host
    except OSError as error:
        raise ConfigError(f"--http {address}: {error.strerror or error}") from error
