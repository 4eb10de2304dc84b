#!/bin/sh
# Rehearses a loan on a CPU: in a fresh folder, without a network, with the uploads of prepare.sh.
#   lab/gpu/rehearse.sh FOLDER        PYTHON is the interpreter of the rented machine
set -eu
cd "$(dirname "$0")/../.."
mkdir -p "$1/machine/.gpu" "$1/out"
machine=$(realpath "$1/machine")
out=$(realpath "$1/out")
# Without pages, pictures and the shipped model: about 6 MB.
tree=${TREE:-"dragoman training export serving client load_test lab tests pyproject.toml"}
git archive HEAD $tree | tar xC "$machine"
tree_bytes=$(git archive HEAD $tree | wc -c)

call() { # STEP [FILE...]: copy the files, run the step, check sizes
    step=$1
    shift
    bytes=$(($(cat /dev/null "$@" | wc -c) + tree_bytes))
    echo "== $step: $((bytes / 1048576)) MiB up"
    [ "$bytes" -le $((64 << 20)) ] || { echo "over 64 MiB" >&2; exit 1; }
    [ $# = 0 ] || cp --parents "$@" "$machine"
    mkdir -p "$out/$step"
    (cd "$machine" && OUT="$out/$step" DEVICE=cpu unshare -n lab/gpu/remote.sh "$step" $spent)
    spent=
    large=$(find "$out/$step" -type f -size +16M)
    [ -z "$large" ] || { echo "over 16 MiB: $large" >&2; exit 1; }
}
spent="--spent 0"
call probe .gpu/run-a.tar.xz
call train .gpu/run-b.tar.xz
call keep .gpu/ort.tar.xz.0
call check .gpu/ort.tar.xz.1 .gpu/oracle.json .gpu/shipped.tar
call wait-teacher
call wait-student
