"""A model's name to a folder: a path, or a repository on the hub, fetched once and then kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from engine.inventory import Problem

FILES = [
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "model.safetensors",
    "speech_tokenizer/config.json",
    "speech_tokenizer/model.safetensors",
]
_HUB_ID = re.compile(r"(?P<id>[\w-][\w.-]*/[\w-][\w.-]*)(@(?P<revision>[\w./-]+))?")


class NotFound(Exception):
    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.problem = Problem(what, remedy)


def locate(model: str, progress: Callable[[str], None]) -> Path:
    """The folder of `model`: itself, or the snapshot of hub id `owner/name[@revision]`. Raises
    NotFound. The hub's client shows the bytes as they come.
    """
    folder = Path(model).expanduser()
    if model and folder.is_dir():
        return folder
    hub = _HUB_ID.fullmatch(model)
    if folder.exists() or not hub:
        raise NotFound(
            f"{model} is no folder", "Name a checkpoint's folder or a hub id owner/name."
        )
    progress(f"looking for {model} on the hub and in its cache")
    return _fetch(hub["id"], hub["revision"])


def _fetch(name: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=FILES))
    except GatedRepoError:
        what, remedy = "asks for consent", "Accept its terms on the hub, then `hf auth login`."
    except RepositoryNotFoundError:
        what, remedy = (
            "is no folder here and not on the hub",
            "Check its name; `hf auth login` if private.",
        )
    except RevisionNotFoundError:
        what, remedy = (
            f"has no revision {revision}",
            "Name a branch, a tag or a commit that it has.",
        )
    except LocalEntryNotFoundError:
        what = "is no folder here, not in the hub's cache, and the hub cannot be reached"
        remedy = (
            f"Connect once, or copy its folder here (`hf download {name}`) and name the folder."
        )
    except OSError as error:  # a full disk, a broken connection
        what, remedy = f"could not be fetched: {error}", "Mend that and start again: it goes on."
    raise NotFound(f"{name} {what}", remedy)
