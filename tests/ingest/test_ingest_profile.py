"""Device profiles: what may stand in a file, what an error says, and how fields become values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from analysis.units import UNITS, to_si
from ingest import mapped
from ingest.profile import DeviceProfile, ProfileError, load_profiles
from ingest.refused import Refused


def load(folder: Path, text: str) -> DeviceProfile:
    (folder / "p.toml").write_text(text)
    return load_profiles([folder / "p.toml"])["mine"]


FIELD = '[[fields]]\npath = "a"\nquantity = "distance"\n'


def test_the_native_profile_is_always_there(profiles: dict[str, DeviceProfile]) -> None:
    assert profiles["native"].fields == ()
    assert all(profiles[name].id == name for name in profiles)
    assert all(one.source and one.title for one in profiles.values() if one.id != "native")


def test_device_keys_become_si(tmp_path: Path) -> None:
    profile = load(
        tmp_path,
        """
        id = "mine"
        [device]
        mount_height_mm = 1220
        pressure_height_mm = 50
        sonar_height_mm = 1100
        pitch_mm = 25.4
        first_mm = 12.7
        min_layer_mm = 15
        resolution_mm = 1
        tau_s = 45
        levels = { air = 0, fog = 200, water = 800 }
        """,
    )
    assert profile.device == {
        "mount_height_m": 1.22,
        "pressure_height_m": 0.05,
        "sonar_height_m": 1.1,
        "pitch_m": 0.0254,
        "first_m": 0.0127,
        "min_layer_m": 0.015,
        "resolution_m": 0.001,
        "tau_s": 45.0,
        "levels": {"air": 0.0, "fog": 200.0, "water": 800.0, "solids": None},
    }


def test_a_folder_and_ones_own_in_place_of_a_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('id = "dragino-ldds45"\ntitle = "ours"')
    (tmp_path / "b.toml").write_text('id = "b"')
    (tmp_path / "readme.txt").write_text("no profile")
    found = load_profiles([tmp_path])
    assert found["dragino-ldds45"].title == "ours"
    assert "b" in found
    (tmp_path / "c.toml").write_text('id = "b"')
    with pytest.raises(ProfileError) as caught:
        load_profiles([tmp_path])
    assert caught.value.key == "id"
    assert "b.toml" in caught.value.what


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("id =", "file"),
        ("", "id"),
        ('id = ""', "id"),
        ("id = 7", "id"),
        ('id = "mine"\ncolour = "red"', "colour"),
        ('id = "mine"\nfields = 3', "fields"),
        ('id = "mine"\nunits = 3', "units"),
        ('id = "mine"\n[units]\nsurface = "c"', "units.surface"),
        ('id = "mine"\n[units]\nheight = "mm"', "units.height"),
        ('id = "mine"\n[device]\npitch_m = 0.1', "device.pitch_m"),
        ('id = "mine"\n[device]\npitch_mm = "25"', "device.pitch_mm"),
        ('id = "mine"\n[device]\npitch_mm = true', "device.pitch_mm"),
        ('id = "mine"\n[device]\npitch_mm = nan', "device.pitch_mm"),
        ('id = "mine"\n[device]\npitch_mm = 30000', "device.pitch_mm"),
        ('id = "mine"\n[device]\ntau_s = 0', "device.tau_s"),
        ('id = "mine"\n[device]\nlevels = { air = 0, water = 8 }', "device.levels.fog"),
        ('id = "mine"\n[device]\nlevels = { air = 0, fog = 1, water = 8, oil = 3 }', "device.levels.oil"),
        ('id = "mine"\n[[fields]]\nquantity = "distance"\nunit = "mm"', "fields[0].path"),
        ('id = "mine"\n[[fields]]\npath = "a..b"\nquantity = "distance"\nunit = "mm"', "fields[0].path"),
        ('id = "mine"\n[[fields]]\npath = "a"\nquantity = "dist"', "fields[0].quantity"),
        (f'id = "mine"\n{FIELD}', "fields[0].unit"),
        (f'id = "mine"\n{FIELD}unit = "psi"', "fields[0].unit"),
        (f'id = "mine"\n{FIELD}unit = "mm"\nscale = "2"', "fields[0].scale"),
        (f'id = "mine"\n{FIELD}unit = "mm"\nsentinels = 9', "fields[0].sentinels"),
        (f'id = "mine"\n{FIELD}unit = "mm"\nsentinels = [true]', "fields[0].sentinels"),
        (f'id = "mine"\n{FIELD}unit = "mm"\ntext = "yes"', "fields[0].text"),
        (f'id = "mine"\n{FIELD}unit = "mm"\nfactor = 2', "fields[0].factor"),
    ],
)
def test_an_error_names_file_and_key(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(ProfileError) as caught:
        load(tmp_path, text)
    assert caught.value.key == key
    assert caught.value.file == str(tmp_path / "p.toml")
    assert str(caught.value).startswith(f"{tmp_path / 'p.toml'}: {key}: ")


def test_an_unknown_key_says_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"fields\[0\]\.sentinel: unknown key; did you mean sentinels\?"):
        load(tmp_path, f'id = "mine"\n{FIELD}unit = "mm"\nsentinel = [1]')


values = st.recursive(
    st.one_of(st.booleans(), st.integers(-(10**6), 10**6), st.floats(), st.text(max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(
    st.sampled_from(["id", "title", "device", "units", "fields", "other"]),
    st.sampled_from(["", "path", "quantity", "unit", "scale", "sentinels", "levels", "pitch_mm", "tank"]),
    values,
)
def test_any_file_is_a_profile_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, key: str, inner: str, value: object
) -> None:
    document: dict[str, Any] = {
        "id": "mine",
        "fields": [{"path": "a", "quantity": "distance", "unit": "mm"}],
        "device": {"levels": {"air": 0, "fog": 1, "water": 2}},
    }
    if not inner:
        document[key] = value
    elif key == "fields":
        document[key][0][inner] = value
    else:
        document[key] = {inner: value}
    file = tmp_path_factory.mktemp("fuzz") / "p.toml"
    file.write_text(tomlkit.dumps(document), encoding="utf-8")
    said = None
    try:
        assert load_profiles([file])
    except ProfileError as error:
        said = str(error)
    assert said is None or said.startswith(f"{file}: ")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="cannot be read"):
        load_profiles([tmp_path / "gone.toml"])
    (tmp_path / "latin.toml").write_bytes(b'id = "\xe9"')
    with pytest.raises(ProfileError, match="not TOML"):
        load_profiles([tmp_path / "latin.toml"])


# ---- fields ------------------------------------------------------------------------------------------


@pytest.fixture
def field(tmp_path: Path) -> Any:
    def build(text: str) -> DeviceProfile:
        return load(tmp_path, f'id = "mine"\n[[fields]]\n{text}')

    return build


def test_scale_and_offset_stand_before_the_unit(field: Any) -> None:
    # 4 to 20 mA over 0 to 3 m: (20 - 4) * 0.1875 = 3 m
    profile = field('path = "mA"\nquantity = "distance"\nunit = "m"\nscale = 0.1875\noffset = -0.75')
    assert mapped.read({"mA": 20}, profile).values == {"distance_m": pytest.approx(3.0)}
    assert mapped.read({"mA": 12}, profile).values == {"distance_m": pytest.approx(1.5)}
    fahrenheit = field('path = "t"\nquantity = "tank"\nunit = "f"\nscale = 0.1')
    assert mapped.read({"t": 320}, fahrenheit).values == {"tank_c": pytest.approx(0.0, abs=1e-12)}


def test_paths_reach_into_objects_and_arrays(field: Any) -> None:
    profile = field('path = "channels.1.value"\nquantity = "tank"\nunit = "c"')
    assert mapped.read({"channels": [{"value": 1}, {"value": 2}]}, profile).values == {"tank_c": 2.0}
    for short in ({"channels": [{"value": 1}]}, {"channels": 7}, {"channels": None}, {}):
        assert mapped.read(short, profile).is_empty
    dotted = field('path = ["a.b", "c"]\nquantity = "tank"\nunit = "c"')
    assert mapped.read({"a.b": {"c": 3}}, dotted).values == {"tank_c": 3.0}


def test_electrodes_with_a_sentinel(field: Any) -> None:
    profile = field('path = "e"\nquantity = "profile"\nscale = 0.5\nsentinels = [-999]')
    assert mapped.read({"e": [800, -999, None, 3]}, profile).profile == (400.0, None, None, 1.5)


@pytest.mark.parametrize(
    ("text", "metres"),
    [
        ("2799 mm", 2.799),  # a real one: lw-dragino-ldds45-1
        ("2799", 2.799),
        ("2.5m", 2.5),
        ("110 in", 2.794),
        (" 9 Feet ", 2.7432),
        ("1e3 mm", 1.0),
        ("+12.5 CM", 0.125),
    ],
)
def test_text_with_its_unit(field: Any, text: str, metres: float) -> None:
    profile = field('path = "d"\nquantity = "distance"\nunit = "mm"\ntext = true')
    assert mapped.read({"d": text}, profile).values == {"distance_m": pytest.approx(metres)}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("No Sensor", "not_a_number"),
        ("1_000", "not_a_number"),
        ("nan", "not_a_number"),
        ("٣", "not_a_number"),  # a digit of another script
        ("3 °C", "no_unit"),
        ("3 furlong", "no_unit"),
        ("-1 mm", "out_of_range"),
        (True, "not_a_number"),
        ({"v": 3}, "not_a_number"),
    ],
)
def test_text_that_is_refused(field: Any, raw: Any, reason: str) -> None:
    profile = field('path = "d"\nquantity = "distance"\nunit = "mm"\ntext = true')
    with pytest.raises(Refused) as caught:
        mapped.read({"d": raw}, profile)
    assert caught.value.reason == reason
    assert caught.value.detail.startswith("d: ")


def test_text_is_refused_where_a_number_belongs(field: Any) -> None:
    with pytest.raises(Refused, match="not_a_number"):
        mapped.read({"d": "3"}, field('path = "d"\nquantity = "distance"\nunit = "mm"'))


def test_two_fields_of_one_quantity_must_agree(tmp_path: Path) -> None:
    profile = load(
        tmp_path,
        'id = "mine"\n[[fields]]\npath = "a"\nquantity = "tank"\nunit = "c"\n'
        '[[fields]]\npath = "b"\nquantity = "tank"\nunit = "f"\n',
    )
    assert mapped.read({"a": 100, "b": 212}, profile).values == {"tank_c": pytest.approx(100)}
    with pytest.raises(Refused, match="contradiction"):
        mapped.read({"a": 100, "b": 200}, profile)


def test_fields_nobody_maps_are_counted(field: Any) -> None:
    element = mapped.read(
        {"d": 3, "humidity": 40, "x": {}}, field('path = "d"\nquantity = "tank"\nunit = "c"')
    )
    assert element.unknown == ["humidity", "x"]


@given(
    st.sampled_from([name for name, unit in UNITS.items() if unit.dimension == "length"]), st.floats(0, 0.9)
)
def test_every_length_unit_as_text(unit: str, metres: float) -> None:
    scaled = round(metres / UNITS[unit].scale, 6)
    shipped = load_profiles()["dragino-ldds45"]
    found = mapped.read({"Distance": f"{scaled:f} {unit}"}, shipped).values["distance_m"]
    assert found == pytest.approx(to_si(scaled, unit), rel=1e-9, abs=1e-15)
