"""Trains a large model and a student of it on a GPU that is rented for minutes, without a network.

Each step is one short call; the training goes on in the background between the calls. With
`DEVICE=cpu`, all steps run with tiny numbers.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.gpu import packing

if TYPE_CHECKING:
    from dragoman_training.config import OptimisationConfig

FOLDER = Path(".gpu")
WORK = FOLDER / "work"
SHIPPED = WORK / "shipped"
RECIPES = Path("training/dragoman_training/recipes")
TEACHER, STUDENT = "teacher", "student"
PIECE_BYTES = 15 << 20
_LOG, _STARTED, _DRIVER = WORK / "train.log", WORK / "started", WORK / "driver.pid"
_TOO_HIGH = "lower training.peak_learning_rate"
"""Ends the message of a run whose loss became infinite or NaN."""
_PACKAGES = ("torch", "numpy", "onnx", "safetensors", "sentencepiece", "sacrebleu", "tensorboard")


@dataclass(frozen=True)
class Plan:
    """When what ends, in seconds of the loan, and the settings that differ from the recipe's."""

    device: str
    trained_s: float = 690.0
    """No training after this."""
    ended_s: float = 880.0
    """No measurement after this."""
    teacher_minutes: float = 5.0
    student_minutes: float = 2.5
    overhead_s: float = 35.0
    """Of a run beside its minutes: reading the text, writing the model."""
    stop_s: float = 10.0
    """Before a run's end: SIGTERM, so that it finishes its step and writes the model."""
    log_lines: int = 3
    settings: tuple[str, ...] = ()
    teacher_settings: tuple[str, ...] = ()

    def minutes(self, name: str, elapsed_s: float) -> float:
        """Minutes of a run that starts now; the student's are shortened by what has passed."""
        left = (self.trained_s - elapsed_s - self.overhead_s) / 60
        if name == STUDENT:
            return min(self.student_minutes, left)
        return min(self.teacher_minutes, left - self.student_minutes / 2)


def plan() -> Plan:
    """The plan for a GPU, or for `DEVICE=cpu`."""
    if os.environ.get("DEVICE", "cuda") != "cpu":
        return Plan("cuda")
    small = {"training.batch_tokens": 200, "training.log_every_steps": 1}
    small |= {"training.validate_every_steps": 100_000, "training.checkpoint_every_steps": 5}
    tiny = {"model_size": 64, "feed_forward_size": 64, "heads": 1}
    tiny |= {"encoder_layers": 1, "decoder_layers": 1}
    return Plan(
        "cpu",
        overhead_s=90.0,
        teacher_minutes=0.3,
        student_minutes=0.3,
        # A validation takes minutes here.
        settings=("data.valid=[]", *(f"{name}={value}" for name, value in small.items())),
        teacher_settings=tuple(f"model.{name}={value}" for name, value in tiny.items()),
    )


def probe(plan: Plan) -> int:
    """Print what is installed, unpack the first upload, check gradients and speed."""
    unpack(FOLDER / "run-a.tar.xz")
    kernels = Path("serving/dragoman_serving/engine/compiled")
    for library in (WORK / "kernels").glob("*.so"):
        shutil.copy(library, kernels)
    importlib.invalidate_caches()
    for package in _PACKAGES:
        try:
            print(package, importlib.import_module(package).__version__)
        except (ImportError, AttributeError) as error:
            print(f"{package}: {error}")
    for command in (["nvidia-smi"], ["sh", "-c", "ldconfig -p | grep -i nvinfer"]):
        call(command, 10)
    print("libnvinfer:", [str(path) for path in Path(sys.prefix).rglob("libnvinfer*.so*")])
    for name in (TEACHER, STUDENT):
        words = ["-m", "lab.training.training_step", "--device", plan.device, "--parity"]
        words += ["--config", str(recipe(name))]
        if plan.device == "cuda":
            words += ["--sentences", "1500", "--length", "32"]
        else:
            words += ["--sentences", "2", *_sets(plan.teacher_settings)]
        call([sys.executable, *words], 40)
    return 0


def train(plan: Plan) -> int:
    """Unpack the second upload, start the training, and return after its first log lines."""
    unpack(FOLDER / "run-b.tar.xz")
    with _LOG.open("w") as log:
        command = [sys.executable, "-m", "lab.gpu.remote", "drive"]
        driver = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    _DRIVER.write_text(str(driver.pid))

    def steps() -> int:
        return _LOG.read_text().count("  loss ")

    wait_for(lambda: steps() >= plan.log_lines or driver.poll() is not None, 70)
    return show_log() if steps() else fail("no step was logged")


def keep(_plan: Plan) -> int:
    """Only carries the next upload."""
    return show_log()


def check(plan: Plan) -> int:
    """Unpack ONNX Runtime, run the tests for GPUs, compare the shipped model's tokens."""
    joined = WORK / "ort.tar.xz"
    with joined.open("wb") as file:
        for piece in sorted(FOLDER.glob("ort.tar.xz.*")):
            file.write(piece.read_bytes())
    unpack(joined, WORK / "site")
    unpack(FOLDER / "shipped.tar")
    measure(plan, ["tests", "tokens"], 100)
    return show_log()


def wait_teacher(_plan: Plan) -> int:
    """Wait for the teacher, and copy its pieces to the folder that comes back."""
    return fetch(TEACHER, 240)


def wait_student(plan: Plan) -> int:
    """As `wait_teacher`; then measure speed with what time is left."""
    code = fetch(STUDENT, 190)
    if (left_s := plan.ended_s - elapsed_s()) > 30:
        measure(plan, ["speed"], min(left_s, 120))
    return code


def drive(plan: Plan) -> int:
    """Train the teacher, then the student, and pack both; runs in the background."""
    teacher = run(plan, TEACHER, plan.teacher_settings)
    if teacher is None:
        return 1
    pack(TEACHER, teacher)
    is_there = wait_for(lambda: (SHIPPED / "manifest.json").exists(), plan.trained_s - elapsed_s())
    if not is_there:
        return fail(f"{SHIPPED} has not come: no student")
    words = (f"training.teacher={teacher}",)
    student = run(plan, STUDENT, words, ["--start-from", str(SHIPPED)])
    if student is None:
        return 1
    pack(STUDENT, student)
    return 0


def run(
    plan: Plan, name: str, settings: Sequence[str] = (), words: Sequence[str] = ()
) -> Path | None:
    """Train a model; if the loss becomes NaN, resume at half the rate.

    Returns:
        Its folder; None if there is none.
    """
    folder = WORK / name
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(WORK / "tokenizer.model", folder)
    if not (folder / "encoded-text").exists():
        (folder / "encoded-text").symlink_to((WORK / "encoded-text").resolve())
    minutes = plan.minutes(name, elapsed_s())
    end_s = min(elapsed_s() + 60 * minutes + plan.overhead_s, plan.trained_s)
    command = [sys.executable, "-m", "dragoman", "train", "--config", str(recipe(name))]
    command += ["--data-dir", str(WORK / "text"), "--out", str(folder), *words]
    command += _sets((*plan.settings, *settings))
    usual = _training(recipe(name))
    for attempt in range(3):
        left = (end_s - elapsed_s() - plan.overhead_s) / 60 + trained_minutes(folder)
        if left <= 0:
            fail(f"no time is left for the {name}")
            break
        cooldown = usual.cooldown_minutes * min(1.0, left / (usual.minutes or left))
        schedule = [f"training.minutes={left:.3f}", f"training.cooldown_minutes={cooldown:.3f}"]
        if attempt:
            rate = (usual.peak_learning_rate or 0.0) / 2**attempt
            schedule.append(f"training.peak_learning_rate={rate}")
        print(f"{elapsed_s():.0f} s: {name}, {left:.1f} minutes", *schedule, flush=True)
        begin = _LOG.stat().st_size if _LOG.exists() else 0
        call([*command, *_sets(schedule), "--resume"], end_s - elapsed_s(), plan.stop_s)
        if (folder / "final").exists():
            return folder / "final"
        if _TOO_HIGH not in (_LOG.read_text()[begin:] if _LOG.exists() else ""):
            break
    # A run that was killed, in a validation perhaps, has its checkpoints.
    return next(iter(sorted((folder / "checkpoints").glob("step-*"), reverse=True)), None)


def trained_minutes(run: Path) -> float:
    """Minutes of a run up to its newest checkpoint."""
    progress = sorted((run / "checkpoints").glob("step-*/progress.json"))
    return json.loads(progress[-1].read_text())["elapsed_s"] / 60 if progress else 0.0


def pack(name: str, model: Path) -> None:
    """Write a model in fp16 as pieces that come back in one call."""
    from dragoman_training.run import checkpoint_folder
    from safetensors.numpy import save_file

    weights = checkpoint_folder.read_arrays(model / checkpoint_folder.WEIGHTS)
    half = WORK / f"{name}-fp16"
    left_out = shutil.ignore_patterns(checkpoint_folder.WEIGHTS, "optimizer.*", "progress.json")
    shutil.copytree(model, half, ignore=left_out)
    in_fp16 = {key: array.astype("float16") for key, array in weights.items()}
    save_file(in_fp16, half / checkpoint_folder.WEIGHTS)
    with tarfile.open(WORK / f"{name}.tar", "w") as tar:
        tar.add(half, name)
    partial = WORK / "pieces.partial"
    partial.mkdir()
    packing.split(WORK / f"{name}.tar", partial, PIECE_BYTES)
    partial.rename(WORK / f"{name}-pieces")
    print(f"{elapsed_s():.0f} s: {name} is packed", flush=True)


def fetch(name: str, timeout_s: float) -> int:
    """Wait for a model's pieces, and copy them and the logs to `$OUT`."""
    pieces = WORK / f"{name}-pieces"
    wait_for(lambda: pieces.exists() or not _is_driven(), timeout_s)
    out = Path(os.environ["OUT"])
    for path in (*pieces.glob("*"), _LOG):
        shutil.copy(path, out)
    if (log := WORK / name / "log.jsonl").exists():
        shutil.copy(log, out / f"{name}.jsonl")
    return show_log() if pieces.exists() else fail(f"the {name} is not finished")


def measure(plan: Plan, parts: Sequence[str], timeout_s: float) -> None:
    """Run parts of the check of GPUs."""
    words = ["-m", "lab.gpu.gpu_check", "--short", "--oracle", str(FOLDER / "oracle.json")]
    words += ["--bundle", str(SHIPPED)]
    words += ["--device", plan.device, "--out", str(Path(os.environ["OUT"], *parts[-1:]))]
    command = [sys.executable, *words, "--parts", *parts]
    call(command, timeout_s, stop_s=plan.stop_s, stop=signal.SIGINT)  # writes what it has


def unpack(archive: Path, folder: Path = WORK) -> None:
    """Unpack an archive; it may be several, one after the other."""
    with tarfile.open(archive, ignore_zeros=True) as tar:
        tar.extractall(folder, filter="data")
    for lengths in folder.glob(f"encoded-text/*/{packing.LENGTHS}"):
        packing.restore_ends(lengths.parent)
    print(f"{elapsed_s():.0f} s: unpacked {archive}", flush=True)


def call(
    command: Sequence[str],
    timeout_s: float,
    stop_s: float = 0.0,
    stop: signal.Signals = signal.SIGTERM,
) -> int:
    """Run a command, in a process group of its own, at most as long as this.

    Args:
        command: the command and its arguments.
        timeout_s: then it is killed.
        stop_s: so long before, it gets a signal to stop.
        stop: that signal.

    Returns:
        Its exit code.
    """
    sys.stdout.flush()
    try:
        process = subprocess.Popen(command, start_new_session=True)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}")
        return 127
    for wait_s, number in ((timeout_s - stop_s, stop), (stop_s, signal.SIGKILL)):
        try:
            return process.wait(max(wait_s, 0.1))
        except subprocess.TimeoutExpired:
            print(f"{elapsed_s():.0f} s: {number.name} to {' '.join(command[:4])}", flush=True)
            (os.killpg if number == signal.SIGKILL else os.kill)(process.pid, number)
    return process.wait()


def wait_for(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Wait until a condition holds; returns whether it does."""
    end = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < end:
        time.sleep(0.5)
    return condition()


def recipe(name: str) -> Path:
    """The recipe of the teacher or the student."""
    return RECIPES / f"gpu-{name}.toml"


def elapsed_s() -> float:
    """Seconds since the loan of the machine began."""
    return time.time() - float(_STARTED.read_text())


def show_log() -> int:
    """Print the end of the training's log."""
    if _LOG.exists():
        print(*_LOG.read_text().splitlines()[-12:], sep="\n")
    return 0


def fail(message: str) -> int:
    """Print a message beside the log; returns the exit code."""
    show_log()
    print(message, file=sys.stderr, flush=True)
    return 1


def _is_driven() -> bool:
    """Whether the training in the background runs."""
    try:
        return "lab.gpu.remote" in Path(f"/proc/{_DRIVER.read_text()}/cmdline").read_text()
    except OSError:
        return False


def _training(path: Path) -> OptimisationConfig:
    """A recipe's settings of the training."""
    from dragoman_training.config import resolve

    return resolve(path, []).training


def _sets(settings: Sequence[str]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


STEPS = {
    step.__name__.replace("_", "-"): step
    for step in (probe, train, keep, check, wait_teacher, wait_student, drive)
}


def main() -> int:
    """Run a step."""
    parser = argparse.ArgumentParser(prog="lab/gpu/remote.sh", description=__doc__)
    parser.add_argument("step", choices=STEPS)
    parser.add_argument(
        "--spent",
        type=float,
        metavar="S",
        help="seconds of the loan so far (default: from probe on)",
    )
    arguments = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    if arguments.spent is not None or not _STARTED.exists():
        _STARTED.write_text(str(time.time() - (arguments.spent or 0)))
    os.environ.setdefault("OUT", str(WORK / "out"))
    Path(os.environ["OUT"]).mkdir(parents=True, exist_ok=True)
    code = STEPS[arguments.step](plan())
    print(f"{elapsed_s():.0f} s: {arguments.step} ended with {code}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
