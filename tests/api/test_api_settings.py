"""Configuration: file and environment, and what is said about mistakes in either."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.security import new_key
from api.settings import ConfigurationError, Settings, check_bind, load_settings


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.upper().startswith("QUARTERLINE_"):
            monkeypatch.delenv(name)


def _file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "quarterline.toml"
    path.write_text(text)
    return path


def _problems(path: Path | None) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(path)
    return caught.value.problems


def test_without_a_file_everything_is_on_this_machine() -> None:
    settings = load_settings()
    assert (settings.http.host, settings.http.port, settings.http.loopback) == ("127.0.0.1", 8080, True)
    assert settings.http.url == "http://127.0.0.1:8080"
    assert settings.mqtt.port == 1883


def test_the_environment_stands_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _file(tmp_path, '[mqtt]\nhost = "broker.example"\nport = 8883\n[http]\nport = 80\n')
    monkeypatch.setenv("QUARTERLINE_MQTT__PORT", "1884")
    monkeypatch.setenv("QUARTERLINE_DECIDE__INTERVAL_S", "300")
    settings = load_settings(path)
    assert (settings.mqtt.host, settings.mqtt.port) == ("broker.example", 1884)
    assert (settings.http.port, settings.decide.interval_s) == (80, 300)


def test_relative_paths_lie_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2\n")
    text = 'data_dir = "data"\n[mqtt]\npassword_file = "secret"\n[profiles]\npaths = ["p.toml"]\n'
    settings = load_settings(_file(tmp_path, text))
    assert settings.data_dir == tmp_path / "data"
    assert settings.mqtt.secret() == "hunter2"
    assert settings.profiles.paths == (tmp_path / "p.toml",)


def test_a_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERLINE_MQTT__PASSWORD", "hunter2")
    settings = load_settings()
    assert settings.mqtt.secret() == "hunter2"
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[mqtt]\nprot = 1883\n", 2, "mqtt.prot: unknown key; did you mean port?"),
        ("[http]\n\n[mqqt]\n", 3, "mqqt: unknown key; did you mean mqtt?"),
        ("[mqtt]\nport = 70000\n", 2, "mqtt.port: input should be less than or equal to 65535"),
        ('[http]\nport = "eighty"\n', 2, "http.port: input should be a valid integer"),
        ("[decide]\ninterval_s = 700\n", 1, "does not divide 900"),
        ('[mqtt]\npassword_file = "nowhere"\n', 1, "is not a file that can be read"),
        ('[mqtt]\npassword = "a"\npassword_file = "q"\n', 1, "keep one of them"),
        ("[policy]\np_clear = 0.95\n", 1, "must be below p_raise"),
        ('[http]\npublic_url = "fog.city"\n', 2, "http.public_url"),
        ('data_dir = "a\n', 1, "not TOML"),
    ],
)
def test_a_mistake_names_file_line_key_and_fix(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = _file(tmp_path, text)
    (problem,) = _problems(path)
    assert problem.startswith(f"{path}:{line}: ")
    assert words in problem


def test_a_mistake_in_the_environment_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERLINE_HTTP__PORT", "x")
    (problem,) = _problems(None)
    assert problem.startswith(
        "environment: QUARTERLINE_HTTP__PORT: http.port: input should be a valid integer"
    )
    monkeypatch.setenv("QUARTERLINE_HTTP__PROT", "1")
    (problem,) = _problems(None)
    assert problem == (
        "environment: QUARTERLINE_HTTP__PROT: unknown variable; did you mean QUARTERLINE_HTTP__PORT?"
    )


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (problem,) = _problems(tmp_path / "none.toml")
    assert "cannot be read: No such file" in problem


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_this_machine_only_needs_no_keys(host: str) -> None:
    check_bind(Settings(http={"host": host}), [])  # type: ignore[arg-type]  # parsed by pydantic


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "fog.city.example"])
def test_any_other_address_needs_an_admin_key_in_force(host: str) -> None:
    settings = Settings(http={"host": host})  # type: ignore[arg-type]  # parsed by pydantic
    reader, _ = new_key("dash", "read-only", now_us=1)
    admin, _ = new_key("boss", "admin", now_us=1)
    with pytest.raises(ConfigurationError, match="quarterline token create --role admin"):
        check_bind(settings, [reader])
    check_bind(settings, [reader, admin])


def test_the_command_lines_own_variables_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("QUARTERLINE_CONFIG", "QUARTERLINE_DEMO_PORT", "QUARTERLINE_DEMO_MQTT_PORT"):
        monkeypatch.setenv(name, "8100")
    assert load_settings().http.port == 8080
