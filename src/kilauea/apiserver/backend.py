"""Dependencies of the verbs: the state of the server, and admission. Only `runtime` makes one."""

from __future__ import annotations

from dataclasses import dataclass, field

from kilauea.apiserver.admission import Admission
from kilauea.apiserver.dynamic.admission import DynamicAdmission
from kilauea.apiserver.heavy import Heavy
from kilauea.apiserver.heavy_tasks import AtOnce
from kilauea.apiserver.server_state import ServerState


@dataclass(slots=True)
class Backend(ServerState):
    """Everything that is needed to answer a request.

    Attributes:
        admission: checks every write.
        dynamic: webhooks and policies; None if they are not used.
    """

    admission: Admission = field(default_factory=Admission)
    dynamic: DynamicAdmission | None = None
    heavy: Heavy = field(default_factory=AtOnce, kw_only=True)
