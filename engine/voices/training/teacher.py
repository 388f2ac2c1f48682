"""The teacher, hibari-tts, with one output more: how many 25-ms frames each phoneme takes.

The network rounds these lengths inside; knowing them says which phoneme sounds when, which teaches
the talker to read (train_lm.py).
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

LENGTHS = "/Clip_output_0"  # of hibari-tts 0.2.1's graph: [phonemes]
STEP = 600  # samples
PARTS = ["lh", "theta", "ln", "lr", "phi", "f0"]


def session(only_lengths: bool = False) -> onnxruntime.InferenceSession:
    """inputs ids [1, n], speed [1] -> PARTS and LENGTHS, or the lengths alone."""
    import hibari

    model = onnx.load(Path(str(hibari.__file__)).parent / "assets" / "hibari.onnx")
    model.graph.output.append(
        onnx.helper.make_tensor_value_info(LENGTHS, onnx.TensorProto.FLOAT, None)
    )
    raw = model.SerializeToString()
    if only_lengths:
        raw = onnx.utils.Extractor(onnx.load_from_string(raw)).extract_model(
            ["ids", "speed"], [LENGTHS]
        )
        raw = raw.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])


class Reader:
    """Text to phoneme ids, one row for the network."""

    def __init__(self) -> None:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        from hibari import Hibari

        self.hibari = Hibari(threads=1)

    def ids(self, text: str) -> NDArray[np.int64]:
        row: list[int] = []
        for phonemes in self.hibari.phonemize(text):
            row += [*self.hibari.ids(phonemes)[1:-1], 16]
        return np.asarray([[0, *row[:-1], 0]], np.int64)
