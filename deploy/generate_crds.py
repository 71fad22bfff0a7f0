"""Write deploy/crds/*.yaml, the definitions of the Volcano kinds, from the types in kilauea.api.

    python deploy/generate_crds.py            # apply with: kubectl apply --server-side -f deploy/crds

A test tells when the files are out of date.
"""

from __future__ import annotations

from pathlib import Path

from kilauea.api.crds import definition_text, definitions
from kilauea.apiserver.schema import openapi_definitions

FOLDER = Path(__file__).parent / "crds"


def files() -> dict[str, str]:
    """The text of each file by its name."""
    made = definitions(openapi_definitions())
    return {f"{each['metadata']['name']}.yaml": definition_text(each) for each in made}


def main() -> None:
    """Write the files, and take away those of kinds that are no more."""
    FOLDER.mkdir(exist_ok=True)
    made = files()
    for old in FOLDER.glob("*.yaml"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
