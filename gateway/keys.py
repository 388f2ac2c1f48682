"""The keys that open the door: what each allows and what it has used. PURE."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from math import ceil

from .errors import NO_KEY, Refusal

_DIGEST = re.compile("sha256:[0-9a-fA-F]{64}")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,32}:")


@dataclass(frozen=True)
class Grant:
    """What a key's line says of it. `name` is for logs and metrics; a limit of None is none."""

    name: str = ""
    utterances: int | None = None  # live ones, all connections together
    chars_per_minute: int | None = None  # of text, as the client sends it

    @property
    def limits(self) -> dict[str, int]:
        """As `ready.limits` names them."""
        pairs = {"key_utterances": self.utterances, "key_chars_per_minute": self.chars_per_minute}
        return {name: value for name, value in pairs.items() if value is not None}


_LIMITS = tuple(f.name for f in fields(Grant) if f.name != "name")


@dataclass(eq=False)
class Account:
    """What one key uses, or all keys of one name together."""

    share: str  # whose turn it is in the line; "": each address its own
    grant: Grant = field(default_factory=Grant)
    utterances: int = 0  # accepted, ever
    chars: int = 0  # of text, ever
    _debt: float = 0.0  # characters that the minute has not paid yet
    _at: float = 0.0

    def open(self, name: str, chars: int, live: int, now: float) -> None:
        """Take in the utterance `name` beside `live` others. Raises the Refusal that keeps it out.

        It comes in with any credit left and may then go into debt, up to one minute's worth:
        quotas keep the next utterance out and do not cut the one that speaks.
        """
        most, rate = self.grant.utterances, self.grant.chars_per_minute
        if most is not None and live >= most:
            text = f"the key has {live} live utterances, as many as key_utterances allows"
            raise Refusal("too_many", text, limit="key_utterances", utterance=name)
        if rate is not None:
            self._pay(rate, now)
            if self._debt >= rate:
                raise _over(rate, self._debt - rate + 1, name)
        self.take(name, chars, now)
        self.utterances += 1

    def take(self, name: str, chars: int, now: float) -> None:
        """Count text of the utterance `name`. Raises the Refusal that ends it."""
        rate = self.grant.chars_per_minute
        if rate is not None:
            if chars > 2 * rate:
                text = f"the text is longer than key_chars_per_minute ({rate}) ever lets through"
                raise Refusal("too_large", text, limit="key_chars_per_minute", utterance=name)
            self._pay(rate, now)
            if self._debt + chars > 2 * rate:
                raise _over(rate, self._debt + chars - 2 * rate, name)
            self._debt += chars
        self.chars += chars

    def _pay(self, rate: int, now: float) -> None:
        self._debt = max(0.0, self._debt - max(0.0, now - self._at) * rate / 60)
        self._at = now


def _over(rate: int, chars: float, name: str) -> Refusal:
    """`chars`: what the key must wait for."""
    text = f"the key has used up key_chars_per_minute ({rate})"
    retry = ceil(chars * 60_000 / rate)
    limit = "key_chars_per_minute"
    return Refusal("rate_limited", text, limit=limit, utterance=name, retry_ms=retry)


class Keys:
    """Digests of the keys that open the door and the account of each; none: the door is open."""

    def __init__(self, grants: Mapping[bytes, Grant] | Iterable[bytes] = ()) -> None:
        self._accounts: dict[bytes, Account] = {}
        self._anyone = Account("")
        self.replace(grants)

    @property
    def needed(self) -> bool:
        return bool(self._accounts)

    @property
    def named(self) -> list[Account]:
        """Accounts that have a name, each once."""
        accounts = {a.grant.name: a for a in self._accounts.values() if a.grant.name}
        return list(accounts.values())

    def replace(self, grants: Mapping[bytes, Grant] | Iterable[bytes]) -> None:
        """These keys from now on; who stays keeps the account, with what was used of it."""
        given = grants if isinstance(grants, Mapping) else dict.fromkeys(grants, Grant())
        kept = {account.share: account for account in self._accounts.values()}
        self._accounts = {}
        for digest, grant in given.items():
            share = f"key {grant.name or digest.hex()}"
            account = self._accounts[digest] = kept.setdefault(share, Account(share))
            account.grant = grant

    def digest(self, token: str) -> bytes | None:
        """The digest of a key that opens the door, b"" where any does, None of a wrong one.

        Compares with every key, in time that tells nothing of any.
        """
        if not self.needed:
            return b""
        digest = hashlib.sha256(token.encode()).digest()
        found = [hmac.compare_digest(digest, known) for known in self._accounts]
        return digest if any(found) else None

    def account(self, digest: bytes | None) -> Account | None:
        """None where the key is no longer among ours."""
        if not self.needed:
            return self._anyone
        return None if digest is None else self._accounts.get(digest)


class Visitor:
    """One connection's standing: the key it has shown, whose turns it takes, what it may use."""

    def __init__(self, keys: Keys, digest: bytes = b"", address: str = "") -> None:
        """`digest`: of a key already shown; `address`: whose turn it is where keys do not say."""
        self._keys = keys
        self._digest = digest
        self._address = address

    @property
    def account(self) -> Account | None:
        """None before a key is shown, and once the key is no longer ours."""
        return self._keys.account(self._digest)

    @property
    def authorized(self) -> bool:
        return self.account is not None

    @property
    def dismissed(self) -> bool:
        """Whether the key that it showed is no longer ours."""
        return bool(self._digest) and not self.authorized

    @property
    def name(self) -> str:
        """The key's, for logs."""
        account = self.account
        return account.grant.name if account else ""

    @property
    def share(self) -> str:
        account = self.account
        return (account.share if account else "") or self._address

    @property
    def limits(self) -> dict[str, int]:
        account = self.account
        return account.grant.limits if account else {}

    def show(self, token: str) -> bool:
        """Returns whether the door opens now; it may be open already. Raises Refusal."""
        if self.authorized and not token:
            return False
        digest = self._keys.digest(token)
        if digest is None:
            text = "the token opens nothing here"
            raise Refusal("unauthorized", text, field="hello.token", close=NO_KEY)
        opens = not self.authorized
        if opens:
            self._digest = digest
        return opens

    def open(self, name: str, chars: int, live: int, now: float) -> None:
        self._valid().open(name, chars, live, now)

    def take(self, name: str, chars: int, now: float) -> None:
        self._valid().take(name, chars, now)

    def _valid(self) -> Account:
        if account := self.account:
            return account
        raise gone()


def gone() -> Refusal:
    return Refusal("unauthorized", "the key opens nothing here any more", close=NO_KEY)


def grants(lines: Iterable[str]) -> dict[bytes, Grant]:
    """Keys, one a line: `[NAME:] KEY [utterances=N] [chars_per_minute=N]`; `#` opens a comment.

    KEY is plain, or `sha256:` and 64 hex digits. Raises ValueError, which never repeats a word.
    """
    found: dict[bytes, Grant] = {}
    for number, line in enumerate(lines, 1):
        if (text := line.strip()) and not text.startswith("#"):
            try:
                digest, grant = _entry(text.split())
                if found.setdefault(digest, grant) != grant:
                    raise ValueError("the same key twice, with another name or limit")
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
    by_name: dict[str, Grant] = {}
    for grant in found.values():
        if grant.name and by_name.setdefault(grant.name, grant) != grant:
            raise ValueError(f"keys of one name ({grant.name}) share their limits: write the same")
    return found


def line_of(key: str, name: str = "") -> str:
    """The line of a file of keys that `key` opens. Raises ValueError for what is no name."""
    before = f"{_named(f'{name}:')}: " if name else ""
    return f"{before}sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def _named(word: str) -> str:
    if not _NAME.fullmatch(word) or word == "sha256:":
        raise ValueError("a name has 1 to 32 letters, digits, dots, hyphens or underscores")
    return word[:-1]


def _entry(words: list[str]) -> tuple[bytes, Grant]:
    name = ""
    if len(words) > 1 and words[0].endswith(":"):
        name = _named(words.pop(0))
    key, *pairs = words
    limits: dict[str, int] = {}
    for pair in pairs:
        limit, _, value = pair.partition("=")
        if limit not in _LIMITS or limit in limits:
            known = " or ".join(f"{known}=N" for known in _LIMITS)
            raise ValueError(f"after the key only {known} may stand, each once; a key has no blank")
        if not re.fullmatch("[1-9][0-9]{0,8}", value):
            raise ValueError(f"{limit} must be a whole number from 1 to 999999999")
        limits[limit] = int(value)
    return _digest(key), Grant(name, limits.get("utterances"), limits.get("chars_per_minute"))


def _digest(key: str) -> bytes:
    if not key.startswith("sha256:"):
        return hashlib.sha256(key.encode()).digest()
    if not _DIGEST.fullmatch(key):
        raise ValueError("sha256: needs 64 hex digits")
    return bytes.fromhex(key.removeprefix("sha256:"))
