"""One module for each subcommand. A module imports heavy packages only when it runs.

Each module has `HELP`, `configure(parser)` and `run(arguments)`, which returns an exit code.
"""
