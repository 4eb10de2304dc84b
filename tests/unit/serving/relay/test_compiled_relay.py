"""The compiled relay, in a program that has what it needs of Triton."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from dragoman_serving.service.engine_socket import VARIABLE

from tests.conftest import REPOSITORY

SOURCES = sorted((REPOSITORY / "serving" / "dragoman_serving" / "relay").glob("*.c"))
INITIALIZES = """
#include <stdio.h>
#include <sys/resource.h>
#include "triton.h"
TRITONSERVER_Error *TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model *);
TRITONSERVER_Error *TRITONBACKEND_ModelName(TRITONBACKEND_Model *model, const char **name)
{
    *name = "translate";
    return NULL;
}
TRITONSERVER_Error *TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char *message)
{
    puts(message);
    return (TRITONSERVER_Error *)1;
}
int main(void)
{
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0});
    return TRITONBACKEND_ModelInitialize(NULL) == NULL;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_socket_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    source, program = tmp_path / "initializes.c", tmp_path / "initializes"
    source.write_text(INITIALIZES)
    # What a failed start does not call stays unresolved.
    flags = ["-std=gnu11", "-no-pie", f"-I{SOURCES[0].parent}"]
    flags.append("-Wl,--unresolved-symbols=ignore-all")
    subprocess.run(["cc", *flags, source, *SOURCES, "-lpthread", "-o", program], check=True)
    done = subprocess.run(
        [program],
        env={VARIABLE: "/tmp/engine.sock"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert done.stdout == "no socket: Too many open files\n"
