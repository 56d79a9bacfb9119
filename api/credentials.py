"""A sensor's name and password: generated, shown once, kept only as hashes.

One password serves MQTT and HTTP alike. Every hash form that a broker reads is made while the password is known:
PBKDF2-SHA512 (Mosquitto's ``$7$`` form, and EMQX by its parts; the service itself checks HTTP by it) and bcrypt
(NATS). Both are quick on purpose: the passwords are random with 120 bits, so a slow hash would add nothing, and a
broker hashes once for each of a thousand devices that come back together after a power cut.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import bcrypt

from api.security import SENSOR, Principal
from store.ports import Ledger
from store.records import ApiKey

SERVICE: Final = "service"  # the role of the broker's user under which the service itself subscribes
_ALPHABET: Final = "abcdefghijkmnpqrstuvwxyz23456789"  # nothing that is read as something else
_LENGTH: Final = 24  # 32 ** 24 = 2 ** 120
_ITERATIONS: Final = 101  # as mosquitto_passwd writes them
_SALT_BYTES: Final = 9  # 12 characters of text: Mosquitto 2.0 takes a salt of 12 or 64 bytes only
_KEY_BYTES: Final = 64
_BCRYPT_COST: Final = 5  # EMQX takes none below 5
_FORM: Final = "$7$"


@dataclass(frozen=True, slots=True)
class Hashes:
    """A password's hashes; the salt is text, because EMQX reads it from a table."""

    salt: str
    iterations: int
    key: bytes  # PBKDF2-SHA512, 64 bytes
    bcrypt: str

    @property
    def mosquitto(self) -> str:
        """As a line of a Mosquitto password file has it, after the name."""
        salt, key = (base64.b64encode(one).decode() for one in (self.salt.encode(), self.key))
        return f"{_FORM}{self.iterations}${salt}${key}"

    def matches(self, password: str) -> bool:
        """Whether it is the hash of this password."""
        return hmac.compare_digest(self.key, _derive(password, self.salt, self.iterations))


@dataclass(frozen=True, slots=True)
class Credential:
    """Who may connect: a sensor, or the service."""

    username: str
    sensor: str | None  # None: the service
    hashes: Hashes


def username_of(sensor: str) -> str:
    """A sensor's user name: its id, but for ``:``, which ends the name in a Mosquitto password file.

    The fleet takes no two sensors that would share a name so.
    """
    return sensor.lower().replace(":", "_")


def new_password() -> str:
    """24 characters, 120 random bits, none of which a person confuses with another."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))


def hashes_of(password: str) -> Hashes:
    """Every form in which a broker may want it."""
    salt = secrets.token_urlsafe(_SALT_BYTES)
    slow = bcrypt.hashpw(password.encode(), bcrypt.gensalt(_BCRYPT_COST)).decode()
    return Hashes(salt, _ITERATIONS, _derive(password, salt, _ITERATIONS), slow)


def issue(ledger: Ledger, subject: str, *, role: str = SENSOR, password: str, now_us: int) -> None:
    """Put a password in force for a sensor (or the service's user), and the earlier one out of it.

    Call it in a transaction of the store.
    """
    revoke(ledger, subject, role=role, now_us=now_us)
    identity = secrets.token_hex(6)
    name = "MQTT and HTTP password" if role == SENSOR else "the service's own MQTT password"
    ledger.put_key(ApiKey(identity, name, role, _as_text(hashes_of(password)), subject, now_us))


def revoke(ledger: Ledger, subject: str, *, role: str = SENSOR, now_us: int) -> int:
    """Put a sensor's passwords out of force; returns how many there were. API keys are left alone."""
    found = [key for key in ledger.keys(subject=subject) if key.role == role and _in_force(key)]
    for key in found:
        ledger.put_key(replace(key, revoked_us=now_us))
    return len(found)


def credentials(keys: Iterable[ApiKey]) -> list[Credential]:
    """Everybody who may connect to the broker, by user name."""
    found = [
        Credential(
            username_of(key.subject) if key.role == SENSOR else key.subject,
            key.subject if key.role == SENSOR else None,
            _from_text(key.digest),
        )
        for key in keys
        if key.subject is not None and _in_force(key)
    ]
    return sorted(found, key=lambda one: one.username)


def authenticate_sensor(ledger: Ledger, username: str, password: str) -> Principal | None:
    """The sensor that speaks by HTTP under its name and password; None where they do not fit."""
    # the name is tried as it stands and with the ':' that Mosquitto cannot take
    for subject in {username.lower(), username.lower().replace("_", ":")}:
        for key in ledger.keys(subject=subject):
            if key.role == SENSOR and _in_force(key) and _from_text(key.digest).matches(password):
                return Principal(SENSOR, subject, subject, key.id)
    return None


def _in_force(key: ApiKey) -> bool:
    return key.revoked_us is None and key.digest.startswith(_FORM)


def _derive(password: str, salt: str, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha512", password.encode(), salt.encode(), iterations, _KEY_BYTES)


def _as_text(hashes: Hashes) -> str:
    return f"{hashes.mosquitto} {hashes.bcrypt}"


def _from_text(text: str) -> Hashes:
    pbkdf2, _, slow = text.partition(" ")
    _, _, iterations, salt, key = pbkdf2.split("$")
    return Hashes(base64.b64decode(salt).decode(), int(iterations), base64.b64decode(key), slow)
