"""A decoder over a small fleet, as the service builds it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.decode import Decoder
from ingest.message import RawMessage
from ingest.profile import DeviceProfile, load_profiles
from store.records import IngestWindow, Item, Quarantined, Sensor

NOW_US = 1_772_366_400_000_000  # 2026-03-01T12:00:00Z


@pytest.fixture(scope="session")
def profiles() -> dict[str, DeviceProfile]:
    return load_profiles()


@pytest.fixture
def now_us() -> int:
    return NOW_US


@pytest.fixture
def fleet(profiles: dict[str, DeviceProfile]) -> Callable[..., Decoder]:
    def build(*sensors: Sensor, **more: DeviceProfile) -> Decoder:
        return Decoder({one.id: one for one in sensors}, {**profiles, **more})

    return build


@pytest.fixture
def decode(fleet: Callable[..., Decoder]) -> Callable[..., IngestWindow]:
    """Decode native payloads of the sensor ``probe-1`` received at noon, one message each."""
    decoder = fleet(Sensor("probe-1", "gi-1", interval_s=600.0))

    def run(
        *payloads: bytes | str, topic: str = "quarterline/v1/probe-1/readings", **kinds: bool
    ) -> IngestWindow:
        messages = [
            RawMessage(topic, one.encode() if isinstance(one, str) else one, NOW_US, **kinds)
            for one in payloads
        ]
        return decoder.decode(messages)

    return run


@pytest.fixture
def item(decode: Callable[..., IngestWindow]) -> Callable[..., Item]:
    """The one item a payload gives."""

    def run(payload: bytes | str, **kinds: bool) -> Item:
        window = decode(payload, **kinds)
        assert window.quarantined == ()
        (only,) = window.items
        return only

    return run


@pytest.fixture
def refused(decode: Callable[..., IngestWindow]) -> Callable[..., Quarantined]:
    """The one quarantined item a payload gives."""

    def run(payload: bytes | str, **kinds: str) -> Quarantined:
        window = decode(payload, **kinds)
        assert window.items == ()
        assert window.heartbeats == 0
        (only,) = window.quarantined
        return only

    return run


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """A folder with an authority of our own (ca.pem) and a certificate of it for localhost (server.pem, .key)."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, cwd=tmp_path, capture_output=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem",
            "-subj", "/CN=test authority", "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-out", "server.csr",
            "-subj", "/CN=localhost")  # fmt: skip
    (tmp_path / "extensions").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-out", "server.pem", "-extfile", "extensions")  # fmt: skip
    return tmp_path
