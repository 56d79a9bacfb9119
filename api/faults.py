"""Errors that are a sentence to the user: everything else that escapes is a fault of ours."""

from __future__ import annotations

from typing import Final

from alerts.ordinance import OrdinanceError
from api.backing import BackupError
from api.fleet_file import FleetError
from api.recording import RecordingError
from api.security import RoleError
from api.settings import ConfigurationError
from api.work import UseError, WorkError
from ingest.broker import BrokerError
from ingest.profile import ProfileError
from ingest.series import SeriesError
from simulators.scenariofile import ScenarioError
from store.ports import StoreError

_USE: Final = (
    UseError,
    ConfigurationError,
    RoleError,
    ScenarioError,
    FileNotFoundError,
    IsADirectoryError,
    UnicodeEncodeError,  # an argument of bytes that are no text
)

USER_FAULTS: Final[tuple[type[Exception], ...]] = (
    *_USE,
    BackupError,
    BrokerError,
    FleetError,
    OrdinanceError,
    OSError,
    ProfileError,
    RecordingError,
    SeriesError,
    StoreError,
    WorkError,
)


def wrong_use(error: Exception) -> int:
    """The exit status of an error: 2 for wrong use, 1 for work that failed."""
    return 2 if isinstance(error, _USE) else 1


def in_a_sentence(error: Exception) -> str:
    """What to tell the user."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object[:60]!r}: is not UTF-8 text; give the option in UTF-8"
    return str(error)
