"""Telegraf as a peer of `quarterline bench ingest`, where one is on PATH: the same queue, received and written.

It writes lines to a file instead of a database: that is the least it can do, so that it is rather too fast than
too slow. A message is acknowledged by Telegraf when its output has taken it.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from ingest.bench_payload import Shape
from ingest.broker import BrokerError

CLIENT: Final = "telegraf"
_CONFIG: Final = """\
[agent]
interval = "1s"
flush_interval = "1s"
metric_batch_size = {window}
metric_buffer_limit = {buffer}
omit_hostname = true

[[inputs.mqtt_consumer]]
servers = ["tcp://{host}:{port}"]
topics = ["{topics}"]
qos = 1
client_id = "{client}"
persistent_session = true
max_undelivered_messages = {window}
data_format = "value"
data_type = "string"

[[outputs.file]]
files = ["{out}"]
data_format = "influx"
"""


def telegraf() -> str | None:
    """Path of the program, None where there is none."""
    return shutil.which("telegraf")


def drain_telegraf(
    program: str, host: str, port: int, messages: int, window: int, shape: Shape, folder: Path, limit_s: float
) -> float:
    """Seconds from Telegraf's first written line to the last of ``messages``.

    The broker must hold a session of client :data:`CLIENT` with the queue.

    Raises
    ------
    BrokerError
        It ended, or did not write them all within ``limit_s``; the end of its log says why.
    """
    out, config, log = (folder / f"telegraf.{kind}" for kind in ("out", "conf", "log"))
    out.write_bytes(b"")
    config.write_text(
        _CONFIG.format(
            host=host,
            port=port,
            client=CLIENT,
            window=window,
            buffer=10 * window,
            out=out,
            topics=shape.filter,
        ),
        encoding="utf-8",
    )
    with log.open("wb") as text:
        child = subprocess.Popen([program, "--config", str(config)], stdout=text, stderr=text)
    try:
        return _until_written(child, out, log, messages, time.monotonic() + limit_s)
    finally:
        child.terminate()
        child.wait(10)


def _until_written(
    child: subprocess.Popen[bytes], out: Path, log: Path, messages: int, limit: float
) -> float:
    began, lines = 0.0, 0
    with out.open("rb") as file:
        while lines < messages:
            if child.poll() is not None or time.monotonic() > limit:
                said = log.read_text(encoding="utf-8", errors="replace")[-500:]
                raise BrokerError(
                    f"telegraf wrote {lines} of {messages}: {said.strip() or 'it said nothing'}"
                )
            new = file.read(1 << 20).count(b"\n")
            if new and not lines:
                began = time.perf_counter()
            lines += new
            if not new:
                time.sleep(0.01)  # polling a condition with an end
    return max(time.perf_counter() - began, 1e-6)
