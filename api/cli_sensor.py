"""The commands of whoever makes or installs a sensor: `sensor` and `broker-config`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from api.terminal import ConfigOption, JsonOption, answer, complain, say

sensor_app = typer.Typer(
    help="Sensors: register one, give it a password, see what arrives.", no_args_is_help=True
)
SensorArgument = Annotated[str, typer.Argument(metavar="ID", help="The sensor's id.")]


@sensor_app.command("add")
def sensor_add(
    sensor: SensorArgument,
    interceptor: Annotated[str, typer.Option(help="The interceptor it hangs in.")],
    compartment: Annotated[int, typer.Option(help="Which compartment.", min=1)] = 1,
    profile: Annotated[str, typer.Option(help="Device profile.")] = "native",
    interval_s: Annotated[float, typer.Option(help="How often it means to speak, in seconds.")] = 900.0,
    mount_height_mm: Annotated[
        float | None, typer.Option(help="Its reference point above the tank's floor.")
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Register a sensor and give it a password, which is shown once, with a line to try it."""
    from api import sensors

    body: dict[str, Any] = {
        "id": sensor,
        "interceptor": interceptor,
        "compartment": compartment,
        "profile": profile,
        "interval_s": interval_s,
    }
    if mount_height_mm is not None:
        body["mount_height_mm"] = mount_height_mm
    _show(sensors.add(body, config), json)


@sensor_app.command("password")
def sensor_password(sensor: SensorArgument, config: ConfigOption = None, json: JsonOption = False) -> None:
    """Give a sensor a new password; by HTTP the old one stops at once, at the broker with its next reload."""
    from api import sensors

    _show(sensors.renew(sensor, config), json)


def _show(issued: Any, json: bool) -> None:
    if json:
        answer(issued.as_json())
        return
    for line in issued.in_words():
        say(line)
    complain("The broker learns it by `quarterline broker-config` and a reload.")


@sensor_app.command("list")
def sensor_list(config: ConfigOption = None, json: JsonOption = False) -> None:
    """The sensors of the fleet: where they hang, when they were heard, whether they have a password."""
    from api import sensors

    rows = sensors.rows(config)
    if json:
        answer(rows)
        return
    for row in rows:
        state = {True: "online", False: "offline", None: ""}[row["online"]]
        say(
            f"{row['id']}  {row['interceptor']}/{row['compartment']}  {row['profile']}  "
            f"{row['heard'] or 'never heard'}  {state}{'' if row['password'] else '  no password'}".rstrip()
        )


@sensor_app.command("check")
def sensor_check(
    sensor: SensorArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    messages: Annotated[int, typer.Option(help="How many of the last ones.", min=1, max=50)] = 10,
    stop_after_s: Annotated[
        float | None, typer.Option(help="Stop following by itself after so many seconds.")
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """A sensor's last messages: what each field became, or why it was refused and how to mend it."""
    from api import checking

    if not follow:
        found = checking.look(sensor, config, limit=messages)
        if json:
            answer(found)
            return
        lines = [line for one in found["messages"] for line in checking.message_lines(one)]
        for line in [*checking.heading(found), *lines]:
            say(line)
        return
    try:
        headed: object = ""  # the advice that was given last
        for found in checking.follow(sensor, config, limit=messages, stop_after_s=stop_after_s):
            lines = [] if found["advice"] == headed else checking.heading(found)
            headed = found["advice"]
            for one in found["messages"]:
                if json:
                    answer(one)
                lines += checking.message_lines(one)
            for line in lines if not json else []:
                say(line)
    except KeyboardInterrupt:
        return


def broker_config(
    broker: Annotated[str, typer.Argument(help="mosquitto, nats or emqx.")],
    out: Annotated[
        Path | None, typer.Option(help="Write the files into this folder; without it they are printed.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            help="Where the files will lie on the broker's machine; default the broker's usual place."
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address the broker listens on.")] = "0.0.0.0",
    port: Annotated[
        int | None, typer.Option(help="Its port; default 1883, with TLS 8883.", min=1, max=65535)
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(help="The broker's certificate with its chain (PEM), as the broker sees it."),
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's key (PEM).")] = None,
    network_server: Annotated[
        bool,
        typer.Option("--network-server", help="A user for ChirpStack, which publishes for LoRaWAN sensors."),
    ] = False,
    new_password: Annotated[
        bool, typer.Option("--new-password", help="A new password for the service's own user.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Listener, passwords and access list for a broker: each sensor may publish under its own id only."""
    from api.brokering import Wanted
    from api.brokering import broker_config as make

    files = make(
        Wanted(broker, out, at, host, port, tls_cert, tls_key, network_server, new_password),
        config,
        say=complain,
    )
    if out is None:
        for one in files:
            say(f"# ---- {one.name}\n{one.text}")
