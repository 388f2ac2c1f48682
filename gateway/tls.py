"""Certificate and key as an SSL context; what is wrong with them, in words. Knows no socket."""

from __future__ import annotations

import ssl
from pathlib import Path


class WrongFile(Exception):
    """A file that cannot be served from; the text says which and what to do."""


def context(certificate: Path, key: Path) -> ssl.SSLContext:
    """A server's context for TLS 1.2 and newer. Raises WrongFile."""
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.minimum_version = ssl.TLSVersion.TLSv1_2
    found.set_alpn_protocols(["http/1.1"])
    load(found, certificate, key)
    return found


def load(into: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Let the context's next handshakes use these. Raises WrongFile and then changes nothing."""
    trial = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for step in (trial, into):
        _load(step, certificate, key)


def _load(into: ssl.SSLContext, certificate: Path, key: Path) -> None:
    for path in (certificate, key):
        try:
            path.open("rb").close()
        except OSError as error:
            raise WrongFile(f"{path} cannot be read: {error.strerror}") from error
    try:
        into.load_cert_chain(certificate, key, _no_password)
    except _Encrypted:
        text = f"{key} is encrypted: take the password off (openssl pkey -in KEY -out PLAIN)"
        raise WrongFile(text) from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"{key} is not the key of the certificate in {certificate}"
        else:
            text = f"{certificate} and {key} are no certificate chain and private key in PEM"
        raise WrongFile(text) from error


class _Encrypted(Exception):
    pass


def _no_password() -> str:
    raise _Encrypted
