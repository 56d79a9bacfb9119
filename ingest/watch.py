"""Run one program and end it with whoever started this: ``python watch.py program arguments…``.

Standard input is a pipe that nobody writes to; it closes when the starter is gone, however it went. Run as a
file of its own, so it imports nothing of ours.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Final

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_GRACE_S: Final = 5.0


def main(command: list[str]) -> int:
    """Run ``command`` to its end; returns its exit status."""
    # this main thread starts it and lives as long as this process: "parent death" means what it says
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, preexec_fn=_end_with_parent if sys.platform == "linux" else None
    )

    def end(_number: int = 0, _frame: FrameType | None = None) -> None:
        child.terminate()

    def watch() -> None:
        sys.stdin.buffer.read()
        end()
        try:
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=watch, daemon=True).start()
    return child.wait()


def _end_with_parent() -> None:
    """In the child, before the program: it is killed when this process is, even by kill -9."""
    with suppress(OSError, AttributeError):  # another C library: the pipe still does the rest
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
