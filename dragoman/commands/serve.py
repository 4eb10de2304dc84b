"""`dragoman serve`: start Triton with the shipped model, or fetch, convert and serve others."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.commands.shared.gateway_settings import (
    OF_TRACING,
    OF_TRITON,
    PREFIX,
    REQUIRED,
    as_environment,
    as_settings,
    of_serve,
    refuse_passwords,
    warn_of_misspelled,
)
from dragoman.commands.shared.hub_models import bundles_of
from dragoman.commands.shared.serve_settings import SETTINGS, Resolved, declare, read_bytes, resolve
from dragoman.kernel.errors import UsageError
from dragoman.kernel.installation import install_command
from dragoman.kernel.tracing import TraceOptions

if TYPE_CHECKING:
    from dragoman_serving.launch.gateway_process import GatewayOptions
    from dragoman_serving.launch.serve_options import ServeOptions

HELP = "serve translations over HTTP and gRPC with Triton Inference Server"
EXTRA = "serve"
EXTRA_OF_GATEWAY = "gateway"
_HINT = (
    "the shipped model is a small one, for everyday sentences; far better ones: dragoman serve "
    "firefox:en,de,fr (docs/models.md)"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the settings."""
    declare(parser, (*SETTINGS, *of_serve()))


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    from dragoman_serving.launch.repository import shipped_repository
    from dragoman_serving.launch.stop_signals import Stopped, stop_on_signals
    from dragoman_serving.launch.supervision import keep_serving

    refuse_passwords(arguments)
    warn_of_misspelled(os.environ)
    resolved = resolve(arguments, os.environ, (*SETTINGS, *of_serve()))
    settings = resolved.values
    _check(settings)
    tracing = TraceOptions.of(settings["otlp"], settings["trace_rate"])
    stop_on_signals()
    try:
        if words := settings["models"]:
            from dragoman_export.models.model_source import find_sources, implied_pivot

            arguments.extra = "serve,import"  # to convert one that is not cached
            sources = [source for word in words for source in find_sources(word)]
            bundles = bundles_of(sources, settings["offline"], arguments.quiet)
            repository = _repository(bundles)
            if "pivot" not in resolved.origins and (pivot := implied_pivot(sources)):
                resolved = resolved.implying("pivot", pivot, "Firefox's models")
        else:
            bundles = []
            repository = settings["repository"] or shipped_repository()
        gateway = _gateway(resolved)
        if tracing is not None and gateway is not None:
            tracing = replace(tracing, rate=0.0)  # the gateway's requests have a trace context
        keep_serving(
            _options(resolved, repository, bundles if repository is None else [], tracing),
            restart=settings["on_failure"] == "restart",
            follow_bundle=settings["follow_bundle"],
            settings=resolved.description,
            hint="" if settings["models"] or settings["repository"] else _HINT,
            gateway=gateway,
        )
    except Stopped:
        try:
            print("stopped", file=sys.stderr)
        except OSError:
            # Nobody reads stderr; this prevents a second error at exit, and its exit code 120.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    return 0


def _check(settings: Mapping[str, Any]) -> None:
    """Refuse settings that are out of range, or exclude each other."""
    if settings["engines"] == 0:
        raise UsageError("--engines 0: give 1 or more")
    if settings["engine_timeout"] <= 0:
        raise UsageError(f"--engine-timeout {settings['engine_timeout']:g}: give seconds above 0")
    if settings["triton_growth"] <= 0:
        raise UsageError(f"--triton-growth {settings['triton_growth']}: give MiB above 0")
    age_s = settings["grpc_connection_age"]
    if age_s is not None and age_s <= 0:
        raise UsageError(f"--grpc-connection-age {age_s}: give seconds above 0")
    if not settings["triton"]:
        for name in ("load", "config", "grpc_connection_age"):
            if settings[name]:
                raise UsageError(f"--{name.replace('_', '-')}: is for Triton; omit --no-triton")
        if not settings["gateway"]:
            raise UsageError("--no-triton, --no-gateway: give one of them: nothing would listen")
    if settings["models"] and settings["repository"]:
        raise UsageError(f"--repository {settings['repository']}: give it or models, not both")


def _repository(bundles: Sequence[Path]) -> Path | None:
    """The repository that a single bundle is part of, if any; its configuration is used then."""
    from dragoman_export.publishing import repository_of

    return repository_of(bundles[0]) if len(bundles) == 1 else None


def _options(
    resolved: Resolved,
    repository: Path | None,
    bundles: Sequence[Path],
    tracing: TraceOptions | None,
) -> ServeOptions:
    from dragoman_serving.launch.serve_options import ServeOptions
    from dragoman_serving.service.models_to_serve import ModelsToServe

    for name in ("load", "config"):
        if repository is None and resolved.values[name]:
            raise UsageError(f"--{name}: is for models of a repository; give --repository")
    settings = resolved.values
    memory = settings["memory"]
    return ServeOptions(
        repository=repository,
        address=settings["address"],
        triton=settings["triton"],
        http_port=settings["http_port"],
        grpc_port=settings["grpc_port"],
        metrics_port=settings["metrics_port"],
        expose_unpatched_server=settings["expose_unpatched_server"],
        log_verbose=settings["verbose"],
        config=settings["config"],
        more_models=tuple(settings["load"]),
        # TensorRT engines, which it waits for, are run by one process.
        engines=settings["engines"] or (1 if settings["follow_bundle"] else None),
        restart_engines=settings["on_failure"] == "restart",
        engine_timeout_s=settings["engine_timeout"],
        triton_growth_bytes=settings["triton_growth"] << 20,
        grpc_connection_age_s=settings["grpc_connection_age"],
        parameters=resolved.parameters,
        to_serve=ModelsToServe(
            bundles=tuple(map(str, bundles)),
            preload=tuple(settings["preload"]),
            memory_bytes=None if memory is None else read_bytes("--memory", memory),
            pivot=settings["pivot"],
        ),
        tracing=tracing,
    )


def _gateway(resolved: Resolved) -> GatewayOptions | None:
    """Returns the options of the gateway; None: it is switched off, or not installed."""
    from dragoman_serving.launch.gateway_process import GatewayOptions

    settings = resolved.values
    if not settings["gateway"]:
        return None
    if missing := next((name for name in REQUIRED if find_spec(name) is None), None):
        message = f"no gateway: {missing} is not installed: {install_command(EXTRA_OF_GATEWAY)}"
        if "gateway" in resolved.origins or not settings["triton"]:
            raise UsageError(message)
        print(f"{message}; --no-gateway silences this", file=sys.stderr)
        return None
    tracing = {PREFIX + name: settings[name] for name in OF_TRACING}
    of_triton = dict.fromkeys((PREFIX + name for name in OF_TRITON), "")
    as_settings({**settings, **of_triton, **tracing})
    given = {**tracing, **{name: settings[name] for name in resolved.origins}}
    return GatewayOptions(
        address=settings["gateway_address"],
        port=settings["gateway_port"],
        environment=as_environment(given),
        restart=settings["on_failure"] == "restart",
        timeout_s=settings["engine_timeout"],
        stop_delay_s=settings["gateway_stop_delay_s"],
    )
