"""Logs: structured, to standard error, readable by a person or by a program."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog


def set_up_logs(style: Literal["text", "json"]) -> None:
    """Send everything that is logged to standard error in one style."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, renderer]
        if style == "json"
        else [*shared, renderer],
        # looked up at each line: whoever replaces standard error takes the log along
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
