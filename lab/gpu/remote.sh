#!/bin/sh
# Runs one step of a training on a rented GPU: see docs/gpu-training.md.
#   lab/gpu/remote.sh probe|train|keep|check|wait-teacher|wait-student [--spent SECONDS]
cd "$(dirname "$0")/../.." || exit 2
export PYTHONPATH=.:client/src:load_test/src:training:export:serving:.gpu/work/site
exec "${PYTHON:-python3}" -m lab.gpu.remote "$@"
