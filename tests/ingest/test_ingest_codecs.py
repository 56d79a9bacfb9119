"""Vendors' JavaScript codecs: what they may do, and that a hostile one costs its own message only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from ingest.codecs import SOURCE_BYTES, STRIKES, Codec, CodecError, Decoded, Request, Runner
from ingest.refused import Refused

GOOD = "function decodeUplink(i) { return {data: {mm: (i.bytes[0] << 8) + i.bytes[1], port: i.fPort}}; }"
NOW_US = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z
UPLINK = Request(bytes([4, 210]), 2, NOW_US)


def codec(source: str) -> Codec:
    return Codec("c.js", source, sha256(source.encode()).hexdigest())


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    runner = Runner(answer_s=1.0)
    yield runner
    runner.close()


def one(runner: Runner, source: str, request: Request = UPLINK) -> Decoded | Refused:
    return runner.run(codec(source), [request])[0]


def test_bytes_and_port_become_data(runner: Runner) -> None:
    assert one(runner, GOOD) == Decoded({"mm": 1234, "port": 2})


def test_the_clock_is_the_time_of_receipt_and_chance_is_fixed(runner: Runner) -> None:
    source = """const decodeUplink = (i) => ({data: {now: Date.now(), made: new Date().toISOString(),
      came: i.recvTime.getTime(), given: new Date(0).getTime(), chance: Math.random(),
      is: new Date() instanceof Date}})"""
    assert one(runner, source) == Decoded(
        {
            "now": 1_772_366_400_000,
            "made": "2026-03-01T12:00:00.000Z",
            "came": 1_772_366_400_000,
            "given": 0,
            "chance": 0.5,
            "is": True,
        }
    )


def test_variables_exports_and_console(runner: Runner) -> None:
    source = """exports.decodeUplink = (i) => { console.log(i);
      return {data: {h: i.variables.height}, warnings: ['low']} }"""
    assert runner.run(codec(source), [UPLINK], {"height": "12"}) == [Decoded({"h": "12"}, ("low",))]


def test_nothing_of_one_message_is_left_for_the_next(runner: Runner) -> None:
    source = """var seen = 0; function decodeUplink(i) { seen += 1; Array.prototype.left = 1;
      Object.prototype.seen = seen; return {data: {seen}}; }"""
    assert runner.run(codec(source), [UPLINK] * 3) == [Decoded({"seen": 1})] * 3


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("function decodeUplink() { while (true) {} }", "did not end in time"),
        ("while (true) {}", "did not end in time"),
        ("function decodeUplink() { try { while (true) {} } catch (e) { return {data: {}} } }", "did not end in time"),
        ("function decodeUplink() { return {data: {a: /(a+)+$/.test('a'.repeat(40) + 'b')}} }", "did not end in time"),
        ("function decodeUplink() { return {data: {a: new Array(1e9).join('x')}} }", "did not end in time"),
        ("function decodeUplink() { let a = []; while (true) a.push(new Array(1e6).fill(0)) }", "more than 32 MiB"),
        ("function decodeUplink() { return {data: {a: 'x'.repeat(1e9)}} }", "more than 32 MiB"),
        ("function decodeUplink() { return {data: {a: 'x'.repeat(1e6)}} }", "more than 65536 characters"),
        ("function f() { f() } function decodeUplink() { f() }", "too deeply"),
        ("function decodeUplink() { throw new Error('bad port') }", "Error: bad port"),
        ("function decodeUplink() { throw {toString() { while (true) {} }} }", ""),
        ("function decodeUplink() { return {data: {get a() { while (true) {} }}} }", "did not end in time"),
        ("function decodeUplink() { return {data: {toJSON() { return 7 }}} }", "expected data to be an object"),
        ("function decodeUplink() { const a = {}; a.a = a; return {data: a} }", "circular"),
        ("function decodeUplink() { return new Promise(() => 1) }", "expected data to be an object, found null"),
        ("function decodeUplink() { return {errors: ['unknown FPort']} }", "unknown FPort"),
        ("function decodeUplink() { return {data: [1]} }", "found an array"),
        ("function decodeUplink() { }", "found null"),
        ("function decodeUplink() { return 'x\\ud800' }", ""),
        ("function decodeDownlink() { return {} }", "no function decodeUplink"),
        ("function decodeUplink( {", "SyntaxError"),
        ("import * as std from 'std'; function decodeUplink() { return {data: {}} }", "SyntaxError"),
        ("function decodeUplink() { return {data: {a: std.open('/etc/passwd', 'r').readAsString()}} }", "not defined"),
        ("function decodeUplink() { return {data: {a: os.readdir('/')}} }", "not defined"),
        ("function decodeUplink() { return {data: {a: require('fs')}} }", "not defined"),
        ("function decodeUplink() { return {data: {a: fetch('http://127.0.0.1/')}} }", "not defined"),
        ("JSON.parse = JSON.stringify = () => '{}'; Array.prototype.toJSON = () => 5", "no function"),
    ],
)  # fmt: skip
def test_a_hostile_codec_costs_its_own_message(runner: Runner, source: str, said: str) -> None:
    refused = one(runner, source)
    assert isinstance(refused, Refused)
    assert refused.reason == "codec"
    assert said in refused.detail
    assert one(runner, GOOD) == Decoded({"mm": 1234, "port": 2})


def test_a_dynamic_import_gives_nothing(runner: Runner) -> None:
    source = """let got = 'nothing'; function decodeUplink() {
      for (const m of ['std', 'os', 'qjs:std', '/etc/passwd']) import(m).then((x) => { got = m; });
      return {data: {got}}; }"""
    assert one(runner, source) == Decoded({"got": "nothing"})


def test_no_file_and_no_socket_can_be_opened_in_the_child(runner: Runner) -> None:
    one(runner, GOOD)
    limits = Path(f"/proc/{runner.pid}/limits").read_text().splitlines()
    found = {line[:26].strip(): line[26:].split()[:2] for line in limits[1:]}
    assert found["Max open files"] == ["3", "3"]
    assert found["Max file size"] == ["0", "0"]
    assert len(list(Path(f"/proc/{runner.pid}/fd").iterdir())) == 3


def test_a_killed_child_costs_at_most_one_message(runner: Runner) -> None:
    one(runner, GOOD)
    assert runner.pid is not None
    os.kill(runner.pid, 9)
    one(runner, GOOD)
    assert one(runner, GOOD) == Decoded({"mm": 1234, "port": 2})


def test_no_child_is_left_behind() -> None:
    runner = Runner()
    one(runner, GOOD)
    pid = runner.pid
    assert pid is not None
    runner.close()
    assert runner.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_codec_that_hangs_again_and_again_is_left_alone() -> None:
    runner = Runner()
    hanging = codec("while (true) {}")
    try:
        found = runner.run(hanging, [UPLINK] * (STRIKES + 1))
        assert [one.reason for one in found if isinstance(one, Refused)] == ["codec"] * STRIKES + [
            "codec_paused"
        ]
        assert one(runner, GOOD) == Decoded({"mm": 1234, "port": 2})
    finally:
        runner.close()


def test_a_codec_file_has_a_digest_and_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "c.js"
    path.write_text(GOOD)
    assert Codec.load(path).sha256 == sha256(GOOD.encode()).hexdigest()
    for raw, said in ((b" " * (SOURCE_BYTES + 1), "longer"), (b"\xff", "UTF-8"), (b" \n", "empty")):
        path.write_bytes(raw)
        with pytest.raises(CodecError, match=said):
            Codec.load(path)
    with pytest.raises(CodecError, match="cannot be read"):
        Codec.load(tmp_path / "none.js")
