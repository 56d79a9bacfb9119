"""The README's way to a real sensor, walked with its own files and its own commands."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

BIN = Path(sys.executable).parent
PATIENCE_S = 60


@pytest.fixture
def steps(root: Path) -> dict[str, str]:
    """The code blocks of the section, by what they are."""
    section = (root / "README.md").read_text().split("## A real sensor")[1].split("\n## ")[0]
    found = re.findall(r"^( *)```(?:toml|sh)\n(.*?)^\1```", section, flags=re.M | re.S)
    blocks = [re.sub(rf"^{indent}", "", block, flags=re.M) for indent, block in found]
    fleet, configuration, commands, publish = blocks
    return {"fleet": fleet, "configuration": configuration, "commands": commands, "publish": publish}


def _run(command: str, folder: Path) -> str:
    words = shlex.split(command.replace(".venv/bin", str(BIN)))
    return subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout


@contextmanager
def _running(command: str, folder: Path, url: str) -> Iterator[None]:
    """The service, from the moment it is ready until the end of the block."""
    with (folder / "serve.log").open("wb") as log:
        words = shlex.split(command.replace(".venv/bin", str(BIN)))
        service = subprocess.Popen(words, cwd=folder, stdout=log, stderr=log)
    try:
        _wait_for(lambda: httpx.get(f"{url}/readyz").status_code == 200, folder)
        yield
    finally:
        service.terminate()
        status = service.wait(timeout=PATIENCE_S)
    assert status == 0, (folder / "serve.log").read_text()


def _wait_for(condition: Callable[[], bool], folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except httpx.TransportError:
            pass  # not listening yet
        time.sleep(0.1)
    pytest.fail(f"waited {PATIENCE_S} s in vain; the service says:\n{(folder / 'serve.log').read_text()}")


def test_a_sensor_is_connected_as_the_readme_says(
    steps: dict[str, str],
    mosquitto_broker: Callable[..., Any],
    mosquitto_pub_path: str,
    free_port: Callable[[], int],
    tmp_path: Path,
) -> None:
    broker = mosquitto_broker(["persistence true", "max_queued_messages 0"])
    url = f"http://127.0.0.1:{(port := free_port())}"
    (tmp_path / "fleet.toml").write_text(steps["fleet"])
    (tmp_path / "quarterline.toml").write_text(
        steps["configuration"].replace("port = 1883", f"port = {broker.port}") + f"\n[http]\nport = {port}\n"
    )
    importing, signing_in, serving = steps["commands"].splitlines()

    assert "1 sensors" in _run(importing, tmp_path)
    assert f"{url}/sign-in/" in _run(signing_in, tmp_path)
    create = "token create --name test --role read-only --config quarterline.toml"
    key = _run(f".venv/bin/quarterline {create}", tmp_path).split()[-1]
    headers = {"Authorization": f"Bearer {key}"}

    def readings() -> list[dict[str, Any]]:
        answer = httpx.get(f"{url}/api/v1/readings", params={"sensor": "d-0001"}, headers=headers)
        items: list[dict[str, Any]] = answer.raise_for_status().json()["items"]
        return items

    options = steps["publish"].removeprefix("mosquitto_pub")
    with _running(serving, tmp_path, url):
        _run(f"{mosquitto_pub_path} -p {broker.port} {options}", tmp_path)
        _wait_for(lambda: len(readings()) == 1, tmp_path)
        (reading,) = readings()
    assert reading["values"] == {"surface_mm": 1220.0, "fog_bottom_mm": 1101.0, "solids_top_mm": 140.0}
