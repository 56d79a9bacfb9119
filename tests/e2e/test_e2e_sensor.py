"""A device in somebody's hand: the demo open to it, and the document that leads to its first stored reading."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from processes import until

from api.demo_lan import lan_address

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "sensors.md"
DAEMONS = "/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin"


class Told:
    """What a process says, line by line, as it says it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def line(self, start: str) -> str:
        until(lambda: any(one.strip().startswith(start) for one in self.lines) or self._over(), start, 120)
        return next(one.strip() for one in self.lines if one.strip().startswith(start))

    def _over(self) -> bool:
        assert self.process.poll() is None, "\n".join(self.lines[-30:])
        return False

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)
        self._thread.join(20)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def demo(free_port: Callable[[], int]) -> Iterator[tuple[Told, int]]:
    port, mqtt_port = free_port(), free_port()
    command = [
        sys.executable, "-u", "-m", "api", "demo", "--lan", "--port", str(port), "--mqtt-port", str(mqtt_port),
        "--day-s", "60",
    ]  # fmt: skip
    told = Told(
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
    )
    yield told, mqtt_port
    told.end()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_real_device_speaks_to_the_demo_over_the_network(
    demo: tuple[Told, int], mosquitto_pub_path: str
) -> None:
    told, mqtt_port = demo
    line = told.line("mosquitto_pub ")
    words = shlex.split(line)
    address = words[words.index("-h") + 1]
    assert address == lan_address()
    assert words[words.index("-p") + 1] == str(mqtt_port)
    words[0] = mosquitto_pub_path

    config = told.line("What it sends becomes:").rpartition(" -c ")[2]
    quarterline = [sys.executable, "-m", "api", "sensor", "check", "my-device", "-c", config]

    def outcomes() -> list[str]:
        shown = subprocess.run([*quarterline, "--json"], capture_output=True, text=True, check=True)
        found = json.loads(shown.stdout)
        assert found["known"] is True
        return [part["outcome"] for one in found["messages"] for part in one["parts"]]

    # as printed, to the machine's own address on the network; then to loopback
    subprocess.run(words, check=True, timeout=30)
    until(lambda: outcomes() == ["stored"], "the device's reading is stored")
    words[words.index("-h") + 1] = "127.0.0.1"
    words[words.index("-m") + 1] = '{"surface": 1220}'
    subprocess.run(words, check=True, timeout=30)
    until(lambda: outcomes() == ["refused", "stored"], "the second one is refused for want of a unit")

    # nobody without the password, and not under another's id
    password = words.index("-P") + 1
    wrong = [*words[:password], "guessed", *words[password + 1 :]]
    assert subprocess.run(wrong, capture_output=True, timeout=30).returncode != 0
    forged = list(words)
    forged[forged.index("-t") + 1] = "quarterline/v1/sm-1/readings"
    forged[forged.index("-m") + 1] = '{"surface_mm": 1}'
    subprocess.run(forged, capture_output=True, timeout=30)

    follow = [*quarterline, "--follow", "--stop-after-s", "2"]
    shown = subprocess.run(follow, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "my-device in your-tank, last heard " in shown
    assert "fog_bottom_mm: 1101 -> fog_bottom [mm], fog_bottom_m = 1.101" in shown
    assert "REFUSED (no_unit): surface: has no unit; name it surface_mm" in shown
    stray = subprocess.run(
        [*(w if w != "my-device" else "sm-1" for w in quarterline), "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(stray.stdout)["messages"] == []


# ---- the document ------------------------------------------------------------------------------------


def blocks() -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.mosquitto
@pytest.mark.timeout(300)
def test_the_document_s_lines_lead_to_stored_readings(
    tmp_path: Path, free_port: Callable[[], int], mosquitto_pub_path: str
) -> None:
    """Every block in order, in one shell, with other ports and the password that was shown."""
    port, http = free_port(), free_port()
    environment = {
        "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"], DAEMONS]),
        "HOME": str(tmp_path),
        "QUARTERLINE_HTTP__PORT": str(http),
        "QUARTERLINE_MQTT__PORT": str(port),
    }
    if shutil.which("curl", path=environment["PATH"]) is None:
        pytest.skip("curl is missing: apt-get install curl")
    said = [""]

    def run(block: str) -> str:
        text = block.replace("-p 1883", f"-p {port}").replace(":8080", f":{http}")
        text = text.replace("--out broker", f"--out broker --port {port}")
        shown = re.search(r"^password  (\S+) ", "\n".join(said), re.MULTILINE)
        text = text.replace("the one that was shown", shown[1] if shown else "")
        more = f"echo 'pid_file {tmp_path}/pid' >> broker/quarterline.conf\n"
        if os.getuid() == 0:  # else Mosquitto becomes another user, who may not read our files
            more += "echo 'user root' >> broker/quarterline.conf\n"
        text = text.replace("mosquitto -d", f"{more}mosquitto -d")
        text = text.replace(
            "-c quarterline.toml &", "-c quarterline.toml >serve.log 2>&1 & echo $! >serve.pid"
        )
        script = f"set -e\n[ ! -e password ] || . ./password\n{text}\n"
        if "PASSWORD=" in text:
            (tmp_path / "password").write_text(text)
        result = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environment, text=True, timeout=60,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert result.returncode == 0, f"{block}\n{result.stdout}"
        said.append(result.stdout)
        return result.stdout

    def ready() -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(f"http://127.0.0.1:{http}/readyz").status_code == 200
        return False

    try:
        for block in blocks():
            out = run(block)
            if "quarterline serve" in block:
                until(ready, f"the service is ready: {(tmp_path / 'serve.log').read_text()[-2000:]}")
            if "mosquitto_pub" in block:
                until(
                    lambda: "STORED" in run("quarterline sensor check d-0001 -c quarterline.toml"), "stored"
                )
            if block.startswith("curl"):
                assert json.loads(out[out.index("{") :])["items"][0]["outcome"] == "stored"
        assert "inlet_f: 98.6 -> inlet [f], inlet_c = 37" in said[-1]
        assert "fog_bottom_mm: 1101 -> fog_bottom [mm], fog_bottom_m = 1.101" in said[-1]
        assert said[-1].count("STORED") == 2
    finally:
        for name in ("serve.pid", "pid"):
            with suppress(OSError, ValueError):
                os.kill(int((tmp_path / name).read_text()), signal.SIGTERM)
        end = time.monotonic() + 30
        while ready() and time.monotonic() < end:
            time.sleep(0.05)  # between two looks
