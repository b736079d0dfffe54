#!/bin/sh
# Makes the virtual environment that an image holds: stage.sh PROGRAM WHEEL VENV
# The Dockerfile and the tests run it; PYTHON and UV name others than those of the build.
set -eu

program=$1 wheel=$2 venv=$3
here=$(dirname "$0")
# Copies, not links: what is trimmed here must stay whole in the cache.
export UV_LINK_MODE=copy

install() {
    "${UV:-/opt/build/bin/uv}" pip install --quiet --python "$venv/bin/python" "$@"
}

"${PYTHON:-python3.13}" -m venv --without-pip "$venv"
install --require-hashes --only-binary :all: -r "$here/requirements/${program#jq-}.txt"
install --no-deps --no-index "$wheel"
"$venv/bin/python" "$here/trim.py" "$program"
