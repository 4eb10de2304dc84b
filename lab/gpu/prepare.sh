#!/bin/sh
# Makes the uploads for a rented GPU in .gpu/: see docs/gpu-training.md.
#   lab/gpu/prepare.sh --data-dir CORPORA --eflomal PATH
cd "$(dirname "$0")/../.." || exit 2
exec "${PYTHON:-.venv-dev/bin/python}" -m lab.gpu.prepare "$@"
