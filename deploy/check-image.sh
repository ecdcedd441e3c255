#!/bin/sh
# Runs the image's steps in a clean folder, then the server from it as the image would: with only the
# Dockerfile's environment and, when started as root, as user 10001 without capabilities on a
# read-only file system. Needs no container engine; takes about a minute.
#
#     deploy/check-image.sh
#
# PYTHON names the interpreter (default: python3). User 10001 must be able to run it, so it can't be
# in root's home.
set -eu
cd "$(dirname "$0")/.."

# Runs a command as the image's user. It goes through env, since setpriv looks up its command with
# root's rights.
as_user() {
    setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --inh-caps=-all \
        --bounding-set=-all env "$@"
}

# The script calls itself with this flag in a new mount namespace.
if [ "${1-}" = --inside ]; then
    run=$2
    shift 2
    mount -t tmpfs -o mode=0750,uid=10001,gid=10001 run "$run"
    mount -o remount,bind,ro /
    as_user "$@"
    exit
fi

python=${PYTHON:-python3}
is_root=false
if [ "$(id -u)" = 0 ]; then
    is_root=true
    python=$("$python" -c 'import os, sys; print(os.path.realpath(sys.executable))')
    if ! (cd / && as_user "$python" -c '') 2>/dev/null; then
        echo "user 10001 can't run $python; set PYTHON to another interpreter" >&2
        exit 2
    fi
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
image=$scratch/image
run=$scratch/run
mkdir "$image" "$run"
chmod 0755 "$scratch"

PYTHON=$python deploy/image-steps.sh install . "$image"
deploy/image-steps.sh models "$image"
deploy/image-steps.sh strip "$image"
install -m 0644 deploy/try_image.py "$scratch"

# ENV of the Dockerfile as KEY=VALUE words, with the folders of this run.
environment=$(sed -n '/^ENV /,/[^\\]$/p' Dockerfile | tr -s ' \\' '\n' | grep = |
    sed -e "s|/opt/judged|$image|g" -e "s|/run/judged|$run|g" -e 's|\$PATH|/usr/bin:/bin|')

# shellcheck disable=SC2086 # one word a variable
set -- env -i $environment "$image/venv/bin/python" "$scratch/try_image.py" "$image"

if ! $is_root; then
    echo "not root: as $(id -un), on a writable file system"
    "$@"
elif unshare --mount true 2>/dev/null; then
    unshare --mount "$0" --inside "$run" "$@"
else
    echo "no mount namespaces here: on a writable file system"
    chown 10001:10001 "$run"
    as_user "$@"
fi
