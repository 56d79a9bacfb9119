"""`quarterline demo` as a person runs it: the loop closes, Ctrl-C ends everything, a taken port is named."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

LIMIT_S = 120  # the issue's own: within two minutes


def start(port: int, mqtt_port: int, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "api", "demo", "--port", str(port), "--mqtt-port", str(mqtt_port), *more]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def left_over(mqtt_port: int) -> list[str]:
    """Processes that name this demo's broker port on their command line or in their configuration."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if str(mqtt_port) in words:
                found.append(" ".join(words))
    return found


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_an_order_goes_the_whole_way_for_any_seed(seed: int, free_port: Callable[[], int]) -> None:
    port, mqtt_port = free_port(), free_port()
    demo = start(port, mqtt_port, "--seed", str(seed), "--until-closed", "--stop-after-s", str(LIMIT_S))
    said, _ = demo.communicate(timeout=LIMIT_S + 90)
    assert demo.returncode == 0, said[-3000:]
    closed = [line for line in said.splitlines() if "ORDER CLOSED" in line]
    assert closed
    assert "the sensor saw a complete pump-out" in said
    assert left_over(mqtt_port) == []


@pytest.mark.timeout(240)
def test_ctrl_c_ends_everything_twice_in_a_row(free_port: Callable[[], int]) -> None:
    port, mqtt_port = free_port(), free_port()
    for _ in range(2):
        demo = start(port, mqtt_port)
        assert demo.stdout is not None
        said: list[str] = []
        for line in demo.stdout:
            said.append(line)
            if "Ctrl-C ends everything" in line:
                break
        text = "".join(said)
        link = re.search(r"http://\S+/sign-in/\S+", text)
        assert link is not None, text
        with httpx.Client(follow_redirects=True) as browser:
            assert browser.get(link.group(0)).status_code == 200
        assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=60)
        assert demo.returncode == 0
        assert left_over(mqtt_port) == []


@pytest.mark.parametrize("which", ["port", "mqtt-port"])
def test_a_taken_port_is_named_with_the_way_out(which: str, free_port: Callable[[], int]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        ports = (number, free_port()) if which == "port" else (free_port(), number)
        demo = start(*ports)
        said, _ = demo.communicate(timeout=60)
    assert demo.returncode == 1
    assert f"port {number}" in said
    assert f'make demo ARGS="--{which}' in said
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_lying_hauler_is_not_believed(free_port: Callable[[], int]) -> None:
    demo = start(free_port(), free_port(), "--seed", "4", "--stop-after-s", "75")
    said, _ = demo.communicate(timeout=200)
    assert demo.returncode == 0, said[-3000:]
    doubted = [line for line in said.splitlines() if "NOT VERIFIED" in line and "SWIFT" in line]
    assert doubted
    assert all("no drawdown was seen" in line for line in doubted)
    unbelieved = {line.split()[3] for line in doubted}
    closed = [line for line in said.splitlines() if "ORDER CLOSED" in line and line.split()[3] in unbelieved]
    # a real service later may close such an order; the lie alone never does
    assert all("paper and sensor agree" in line or "The sensor" in line for line in closed)
