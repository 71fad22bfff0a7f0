"""The steps of admission in their order."""

from __future__ import annotations

from kilauea.apiserver.admission import AdmissionStep
from kilauea.apiserver.admission.service_addresses import ServiceAddresses


def admission_steps() -> list[AdmissionStep]:
    """All steps, as they are asked."""
    return [ServiceAddresses()]
