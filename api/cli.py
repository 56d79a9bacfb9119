"""The command line. Exit status: 0 done, 1 the work failed or found a fault, 2 wrong use."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

import typer

from api import cli_bench, cli_data, cli_evaluate, cli_ordinance, cli_quarantine, cli_sensor, cli_simulate
from api.faults import USER_FAULTS, in_a_sentence, wrong_use
from api.logs import set_up_logs
from api.terminal import ConfigOption, JsonOption, answer, complain, say

app = typer.Typer(
    name="quarterline",
    help="Watches grease interceptors: from a sensor's reading to a closed pump-out order.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
fleet_app = typer.Typer(help="Sites, interceptors, sensors and haulers.", no_args_is_help=True)
token_app = typer.Typer(help="Keys for programs, and sign-in links for people.", no_args_is_help=True)
app.add_typer(fleet_app, name="fleet")
app.add_typer(token_app, name="token")
app.add_typer(cli_bench.bench_app, name="bench")
app.add_typer(cli_ordinance.ordinance_app, name="ordinance")
app.add_typer(cli_sensor.sensor_app, name="sensor")
app.add_typer(cli_quarantine.quarantine_app, name="quarantine")
app.command("broker-config")(cli_sensor.broker_config)


@app.command()
def serve(config: ConfigOption = None) -> None:
    """Run the service: MQTT in, decisions out, dashboard and API on HTTP."""
    from api import work

    work.serve(config)


@app.command()
def demo(
    seed: Annotated[int, typer.Option(help="Which simulated city.")] = 1,
    port: Annotated[int, typer.Option(help="Port of the dashboard.", envvar="QUARTERLINE_DEMO_PORT")] = 8080,
    mqtt_port: Annotated[
        int, typer.Option(help="Port of the embedded broker.", envvar="QUARTERLINE_DEMO_MQTT_PORT")
    ] = 18830,
    day_s: Annotated[float, typer.Option(help="Real seconds a simulated day takes.", min=1.0)] = 5.0,
    stop_after_s: Annotated[
        float | None, typer.Option(help="Stop by itself after so many real seconds.")
    ] = None,
    until_closed: Annotated[
        bool,
        typer.Option("--until-closed", help="Stop when the first order is closed by the sensor's evidence."),
    ] = False,
    lan: Annotated[
        bool,
        typer.Option(
            "--lan", help="Open the broker to the local network, for a device of yours with a password."
        ),
    ] = False,
    lan_address: Annotated[
        str | None, typer.Option(help="The address to tell the device; default: that of the default route.")
    ] = None,
) -> None:
    """Run the whole loop on this machine: broker, service, 40 simulated kitchens, haulers, dashboard."""
    from api.demo import Demo, DemoSettings

    outcome = Demo(
        DemoSettings(
            seed=seed,
            port=port,
            mqtt_port=mqtt_port,
            day_s=day_s,
            stop_after_s=stop_after_s,
            until_closed=until_closed,
            lan=lan or lan_address is not None,
            lan_address=lan_address,
        ),
        say,
    ).run()
    raise typer.Exit(outcome)


@app.command()
def replay(
    fleet: Annotated[Path, typer.Option(help="Fleet file.")],
    messages: Annotated[str, typer.Option(help="Message file; - is standard input.")],
    out: Annotated[str, typer.Option(help="Where the lines go; - is standard output.")],
    events: Annotated[str | None, typer.Option(help="Event file.")] = None,
    until: Annotated[str | None, typer.Option(help="Stop the clock here (ISO 8601 with offset).")] = None,
    config: ConfigOption = None,
) -> None:
    """Send a recorded stream through ingest, analysis and decisions, on the stream's own clock."""
    from api import work

    work.replay(fleet, messages, events, until, out, config)


cli_simulate.register(app)
cli_evaluate.register(app)


@fleet_app.command("import")
def fleet_import(
    file: Annotated[Path, typer.Argument(help="Fleet file (TOML).")], config: ConfigOption = None
) -> None:
    """Put a fleet file's objects into the registry; nothing is deleted."""
    from api import work

    say(work.import_fleet(file, config))


cli_data.register(app)


@token_app.command("create")
def token_create(
    name: Annotated[str, typer.Option(help="Who or what the key is for.")],
    role: Annotated[str, typer.Option(help="admin, manager, inspector, read-only, hauler or sensor.")],
    subject: Annotated[str | None, typer.Option(help="The hauler's or sensor's id.")] = None,
    config: ConfigOption = None,
) -> None:
    """Make an API key; it is shown once."""
    from api import work

    say(work.create_key(name, role, subject, config))


@token_app.command("list")
def token_list(config: ConfigOption = None, json: JsonOption = False) -> None:
    """The keys that exist; their secrets are not kept."""
    from api import work

    rows = work.list_keys(config)
    if json:
        answer(rows)
        return
    for row in rows:
        say("  ".join(str(v) for v in row.values()))


@token_app.command("revoke")
def token_revoke(
    key: Annotated[str, typer.Argument(help="The key's id.")], config: ConfigOption = None
) -> None:
    """Take a key out of force."""
    from api import work

    say(work.revoke_key(key, config))


@token_app.command("sign-in")
def token_sign_in(
    name: Annotated[str, typer.Option(help="Who signs in.")],
    role: Annotated[str, typer.Option(help="admin, manager, inspector or read-only.")] = "manager",
    config: ConfigOption = None,
) -> None:
    """Make a one-time sign-in link for the dashboard."""
    from api import work

    say(work.sign_in_link(name, role, config))


@app.command()
def doctor(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Look at everything the service needs, and say what to do where something is wrong."""
    from api import work
    from api.doctor import FAULT

    findings = work.look(config)
    if json:
        answer([dataclasses.asdict(finding) for finding in findings])
    else:
        for one in findings:
            say(
                f"{one.state:8} {one.part}: {one.detail}"
                + (f"\n         -> {one.remedy}" if one.remedy else "")
            )
    raise typer.Exit(1 if any(one.state == FAULT for one in findings) else 0)


def main() -> None:
    """Entry point: a user's mistake is a sentence, never a traceback."""
    set_up_logs("text")
    try:
        app()
    except USER_FAULTS as error:
        complain(in_a_sentence(error))
        sys.exit(wrong_use(error))
    except BrokenPipeError:
        sys.exit(1)
