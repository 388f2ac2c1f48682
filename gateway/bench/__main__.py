"""argv -> habits, target -> a run -> a table and one JSON line."""

from __future__ import annotations

import json
import ssl
import sys
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from .caller import Target
from .crowd import measure, table
from .house import NoServer, own_server
from .turns import CORPUS, Habits

FINE, WRONG, USAGE = 0, 1, 2

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command(no_args_is_help=False)
def bench(
    serve: Annotated[
        list[str] | None,
        typer.Argument(help="Behind --: arguments of the `vivavoce serve` that is started."),
    ] = None,
    url: Annotated[
        str, typer.Option(help="A running server's ws:// or wss:// socket; none: start one.")
    ] = "",
    token: Annotated[
        str, typer.Option(envvar="VIVAVOCE_TOKEN", help="Key of the server at --url.")
    ] = "",
    ca: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Trust its certificates at a wss:// URL."),
    ] = None,
    clients: Annotated[int, typer.Option(min=1, help="Connections, one turn at a time each.")] = 4,
    seconds: Annotated[float, typer.Option(min=1, help="How long turns may begin.")] = 30.0,
    arrive: Annotated[
        float, typer.Option(min=0, help="Seconds in which the clients come, at random moments.")
    ] = 5.0,
    pause: Annotated[
        float, typer.Option(min=0, help="Mean seconds between two turns of a client.")
    ] = 1.0,
    words: Annotated[
        float,
        typer.Option(min=0, help="Words a second of the language model; 0: whole texts at once."),
    ] = 20.0,
    sentences: Annotated[
        int, typer.Option(min=1, max=len(CORPUS), help="At most so many a turn.")
    ] = 3,
    cancel: Annotated[
        float, typer.Option(min=0, max=1, help="Share of turns that barge in, after 0.2 to 3 s.")
    ] = 0.0,
    drop: Annotated[
        float, typer.Option(min=0, max=1, help="Share that breaks the connection in mid-speech.")
    ] = 0.0,
    stall: Annotated[
        float, typer.Option(min=0, max=1, help="Share that stops reading for --stall-seconds.")
    ] = 0.0,
    stall_seconds: Annotated[float, typer.Option(min=0, help="Then it reads on.")] = 3.0,
    seed: Annotated[int, typer.Option(help="The same seed, the same crowd.")] = 0,
) -> None:
    """Load a gateway with clients as they come, and tell what they heard.

    Every client speaks turn after turn; its text comes word by word, as a language model writes
    it. TTFA is from the first text sent to the first audio received. A gap is silence that a
    player with a jitter buffer of 100 ms would play; turns that stall are left out, and where the
    text itself was late, "text wait" says so. CPU and memory are the server's own word at
    /metrics.

    Prints a table, then one line of JSON. Exit status 1: the server broke the protocol, or
    nothing was heard; 2: there is no server.

    \b
    python -m gateway.bench --clients 8
    python -m gateway.bench --clients 50 --cancel 0.2 --drop 0.05 -- --slots 50 --device cuda
    python -m gateway.bench --url ws://127.0.0.1:8000/v1/speech --clients 200 --seconds 300
    """
    if cancel + drop + stall > 1:
        raise typer.BadParameter("--cancel, --drop and --stall together are at most 1")
    if url and serve:
        raise typer.BadParameter("--url names a server that runs: nothing is started")
    if url and not url.startswith(("ws://", "wss://")):
        raise typer.BadParameter("ws://HOST:PORT/v1/speech or wss://...", param_hint="--url")
    try:
        tls = ssl.create_default_context(cafile=ca) if ca else None
    except OSError as error:
        raise typer.BadParameter(f"{ca} holds no certificate", param_hint="--ca") from error
    habits = Habits(cancel, drop, stall, words, pause, sentences)

    async def run(url: str) -> int:
        target = Target(url, token, tls, stall_seconds)
        figures = await measure(
            target, habits, clients=clients, arrive=arrive, seconds=seconds, seed=seed
        )
        print(*table(figures), sep="\n", flush=True)
        print(json.dumps(figures), flush=True)
        return WRONG if figures["wrong"] or not figures["audio_seconds"] else FINE

    async def run_own() -> int:
        async with own_server(serve or []) as own:
            return await run(own)

    try:
        status = uvloop.run(run(url) if url else run_own())
    except NoServer as error:
        print(error, file=sys.stderr)
        status = USAGE
    except KeyboardInterrupt:
        status = 130
    raise typer.Exit(status)


if __name__ == "__main__":
    app(prog_name="python -m gateway.bench")
