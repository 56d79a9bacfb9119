"""`quarterline evaluate`: from a scenario to the table, the files and the plots."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import judged
import pytest
import structlog
from judged import DAY, T0

from alerts.conditions import Subject
from alerts.ordinance import load_ordinances
from alerts.policy import Policy
from api.cli import main
from api.core import Rules
from api.evaluate import with_limit
from api.evaluateplots import picture
from simulators.truthbook import read_truth

SVG = "{http://www.w3.org/2000/svg}"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    handlers = logging.getLogger().handlers[:]
    yield
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run the command in a folder of its own: exit status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def go(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["quarterline", "evaluate", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfdbinary.readouterr()
        status = ended.value.code
        return (status if isinstance(status, int) else 0), out.decode(), err.decode()

    return go


def test_two_seeds_are_replayed_scored_and_drawn(run: Run, tmp_path: Path) -> None:
    words = "--scenario fault:stuck --seed 3 --seed 4 --days 2 --interceptors 2 --keep k --plots p --json"
    status, out, err = run(*words.split())
    assert status == 0, err
    answer = json.loads(out)
    assert (answer["scenario"], answer["seeds"]) == ("fault:stuck", [3, 4])
    assert (answer["interceptors"], answer["days"]) == (2, 2)
    rows = {(row["metric"], row["group"]): row for row in answer["rows"]}
    known = rows["depths_known", "all"]
    assert known["count"] == 2 * 2  # seeds, interceptors: one midnight after the first readings
    assert known["line"] is not None
    lost = rows["items_unaccounted", "all"]
    assert (lost["value"], lost["count"], lost["met"]) == (0.0, 2, True)
    for seed in (3, 4):
        kept = {path.name for path in (tmp_path / "k" / f"seed-{seed}").iterdir()}
        assert kept == {"fleet.toml", "messages.jsonl", "events.jsonl", "truth.jsonl", "output.jsonl"}
    assert len(list((tmp_path / "p").glob("seed-3-*.svg"))) == 2
    assert len(list((tmp_path / "p").glob("seed-4-*.svg"))) == 2


def test_a_scenario_file_brings_its_own_length_and_seed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('name = "mine"\nseed = 7\ninterceptors = 1\ndays = 2\n')
    status, out, err = run("--scenario", "mine.toml")
    assert status == 0
    assert "seed 7: 1 interceptors, 2 days" in err
    assert out.splitlines()[0].split() == ["value", "95%", "interval", "n", "target", "met", "line", "oracle"]
    assert out.splitlines()[-1].endswith("targets met")


def test_a_lower_limit_is_what_every_ordinance_says() -> None:
    rules = with_limit(Rules(load_ordinances(), {}, Policy()), 0.15)
    for ordinance in rules.ordinances.values():
        for version in ordinance.versions:
            limits = {one.value for one in version.values.get("fill_limit", ())}
            assert limits in ({0.15}, set())  # not every city has a limit
    assert rules.ordinances["inglewood"].versions[0].rules_for(Subject("gravity")).fill_limit == 0.15


@pytest.mark.slow
def test_several_processes_give_the_same_table(run: Run) -> None:
    words = ["--seed", "3", "--seed", "4", "--days", "3", "--interceptors", "2"]
    assert run(*words)[1] == run(*words, "--jobs", "2")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--scenario claen", "scenario 'claen' is not known; nearest is 'clean'"),
        ("--scenario none.toml", "none.toml: No such file or directory"),
        ("--seed 1 --seed 1", "--seed: each seed counts once; name it once"),
        ("--seed -1", "--seed"),
        ("--limit 0.3", "--limit: 0.3 is none of 0.1, 0.15, 0.2, 0.25"),
        ("--days 1 --plots file", "--plots: file: File exists; give a folder that can be written"),
        ("--days 1 --keep file/under", "--keep: file/under: Not a directory"),
    ],
)
def test_mistakes_are_named(run: Run, tmp_path: Path, words: str, said: str) -> None:
    (tmp_path / "file").write_text("")
    status, out, err = run(*words.split())
    assert (status, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_a_picture_shows_truth_estimate_events_and_faults() -> None:
    truth = [*judged.one_rod(), judged.fault("dead_electrode", 3, 8)]
    book = read_truth(truth)
    lines: dict[str, list[judged.Line]] = {}
    for line in judged.perfect(truth):
        lines.setdefault(line["type"], []).append(line)
    lines["alert"].append(
        judged.alarm(T0 + 12.4 * DAY) | {"id": lines["alert"][0]["id"], "state": "resolved"}
    )
    text = picture(book, book.records["a"], lines)
    root = ElementTree.fromstring(text)
    found: dict[str, list[ElementTree.Element]] = {}
    for item in root.iter():
        found.setdefault(item.get("class", ""), []).append(item)
    assert len(found["truth"]) == 4  # the key, and a line before, between and after two pump-outs
    assert len(found["estimate"]) == 4
    assert len(found["band"]) == 3
    assert len(found["service"]) == 2
    assert (len(found["true"]), len(found["true partial"])) == (1, 1)
    assert (len(found["told"]), len(found["told partial"])) == (1, 1)
    assert len(found["hot"]) == 4  # two, true and told
    (fault,) = found["fault"]
    assert fault.findtext(f"{SVG}title") == "dead_electrode"
    per_day = (1200 - 150 - 20) / 30
    assert float(fault.get("x", "")) == pytest.approx(150 + 3 * per_day, abs=0.1)
    assert float(fault.get("width", "")) == pytest.approx(5 * per_day, abs=0.1)
    (over,) = found["over"]
    begun = 5 + 600 / DAY
    assert float(over.get("x", "")) == pytest.approx(150 + begun * per_day, abs=0.1)
    assert float(over.get("width", "")) == pytest.approx((12.4 - begun) * per_day, abs=0.1)


def test_a_picture_of_names_that_would_be_markup() -> None:
    truth = [line | {"interceptor": "<b>&"} for line in judged.one_rod()]
    book = read_truth(truth)
    root = ElementTree.fromstring(picture(book, book.records["<b>&"], {}))
    assert "<b>& · rod" in [item.text for item in root.iter(f"{SVG}text")]
