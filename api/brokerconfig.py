"""Listener, passwords and access list for a broker: each sensor publishes under its own id, and nothing else.

Pure text from credentials; :mod:`api.brokering` fetches and writes. Formats as of Mosquitto 2.0 (mosquitto.conf(5),
mosquitto_passwd(1)), NATS 2.12 (docs.nats.io: MQTT, authorization) and EMQX 5 (docs.emqx.com: built-in database,
ACL file).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from api.credentials import Credential
from ingest.broker import subject

_HEAD: Final = "Written by `quarterline broker-config`; run it again after `quarterline sensor add`."
_KINDS: Final = ("readings", "status")
_LEAF: Final = "quarterline/v1/{}/{}"


@dataclass(frozen=True, slots=True)
class Listener:
    """Where the broker listens, and with which certificate (both files, or neither: no TLS)."""

    host: str
    port: int
    certificate: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """Who may do what."""

    sensors: Sequence[Credential]
    service: Credential
    subscriptions: Sequence[str]  # MQTT filters the service reads
    network_server: Credential | None = None  # may publish what those filters name, sensors' own topics aside

    @property
    def uplinks(self) -> list[str]:
        """The filters a network server publishes under."""
        return [one for one in self.subscriptions if not one.startswith("quarterline/")]

    @property
    def renamed(self) -> list[tuple[Credential, str]]:
        """Sensors whose user name is not their id, with the id."""
        return [(one, one.sensor) for one in self.sensors if one.sensor and one.sensor != one.username]

    @property
    def everybody(self) -> list[Credential]:
        """Everybody who may connect."""
        server = [] if self.network_server is None else [self.network_server]
        return [self.service, *server, *self.sensors]


@dataclass(frozen=True, slots=True)
class File:
    """One file of a broker's configuration; ``secret`` ones hold hashes."""

    name: str
    text: str
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Broker:
    """A kind of broker: where its files usually lie, what they are, and how it takes them."""

    name: str
    folder: str
    files: Callable[[Access, Listener, str], list[File]]
    steps: tuple[str, ...]  # {at}: the folder


def topics(sensor: str) -> list[str]:
    """The topics a sensor publishes under."""
    return [_LEAF.format(sensor, kind) for kind in _KINDS]


# ---- Mosquitto ---------------------------------------------------------------------------------------


def mosquitto(access: Access, listener: Listener, at: str) -> list[File]:
    """A file for conf.d, a password file and an access list.

    A pattern covers every sensor whose user name is its id; only an id with ``:`` needs lines of its own.
    """
    conf = [
        f"# {_HEAD}",
        f"listener {listener.port} {listener.host}",
        "# nobody can push another off the broker by taking its client id",
        "use_username_as_clientid true",
        *_mosquitto_tls(listener),
        "allow_anonymous false",
        f"password_file {at}/quarterline.passwd",
        f"acl_file {at}/quarterline.acl",
        "# what comes while Quarterline is away is kept, all of it, over a restart of the broker too",
        "persistence true",
        "max_queued_messages 0",
    ]
    acl = [f"# {_HEAD}", f"user {access.service.username}"]
    acl += [f"topic read {one}" for one in access.subscriptions]
    if access.network_server is not None:
        acl += ["", f"user {access.network_server.username}"]
        acl += [f"topic write {one}" for one in access.uplinks]
    for one, own in access.renamed:
        acl += ["", f"user {one.username}", *(f"topic write {topic}" for topic in topics(own))]
    acl += ["", *(f"pattern write {_LEAF.format('%u', kind)}" for kind in _KINDS)]
    passwords = [f"{one.username}:{one.hashes.mosquitto}" for one in access.everybody]
    return [
        File("quarterline.conf", _lines(conf)),
        File("quarterline.passwd", _lines(passwords), secret=True),
        File("quarterline.acl", _lines(acl), secret=True),
    ]


def _mosquitto_tls(listener: Listener) -> list[str]:
    if listener.certificate is None:
        return []
    return [f"certfile {listener.certificate}", f"keyfile {listener.key}"]


# ---- NATS --------------------------------------------------------------------------------------------


def nats(access: Access, listener: Listener, at: str) -> list[File]:
    """One file: NATS keeps users and rights in its configuration. Passwords are bcrypt hashes."""
    tls = ""
    if listener.certificate is not None:
        tls = f", tls {{ cert_file: {_q(listener.certificate)}, key_file: {_q(listener.key or '')} }}"
    text = [
        f"# {_HEAD}",
        'server_name: "quarterline"  # MQTT sessions belong to this name: keep it',
        "listen: 127.0.0.1:4222  # the NATS protocol itself is not used",
        f"jetstream {{ store_dir: {_q(at + '/jetstream')} }}",
        f"mqtt {{ host: {_q(listener.host)}, port: {listener.port}, max_ack_pending: 1000{tls} }}",
        "authorization { users: [",
        _nats_user(access.service, [], [*map(subject, access.subscriptions), "$MQTT.sub.>"]),
    ]
    if access.network_server is not None:
        text.append(_nats_user(access.network_server, [subject(one) for one in access.uplinks], []))
    text += [_nats_user(one, [subject(t) for t in topics(one.sensor or "")], []) for one in access.sensors]
    return [File("quarterline.conf", _lines([*text, "] }"]), secret=True)]


def _nats_user(one: Credential, publish: Sequence[str], subscribe: Sequence[str]) -> str:
    def rule(word: str, subjects: Sequence[str]) -> str:
        allowed = f"allow: {json.dumps(list(subjects))}" if subjects else 'deny: [">"]'
        return f"{word}: {{ {allowed} }}"

    return (
        f"  {{ user: {_q(one.username)}, password: {_q(one.hashes.bcrypt)}, "
        'allowed_connection_types: ["MQTT"], '
        f"permissions: {{ {rule('publish', publish)}, {rule('subscribe', subscribe)} }} }}"
    )


# ---- EMQX --------------------------------------------------------------------------------------------


def emqx(access: Access, listener: Listener, at: str) -> list[File]:
    """Lines for emqx.conf, users for the built-in database, an access list."""
    hashes = access.service.hashes
    kind = "tcp" if listener.certificate is None else "ssl"
    tls = ""
    if listener.certificate is not None:
        tls = f"""
  ssl_options {{ certfile = {_q(listener.certificate)}, keyfile = {_q(listener.key or "")} }}"""
    conf = f"""\
# {_HEAD}
listeners.{kind}.quarterline {{
  bind = {_q(f"{listener.host}:{listener.port}")}{tls}
}}
mqtt {{
  use_username_as_clientid = true  # nobody can push another off the broker by taking its client id
  max_mqueue_len = infinity  # what comes while Quarterline is away is kept, all of it
}}
authentication = [
  {{
    mechanism = password_based
    backend = built_in_database
    user_id_type = username
    password_hash_algorithm {{
      name = pbkdf2, mac_fun = sha512, iterations = {hashes.iterations}, dk_length = {len(hashes.key)}
    }}
    bootstrap_file = {_q(at + "/quarterline-users.csv")}
    bootstrap_type = hash
  }}
]
authorization {{
  no_match = deny
  deny_action = ignore
  sources = [
    {{ type = file, enable = true, path = {_q(at + "/quarterline-acl.conf")} }}
  ]
}}
"""
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(("user_id", "password_hash", "salt", "is_superuser"))
    for one in access.everybody:
        rows.writerow((one.username, one.hashes.key.hex(), one.hashes.salt, "false"))
    return [
        File("quarterline-emqx.conf", conf),
        File("quarterline-users.csv", table.getvalue(), secret=True),
        File("quarterline-acl.conf", _emqx_acl(access), secret=True),
    ]


def _emqx_acl(access: Access) -> str:
    def rule(who: str, what: str, filters: Sequence[str]) -> str:
        return f"{{allow, {{username, {_q(who)}}}, {what}, {json.dumps(list(filters))}}}."

    lines = [f"%% {_HEAD}", rule(access.service.username, "subscribe", access.subscriptions)]
    if access.network_server is not None:
        lines.append(rule(access.network_server.username, "publish", access.uplinks))
    lines += [rule(one.username, "publish", topics(own)) for one, own in access.renamed]
    own = [_LEAF.format("${username}", kind) for kind in _KINDS]
    return _lines([*lines, f"{{allow, all, publish, {json.dumps(own)}}}.", "{deny, all}."])


BROKERS: Final[Mapping[str, Broker]] = {
    one.name: one
    for one in (
        Broker(
            "mosquitto",
            "/etc/mosquitto/quarterline",
            mosquitto,
            (
                "sudo install -d -o mosquitto -g mosquitto -m 700 {at}",
                "sudo install -o mosquitto -g mosquitto -m 600 quarterline.passwd quarterline.acl {at}/",
                "sudo install -m 644 quarterline.conf /etc/mosquitto/conf.d/",
                "first time: sudo systemctl restart mosquitto; after a new sensor: sudo systemctl reload mosquitto",
            ),
        ),
        Broker(
            "nats",
            "/etc/nats",
            nats,
            (
                "put the file into {at}, readable for the broker's user only (chmod 600)",
                "first time: nats-server -c {at}/quarterline.conf; after a new sensor: nats-server --signal reload",
            ),
        ),
        Broker(
            "emqx",
            "/etc/emqx",
            emqx,
            (
                "put the three files into {at}, readable for the broker's user only (chmod 600)",
                "append quarterline-emqx.conf to emqx.conf, then: systemctl restart emqx",
                "after a new sensor EMQX does not read the users again: hand them over with "
                "curl -u KEY:SECRET -F filename=@quarterline-users.csv http://localhost:18083"
                "/api/v5/authentication/password_based%3Abuilt_in_database/import_users",
            ),
        ),
    )
}


def _q(text: str) -> str:
    return json.dumps(text)


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
