"""`quarterline backup` and `restore`: a copy of one instant, made while the service runs and looked at before use."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import file_digest
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from api.datadir import LOCK, STORE_FILES, held
from api.settings import Settings
from store import open_store
from store.backup import Facts, copy_file, facts, flush
from store.ports import StoreError
from store.sql import FILE_NAME

MANIFEST: Final = "backup.json"
_FORMAT: Final = 1
_PREFIX: Final = "quarterline-"
_UNFINISHED: Final = ".unfinished-"
_RESTORING: Final = ".restoring"
_DATA, _CONFIGURATION = "data", "configuration"
_ASIDE: Final = (".dry-run-", _RESTORING, "damaged-")  # folders of the data directory that are no part of it

Progress = Callable[[int, int], None]


class BackupError(Exception):
    """A backup cannot be made or used; the text names the file and what to do."""


class FileFacts(msgspec.Struct, frozen=True):
    """One file of a backup."""

    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a backup holds, as it was found in the finished copy."""

    format: int
    made_at: str  # when the copy was begun: it holds what was committed by then
    program: str
    schema: str
    files: dict[str, FileFacts]  # by path below the backup
    rows: dict[str, int]  # by table
    counters: dict[str, int]  # over all time


@dataclass(frozen=True, slots=True)
class Made:
    """A finished backup."""

    place: Path
    manifest: Manifest


# ---- making one --------------------------------------------------------------------------------------


def back_up(
    settings: Settings,
    config: Path | None,
    folder: Path,
    now: datetime,
    *,
    keep: int | None = None,
    progress: Progress = lambda *_: None,
) -> Made:
    """Make a backup below ``folder``, whole or not at all; with ``keep``, remove all but the newest so many.

    Raises
    ------
    BackupError
        The copy is not sound: the store is damaged.
    StoreError
        There is no store, or one of both cannot be read or written.
    """
    source = settings.data_dir / FILE_NAME
    if not source.is_file():
        raise BackupError(f"{source}: there is no store to back up; is data_dir right?")
    if Path(os.path.realpath(folder)).is_relative_to(settings.data_dir.resolve()):
        raise BackupError(
            f"{folder}: lies in the data directory; give a folder elsewhere, best on another disk"
        )
    with held(folder, what="the folder of backups"):
        for left in folder.glob(f"{_UNFINISHED}*"):  # of runs that were killed: we hold the folder
            shutil.rmtree(left)
        part = Path(tempfile.mkdtemp(dir=folder, prefix=_UNFINISHED))
        try:
            manifest = _fill(part, settings, config, now, progress)
            place = _name(folder, now)
            part.rename(place)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        flush(folder)
        if keep is not None:
            for old in _finished(folder)[:-keep]:
                shutil.rmtree(old)
    return Made(place, manifest)


def _fill(part: Path, settings: Settings, config: Path | None, now: datetime, progress: Progress) -> Manifest:
    _copy_configuration(part / _CONFIGURATION, settings, config)
    # what waits in files goes first: what is committed meanwhile is then in both, which is known again, never in none
    _copy_rest(settings, part / _DATA)
    copy = part / _DATA / FILE_NAME
    copy_file(settings.data_dir / FILE_NAME, copy, progress)
    found = _sound(copy)
    manifest = Manifest(
        format=_FORMAT,
        made_at=now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        program=version("quarterline"),
        schema=found.revision or "",
        files={str(path.relative_to(part)): _digest(path) for path in _files(part)},
        rows=found.rows,
        counters=found.counters,
    )
    (part / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    for path in (*_files(part), part):
        flush(path)
    return manifest


def _copy_configuration(target: Path, settings: Settings, config: Path | None) -> None:
    """The files that the service was configured by, so that they can be read; restoring does not put them anywhere."""
    target.mkdir(parents=True)
    mqtt = settings.mqtt
    named = (config, mqtt.password_file, mqtt.ca_file, *settings.profiles.paths, *settings.ordinances.paths)
    for number, path in enumerate(one for one in named if one is not None):
        place = target / path.name
        if place.exists():
            place = target / f"{number}-{path.name}"
        if path.is_dir():
            shutil.copytree(path, place)
        elif path.is_file():
            shutil.copy(path, place)


def _copy_rest(settings: Settings, target: Path) -> None:
    """What the service keeps beside the store; a file that is gone again was taken into the store."""
    target.mkdir()
    record = None if settings.record is None else settings.record.resolve()
    for path in _files(settings.data_dir):
        inner = path.relative_to(settings.data_dir)
        if (
            inner.parts[0].startswith(_ASIDE)
            or str(inner) in {*STORE_FILES, LOCK}
            or path.resolve() == record
        ):
            continue
        place = target / inner
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copy(path, place)
        except FileNotFoundError:
            continue


def _sound(file: Path) -> Facts:
    found = facts(file)
    if found.integrity != "ok":
        raise BackupError(f"{file}: damaged: {found.integrity}; run `quarterline doctor`, see docs/deploy.md")
    return found


def _name(folder: Path, now: datetime) -> Path:
    stem = f"{_PREFIX}{now.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    place, number = folder / stem, 1
    while place.exists():
        number += 1
        place = folder / f"{stem}-{number}"
    return place


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _digest(path: Path) -> FileFacts:
    with path.open("rb") as file:
        return FileFacts(path.stat().st_size, file_digest(file, "sha256").hexdigest())


# ---- using one ---------------------------------------------------------------------------------------


def newest(place: Path) -> Path:
    """The backup that is meant: the folder itself, or the newest of a folder of backups.

    Raises
    ------
    BackupError
        There is none.
    """
    if (place / MANIFEST).is_file():
        return place
    found = _finished(place)
    if not found:
        raise BackupError(f"{place}: holds no backup ({MANIFEST} is missing)")
    return found[-1]


def _finished(folder: Path) -> list[Path]:
    found = [path for path in folder.glob(f"{_PREFIX}*") if (path / MANIFEST).is_file()]
    return sorted(found, key=lambda path: (read_manifest(path).made_at, len(path.name), path.name))


def read_manifest(place: Path) -> Manifest:
    """A backup's manifest.

    Raises
    ------
    BackupError
        It cannot be read, or is of a later form.
    """
    try:
        manifest = msgspec.json.decode((place / MANIFEST).read_bytes(), type=Manifest)
    except OSError as error:
        raise BackupError(f"{place / MANIFEST}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise BackupError(f"{place / MANIFEST}: cannot be used: {error}") from None
    if manifest.format != _FORMAT:
        raise BackupError(
            f"{place / MANIFEST}: format {manifest.format}: made by a newer version of this program"
        )
    return manifest


def check(place: Path, manifest: Manifest) -> None:
    """Hold every file against the manifest, and look at the store.

    Raises
    ------
    BackupError
        A file is missing, changed or damaged; the text names it.
    """
    for name, known in manifest.files.items():
        path = place / name
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise BackupError(f"{place / MANIFEST}: {name}: leads out of the backup")
        if not path.is_file():
            raise BackupError(f"{path}: is missing; use another backup")
        if _digest(path) != known:
            raise BackupError(f"{path}: is not what was backed up (its checksum differs); use another backup")
    if f"{_DATA}/{FILE_NAME}" not in manifest.files:
        raise BackupError(f"{place / MANIFEST}: names no store; use another backup")


def restore(place: Path, data_dir: Path, progress: Progress = lambda *_: None) -> Manifest:
    """Put a backup into an empty data directory. The store's file comes last: with it the directory is whole.

    Raises
    ------
    BackupError
        The backup is not sound, or the data directory holds something.
    StoreError
        The directory is in use or cannot be written, or the backup is of a newer version of this program.
    """
    manifest = read_manifest(place)
    check(place, manifest)
    with held(data_dir):
        _refuse_what_is_there(data_dir)
        part = data_dir / _RESTORING
        part.mkdir(mode=0o700)
        names = [name for name in manifest.files if name.startswith(f"{_DATA}/")]
        try:
            _stage(place, part, names, progress)
            _look_at(part / FILE_NAME, manifest)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        rest = sorted({Path(name).parts[1] for name in names} - {FILE_NAME})
        for name in (*rest, FILE_NAME):
            (part / name).replace(data_dir / name)
        part.rmdir()
        flush(data_dir)
    return manifest


def _refuse_what_is_there(data_dir: Path) -> None:
    if (data_dir / _RESTORING).is_dir() and not (data_dir / FILE_NAME).exists():
        for path in _others(
            data_dir
        ):  # a restore that did not end; without the store's file nothing was used
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    there = sorted(path.name for path in _others(data_dir))
    if there:
        raise BackupError(
            f"{data_dir}: is not empty (there is {', '.join(there[:3])}); restore into an empty directory: "
            "move the old one aside, or set data_dir to another"
        )


def _others(data_dir: Path) -> Iterator[Path]:
    return (path for path in data_dir.iterdir() if path.name not in {LOCK, "lost+found"})


def _stage(place: Path, part: Path, names: Sequence[str], progress: Progress) -> None:
    for done, name in enumerate(names):
        target = part / Path(*Path(name).parts[1:])
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(place / name, target)
        target.chmod(0o600)
        flush(target)
        progress(done + 1, len(names))


def _look_at(file: Path, manifest: Manifest) -> None:
    found = _sound(file)
    if (found.rows, found.counters, found.revision) != (manifest.rows, manifest.counters, manifest.schema):
        raise BackupError(f"{file}: does not hold what its {MANIFEST} says; use another backup")
    open_store(file).close()  # brings an older schema up, or says that it is newer
    for beside in STORE_FILES[1:]:
        if (file.parent / beside).exists():
            raise StoreError(f"{file.parent / beside}: another process is using it")


def in_words(place: Path, manifest: Manifest) -> str:
    """For a person."""
    size = sum(one.bytes for one in manifest.files.values())
    return (
        f"{place}: {manifest.counters.get('stored', 0)} items stored by {manifest.made_at}, "
        f"{manifest.rows.get('orders', 0)} orders, {manifest.rows.get('manifests', 0)} manifests; "
        f"{len(manifest.files)} files, {size / 2**20:.1f} MiB, schema {manifest.schema}"
    )
