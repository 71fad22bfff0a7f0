"""Which cron jobs of Volcano are refused, in the exact words."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.admission.cronjobs import validate
from kilauea.api.kinds import VC_CRON_JOBS
from support.admitted import denial, review_of

ZONE = {"schedule": "@daily"}


def refusal(name: str = "c", operation: Any = "CREATE", **spec: Any) -> str:
    made = {"metadata": {"name": name, "namespace": "default"}, "spec": {"jobTemplate": {}, **spec}}
    return denial(validate, review_of(made, operation, made, VC_CRON_JOBS))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"schedule": "*/5 * * * *"}, ""),
        ({"schedule": "30 9 1-15/2,20 jan-mar mon"}, ""),
        ({"schedule": "@every 1h30m"}, ""),
        ({"schedule": "@annually", "timeZone": "Europe/Rome"}, ""),
        ({}, "schedule is required, but got empty"),
        ({"schedule": ""}, "schedule is required, but got empty"),
        (
            {"schedule": "CRON_TZ=UTC * * * * *"},
            "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field",
        ),
        ({"schedule": "* * * *"}, "schedule is not a valid cron expression"),
        ({"schedule": "61 * * * *"}, "schedule is not a valid cron expression"),
        ({"schedule": "@every soon"}, "schedule is not a valid cron expression"),
        ({"schedule": "@fortnightly"}, "schedule is not a valid cron expression"),
        ({**ZONE, "timeZone": ""}, "timeZone must be nil or non-empty string, got empty string"),
        ({**ZONE, "timeZone": "Europe/"}, "unknown timeZone"),
        ({**ZONE, "timeZone": "../UTC"}, "unknown timeZone"),
        ({**ZONE, "timeZone": "Europe/-Rome"}, "unknown timeZone"),
        ({**ZONE, "timeZone": "Europe/AVeryLongCityName"}, "unknown timeZone"),
        ({**ZONE, "timeZone": "Europe Rome"}, "unknown timeZone"),
        (
            {**ZONE, "timeZone": "LOCAL"},
            "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones",
        ),
        ({**ZONE, "timeZone": "Mars/Base"}, "invalid timeZone"),
        ({"schedule": "x", "timeZone": "Mars/Base"}, "schedule is not a valid cron expression invalid timeZone"),
    ],
)
def test_a_schedule_and_its_zone_can_be_read(spec: Any, expected: str) -> None:
    assert refusal(**spec) == expected
    assert refusal(operation="UPDATE", **spec) == expected


def test_a_name_leaves_room_for_the_moments_of_its_jobs() -> None:
    long = "cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)"
    assert refusal("c" * 52, **ZONE) == ""
    assert refusal("c" * 53, **ZONE) == long
    assert refusal("c" * 64) == (
        f'schedule is required, but got empty; {long}; invalid cronJob name "{"c" * 64}": [name part must be no more'
        " than 63 bytes]"
    )
