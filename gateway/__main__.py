"""argv and environment -> frozen config -> serve | say. The only place that wires."""

from __future__ import annotations

import ipaddress
import math
import os
import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from .config import EngineArguments, GatewayConfig, Limits, Network
from .keys import line_of
from .logs import set_up
from .reload import Sources
from .running import run
from .tls import WrongFile

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


def _known_device(name: str) -> str:
    if name not in ("auto", "cpu", "cuda"):
        raise typer.BadParameter("auto, cpu or cuda")
    return name


Device = Annotated[str, typer.Option(callback=_known_device, help="auto, cpu or cuda.")]


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
        str,
        typer.Option(envvar="VIVAVOCE_DEVICE", callback=_known_device, help="auto, cpu or cuda."),
    ] = "auto",
    host: Annotated[
        str, typer.Option(envvar="VIVAVOCE_HOST", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="PORT", min=0, max=65535, help="Port; 0 takes a free one.")
    ] = 8000,
    weights: Annotated[
        str, typer.Option(help="full, int8, or auto: int8 on a CPU that has it, else full.")
    ] = "auto",
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
            exists=True,
            dir_okay=False,
            help="File of keys, one a line: [NAME:] KEY [utterances=N] [chars_per_minute=N]; KEY "
            "plain or sha256:HEX (vivavoce key makes one). SIGHUP reads it again. VIVAVOCE_KEYS in "
            "the environment holds keys too, parted by blanks.",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(help="Certificate chain in PEM: https and wss. SIGHUP reads it again."),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(help="Its private key in PEM, without a password.")
    ] = None,
    trust_proxy: Annotated[
        list[str] | None,
        typer.Option(
            help="Address or network of a proxy whose X-Forwarded-For is believed, e.g. 10.0.0.0/8"
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
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    worker: Annotated[
        str, typer.Option(hidden=True, help="The module that runs as the engine.")
    ] = "engine.worker",
) -> None:
    """Serve the page and the speech socket, in the foreground; Ctrl-C ends it."""
    if log_format not in ("text", "json"):
        raise typer.BadParameter("text or json", param_hint="--log-format")
    if log_level not in ("debug", "info", "warning", "error"):
        raise typer.BadParameter("debug, info, warning or error", param_hint="--log-level")
    if weights not in ("auto", "full", "int8"):
        raise typer.BadParameter("auto, full or int8", param_hint="--weights")
    if not math.isfinite(drain_seconds):
        raise typer.BadParameter("a number of seconds", param_hint="--drain-seconds")
    set_up(json_lines=log_format == "json", level=log_level)
    sources = Sources(keys, os.environ.get("VIVAVOCE_KEYS", ""), tls_cert, tls_key)
    try:
        grants, context = sources.grants(), sources.context()
    except WrongFile as error:
        raise typer.BadParameter(str(error)) from error
    config = GatewayConfig(
        host=host,
        port=port,
        origins=tuple(origin or ()),
        keys=grants,
        tls=context,
        proxies=_networks(trust_proxy or []),
        queue=queue,
        drain_seconds=drain_seconds,
        worker=("-m", worker),
        limits=_limits(limit or []),
        engine=EngineArguments(
            model,
            device,
            weights="" if weights == "auto" else weights,
            slots=slots,
            queue=queue + max(slots, MOST_SLOTS),
        ),
    )
    raise typer.Exit(uvloop.run(run(config, sources)))


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
    raw: Annotated[
        bool, typer.Option("--raw", help="Say markdown, links and emoji as they stand.")
    ] = False,
    url: Annotated[
        str,
        typer.Option(
            help="A running server, HOST:PORT or ws://...; none: the one on this machine at port "
            "8000, or where there is none, or --model or --device is given, one of its own."
        ),
    ] = "",
    token: Annotated[
        str, typer.Option(envvar="VIVAVOCE_TOKEN", help="Key of the server at --url.")
    ] = "",
    ca: Annotated[
        Path | None, typer.Option(help="Trust the certificates in this file at a wss:// URL.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Trust any certificate at a wss:// URL.")
    ] = False,
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
            raw=raw,
            url=url,
            token=token,
            ca=ca,
            insecure=insecure,
            model=model,
            device=device,
        )
    )


@app.command()
def key(
    name: Annotated[str, typer.Argument(help="Whose it is, for logs and metrics.")] = "",
    stdin: Annotated[
        bool, typer.Option("--stdin", help="Take the key from a pipe; without it one is drawn.")
    ] = False,
) -> None:
    """Make a key: its line for the file of --keys on standard output, the key itself beside it."""
    secret = sys.stdin.readline().strip() if stdin else secrets.token_urlsafe(24)
    if not secret or len(secret.split()) > 1:
        raise typer.BadParameter("a key is one word", param_hint="--stdin")
    try:
        print(line_of(secret, name))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="NAME") from error
    if not stdin:
        print(f"The key, which is kept nowhere: {secret}", file=sys.stderr)


def _limits(pairs: list[str]) -> Limits:
    try:
        return Limits.of(pairs)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--limit") from error


def _networks(names: list[str]) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(name) for name in names)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--trust-proxy") from error


def main() -> None:
    app()


if __name__ == "__main__":
    main()
