"""The command line: a user's mistake is a sentence with its place, and the right exit status."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from api.cli import main

FLEET = '[[sites]]\nid = "l"\nname = "L"\nordinance = "inglewood"\ntimezone = "America/Los_Angeles"\n'
MESSAGE = '{"received_at": "2026-01-01T00:00:00Z", "topic": "a", "payload": "x"}\n'

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """The command line sets up logging for its process; here the process goes on to other tests."""
    handlers = logging.getLogger().handlers[:]
    yield
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run a command in a folder of its own: exit status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def go(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["quarterline", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfdbinary.readouterr()
        status = ended.value.code
        return (status if isinstance(status, int) else 0), out.decode(), err.decode()

    return go


@pytest.mark.parametrize(
    ("files", "words", "status", "said"),
    [
        (
            {"q.toml": "[mqtt]\nprot = 1\n"},
            "doctor -c q.toml",
            2,
            "q.toml:2: mqtt.prot: unknown key; did you mean",
        ),
        ({}, "serve -c none.toml", 2, "none.toml: cannot be read: No such file or directory"),
        ({}, "replay --fleet none.toml --messages m --out -", 2, "none.toml: No such file or directory"),
        (
            {"f.toml": FLEET},
            "replay --fleet f.toml --messages none --out -",
            2,
            "none: No such file or directory",
        ),
        (
            {"f.toml": FLEET, "m": MESSAGE + "{\n"},
            "replay --fleet f.toml --messages m --out o",
            1,
            "m:2: received_at:",
        ),
        (
            {"f.toml": FLEET, "m": MESSAGE},
            "replay --fleet f.toml --messages m --out none/o",
            2,
            "--out: none is no",
        ),
        (
            {"f.toml": FLEET, "m": MESSAGE},
            "replay --fleet f.toml --messages m --out o --until x",
            2,
            "--until: ",
        ),
        (
            {"f.toml": FLEET},
            "replay --fleet f.toml --messages - --events - --out o",
            2,
            "cannot both be",
        ),
        (
            {"f.toml": FLEET.replace("name", "nmae")},
            "fleet import f.toml",
            1,
            "f.toml:3: sites[0].nmae: unknown key",
        ),
        ({"f.toml": FLEET + "x"}, "fleet import f.toml", 1, "f.toml:"),
        ({}, "import x.csv --mapping m.toml", 1, "m.toml: cannot be read"),
        ({}, "ordinance show nowhere", 2, "no ordinance 'nowhere'; known here: abilene, apex"),
        ({}, "token create --name x --role boss", 2, "role 'boss' is unknown: use one of admin"),
        ({}, "token create --name x --role hauler", 2, "needs a subject"),
        ({}, "token revoke zzz", 2, "no key 'zzz'"),
        ({}, "token sign-in --name x --role hauler", 2, "does not use the pages"),
        ({}, "bench ingest --mqtt 4", 2, "--mqtt: '4' is neither 3.1.1 nor 5"),
        ({}, "evaluate --days 0", 2, "--days"),
        ({}, "simulate", 2, "--out: missing"),
        ({}, "simulate --out o --scenario claen", 2, "scenario 'claen' is not known; nearest is 'clean'"),
        ({}, "simulate --out o --scenario fault:foan", 2, "nearest is 'foam'"),
        ({}, "simulate --out o --scenario none.toml", 2, "none.toml: No such file or directory"),
        ({"s.toml": "dais = 3"}, "simulate --out o --scenario s.toml", 2, "s.toml:1: dais: unknown key"),
        ({}, "simulate --out o --publish broker", 2, "--publish: expected HOST:PORT"),
        ({}, "fly", 2, "No such command"),
    ],
)
def test_a_mistake_is_a_sentence(
    run: Run, tmp_path: Path, files: dict[str, str], words: str, status: int, said: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    got, _, err = run(*words.split())
    assert said in err
    assert got == status
    assert "Traceback" not in err
    assert not (tmp_path / "o").exists()


def test_a_replay_by_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text(FLEET)
    (tmp_path / "m").write_text(MESSAGE)
    status, out, _ = run("replay", "--fleet", "f.toml", "--messages", "m", "--out", "-")
    assert status == 0
    quarantine, summary = [json.loads(line) for line in out.splitlines()]
    assert (quarantine["type"], quarantine["reason"], quarantine["topic"]) == ("quarantine", "topic", "a")
    assert {"received": 1, "quarantined": 1, "messages": 1}.items() <= summary.items()
    assert run("replay", "--fleet", "f.toml", "--messages", "m", "--out", "o")[0] == 0
    assert (tmp_path / "o").read_text() == out


def test_keys_are_made_listed_and_revoked(run: Run) -> None:
    status, token, _ = run("token", "create", "--name", "ci", "--role", "read-only")
    assert status == 0
    assert token.startswith("ql_")
    (row,) = json.loads(run("token", "list", "--json")[1])
    assert (row["name"], row["role"], row["revoked"]) == ("ci", "read-only", None)
    assert token.strip() not in json.dumps(row)
    assert run("token", "revoke", row["id"])[0] == 0
    assert json.loads(run("token", "list", "--json")[1])[0]["revoked"] is not None


def test_a_fleet_is_imported_twice_and_changes_once(run: Run, tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text(FLEET)
    assert "1 new or changed" in run("fleet", "import", "f.toml")[1]
    assert "0 new or changed" in run("fleet", "import", "f.toml")[1]


def test_doctor_names_what_is_wrong_and_what_to_do(run: Run, tmp_path: Path) -> None:
    (tmp_path / "q.toml").write_text("[mqtt]\nport = 1\n[http]\nport = 2\n")
    status, out, _ = run("doctor", "-c", "q.toml", "--json")
    assert status == 1
    found = {one["part"]: one for one in json.loads(out)}
    assert found["mqtt"]["state"] == "fault"
    assert found["mqtt"]["remedy"] == "start the broker, or set [mqtt] host and port"
    assert found["package analysis"]["state"] == "ok"
    assert {"inglewood", "sierra-madre"} <= set(found["ordinances"]["detail"].split(", "))


def test_an_ordinance_is_shown_with_its_sections(run: Run) -> None:
    rows = json.loads(run("ordinance", "show", "sierra-madre", "--json")[1])
    limit = [row for row in rows if row["key"] == "fill_limit"]
    assert limit[0]["value"] == 0.25
    assert "SMMC 13.14.150.E.1" in "; ".join(row["sections"] for row in limit)
