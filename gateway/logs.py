"""Log lines for people or machines. Ids and numbers only: no text, description or address."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from pathlib import Path


def set_up(*, json_lines: bool, level: str = "info") -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if json_lines else logging.Formatter(_TEXT, "%H:%M:%S"))
    root = logging.getLogger("vivavoce")
    root.handlers = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def place(error: BaseException) -> str:
    """What went wrong where, without the error's message, which may hold what a user said."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" at {Path(f.filename).name}:{f.lineno}" for f in last)
    return f"{type(error).__name__}{where}"


OF = ("session", "utterance", "frames")  # what a line is about, as entries of its object
_TEXT = "%(asctime)s %(levelname).1s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """One object a line: time (RFC 3339, UTC), level, logger, message; where known the session (a
    connection), the utterance's number and its frames; any traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: record.__dict__[name] for name in OF if name in record.__dict__}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)
