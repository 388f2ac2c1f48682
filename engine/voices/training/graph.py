"""One training step as one CUDA graph: tiny models are bound by launches, not by arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

Step = Callable[[], dict[str, Tensor]]


def captured(step: Step, parameters: Iterable[nn.Parameter], warmups: int = 3) -> Step:
    """`step` replayed. It must draw its data, learn and return losses without asking the host.

    Warm-up steps are real steps. Without CUDA the step itself is returned, gradients cleared.
    """
    held = list(parameters)

    def clear() -> None:
        for parameter in held:
            parameter.grad = None

    def plain() -> dict[str, Tensor]:
        clear()
        return step()

    if not torch.cuda.is_available():
        return plain
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warmups):
            plain()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    clear()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            losses = step()
    except RuntimeError as error:  # slower, and still right
        print(f"capture failed: {str(error)[:300]}", flush=True)
        torch.cuda.synchronize()
        return plain

    def replay() -> dict[str, Tensor]:
        graph.replay()
        return losses

    return replay


def rates(device: str) -> tuple[dict[str, bool], Callable[[], torch.autocast]]:
    """Optimiser flags that a capture needs, and the autocast that it may hold."""
    cuda = device == "cuda"
    if cuda:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
    flags = {"fused": True, "capturable": True} if cuda else {}
    return flags, lambda: torch.autocast(device, torch.bfloat16, enabled=cuda, cache_enabled=False)
