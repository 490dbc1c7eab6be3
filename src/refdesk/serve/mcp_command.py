"""`refdesk mcp`: the library as tools for a model, over stdio or HTTP."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from refdesk.serve.common import desk_of, messages
from refdesk.serve.serve_command import check_key, is_loopback, listen
from refdesk.serve.show import escape

# Loaded by name when called: the SDK takes a second to import, and no other command shall wait for it.
SERVER, HTTP = "refdesk.serve.mcp", "refdesk.serve.mcp_http"


def mcp(
    context: typer.Context,
    http: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", help="Serve over HTTP on this port, at /mcp; 0 takes a free one.", min=0, max=65535
        ),
    ] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen, with --http.")] = "127.0.0.1",
    insecure: Annotated[
        bool, typer.Option("--insecure", help="With --http: let everyone in who can reach the address, without a key.")
    ] = False,
) -> None:
    """Offer the library to a model as tools (Model Context Protocol), over stdio. With --http, over the network."""
    with desk_of(context) as desk, desk.at_work():
        if http is None:
            import_module(SERVER).make_server(desk).run("stdio")
            return
        check_key(desk, host, insecure)
        (listening,) = listen(host, http)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}/mcp"
        messages.print(f"Serving {escape(str(desk.folder))} on {address}. Ctrl-C ends it.", soft_wrap=True)
        import_module(HTTP).serve_http(
            desk,
            listening,
            is_local=is_loopback(host) and not insecure,
            needs_key=not is_loopback(host) and not insecure,
        )
