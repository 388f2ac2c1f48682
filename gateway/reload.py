"""What is read at the start, and again at SIGHUP: the keys and the certificate."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext

from . import tls
from .keys import Grant, Keys, grants
from .tls import WrongFile

log = logging.getLogger("vivavoce.reload")


@dataclass(frozen=True)
class Sources:
    """Where the secrets are. `environment` is the value of VIVAVOCE_KEYS."""

    keys: Path | None = None
    environment: str = ""
    certificate: Path | None = None
    private_key: Path | None = None

    def grants(self) -> dict[bytes, Grant]:
        """All keys; none where none are given. Raises WrongFile: also where a source holds none."""
        lines = {"VIVAVOCE_KEYS": self.environment.replace(",", " ").split()}
        if not self.environment:
            lines.clear()
        if self.keys:
            lines["--keys"] = _lines(self.keys)
        found: dict[bytes, Grant] = {}
        for name, source in lines.items():
            try:
                keys = grants(source)
            except ValueError as error:
                raise WrongFile(f"{name}: {error}") from error
            if not keys:
                raise WrongFile(f"{name} holds no key")
            found |= keys
        return found

    def context(self) -> SSLContext | None:
        """The context to serve TLS with; None without. Raises WrongFile."""
        if self.certificate is None and self.private_key is None:
            return None
        if self.certificate is None or self.private_key is None:
            raise WrongFile("--tls-cert and --tls-key go together: give both or neither")
        return tls.context(self.certificate, self.private_key)

    def reload(self, keys: Keys, context: SSLContext | None) -> None:
        """Read again; what is wrong keeps what was, and is said aloud. Never raises for a file."""
        try:
            found = self.grants()
            keys.replace(found)
            log.info("%d keys read again", len(found))
        except WrongFile as error:
            log.error("the keys stay as they were: %s", error)
        if context and self.certificate and self.private_key:
            try:
                tls.load(context, self.certificate, self.private_key)
                log.info("certificate read again: new connections get it")
            except WrongFile as error:
                log.error("the certificate stays as it was: %s", error)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongFile(f"--keys: {path} is no UTF-8 text that can be read") from error
