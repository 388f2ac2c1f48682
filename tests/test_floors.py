"""Who may import whom. One test for each law of the house; the arrows go down."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(
    path
    for house in ("gateway", "engine")
    for path in (ROOT / house).rglob("*.py")
    if "training" not in path.parts
)
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in FILES
}
PURE = [
    "gateway.protocol",
    "gateway.session",
    "gateway.admission",
    "gateway.cleaning.cleaner",
    "gateway.script",
    "gateway.spoken",
    "gateway.heard",
    "gateway.timing",
    "gateway.syllables",
    "gateway.journal",
    "gateway.revival",
    "engine.messages",
    "engine.history",
    "engine.replay",
    "engine.composing",
    "engine.config",
    "engine.scheduler",
    "engine.text",
    "engine.segments",
    "engine.prompt",
    "engine.guards",
]
IMPURE = {"asyncio", "socket", "threading", "queue", "time", "random", "torch", "triton"}
NOT_NAMES = {"utils", "util", "base", "manager", "common", "helpers", "helper", "misc"}
MAX_LINES = 300


@cache
def imports(module: str) -> frozenset[str]:
    """Absolute names that `module` imports when it runs.

    `from a import b` counts as `a`, and as `a.b` where that is a file of ours.
    """
    tree = ast.parse(MODULES[module].read_text("utf-8"))
    return frozenset(_imported(tree, module))


def _imported(tree: ast.AST, module: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = _absolute(node, module)
            yield source
            yield from (f"{source}.{a.name}" for a in node.names if f"{source}.{a.name}" in MODULES)
        else:
            yield from _imported(node, module)


def _absolute(node: ast.ImportFrom, module: str) -> str:
    if not node.level:
        return node.module or ""
    package = module.split(".")
    if MODULES[module].name != "__init__.py":
        package.pop()
    package = package[: len(package) - (node.level - 1)]
    return ".".join([*package, node.module] if node.module else package)


def house(name: str) -> str:
    return name.partition(".")[0]


def reach(module: str) -> dict[str, str]:
    """Every name that importing `module` brings in through our own files, and by which file."""
    found: dict[str, str] = {}
    left = [module]
    seen = {module}
    while left:
        here = left.pop()
        for name in imports(here):
            found.setdefault(name, here)
            if name in MODULES and name not in seen:
                seen.add(name)
                left.append(name)
    return found


def claims_pure(module: str) -> bool:
    docstring = ast.get_docstring(ast.parse(MODULES[module].read_text("utf-8"))) or ""
    return "PURE" in docstring


def test_the_engine_never_imports_the_gateway() -> None:
    crossing = {
        m: n for m in MODULES if house(m) == "engine" for n in imports(m) if house(n) == "gateway"
    }
    assert not crossing


def test_the_gateway_imports_only_the_seam_of_the_engine() -> None:
    crossing = {
        (m, n)
        for m in MODULES
        if house(m) == "gateway"
        for n in imports(m)
        if house(n) == "engine" and n not in ("engine", "engine.messages")
    }
    assert not crossing


def test_the_gateway_never_reaches_torch() -> None:
    reaching = {
        m: reach(m)["torch"] for m in MODULES if house(m) == "gateway" and "torch" in reach(m)
    }
    assert not reaching


def test_pure_files_reach_nothing_impure() -> None:
    """Those that must be PURE, and those that say they are."""
    assert MODULES.keys() >= set(PURE)
    breaches = {
        (m, name, through)
        for m in MODULES
        if m in PURE or claims_pure(m)
        for name, through in reach(m).items()
        if house(name) in IMPURE
    }
    assert not breaches


def test_models_know_nothing_of_slots_and_steps() -> None:
    barred = {"engine.slots", "engine.scheduler", "engine.runner"}
    breaches = {m: reach(m).keys() & barred for m in MODULES if m.startswith("engine.models")}
    assert breaches
    assert not any(breaches.values()), breaches


def test_the_scheduler_never_reaches_a_tensor() -> None:
    assert "torch" not in reach("engine.scheduler")


def test_no_asyncio_and_no_socket_in_the_engine_but_in_its_worker() -> None:
    allowed = {"engine.worker", "engine.__main__"}
    breaches = {
        (m, n)
        for m in MODULES
        if house(m) == "engine" and m not in allowed
        for n in imports(m)
        if house(n) in ("asyncio", "socket")
    }
    assert not breaches


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_stays_short_and_has_a_real_name(path: Path) -> None:
    lines = len(path.read_text("utf-8").splitlines())
    assert lines <= MAX_LINES, f"{lines} lines"
    assert path.stem not in NOT_NAMES


def test_the_environment_is_read_at_the_edge_only() -> None:
    edge = {"__main__.py", "config.py", "worker.py"}
    readers = {
        str(path.relative_to(ROOT))
        for path in FILES
        if path.name not in edge
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if (isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"))
        or (isinstance(node, ast.Name) and node.id in ("environ", "getenv"))
    }
    assert not readers
