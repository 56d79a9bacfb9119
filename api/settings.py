"""Configuration: `quarterline.toml`, and `QUARTERLINE_…` environment variables over it.

Nested names are joined by two underscores: ``QUARTERLINE_MQTT__HOST``. Unknown keys are errors.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from api import tomllines
from store.records import ApiKey

PREFIX: Final = "QUARTERLINE_"
#: Variables of the command line: the one that names the file itself, and the demo's ports, which its service inherits.
_OUTSIDE: Final = frozenset({"QUARTERLINE_CONFIG", "QUARTERLINE_DEMO_PORT", "QUARTERLINE_DEMO_MQTT_PORT"})
_PATHS: Final = (
    ("mqtt", "password_file"),
    ("mqtt", "ca_file"),
    ("mqtt", "cert_file"),
    ("mqtt", "key_file"),
    ("spool", "dir"),
    ("profiles", "paths"),
    ("ordinances", "paths"),
)
_GRID_S: Final = 900  # offsets of time zones are multiples of this: local midnights must fall on the grid

Port = Annotated[int, Field(ge=1, le=65535)]


class ConfigurationError(Exception):
    """The configuration cannot be used; ``problems`` names file or variable, key and fix, one a line."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Mqtt(_Section):
    """The broker that readings come from; without one (``enabled = false``) they come by HTTP only."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: Port = 1883
    client_id: str = Field(default="quarterline", max_length=128)
    username: str | None = None
    password: SecretStr | None = None
    password_file: Path | None = None
    tls: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    version: Literal["auto", "5", "3.1.1"] = "auto"
    keepalive_s: int = Field(default=60, ge=5, le=3600)
    window: int = Field(default=1000, ge=1, le=60_000)
    session_expiry_s: int = Field(default=7 * 86_400, ge=60, le=0xFFFF_FFFF)
    stall_s: float | None = Field(default=None, ge=0)
    subscriptions: tuple[str, ...] = (
        "quarterline/v1/+/readings",
        "quarterline/v1/+/status",
        "application/+/device/+/event/up",
        "v3/+/devices/+/up",
    )

    @model_validator(mode="after")
    def _one_password(self) -> Self:
        if self.password is not None and self.password_file is not None:
            raise ValueError("password and password_file are both set: keep one of them")
        for name in ("password_file", "ca_file", "cert_file", "key_file"):
            file = getattr(self, name)
            if file is not None and not file.is_file():
                raise ValueError(f"{name} {file} is not a file that can be read")
        if self.cert_file is None and self.key_file is not None:
            raise ValueError("key_file is set without cert_file: name the client's certificate too")
        return self

    @field_validator("client_id")
    @classmethod
    def _stable(cls, value: str) -> str:
        if not value.strip():
            raise ValueError(
                "is empty: the broker keeps what comes while the service is down under this name; give it one, and "
                "leave it alone"
            )
        return value

    def secret(self) -> str | None:
        """The password, from wherever it is kept."""
        if self.password_file is not None:
            return self.password_file.read_text().strip()
        return self.password.get_secret_value() if self.password is not None else None


class Spool(_Section):
    """Where messages wait on disk while the store cannot take them."""

    enabled: bool = True
    dir: Path | None = None
    max_bytes: int = Field(default=1 << 30, ge=1 << 20)
    patience_s: float = Field(default=5.0, ge=0.1, le=3600)


class Limits(_Section):
    """What one sensor may send, so that none drowns the others; what is over goes into quarantine."""

    message_bytes: int = Field(default=256 * 1024, ge=1024, le=1 << 20)
    sensor_per_s: float = Field(default=10.0, gt=0, le=100_000)
    sensor_burst: int = Field(default=86_400, ge=1, le=100_000_000)


class Quarantine(_Section):
    """How many items are kept in quarantine; the oldest beyond are dropped and counted."""

    keep: int = Field(default=100_000, ge=100)
    keep_of_one_sensor: int = Field(default=20_000, ge=100)


class Http(_Section):
    """Where people and programs reach the service."""

    host: str = "127.0.0.1"
    port: Port = 8080
    public_url: str | None = Field(default=None, pattern=r"^https?://[^\s/]+$")
    body_limit_bytes: int = Field(default=1 << 20, ge=1024)

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        """The address as a person types it."""
        if self.public_url is not None:
            return self.public_url
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class Clock(_Section):
    """An accelerated clock, for demonstrations and tests; leave it alone in earnest."""

    speed: float = Field(default=1.0, ge=1.0, le=1e6)
    start_s: float | None = None  # service time [s] at ...
    real_start_s: float | None = None  # ... this wall time [s]; default: the start of the process


class Decide(_Section):
    """The grid of decision instants."""

    interval_s: int = Field(default=900, ge=60)

    @model_validator(mode="after")
    def _on_midnights(self) -> Self:
        if _GRID_S % self.interval_s:
            raise ValueError(
                f"interval_s {self.interval_s} does not divide 900, so local midnights would fall between "
                "instants; use 900, 450, 300, 180, 100 or 60"
            )
        return self


class Policy(_Section):
    """The program's policy: not law, and no ordinance asks for these figures."""

    p_raise: float = Field(default=0.9, gt=0.5, lt=1)
    p_clear: float = Field(default=0.5, gt=0, lt=1)
    lead_days: int = Field(default=14, ge=0, le=90)
    offer_timeout_s: int = Field(default=4 * 3600, ge=60)
    urgent_offer_timeout_s: int = Field(default=3600, ge=60)
    silent_min_s: int = Field(default=3600, ge=60)
    verify_min_s: int = Field(default=7200, ge=60)

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.p_clear >= self.p_raise:
            raise ValueError(f"p_clear {self.p_clear} must be below p_raise {self.p_raise}")
        return self


class Webhooks(_Section):
    """Delivery to haulers."""

    allow_private: bool = False


class Files(_Section):
    """Files of your own beside the ones that are shipped."""

    paths: tuple[Path, ...] = ()


class Retention(_Section):
    """How long every reading is kept; records of the ordinance are always kept."""

    raw_days: int | None = Field(default=None, ge=30)
    hourly_days: int | None = Field(default=None, ge=30)
    delete_days: int | None = Field(default=None, ge=365)
    hold: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        names = ("raw_days", "hourly_days", "delete_days")
        known = [(name, days) for name in names if (days := getattr(self, name)) is not None]
        if known and self.raw_days is None:
            raise ValueError(f"{known[0][0]} is set and raw_days is not: set raw_days too")
        for (less, first), (more, then) in pairwise(known):
            if then <= first:
                raise ValueError(f"{more} {then} must be more than {less} {first}")
        return self


class Auth(_Section):
    """How long sign-ins last."""

    session_hours: float = Field(default=12, gt=0, le=24 * 31)
    sign_in_minutes: float = Field(default=15, gt=0, le=24 * 60)


class Settings(BaseSettings):
    """Everything that can be configured. Values given in code stand below the environment's."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    data_dir: Path = Path("quarterline-data")
    log: Literal["text", "json"] = "text"
    mqtt: Mqtt = Field(default_factory=Mqtt)
    spool: Spool = Field(default_factory=Spool)
    limits: Limits = Field(default_factory=Limits)
    quarantine: Quarantine = Field(default_factory=Quarantine)
    http: Http = Field(default_factory=Http)
    record: Path | None = None  # keep every received message here, as a message file for replay
    clock: Clock = Field(default_factory=Clock)
    decide: Decide = Field(default_factory=Decide)
    policy: Policy = Field(default_factory=Policy)
    webhooks: Webhooks = Field(default_factory=Webhooks)
    profiles: Files = Field(default_factory=Files)
    ordinances: Files = Field(default_factory=Files)
    auth: Auth = Field(default_factory=Auth)
    retention: Retention = Field(default_factory=Retention)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the framework passes all of these by name
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment stands over the file."""
        return env_settings, init_settings


def load_settings(path: Path | None = None) -> Settings:
    """Read a configuration file, if one is given, and the environment over it.

    Relative paths in the file are relative to the file.

    Raises
    ------
    ConfigurationError
        The file cannot be read, or a key or value is wrong; every problem is named.
    """
    name = str(path) if path is not None else "(no file)"
    document = _read(path) if path is not None else tomllines.Document({}, {})
    problems = list(_unknown_variables(os.environ))
    if problems:
        raise ConfigurationError(problems)
    data = document.data if path is None else _beside(document.data, path.resolve().parent)
    try:
        return Settings(**data)
    except ValidationError as error:
        raise ConfigurationError([_say(one, name, document) for one in error.errors()]) from None
    except SettingsError as error:
        raise ConfigurationError([f"environment: {error}; lists and tables are written as JSON"]) from None


def check_bind(settings: Settings, keys: Sequence[ApiKey]) -> None:
    """Refuse an address that others can reach while nobody has a key.

    Raises
    ------
    ConfigurationError
        ``http.host`` is no loopback address and no admin key is in force.
    """
    ready = any(key.role == "admin" and key.revoked_us is None for key in keys)
    if not settings.http.loopback and not ready:
        raise ConfigurationError(
            [
                f"http.host is {settings.http.host}, which other machines can reach, and no admin key is "
                "set up: run `quarterline token create --role admin --name NAME` first, or set "
                "http.host to 127.0.0.1"
            ]
        )


def nearest(word: str, known: Sequence[str]) -> str:
    """The closest known word as ``; did you mean …``, or the list of what is known."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"known here: {', '.join(sorted(known))}"


def _read(path: Path) -> tomllines.Document:
    try:
        return tomllines.parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError([f"{path}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise ConfigurationError([f"{path}: is not UTF-8 text"]) from None
    except tomllines.TomlSyntaxError as error:
        raise ConfigurationError([f"{path}:{error.line}: not TOML: {error.what}"]) from None


def _fields(path: Sequence[str | int]) -> dict[str, Any] | None:
    """The known keys below a path of section names; None where the path is no section."""
    model: type[BaseModel] = Settings
    for part in path:
        field = model.model_fields.get(str(part))
        if (
            field is None
            or not isinstance(field.annotation, type)
            or not issubclass(field.annotation, BaseModel)
        ):
            return None
        model = field.annotation
    return dict(model.model_fields)


def _known_variables() -> Iterator[str]:
    for name in Settings.model_fields:
        below = _fields((name,))
        yield f"{PREFIX}{name}".upper()
        for key in below or ():
            yield f"{PREFIX}{name}__{key}".upper()


def _unknown_variables(environ: Mapping[str, str]) -> Iterator[str]:
    known = sorted(_known_variables())
    for name in sorted(environ):
        if name.upper().startswith(PREFIX) and name.upper() not in _OUTSIDE and name.upper() not in known:
            yield f"environment: {name}: unknown variable; {nearest(name.upper(), known)}"


def _say(error: ErrorDetails, name: str, document: tomllines.Document) -> str:
    path = error["loc"]
    key = ".".join(str(part) for part in path) or "(top)"
    variable = f"{PREFIX}{'__'.join(str(part) for part in path)}".upper()
    upper = {one.upper() for one in os.environ}
    where = f"environment: {variable}" if variable in upper else f"{name}:{document.line(path)}"
    if error["type"] == "extra_forbidden":
        known = _fields(path[:-1]) or {}
        return f"{where}: {key}: unknown key; {nearest(str(path[-1]), list(known))}"
    message = error["msg"].removeprefix("Value error, ")
    return f"{where}: {key}: {message[:1].lower()}{message[1:]}"


def _beside(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Relative paths in the file mean: beside the file."""

    def placed(value: Any) -> Any:
        if isinstance(value, list):
            return [placed(one) for one in value]
        return str(folder / value) if isinstance(value, str) and value else value

    found = {key: placed(value) if key in ("data_dir", "record") else value for key, value in data.items()}
    for section, key in _PATHS:
        if isinstance(below := found.get(section), dict) and key in below:
            found[section] = {**below, key: placed(below[key])}
    return found
