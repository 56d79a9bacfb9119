"""The shared fixtures: what happens where a part of the machine is missing, and the real broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def room_without_mosquitto(tmp_path: Path, root: Path) -> Path:
    """A test room with the shared conftest.py, told of a Mosquitto that is on no machine."""
    shared = (root / "tests" / "conftest.py").read_text()
    told = shared.replace('("mosquitto",), "mosquitto"', '("no-such-command",), "mosquitto"')
    assert told != shared
    (tmp_path / "conftest.py").write_text(told)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n    mosquitto: x\n    mosquitto_pub: x\n    browser: x\n"
    )
    (tmp_path / "test_room.py").write_text(
        "import pytest\n"
        "@pytest.mark.mosquitto\ndef test_marked(): pass\n"
        "def test_by_fixture(mosquitto_broker): pass\n"
        "def test_free(free_port): assert free_port() > 0\n"
    )
    return tmp_path


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_missing_part_is_skipped_and_named(room_without_mosquitto: Path, processes: str) -> None:
    result = _pytest(room_without_mosquitto, processes)
    assert result.returncode == 0, result.stdout
    assert "1 passed, 2 skipped" in result.stdout
    assert (
        "2 tests skipped because Mosquitto is missing: apt-get install mosquitto"
        in result.stdout.splitlines()
    )


@pytest.mark.parametrize("processes", ["0", "2"])
def test_where_no_skips_are_allowed_a_missing_part_fails(
    room_without_mosquitto: Path, processes: str
) -> None:
    result = _pytest(room_without_mosquitto, processes, TESTS_NO_SKIPS="1")
    assert result.returncode == 1, result.stdout
    assert "Mosquitto is missing: apt-get install mosquitto" in result.stdout


@pytest.mark.parametrize("processes", ["0", "2"])
def test_where_no_skips_are_allowed_any_skip_fails(room_without_mosquitto: Path, processes: str) -> None:
    (room_without_mosquitto / "test_room.py").write_text(
        "import pytest\ndef test_x(): pytest.skip('a whim')\n"
    )
    result = _pytest(room_without_mosquitto, processes, TESTS_NO_SKIPS="1")
    assert result.returncode == 1, result.stdout
    assert "a whim" in result.stdout


def _pytest(room: Path, processes: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("TESTS_", "PYTEST"))
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", processes, str(room)],
        cwd=room,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_the_shared_broker_answers_restarts_and_ends(mosquitto_broker: Callable[..., Any]) -> None:
    broker = mosquitto_broker(["persistence true", "max_queued_messages 0"])
    process = broker.process
    broker.stop()
    assert process.returncode == 0
    assert (broker.directory / "mosquitto.db").exists()
    broker.start()
    assert broker.process.poll() is None
    broker.kill()
    assert broker.process is None


def test_a_broker_that_cannot_start_says_why(mosquitto_broker: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError, match="no_such_option"):
        mosquitto_broker(["no_such_option true"])
