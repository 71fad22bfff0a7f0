"""The storage of the API server: a revision log on disk, everything current and recent in memory.

`Store` is the whole interface. Keys are `/GROUP/PLURAL/NAMESPACE/NAME`, without the namespace for cluster-scoped
objects; values are opaque bytes. Each write gets the next revision of the store.
"""

from kilauea.apiserver.storage.datafile import remedy
from kilauea.apiserver.storage.errors import Conflict, Expired, Missing, StorageError, TooNew, WriteFailed
from kilauea.apiserver.storage.history import Earlier, Retention
from kilauea.apiserver.storage.records import Durability, Event, Kind, Page, Stored, values_of
from kilauea.apiserver.storage.store import Store
from kilauea.apiserver.storage.usage import Usage
from kilauea.apiserver.storage.watch import Watcher

__all__ = [
    "Conflict",
    "Durability",
    "Earlier",
    "Event",
    "Expired",
    "Kind",
    "Missing",
    "Page",
    "Retention",
    "StorageError",
    "Store",
    "Stored",
    "TooNew",
    "Usage",
    "Watcher",
    "WriteFailed",
    "remedy",
    "values_of",
]
