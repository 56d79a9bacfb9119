"""The closed set of a profile's keys, and what the value of each may be."""

from __future__ import annotations

from typing import Any, Final

from alerts.calendar import DurationError, parse_duration
from alerts.reporting import parse_clock

RULE_SETS: Final = ("interceptor", "trap")
COUNTED: Final = ("fog and solids", "fog")
LENGTHS: Final = {"in": 0.0254, "mm": 0.001, "cm": 0.01, "m": 1.0}  # metres in one

#: Every key of a profile and the form of its value.
KEYS: Final[dict[str, str]] = {
    # how full
    "fill_limit": "ratio or thickness",
    "fill_base": "text",
    "fill_counts": "counted",  # held so for hand measurements; estimates count both layers
    "fill_reaches": "flag",
    "fill_advice": "ratio",
    "fill_applies_to": "rule set",
    "fog_stays_above": "text",
    "standing_25_prohibition": "flag",
    "on_exceed": "text",
    "on_exceed_hours": "number",
    "clean_also_when": "texts",
    # how often
    "max_interval": "duration",
    "default_interval": "duration",
    "min_interval": "duration",
    "variance_interval": "duration",
    "trap_cleaning": "text",
    "frequency_approver": "text",
    "frequency_request": "texts",
    "frequency_adjusted_when": "text",
    "frequency_shortened_on_exceed": "flag",
    "frequency_notice_min": "number",
    "frequency_written_in": "text",
    # the service itself
    "removal_scope": "texts",
    "removed_material": "text",
    "removal_proof": "text",
    "no_pass_through": "flag",
    "cleaned_by": "text",
    "cleaning_witness": "text",
    "cleaning_checks": "texts",
    "hauler_licences": "text or texts",
    # what flows in and out
    "hot_limit": "temperature",
    "hot_point": "text",
    "hot_min_duration": "number",
    "sewer_temp_limit": "temperature",
    "sets_between": "text",
    "effluent_limit": "number",
    "dishwasher_to_device": "text",
    "biological_additives": "text",
    "emulsifying_additives": "text",
    "grinder_removal": "number",
    # papers
    "manifest_fields": "texts",
    "manifest_papers": "texts",
    "document_form": "text",
    "retention_min": "years",
    "retention_place": "text",
    "reports": "clock",
    "incident_phone": "text",
    "incident_written": "number",
    # the establishment
    "planned_change_notice": "number",
    "training": "number",
    "install_after_notice": "number",
    "variance_visual_monitoring": "duration",
    "min_compartments": "number",
    "manhole": "number or text",
    "shared_site": "text",
    "fines": "text",
}

#: What a key cannot do without, in the same version.
NEEDED_WITH: Final[dict[str, tuple[str, ...]]] = {
    "fill_limit": ("fill_base", "fill_applies_to", "on_exceed"),
    "fill_advice": ("fill_base",),
    "fill_reaches": ("fill_limit",),
    "fill_counts": ("fill_limit",),
    "variance_interval": ("max_interval",),
}


def misfit(form: str, value: Any, unit: Any) -> str | None:
    """What was expected instead of ``value`` in ``unit``; None where they fit the form."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    text = isinstance(value, str) and bool(value)
    texts = isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)
    thick = unit in LENGTHS
    fits = {
        "ratio": number and value <= 1,
        "ratio or thickness": number and (thick or value <= 1),
        "counted": value in COUNTED,
        "number": number,
        "years": number and unit == "years",
        "temperature": number and unit in {"c", "f"},
        "flag": isinstance(value, bool),
        "text": text,
        "texts": texts,
        "text or texts": text or texts,
        "number or text": text or number,
        "rule set": value in RULE_SETS,
        "duration": text,
        "clock": text,
    }[form]
    if not fits:
        return f"expected a {form}{_hint(form)}, found {value!r}"
    try:
        if form == "duration":
            parse_duration(value)
        if form == "clock":
            parse_clock(value)
    except DurationError as error:
        return str(error)
    return None


def _hint(form: str) -> str:
    return {
        "temperature": ' with unit "c" or "f"',
        "years": ' (a number with unit "years")',
        "ratio or thickness": f" (a thickness with unit {', '.join(LENGTHS)})",
        "counted": f" of {', '.join(COUNTED)}",
        "rule set": f" of {', '.join(RULE_SETS)}",
    }.get(form, "")
