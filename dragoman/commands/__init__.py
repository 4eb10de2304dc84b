"""One module a subcommand. Each imports the part that does the work only when it runs.

A module here has `HELP`, `configure(parser)` and `run(arguments)`, which returns an exit code.
"""
