"""The published 1.7B sizes, with drawn weights: the same codes as the reference package. Takes
minutes and 10 GB of memory; only the text vocabulary is smaller, so that the tiny tokenizer fits.
"""

from __future__ import annotations

import gc
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch

from engine.checkpoint import Loaded
from engine.config import ModelConfig
from engine.models.names import fill
from engine.models.shapes import TALKER
from engine.models.talker import Talker
from engine.tokenizer import Tokenizer
from tests.engine import voice
from tests.engine.tiny import TOKENIZER, codec_json, config_json, write_configs
from tests.parity import ours, reference
from tests.parity.cases import DESIGNED

pytestmark = [pytest.mark.parity, pytest.mark.slow, pytest.mark.timeout(1800)]

PUBLISHED = Path(__file__).parent.parent / "golden" / "configs" / "1b7-voice_design.config.json"
FRAMES = 4


def sizes() -> tuple[dict[str, Any], ModelConfig]:
    tiny, content = config_json(), json.loads(PUBLISHED.read_text())
    content |= {name: i for name, i in tiny.items() if name.endswith("_token_id")}
    content["talker_config"]["text_vocab_size"] = tiny["talker_config"]["text_vocab_size"]
    codec = codec_json()  # only its agreement with the talker counts here
    codec["decoder_config"] |= {"codebook_size": 2048, "num_quantizers": 16}
    with TemporaryDirectory() as folder:
        write_configs(Path(folder), content, codec)
        return content, ModelConfig.read(Path(folder))


def test_the_codes_of_1b7() -> None:
    torch.set_num_threads(2)
    content, config = sizes()
    tokenizer = Tokenizer.load(TOKENIZER)
    theirs = reference.model(content)
    reference.fill(theirs.talker, TALKER, seed=0)
    expected = reference.speak(theirs, config, tokenizer, DESIGNED[:2], "full", FRAMES)
    weights = {TALKER + n: p.detach() for n, p in theirs.talker.named_parameters()}
    del theirs
    gc.collect()
    with torch.device("meta"):
        talker = Talker(config.talker)
    talker.to_empty(device="cpu")  # pages come as theirs go
    fill(talker, TALKER, weights.pop)
    assert not weights
    talker.eval().requires_grad_(False).fold()
    codec = voice.codec(sizes=config.codec)
    loaded = Loaded("1.7B", config, talker, codec, tokenizer)
    said = ours.speak(loaded, DESIGNED[:2], "full", FRAMES)
    for a, b in zip(said, expected, strict=True):
        assert torch.equal(a, b)
    assert len(torch.cat(said).unique(dim=0)) > FRAMES
