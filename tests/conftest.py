"""What every test relies on: one thread for torch, no foreign hub, no settings of the caller."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"  # nothing listens there
for name in [n for n in os.environ if n.startswith("VIVAVOCE_") or n in ("HOST", "PORT")]:
    del os.environ[name]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests last: Playwright's event loop runs in this thread from the first to the end."""
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)
