"""`dragoman doctor`: report what this machine lacks for serving, and how to fix it."""

from __future__ import annotations

import argparse

HELP = "report what this machine lacks for serving, and how to fix it"
EXTRA = "serve"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--address", default="127.0.0.1", help="IP address to check (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--ports",
        type=int,
        nargs="*",
        default=[8000, 8001, 8002, 5000],
        help="ports to check (default: 8000 8001 8002 5000)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print one line per finding; fail if something that serving needs is missing."""
    from dragoman_serving.launch.diagnosis import diagnose

    findings = list(diagnose(arguments.address, arguments.ports))
    for finding in findings:
        fix = f": {finding.fix}" if finding.fix else ""
        print(f"{finding.severity:7}  {finding.text}{fix}")
    return int(any(finding.severity in ("busy", "missing") for finding in findings))
