"""The child process in which vendors' payload codecs run: started by file, speaks lines of JSON over its pipes.

It imports nothing of this program, can open no file and no socket, and ends when its standard input does.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
from typing import Any

MEMORY_BYTES = 32 << 20  # of one run of a codec
ADDRESS_BYTES = 512 << 20  # of the whole process
STACK_BYTES = 256 << 10
CPU_S = 0.5  # of one run; the parent ends a run that the engine itself cannot interrupt
OUTPUT_CHARACTERS = 64 << 10
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38

# Built-ins are taken before the codec can change them. The clock stands at the time of receipt and chance is fixed:
# the same message gives the same reading in a replay.
_PRELUDE = """(function () {
  const parse = JSON.parse, write = JSON.stringify, RealDate = Date, make = Reflect.construct;
  let now = 0;
  function Clock(...given) {
    if (!new.target) return new RealDate(now).toString();
    return make(RealDate, given.length ? given : [now], new.target);
  }
  Clock.prototype = RealDate.prototype;
  Clock.UTC = RealDate.UTC; Clock.parse = RealDate.parse; Clock.now = () => now;
  RealDate.prototype.constructor = Clock;
  globalThis.Date = Clock;
  Math.random = () => 0.5;
  globalThis.performance = undefined;
  const quiet = () => undefined;
  globalThis.console = {log: quiet, info: quiet, warn: quiet, error: quiet, debug: quiet};
  globalThis.module = {exports: {}};
  globalThis.exports = globalThis.module.exports;
  return {
    at: (time) => { now = time; },
    run: (text) => {
      const input = parse(text);
      if (input.recvTime !== null) input.recvTime = new RealDate(input.recvTime); else delete input.recvTime;
      let decode = typeof decodeUplink === "function" ? decodeUplink : module.exports.decodeUplink;
      if (typeof decode !== "function") return undefined;
      const found = write(decode(input));
      return found === undefined ? "null" : found;
    },
  };
})()"""


def _lock_up() -> None:
    """Give away what a codec that broke out of its engine could use."""
    try:
        import resource
    except ImportError:  # no such limits on this system; the engine itself offers neither files nor network
        return
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # 0 to 2 are the pipes; nothing can be opened any more, neither file nor socket
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def run(quickjs: Any, source: str, request: dict[str, Any]) -> dict[str, Any]:
    """One message through a codec in an engine of its own: what one leaves behind no other message sees."""
    context = quickjs.Context()
    context.set_memory_limit(MEMORY_BYTES)
    context.set_max_stack_size(STACK_BYTES)
    context.set_time_limit(CPU_S)
    try:
        inner = context.eval(_PRELUDE)
        context.set("__inner", inner)
        at, runner = context.eval("__inner.at"), context.eval("__inner.run")
        context.eval("delete globalThis.__inner")
        at(float(request["at_ms"]))
        context.eval(source)
        found = runner(json.dumps(request["input"]))
    except quickjs.StackOverflow:
        return {"error": "stack", "detail": "its functions call each other too deeply"}
    except quickjs.JSException as error:
        return _failed(str(error))
    except (MemoryError, UnicodeError) as error:
        return {
            "error": "memory" if isinstance(error, MemoryError) else "output",
            "detail": "no text came out",
        }
    if found is None:
        return {"error": "no_decoder", "detail": "it has no function decodeUplink (LoRa Alliance TS013)"}
    if type(found) is not str or len(found) > OUTPUT_CHARACTERS:
        return {"error": "output", "detail": f"it gave more than {OUTPUT_CHARACTERS} characters"}
    return {"text": found}


def _failed(text: str) -> dict[str, Any]:
    first = text.split("\n", 1)[0][:300]
    if first == "InternalError: interrupted":
        return {"error": "time", "detail": f"it did not end in time ({CPU_S} s)"}
    if first in ("InternalError: out of memory", "null"):
        return {"error": "memory", "detail": f"it wanted more than {MEMORY_BYTES >> 20} MiB"}
    return {"error": "threw", "detail": first}


def main() -> None:
    """Answer requests until the input ends: a line with the source, then a line a message."""
    import quickjs

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the parent's to handle
    _lock_up()
    source = ""
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "source" in request:
            source = request["source"]
            continue
        answer = run(quickjs, source, request)
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
