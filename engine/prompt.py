"""What the talker is told before it speaks: the rows of a prefill (model.md 4). Knows ids only.

A row is a text vector plus a codec vector, either of which may be absent. The layouts' last row
yields code 0 of the first new frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.config import ModelConfig


@dataclass(frozen=True)
class Row:
    """Ids of one prefill position; -1: absent. `frame` indexes the frames that a prompt carries."""

    text: int = -1
    codec: int = -1
    frame: int = -1


def opening(
    config: ModelConfig,
    encode: Callable[[str], list[int]],
    instruct: str,
    language: str,
    speaker: str,
) -> list[Row]:
    """Rows A to E: voice description, role, language, speaker, begin of text.

    `encode` makes ids of plain text. Raises ValueError for a language or speaker there is not.
    """
    if config.kind == "base":
        raise ValueError("voice cloning is not here yet, and the loaded model is base")
    talker = config.talker
    pad = config.tts_pad_token_id
    newline = encode("\n")
    described = instruct.strip() if takes_instruct(config) else ""
    rows: list[Row] = []
    if described:  # encoded by itself: nothing merges over a control token or the role's newline
        ids = [config.im_start_token_id, *encode("user\n")]
        ids += [*encode(described), config.im_end_token_id, *newline]
        rows += [Row(text=i) for i in ids]
    role = [config.im_start_token_id, config.assistant_token_id, *newline]
    rows += [Row(text=i) for i in role]
    voice = speaker_id(config, speaker)
    tag = language_id(config, language, speaker)
    if tag is None:
        codec = [talker.codec_nothink_id, talker.codec_think_bos_id, talker.codec_think_eos_id]
    else:
        codec = [talker.codec_think_id, talker.codec_think_bos_id, tag, talker.codec_think_eos_id]
    rows += [Row(pad, i) for i in codec]
    if voice is not None:
        rows.append(Row(pad, voice))
    return [*rows, Row(config.tts_bos_token_id, talker.codec_pad_id)]


def stream(config: ModelConfig, first: int) -> list[Row]:
    """The first text id; the others are fed one a frame, then tts_eos, then tts_pad."""
    return [Row(first, config.talker.codec_bos_id)]


def full(config: ModelConfig, text: list[int]) -> list[Row]:
    """All text; tts_pad is fed with every frame."""
    return [*_text(config, text), Row(config.tts_pad_token_id, config.talker.codec_bos_id)]


def carried(config: ModelConfig, carry_text: list[int], text: list[int], frames: int) -> list[Row]:
    """All text, that of the carried frames first, then the carried frames 0 to `frames` - 1."""
    rows = full(config, [*carry_text, *text])
    return rows + [Row(text=config.tts_pad_token_id, frame=i) for i in range(frames)]


def takes_instruct(config: ModelConfig) -> bool:
    """The small CustomVoice model was not taught to follow a description."""
    return not (config.kind == "custom_voice" and config.size == "0b6")


def language_id(config: ModelConfig, language: str, speaker: str = "") -> int | None:
    """The id of a language's tag, None for auto. A speaker of a dialect speaks it unless another
    language is asked for. Raises ValueError for a language there is not.
    """
    name = language.strip().lower() or "auto"
    if name != "auto" and name not in config.languages:
        raise ValueError(f"unknown language {language!r}: {_listing(['auto', *config.languages])}")
    if name in ("auto", "chinese"):
        dialect = config.dialects.get(speaker.strip().lower())
        if dialect is not None:
            return dialect
    return None if name == "auto" else config.languages[name]


def speaker_id(config: ModelConfig, speaker: str) -> int | None:
    """The id of a speaker, None where models have none. Raises ValueError for one there is not."""
    name = speaker.strip().lower()
    if config.kind == "voice_design":
        if name:
            raise ValueError(f"unknown speaker {speaker!r}: the loaded model takes a description")
        return None
    if name not in config.speakers:
        raise ValueError(f"unknown speaker {speaker!r}: {_listing(config.speakers)}")
    return config.speakers[name]


def _text(config: ModelConfig, text: list[int]) -> list[Row]:
    return [Row(i, config.talker.codec_pad_id) for i in (*text, config.tts_eos_token_id)]


def _listing(names: Iterable[str]) -> str:
    return f"the loaded model has {', '.join(names)}"
