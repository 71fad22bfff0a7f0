"""The configuration of the scheduler: actions, tiers of plugins and their arguments, typed and validated."""

from kilauea.engine.conf.configuration import (
    ALIASES,
    DEFAULT_CONF,
    FLAG_NAMES,
    FLAGS,
    QUEUE_PLUGINS,
    ConfError,
    Finding,
    Path,
    PluginConf,
    SchedulerConf,
    argument,
    flag_of,
    inspect_conf,
    nearest,
    parse_conf,
    read_arguments,
    where_of,
)
from kilauea.engine.conf.metrics import MetricsConf

__all__ = [
    "ALIASES",
    "DEFAULT_CONF",
    "FLAGS",
    "FLAG_NAMES",
    "QUEUE_PLUGINS",
    "ConfError",
    "Finding",
    "MetricsConf",
    "Path",
    "PluginConf",
    "SchedulerConf",
    "argument",
    "flag_of",
    "inspect_conf",
    "nearest",
    "parse_conf",
    "read_arguments",
    "where_of",
]
