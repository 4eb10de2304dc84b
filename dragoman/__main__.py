"""`python -m dragoman` is the `dragoman` command."""

import sys

from dragoman.cli import program

sys.exit(program())
