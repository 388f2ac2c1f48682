"""argv and environment -> frozen config -> serve | say. The only place that wires."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from .admission import digests
from .config import EngineArguments, GatewayConfig, Limits
from .logs import set_up
from .process import EngineFailed
from .server import Server

log = logging.getLogger("vivavoce")

MOST_SLOTS = 1024  # more than an engine chooses for itself

app = typer.Typer(
    name="vivavoce",
    help="Text in, voice out: a speech server for voices made from descriptions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Model = Annotated[
    str, typer.Option(help="Checkpoint: a folder or a hub id; none: the voice that comes along.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]


@app.command()
def serve(
    model: Annotated[
        str,
        typer.Option(
            envvar="VIVAVOCE_MODEL",
            help="Checkpoint: a folder or a hub id; none: the voice that comes along.",
        ),
    ] = "",
    device: Annotated[
        str, typer.Option(envvar="VIVAVOCE_DEVICE", help="auto, cpu or cuda.")
    ] = "auto",
    host: Annotated[
        str, typer.Option(envvar="VIVAVOCE_HOST", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="PORT", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = 8000,
    slots: Annotated[
        int, typer.Option(min=0, help="Utterances that speak at once; 0: the engine's choice.")
    ] = 0,
    queue: Annotated[int, typer.Option(min=0, help="Utterances that may wait for a slot.")] = 64,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            help="A further web origin whose pages may speak here, e.g. https://a.example"
        ),
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="File of keys, one a line, plain or sha256:HEX."
        ),
    ] = None,
    drain_seconds: Annotated[
        float, typer.Option(min=0, help="Time for running utterances to end at shutdown.")
    ] = 5.0,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="A limit of the protocol, e.g. utterances=4 or idle_seconds=60."),
    ] = None,
    log_format: Annotated[str, typer.Option(help="text or json.")] = "text",
    worker: Annotated[
        str, typer.Option(hidden=True, help="The module that runs as the engine.")
    ] = "engine.worker",
) -> None:
    """Serve the page and the speech socket, in the foreground; Ctrl-C ends it."""
    if log_format not in ("text", "json"):
        raise typer.BadParameter("text or json", param_hint="--log-format")
    set_up(json_lines=log_format == "json")
    config = GatewayConfig(
        host=host,
        port=port,
        origins=tuple(origin or ()),
        keys=_keys(keys),
        queue=queue,
        drain_seconds=drain_seconds,
        worker=("-m", worker),
        limits=_limits(limit or []),
        engine=EngineArguments(model, device, slots, queue=queue + max(slots, MOST_SLOTS)),
    )
    raise typer.Exit(uvloop.run(run(config)))


@app.command()
def say(
    text: Annotated[str, typer.Argument(help="What to say.")] = "",
    voice: Annotated[str, typer.Option(help="The voice, described.")] = "",
    out: Annotated[Path | None, typer.Option(help="Write a WAV file instead of playing.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**53 - 1, help="Same seed, same audio.")
    ] = None,
    language: Annotated[str, typer.Option(help="auto, or one that the model speaks.")] = "auto",
    stdin: Annotated[
        bool, typer.Option("--stdin", help="Read the text from a pipe as it comes.")
    ] = False,
    url: Annotated[str, typer.Option(help="A running server's socket; none: start one.")] = "",
    token: Annotated[
        str, typer.Option(envvar="VIVAVOCE_TOKEN", help="Key of the server at --url.")
    ] = "",
    model: Model = "",
    device: Device = "auto",
) -> None:
    """Say a text through the speakers or into a file."""
    from .say import run as run_say

    raise typer.Exit(
        run_say(
            text=text,
            voice=voice,
            out=out,
            seed=seed,
            language=language,
            stdin=stdin,
            url=url,
            token=token,
            model=model,
            device=device,
        )
    )


async def run(config: GatewayConfig) -> int:
    """Serve until a signal; returns the exit status. A second signal cuts the drain short."""
    stopping, hurry = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: (hurry if stopping.is_set() else stopping).set())
    server = Server(config)
    try:
        server.bind()
    except OSError as error:
        log.error(
            "cannot listen on %s port %d: %s",
            config.host,
            config.port,
            os.strerror(error.errno or 0),
        )
        return 1
    if not config.loopback and not config.keys:
        log.warning(
            "listening on %s without keys: whoever reaches this port may speak", config.host
        )
    try:
        started = await _until(stopping, server.start())
        if started:
            log.info("ready: open http://%s:%d/", _shown(config.host), server.port)
            await stopping.wait()
            await _until(hurry, server.drain())
    except EngineFailed as failure:
        log.error("%s", failure.text)
        return 2
    finally:
        await server.stop()
    return 0


async def _until(event: asyncio.Event, work: object) -> bool:
    """Do `work` unless `event` comes first; returns whether it was done."""
    task = asyncio.ensure_future(work)  # type: ignore[call-overload]
    waiter = asyncio.ensure_future(event.wait())
    await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
        return False
    await task
    return True


def _limits(pairs: list[str]) -> Limits:
    try:
        return Limits.of(pairs)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--limit") from error


def _keys(path: Path | None) -> frozenset[bytes]:
    lines = os.environ.get("VIVAVOCE_KEYS", "").replace(",", " ").split()
    if path:
        lines += path.read_text().splitlines()
    try:
        return digests(lines)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--keys") from error


def _shown(host: str) -> str:
    """The host as a browser on this machine takes it."""
    name = {"0.0.0.0": "localhost", "::": "localhost", "127.0.0.1": "localhost"}.get(host, host)
    return f"[{name}]" if ":" in name else name


def main() -> None:
    app()


if __name__ == "__main__":
    main()
