"""Data as JSON or YAML for terminals: nonprinting characters are escaped, so programs read the original values."""

from __future__ import annotations

import re
from typing import Any

LINE_END = "\n"


def json_text(value: Any, indent: int = 2) -> str:
    r"""JSON on several lines, with `\u001b` and the like for nonprinting characters; without a final line end."""
    import json

    return escaped_json(json.dumps(value, indent=indent, ensure_ascii=False))


def escaped_json(text: str) -> str:
    """JSON with escapes for nonprinting characters, which only occur in strings."""
    return re.sub(r"[^ -~\n]", _in_json, text) if _has_unprintable(text) else text


def yaml_text(value: Any, *, sort_keys: bool) -> str:
    """YAML with escapes for nonprinting characters; texts that contain them are in double quotes."""
    import yaml

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    dumper: Any = type("Dumper", (base,), {})
    dumper.add_representer(str, _quoted_if_unprintable)
    text = str(yaml.dump(value, Dumper=dumper, sort_keys=sort_keys, allow_unicode=True))
    return re.sub(r"[^ -~\n]", _in_yaml, text) if _has_unprintable(text) else text


def _quoted_if_unprintable(dumper: Any, text: str) -> Any:
    style = '"' if _has_unprintable(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _has_unprintable(text: str) -> bool:
    return not text.replace(LINE_END, "").isprintable()


def _in_json(found: re.Match[str]) -> str:
    import json

    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def _in_yaml(found: re.Match[str]) -> str:
    code = ord(found[0])
    return found[0] if found[0].isprintable() else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
