"""The set-up behind the two commands: what it finds, installs and says on machines unlike this one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A search path that holds a shell's few helpers and nothing else; a test puts commands into it."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("sh", "cat", "sed", "cmp", "dirname"):
        real = shutil.which(name)
        assert real is not None
        (commands / name).symlink_to(real)
    return commands


def _command(machine: Path, name: str, script: str) -> None:
    path = machine / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def _run(root: Path, machine: Path, tool: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(machine / "sh"), str(root / "tools" / tool)],
        env={"PATH": str(machine), **environment},
        capture_output=True,
        text=True,
    )


def test_a_machine_without_python_hears_what_to_install(root: Path, machine: Path) -> None:
    result = _run(root, machine, "find-python")
    assert result.returncode == 1
    assert "Quarterline needs Python 3.11 or newer" in result.stderr
    assert "Found here: none." in result.stderr
    assert "apt-get install python3 python3-venv" in result.stderr


def test_a_python_that_is_too_old_is_named(root: Path, machine: Path) -> None:
    _command(machine, "python3", 'echo "is Python 3.9, 3.11 or newer is needed"; exit 3')
    result = _run(root, machine, "find-python")
    assert result.returncode == 1
    assert "python3 is Python 3.9, 3.11 or newer is needed" in result.stderr


def test_a_python_without_venv_hears_which_package_brings_it(root: Path, machine: Path) -> None:
    # As on Debian, where the modules come in a package of their own.
    _command(
        machine,
        "python3",
        'case "$2" in *ensurepip*) echo "is Python 3.12 without ensurepip"; exit 4;; esac; '
        "echo python3.12-venv",
    )
    result = _run(root, machine, "find-python")
    assert result.returncode == 1
    assert "apt-get install python3.12-venv" in result.stderr


def test_a_launcher_with_nothing_behind_it_is_passed_over(root: Path, machine: Path) -> None:
    _command(machine, "python3", 'echo "no such version" >&2; exit 127')
    (machine / "python3.11").symlink_to(sys.executable)
    result = _run(root, machine, "find-python")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


def test_the_python_that_is_asked_for_is_the_only_candidate(root: Path, machine: Path) -> None:
    (machine / "python3").symlink_to(sys.executable)
    result = _run(root, machine, "find-python", PYTHON="python3.12")
    assert result.returncode == 1
    assert "under the name python3.12" in result.stderr


def _debian(machine: Path, *, user: int, record: Path, first_install_fails: bool = False) -> None:
    _command(machine, "id", f"echo {user}")
    failing = f'[ "$1" = install ] && [ ! -e "{record}.lists" ] && exit 100' if first_install_fails else ":"
    _command(
        machine,
        "apt-get",
        f'echo "$@" >>"{record}"; {failing}; [ "$1" = update ] && : >"{record}.lists"; exit 0',
    )


def test_root_on_debian_gets_the_parts_that_tests_use(root: Path, machine: Path, tmp_path: Path) -> None:
    record = tmp_path / "apt"
    _debian(machine, user=0, record=record)
    result = _run(root, machine, "debian-parts")
    assert result.returncode == 0, result.stderr
    (call,) = record.read_text().splitlines()
    assert call.startswith("install --yes")
    # daemons may be here already: they are looked for in /usr/sbin too
    assert {"mosquitto-clients", "faketime", "chromium"} <= set(call.split())


def test_package_lists_are_fetched_when_they_are_needed(root: Path, machine: Path, tmp_path: Path) -> None:
    record = tmp_path / "apt"
    _debian(machine, user=0, record=record, first_install_fails=True)
    result = _run(root, machine, "debian-parts")
    assert result.returncode == 0, result.stderr
    assert [line.split()[0] for line in record.read_text().splitlines()] == ["install", "update", "install"]


def test_nobody_but_root_installs_anything(root: Path, machine: Path, tmp_path: Path) -> None:
    record = tmp_path / "apt"
    _debian(machine, user=1000, record=record)
    assert _run(root, machine, "debian-parts").returncode == 0
    assert not record.exists()


def test_parts_that_are_here_are_left_alone(root: Path, machine: Path, tmp_path: Path) -> None:
    record = tmp_path / "apt"
    _debian(machine, user=0, record=record)
    for name in ("mosquitto", "mosquitto_pub", "rabbitmq-server", "faketime", "chromium"):
        _command(machine, name, "exit 0")
    assert _run(root, machine, "debian-parts").returncode == 0
    assert not record.exists()
