"""The frame: what the set-up chooses, what the wheel holds, what the containers may do."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.test_floors import MODULES, house, imports

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PINS = {
    canonicalize_name(line.partition("==")[0]): line.partition("==")[2].strip()
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
}
DISTRIBUTIONS = {"prometheus_client": "prometheus-client", "yaml": "pyyaml"}
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))[
    "services"
]
USERS = {"prometheus": "65534:65534", "grafana": "472:0"}  # of these images
READY = {"prometheus": "/-/ready", "grafana": "/api/health"}


@pytest.fixture(scope="module")
def install() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", ROOT / "tools" / "install.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("choice", "system", "gpu", "answers", "cpu_build"),
    [
        ("auto", "Linux", False, True, True),
        ("auto", "Linux", False, False, False),
        ("auto", "Linux", True, True, False),
        ("cpu", "Linux", True, True, True),
        ("default", "Linux", False, True, False),
        ("auto", "Darwin", False, True, False),
    ],
)
def test_torch_is_chosen_by_what_the_machine_has(
    install: ModuleType, choice: str, system: str, gpu: bool, answers: bool, cpu_build: bool
) -> None:
    extra, why = install.torch_source(choice, system, lambda: gpu, lambda: answers)
    assert extra == (["--extra-index-url", install.CPU_INDEX] if cpu_build else [])
    assert "torch" in why
    if choice == "auto" and system == "Linux" and not gpu and not answers:
        assert "does not answer" in why


def test_a_gpu_counts_only_when_its_driver_answers(
    install: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not install.gpu_present()
    command = tmp_path / "nvidia-smi"
    command.write_text("#!/bin/sh\nexit 9\n")
    command.chmod(0o755)
    assert not install.gpu_present()
    command.write_text("#!/bin/sh\nexit 0\n")
    assert install.gpu_present()


def test_a_python_too_old_is_told_so() -> None:
    old = "import sys; sys.version_info = (3, 9); exec(sys.argv[1])"
    recipe = re.search(r"\$\(PYTHON\) -c '(import sys;.*?)'", (ROOT / "Makefile").read_text())
    assert recipe
    told = subprocess.run([sys.executable, "-c", old, recipe[1]], capture_output=True, text=True)
    assert told.returncode == 1
    assert "needs Python 3.11 or newer" in told.stderr
    assert "is 3.9" in told.stderr


def test_every_requirement_is_pinned_to_a_release_it_accepts() -> None:
    extras = PROJECT["optional-dependencies"]
    wanted = [Requirement(line) for line in PROJECT["dependencies"]]
    wanted += [Requirement(line) for name in extras if name != "gpu" for line in extras[name]]
    for requirement in wanted:
        pin = PINS[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pin), f"{requirement} against {pin}"


def test_every_import_is_a_declared_dependency() -> None:
    declared = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    for extra in ("gpu", "audio", "opus"):
        lines = PROJECT["optional-dependencies"][extra]
        declared |= {canonicalize_name(Requirement(line).name) for line in lines}
    used = {house(name) for module in MODULES for name in imports(module)}
    foreign = used - set(sys.stdlib_module_names) - {"gateway", "engine"}
    missing = {n for n in foreign if canonicalize_name(DISTRIBUTIONS.get(n, n)) not in declared}
    assert not missing


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("vivavoce-*.whl")
    return built


def test_the_wheel_holds_code_page_and_voice_and_no_more(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for path in (ROOT / "web").iterdir():
        if path.is_file():
            assert f"gateway/web/{path.name}" in names
    for path in (ROOT / "engine" / "voices" / "nano").rglob("*"):
        if path.is_file():
            assert str(path.relative_to(ROOT)) in names
    assert "engine/messages.py" in names
    assert not [n for n in names if n.startswith(("tests/", "tools/", "engine/voices/training/"))]


def test_an_installed_gateway_finds_its_page(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    ask = "import gateway.config; print(gateway.config.WEB)"
    told = subprocess.run(
        [sys.executable, "-c", ask], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    web = Path(told.stdout.strip())
    assert web == tmp_path.resolve() / "gateway" / "web"
    assert (web / "index.html").is_file()


@pytest.mark.parametrize("name", list(SERVICES))
def test_a_container_may_do_next_to_nothing(name: str) -> None:
    service = SERVICES[name]
    assert service["user"] == USERS.get(name, "10001:10001")
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert 0 < service["pids_limit"] <= 1024
    assert any(mount.startswith("/tmp:size=") for mount in service["tmpfs"])
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert READY.get(name, "/health/ready") in service["healthcheck"]["test"][-1]
    assert not service.get("privileged")
    assert "docker.sock" not in str(service)


def test_the_default_service_needs_no_gpu_and_the_other_reserves_one() -> None:
    assert "profiles" not in SERVICES["gateway"]
    assert "deploy" not in SERVICES["gateway"]
    gpu = SERVICES["gateway-gpu"]
    assert gpu["profiles"] == ["gpu"]
    (device,) = gpu["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}


def test_monitoring_is_asked_for_and_finds_its_files() -> None:
    for name in ("prometheus", "grafana"):
        service = SERVICES[name]
        assert service["profiles"] == ["monitor"]
        assert re.search(r":v?\d+\.\d+\.\d+$", service["image"])
        own = [v.split(":") for v in service["volumes"] if v.startswith(".")]
        assert all((ROOT / path).exists() and mode == "ro" for path, _, mode in own)


def test_the_image_runs_as_the_user_that_compose_names() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    assert "useradd --uid 10001 " in dockerfile
    assert re.search(r"^USER vivavoce$", dockerfile, re.MULTILINE)


def test_ci_calls_the_command_that_the_readme_names() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    script = ROOT / ".ci" / "run"
    for command in ("make run", "make test"):
        assert re.search(rf"^{command}\b", readme, re.MULTILINE)
    assert re.search(r"^make test\b", script.read_text("utf-8"), re.MULTILINE)
    assert script.stat().st_mode & 0o111


def test_make_help_names_every_verb() -> None:
    listed = subprocess.run(
        ["make", "-C", str(ROOT), "--no-print-directory", "help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for verb in ("run", "test", "setup", "style", "types", "bench", "clean"):
        assert re.search(rf"^  {verb}\s+\S", listed, re.MULTILINE)
