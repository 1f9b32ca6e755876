"""Starts and stops the program `setpoint`."""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import sysconfig
import tempfile
import threading
from pathlib import Path
from typing import IO, Sequence


class ClusterError(RuntimeError):
    """The cluster did not start."""


def binary() -> str:
    """Returns the program: `$SETPOINT_BINARY`, the one of this package, or the one on the path."""
    named = os.environ.get("SETPOINT_BINARY")
    if named:
        return named
    own = Path(sysconfig.get_path("scripts")) / "setpoint"
    found = str(own) if own.is_file() else shutil.which("setpoint")
    if not found:
        raise ClusterError("the program setpoint is not installed; name it in SETPOINT_BINARY")
    return found


class Cluster:
    """A cluster in a process of its own, in memory. It ends with the `with` block, and also if Python is killed.

    `kubeconfig` is the path of a file, `server` the URL of the API server. `args` are further flags of `setpoint up`.
    """

    def __init__(
        self,
        *,
        args: Sequence[str] = (),
        binary: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._args = list(args)
        self._binary = binary
        self._timeout = timeout
        self._process: subprocess.Popen[str] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.server = ""
        self.kubeconfig = ""

    def start(self) -> Cluster:
        """Starts the cluster and waits until it is ready."""
        if self._process is not None:
            raise ClusterError("the cluster runs already")
        self._folder = tempfile.TemporaryDirectory(prefix="setpoint-")
        try:
            self._start(Path(self._folder.name))
        except BaseException:
            self.stop()
            raise
        return self

    def _start(self, folder: Path) -> None:
        kubeconfig = folder / "kubeconfig"
        log = folder / "log"
        program = self._binary or binary()
        own = ["up", "--port", "0", "--until-stdin-closes", "--kubeconfig", str(kubeconfig)]
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [program, *own, *self._args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        lines: queue.Queue[str] = queue.Queue()
        assert self._process.stdout is not None
        # The thread goes on reading, so that the cluster never waits for a reader.
        threading.Thread(target=_read, args=(self._process.stdout, lines), daemon=True).start()
        try:
            line = lines.get(timeout=self._timeout)
        except queue.Empty:
            line = ""
        if not line.startswith("ready "):
            said = log.read_text(errors="replace").strip()
            raise ClusterError(said or f"no cluster within {self._timeout} s")
        self.server = line.split()[1]
        self.kubeconfig = str(kubeconfig)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Applies the YAML and JSON files of a folder: namespaces and definitions first."""
        command = [self._binary or binary(), "load", os.fspath(path), "--kubeconfig", self.kubeconfig]
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode != 0:
            raise ClusterError(ended.stderr.strip())

    def stop(self) -> None:
        """Stops the cluster. Its objects are gone."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(timeout=self._timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdin is not None
            process.stdin.close()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _read(stream: IO[str], lines: queue.Queue[str]) -> None:
    with stream:
        for line in stream:
            lines.put(line)
    lines.put("")
