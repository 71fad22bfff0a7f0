#!/bin/sh
# Make an environment with Kilauea and nothing else: deploy/install_into.sh FOLDER, in a checkout. Needs Python with venv.
#
# The wheel is built from the checkout with the pinned build backend, and requirements are those of
# requirements/runtime.txt with their hashes. The environment has no pip, and its bytecode is compiled, so it can be
# read-only.
set -eu
target=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python=${PYTHON:-python3}
"$python" -m venv "$work/tools"
pip="$work/tools/bin/python -m pip --disable-pip-version-check --quiet"

# The build backend and what it needs, at the pins of the development environment.
for name in hatchling packaging pathspec pluggy trove-classifiers; do
    sed -n "/^$name==/,/[^\\\\]\$/p" requirements/dev.txt
done > "$work/backend.txt"
$pip install --require-hashes --no-deps -r "$work/backend.txt"
$pip wheel --no-deps --no-build-isolation --wheel-dir "$work" .

"$python" -m venv --without-pip "$target"
$pip --python "$target/bin/python" install --require-hashes --no-deps --only-binary :all: -r requirements/runtime.txt
$pip --python "$target/bin/python" install --no-deps --no-index "$work"/kilauea-*.whl
find "$target/lib" -type d -name tests -prune -exec rm -rf {} +
"$target/bin/kilauea" --version
