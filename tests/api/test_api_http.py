"""The resources over real HTTP: shapes, units, pages, idempotence, problems."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from api.http.models import SiteOut
from api.http.wire import decode_cursor, encode_cursor, paged
from api.problems import ProblemError
from store.ports import StoreError, StoreFull
from store.records import Site

Client = Callable[..., httpx.Client]


def _problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "detail", "instance"} <= set(body)
    assert body["status"] == status
    assert "Traceback" not in answer.text
    return body


# ---- reading -----------------------------------------------------------------------------------------


def test_interceptors_come_in_public_units(client: Client, fleet: Any) -> None:
    body = client("read-only").get("/api/v1/interceptors/luigi-gi1").json()
    assert body == {
        "id": "luigi-gi1",
        "site": "luigi",
        "kind": "gravity",
        "place": None,
        "volume_l": 3785.0,
        "base_depth_mm": 1220.0,
        "static_level_mm": 1220.0,
        "compartments": 2,
        "frequency": None,
        "last_pump_out": "2026-09-01",
        "hauler": "valley",
        "dispatch": "notify",
    }


def test_readings_come_in_public_units_and_by_pages(client: Client, history: Any) -> None:
    asker = client("read-only")
    span = {"sensor": "D-0001", "since": "2026-11-01T00:00:00Z", "limit": 40}
    seen: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(3):
        page = asker.get("/api/v1/readings", params=span | ({"cursor": cursor} if cursor else {})).json()
        seen += page["items"]
        cursor = page["next"]
    assert cursor is None
    assert len(seen) == len({one["time"] for one in seen}) == 100
    assert seen[0]["time"] == "2026-11-29T23:00:00Z"
    assert seen[-1]["values"] == {"surface_mm": 1220.0, "fog_bottom_mm": 1009.9, "tank_c": 25.0}
    assert seen == sorted(seen, key=lambda one: one["time"])


def test_the_latest_estimate_says_what_it_is(client: Client, history: Any) -> None:
    (one,) = client("read-only").get("/api/v1/assessments").json()["items"]
    assert one["fraction"] == 0.266
    assert one["basis"] == "instrument estimate, not a determination of violation"
    assert {"fog_mm", "fog_sd_mm", "solids_mm", "p_over_limit", "crossing", "health"} <= set(one)


def test_past_estimates_are_paged_in_order(client: Client, history: Any) -> None:
    asker = client("read-only")
    params: dict[str, Any] = {"interceptor": "luigi-gi1", "history": True, "limit": 25}
    days: list[str] = []
    while True:
        page = asker.get("/api/v1/assessments", params=params).json()
        days += [one["at"] for one in page["items"]]
        if page["next"] is None:
            break
        params["cursor"] = page["next"]
    assert len(days) == 60
    assert days == sorted(set(days))


def test_ordinances_cite_their_sections(client: Client) -> None:
    body = client("read-only").get("/api/v1/ordinances/sierra-madre").json()
    values = {one["key"]: one for one in body["versions"][0]["values"]}
    assert values["fill_limit"]["value"] == 0.25
    assert "SMMC 13.14.150.E.1" in values["fill_limit"]["sections"]
    assert values["max_interval"]["adopted_reading"] is True


@pytest.mark.parametrize(
    "path",
    [
        "sites",
        "interceptors",
        "sensors",
        "haulers",
        "assessments",
        "pump-outs",
        "hot-discharges",
        "core-samples",
        "alerts",
        "orders",
        "manifests",
        "frequency-requests",
        "frequency-decisions",
        "ordinances",
        "quarantine",
    ],
)
def test_every_list_has_items_and_next_and_bounds_its_limit(client: Client, history: Any, path: str) -> None:
    asker = client("read-only")
    body = asker.get(f"/api/v1/{path}").json()
    assert set(body) == {"items", "next"}
    _problem(asker.get(f"/api/v1/{path}", params={"limit": 0}), 422)
    _problem(asker.get(f"/api/v1/{path}", params={"limit": 100_000}), 422)
    if path not in (
        "hot-discharges",
        "core-samples",
        "manifests",
        "frequency-requests",
        "frequency-decisions",
    ):
        problem = _problem(asker.get(f"/api/v1/{path}", params={"cursor": "nonsense!"}), 422)
        assert problem["errors"][0]["field"] == "cursor"


_SITES = st.lists(st.text("abcdefgh0123-", min_size=1, max_size=6), unique=True, max_size=30)


@given(_SITES, st.integers(1, 7), st.booleans())
def test_pages_by_cursor_give_everything_once_and_in_order(ids: list[str], limit: int, back: bool) -> None:
    rows = [Site(one, one, "inglewood", "UTC") for one in ids]
    cursor: str | None = None
    seen: list[str] = []
    for _ in range(len(ids) + 1):
        page = paged(rows, lambda s: (s.id,), SiteOut.of, cursor=cursor, limit=limit, newest_first=back)
        seen += [one.id for one in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert seen == sorted(ids, reverse=back)


@given(st.tuples(st.integers(), st.text()))
def test_a_cursor_comes_back_as_it_went(key: tuple[int, str]) -> None:
    if abs(key[0]) < 2**63 and key[1].isprintable():
        assert decode_cursor(encode_cursor(key), (int, str)) == key


@pytest.mark.parametrize(
    "text",
    ["", "!", "nonsense", "WyJhIl0", encode_cursor((1,)), encode_cursor(("a", 1)), "é", "e30", "====", "W10"],
)
def test_any_other_text_is_no_cursor(text: str) -> None:
    with pytest.raises(ProblemError) as caught:
        decode_cursor(text, (int, str))
    assert (caught.value.status, caught.value.errors[0][0]) == (422, "cursor")


@given(st.text(max_size=40))
def test_no_text_at_all_breaks_the_reading_of_cursors(text: str) -> None:
    with suppress(ProblemError):
        assert [type(part) for part in decode_cursor(text, (int, str))] == [int, str]


# ---- writing -----------------------------------------------------------------------------------------

SAMPLE = {
    "interceptor": "luigi-gi1",
    "sampled_at": "2026-11-30T10:00:00-08:00",
    "fog_mm": 120,
    "solids_mm": 60.5,
}


def test_a_core_sample_is_filed_and_listed(client: Client, fleet: Any) -> None:
    asker = client("inspector")
    made = asker.post("/api/v1/core-samples", json=SAMPLE)
    assert made.status_code == 201
    assert made.json()["sampled_at"] == "2026-11-30T18:00:00Z"
    assert (made.json()["fog_mm"], made.json()["solids_mm"]) == (120.0, 60.5)
    assert made.json()["by"] == "inspector key"
    assert asker.get("/api/v1/core-samples").json()["items"] == [made.json()]


def test_the_same_idempotency_key_creates_once(client: Client, fleet: Any) -> None:
    asker = client("inspector")
    headers = {"Idempotency-Key": "visit-17"}
    first = asker.post("/api/v1/core-samples", json=SAMPLE, headers=headers)
    again = asker.post("/api/v1/core-samples", json=dict(reversed(SAMPLE.items())), headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert len(asker.get("/api/v1/core-samples").json()["items"]) == 1
    other = asker.post("/api/v1/core-samples", json=SAMPLE | {"fog_mm": 7}, headers=headers)
    assert _problem(other, 422)["type"] == "urn:quarterline:problem:idempotency-key-reused"
    # somebody else's key of the same name is another one
    assert client("manager").post("/api/v1/core-samples", json=SAMPLE, headers=headers).status_code == 201


def test_a_refused_creation_is_not_remembered(client: Client, fleet: Any) -> None:
    asker = client("inspector")
    headers = {"Idempotency-Key": "k"}
    bad = SAMPLE | {"interceptor": "nowhere"}
    assert _problem(asker.post("/api/v1/core-samples", json=bad, headers=headers), 422)["errors"] == [
        {"field": "interceptor", "detail": "'nowhere' is not in the fleet"}
    ]
    assert asker.post("/api/v1/core-samples", json=SAMPLE, headers=headers).status_code == 201


@pytest.mark.parametrize(
    ("path", "body", "field", "words"),
    [
        ("core-samples", SAMPLE | {"fog_mm": -1}, "fog_mm", "greater than or equal to 0"),
        ("core-samples", SAMPLE | {"fog_mm": "much"}, "fog_mm", "valid number"),
        ("core-samples", SAMPLE | {"fog_inches": 4}, "fog_inches", "extra inputs"),
        ("core-samples", SAMPLE | {"sampled_at": "2026-11-30T10:00:00"}, "sampled_at", "timezone"),
        ("core-samples", SAMPLE | {"sampled_at": "2027-11-30T10:00:00Z"}, "sampled_at", "still to come"),
        ("core-samples", SAMPLE | {"sampled_at": "0001-01-01T00:00:00+14:00"}, "sampled_at", "1970 to 2100"),
        (
            "orders/x/answers",
            {"answer": "accepted", "scheduled_at": "9999-12-31T23:59:59-14:00"},
            "scheduled_at",
            "1970 to 2100",
        ),
        ("quarantine/retry", {"ids": [10**30]}, "ids[0]", "9223372036854775807"),
        ("core-samples", {"interceptor": "luigi-gi1"}, "sampled_at", "field required"),
        ("core-samples", [], "body", "valid dictionary"),
        (
            "manifests",
            {"interceptor": "luigi-gi1", "pumped_at": "2026-11-30T10:00:00Z"},
            "complete",
            "required",
        ),
        (
            "frequency-decisions",
            {"interceptor": "luigi-gi1", "decision": "approved", "frequency": "P7M", "reason": "x"},
            "frequency",
            "SMMC 13.14.150.E.2",
        ),
        (
            "frequency-decisions",
            {"interceptor": "luigi-gi1", "decision": "approved", "reason": "x"},
            "frequency",
            "missing",
        ),
        (
            "frequency-decisions",
            {"interceptor": "luigi-gi1", "decision": "approved", "frequency": "soon", "reason": "x"},
            "frequency",
            "ISO 8601",
        ),
        (
            "frequency-decisions",
            {"interceptor": "luigi-gi1", "decision": "yes", "reason": "x"},
            "decision",
            "'approved', 'modified' or 'denied'",
        ),
        ("interceptors", {"id": "x", "site": "luigi", "kind": "gravty"}, "kind", "did you mean gravity"),
        ("sites", {"id": "x", "name": "X", "ordnance": "inglewood"}, "ordnance", "did you mean ordinance"),
        (
            "sensors",
            {"id": "x", "interceptor": "luigi-gi1", "compartment": 9},
            "compartment",
            "2 compartments",
        ),
    ],
)
def test_bad_input_names_field_and_fix(
    client: Client, fleet: Any, path: str, body: Any, field: str, words: str
) -> None:
    problem = _problem(client("manager").post(f"/api/v1/{path}", json=body), 422)
    told = {one["field"]: one["detail"] for one in problem["errors"]}
    assert field in told, told
    assert words in told[field]


@pytest.mark.parametrize("raw", [b'{"id": "\\ud800"}', b'{"\\ud800": 1}'])
@pytest.mark.parametrize("path", ["sites", "sensors"])
def test_half_a_character_is_no_text(client: Client, fleet: Any, path: str, raw: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    answer = client("manager").post(f"/api/v1/{path}", content=raw, headers=headers)
    assert "half of a character" in _problem(answer, 422)["detail"]


@pytest.mark.parametrize(
    "query",
    ["since=0001-01-01T00:00:00%2B14:00", "until=9999-12-31T23:59:59-14:00", "since=1970-01-01T00:00:00Z"],
)
@pytest.mark.parametrize("path", ["gaps", "readings?sensor=d-0001"])
def test_the_first_and_last_instants_are_times_like_others(
    client: Client, fleet: Any, path: str, query: str
) -> None:
    answer = client("manager").get(f"/api/v1/{path}{'&' if '?' in path else '?'}{query}")
    assert (answer.status_code, answer.json()["items"]) == (200, [])


def test_a_cursor_beyond_what_the_store_counts_is_none(client: Client, fleet: Any) -> None:
    cursor = base64.urlsafe_b64encode(b"[%d]" % 2**63).decode()
    _problem(client("manager").get(f"/api/v1/quarantine?cursor={cursor}"), 422)


@pytest.mark.parametrize("raw", [b"{", b"\xff\xfe", b'{"fog_mm": NaN}', b"", b"[" * 5000])
def test_a_body_that_is_no_json_is_a_problem(client: Client, fleet: Any, raw: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    answer = client("manager").post("/api/v1/core-samples", content=raw, headers=headers)
    assert answer.status_code in (400, 422)
    _problem(answer, answer.status_code)


def test_objects_are_registered_one_by_one_like_in_the_fleet_file(client: Client, fleet: Any) -> None:
    asker = client("manager")
    new = {"id": "new-gi1", "site": "wok", "kind": "trap", "base_depth_mm": 500, "frequency": "P30D"}
    made = asker.post("/api/v1/interceptors", json=new)
    assert made.status_code == 201
    assert made.json()["base_depth_mm"] == 500.0
    changed = asker.post("/api/v1/interceptors", json=new | {"frequency": "P2W"})
    assert changed.json()["frequency"] == "P2W"
    assert len(asker.get("/api/v1/interceptors", params={"site": "wok"}).json()["items"]) == 2


def test_a_device_sends_readings_by_http_under_its_own_id_only(client: Client, fleet: Any) -> None:
    device = client("sensor", "D-0001")
    answer = device.post("/api/v1/readings", content=b'{"surface_mm": 1200}')
    assert (answer.status_code, answer.json()["stored"]) == (201, 1)
    assert device.post("/api/v1/readings?sensor=d-0001", content=b'{"surface_mm": 1200}').status_code == 201
    _problem(device.post("/api/v1/readings?sensor=d-0002", content=b"{}"), 403)
    kept = device.post("/api/v1/readings", content=b"not json").json()
    assert kept == {
        "stored": 0,
        "duplicates": 0,
        "quarantined": [{"reason": "not_json", "detail": "no JSON"}],
        "items": [],
    }
    (row,) = client("read-only").get("/api/v1/quarantine").json()["items"]
    assert bytes.fromhex(row["payload_hex"]) == b"not json"
    _problem(client("admin").post("/api/v1/readings", content=b"{}"), 422)


# ---- haulers -----------------------------------------------------------------------------------------


def test_a_hauler_sees_and_answers_its_own_orders_only(client: Client, history: Any) -> None:
    valley, basin = client("hauler", "valley"), client("hauler", "basin")
    assert [one["id"] for one in valley.get("/api/v1/orders").json()["items"]] == ["or-1"]
    assert basin.get("/api/v1/orders").json()["items"] == []
    _problem(basin.get("/api/v1/orders/or-1"), 404)
    yes = {"answer": "accepted", "scheduled_at": "2026-12-01T09:00:00-08:00"}
    _problem(basin.post("/api/v1/orders/or-1/answers", json=yes), 404)
    _problem(valley.post("/api/v1/orders/or-1/answers", json=yes | {"hauler": "basin"}), 422)
    done = valley.post("/api/v1/orders/or-1/answers", json=yes)
    assert (done.status_code, done.json()["state"]) == (201, "scheduled")
    assert done.json()["scheduled_at"] == "2026-12-01T17:00:00Z"
    problem = _problem(valley.post("/api/v1/orders/or-1/answers", json={"answer": "declined"}), 409)
    assert "no answer is awaited" in problem["detail"]
    assert valley.get("/api/v1/haulers/valley").status_code == 200
    _problem(valley.get("/api/v1/haulers/basin"), 404)


def test_a_hauler_files_manifests_for_its_own_work_only(client: Client, history: Any) -> None:
    valley, basin = client("hauler", "valley"), client("hauler", "basin")
    paper = {
        "interceptor": "luigi-gi1",
        "pumped_at": "2026-11-30T20:00:00Z",
        "complete": True,
        "number": "4711",
    }
    made = valley.post("/api/v1/manifests", json=paper | {"volume_l": 3785, "fog_mm": 210})
    assert made.status_code == 201
    assert (made.json()["hauler"], made.json()["volume_l"], made.json()["fog_mm"]) == (
        "valley",
        3785.0,
        210.0,
    )
    _problem(basin.post("/api/v1/manifests", json=paper), 403)
    _problem(valley.post("/api/v1/manifests", json=paper | {"hauler": "basin"}), 422)
    assert len(valley.get("/api/v1/manifests").json()["items"]) == 1
    assert basin.get("/api/v1/manifests").json()["items"] == []


# ---- problems ----------------------------------------------------------------------------------------


def test_every_error_is_problem_details(client: Client, service: Any, fleet: Any) -> None:
    asker = client("admin")
    assert "/docs lists" in _problem(asker.get("/nowhere"), 404)["detail"]
    assert "'x'" in _problem(asker.get("/api/v1/sites/x"), 404)["detail"]
    assert _problem(asker.get("/api/v1/sites/"), 404)
    assert "DELETE" in _problem(asker.delete("/api/v1/sites"), 405)["detail"]
    assert "allow" in asker.delete("/api/v1/sites").headers
    _problem(client().get("/api/v1/sites"), 401)
    _problem(client("read-only").post("/api/v1/sites", json={}), 403)
    big = {"id": "x" * 30_000}
    assert "20000 bytes" in _problem(asker.post("/api/v1/sites", json=big), 413)["detail"]

    def stream() -> Any:
        for _ in range(30):
            yield b" " * 1000

    streamed = asker.post("/api/v1/sites", content=stream(), headers={"Content-Type": "application/json"})
    _problem(streamed, 413)


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        (StoreFull("disk"), 503, "the disk is full"),
        (StoreError("busy"), 503, "send it again"),
        (ZeroDivisionError("secret detail"), 500, "log says more"),
    ],
)
def test_a_fault_of_ours_shows_no_traceback(
    client: Client, service: Any, fleet: Any, fault: Exception, status: int, words: str
) -> None:
    asker = client("inspector")
    service.fault = fault
    with capture_logs() as logs:
        problem = _problem(asker.post("/api/v1/core-samples", json=SAMPLE), status)
    assert [one["log_level"] for one in logs] == ["error"]
    assert words in problem["detail"]
    assert "secret detail" not in json.dumps(problem)
    service.fault = None
    assert asker.post("/api/v1/core-samples", json=SAMPLE).status_code == 201


def test_the_store_is_a_real_sqlite_file(service: Any, fleet: Any, tmp_path: Any) -> None:
    files = [path for path in (tmp_path / "data").iterdir() if path.suffix.startswith(".sqlite")]
    with sqlite3.connect(files[0]) as connection:
        names = {row[0] for row in connection.execute("select name from sqlite_master")}
    connection.close()
    assert names


# ---- health and documentation ------------------------------------------------------------------------


def test_readiness_says_why_not(client: Client, service: Any) -> None:
    assert client().get("/readyz").json()["status"] == "ready"
    service.parts["mqtt"] = (False, "127.0.0.1:1883 refused the connection; next try in 8 s")
    problem = _problem(client().get("/readyz"), 503)
    assert problem["detail"] == "mqtt: 127.0.0.1:1883 refused the connection; next try in 8 s"
    assert problem["parts"]["store"] == {"ok": True, "detail": "ok"}
    assert client().get("/healthz").status_code == 200


def test_the_metrics_keep_the_item_identity(client: Client, service: Any, history: Any) -> None:
    service.waiting = 7
    client("admin").post("/api/v1/readings?sensor=d-0001", content=b"not json")
    lines = client().get("/metrics").text.splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    outcomes = {key: int(value) for key, value in values.items() if key.startswith("quarterline_items_total")}
    assert outcomes['quarterline_items_total{outcome="stored"}'] == 100
    assert outcomes['quarterline_items_total{outcome="quarantined"}'] == 1
    assert set(outcomes) == {
        f'quarterline_items_total{{outcome="{one}"}}'
        for one in ("stored", "duplicate", "quarantined", "retained", "heartbeat")
    }
    pending = int(values["quarterline_items_pending"])
    assert pending == 7
    assert int(values["quarterline_items_received_total"]) == sum(outcomes.values()) + pending
    assert int(values["quarterline_messages_received_total"]) == 101


def test_the_description_names_roles_and_problems(client: Client) -> None:
    described = client().get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    operation = described["paths"]["/api/v1/core-samples"]["post"]
    assert "Roles: admin, inspector, manager." in operation["description"]
    assert operation["security"] == [{"key": []}]
    assert "application/problem+json" in operation["responses"]["default"]["content"]
    assert "security" not in described["paths"]["/healthz"]["get"]
    references = set(json.dumps(described).split('"$ref": "#/components/schemas/')[1:])
    for reference in references:
        assert reference.split('"')[0] in described["components"]["schemas"]
