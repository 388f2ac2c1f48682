"""Make .venv: the package, what its tests need, and the torch build that fits the machine.

A machine without an NVIDIA GPU must not download gigabytes of CUDA, so torch is looked for in its
own index of CPU builds first, and taken from the package index's default where that one cannot be
reached. Standard library only.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import urllib.request
import venv
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
REACH_SECONDS = 5.0


def gpu_present() -> bool:
    """Whether an NVIDIA driver answers."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return False
    return subprocess.run([command, "-L"], capture_output=True).returncode == 0


def cpu_index_answers() -> bool:
    try:
        with urllib.request.urlopen(CPU_INDEX + "/torch/", timeout=REACH_SECONDS):
            return True
    except OSError:
        return False


def torch_source(
    choice: str, system: str, gpu: Callable[[], bool], cpu_index: Callable[[], bool]
) -> tuple[list[str], str]:
    """pip's extra arguments for torch, and the reason. `choice`: auto | cpu | default."""
    if system != "Linux":
        return [], "torch: the default build, which has no CUDA on this system"
    if choice == "default":
        return [], "torch: the default build, as asked"
    if choice == "auto" and gpu():
        return [], "torch: the default build, for the NVIDIA GPU"
    if cpu_index():
        return ["--extra-index-url", CPU_INDEX], "torch: the CPU build"
    return [], f"torch: the package index's default build, since {CPU_INDEX} does not answer"


def make_environment(folder: Path) -> Path:
    """The environment's interpreter; made anew where it is missing, broken or of another Python."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if python.exists():
        asked = [python, "-c", "import pip, sys; print(*sys.version_info[:2])"]
        answer = subprocess.run(asked, capture_output=True, text=True)
        if answer.returncode == 0 and answer.stdout.split() == [*map(str, sys.version_info[:2])]:
            return python
    print(f"making {folder}", flush=True)
    venv.create(folder, with_pip=True, clear=folder.exists(), symlinks=os.name != "nt")
    return python


def main(extras: str = "audio,browser,dev,opus") -> int:
    python = make_environment(ROOT / ".venv")
    choice = os.environ.get("TORCH", "auto")
    if choice not in ("auto", "cpu", "default"):
        print("TORCH is auto, cpu or default", file=sys.stderr)
        return 2
    source, why = torch_source(choice, platform.system(), gpu_present, cpu_index_answers)
    print(why, flush=True)
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    pip += ["-c", ROOT / "constraints.txt"]
    steps = [
        [*pip, *source, "torch", "hatchling", "editables"],
        [*pip, "--no-build-isolation", "-e", f"{ROOT}[{extras}]"],
    ]
    for step in steps:
        if code := subprocess.run(step, cwd=ROOT).returncode:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
