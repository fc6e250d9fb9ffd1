"""Two nodes of a Slurm job on this machine: deploy/slurm.sh on real Ray, with Slurm played.

A node is a network namespace with an address, processes and a /tmp/ray of its own: its Ray sees no
other Ray of this machine and is seen by none. Only `srun` and `scontrol` are played. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from benchmarks.running import until

ROOT = Path(__file__).resolve().parents[1]
ADDRESSES = ("192.0.2.1", "192.0.2.2")
JOB = 4242
RAY_TEMP = Path(f"/tmp/ray-{JOB}")
PLAYED = {
    # every node runs the command; the status of a step is the highest of its tasks
    "srun": """
shift
export -p > "$PLAYED/environment"
printf '%q ' "$@" > "$PLAYED/command"
touch "$PLAYED/go"
SLURM_NODEID=0 "$@"; status=$?
until [ -s "$PLAYED/status" ]; do sleep 0.2; done
other=$(cat "$PLAYED/status"); rm "$PLAYED/status"
exit $((status > other ? status : other))""",
    "scontrol": f"""
case $1 in
  show) printf '%s\\n' {" ".join(ADDRESSES)} ;;
  *) echo "scontrol $*"; touch "$PLAYED/requeued" ;;
esac""",
    # the second node: does what srun says, start after start
    "node": """
while :; do
  until [ -e "$PLAYED/go" ]; do sleep 0.2; done
  rm "$PLAYED/go"
  ( . "$PLAYED/environment"; export SLURM_NODEID=1; eval "$(cat "$PLAYED/command")" )
  echo $? > "$PLAYED/status"
done""",
}


class Nodes:
    """Two nodes that share a folder.

    Args:
        folder: what they share: the checkout that jobs are submitted from, logs, run directories.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._starts = folder, 0
        self._played = folder / "played"
        self.log = folder / f"slurm-{JOB}.log"
        self._holders: list[subprocess.Popen[bytes]] = []
        self._inits: list[int] = []
        self._second: subprocess.Popen[bytes] | None = None
        self._played.mkdir()
        for name, body in PLAYED.items():
            (self._played / name).write_text(f"#!/bin/bash\n{body}\n")
            (self._played / name).chmod(0o755)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        shared = Path("/tmp/ray")
        for path in (shared, RAY_TEMP):
            path.mkdir(exist_ok=True)
        for number in range(2):
            holder = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL"),  # nothing outlives the tests
                    *("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc"),
                    *("--kill-child", "bash", "-c", "sleep infinity & wait"),  # bash reaps orphans
                ]
            )
            self._holders.append(holder)
            (init,) = until(psutil.Process(holder.pid).children, 10)
            self._inits.append(init.pid)
            until(init.children, 10)  # /proc is mounted
            for path in (shared, RAY_TEMP):
                self._on(number, "mount", "-t", "tmpfs", "node", str(path))
        first, second = map(str, self._inits)
        link = ["ip", "link", "add", "node", "netns", first, "type", "veth", "peer", "name", "node"]
        subprocess.run([*link, "netns", second], check=True)
        for number, address in enumerate(ADDRESSES):
            self._on(number, "ip", "address", "add", f"{address}/24", "dev", "node")
            for device in ("lo", "node"):
                self._on(number, "ip", "link", "set", device, "up")
        with self.log.open("ab") as log:
            self._second = subprocess.Popen(
                self._inside(1, str(self._played / "node")),
                env=self._environment(),
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )

    def _inside(self, number: int, *command: str) -> list[str]:
        target = str(self._inits[number])
        return ["nsenter", "--target", target, "--net", "--mount", "--pid", "--", *command]

    def _on(self, number: int, *command: str) -> None:
        subprocess.run(self._inside(number, *command), check=True)

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join(
            [str(self._played), str(Path(sys.executable).parent), os.environ["PATH"]]
        )
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            "RAY_gcs_rpc_server_reconnect_timeout_s": "15",  # Ray's own 60 s only take longer
            "PATH": path,
            "HOME": str(self._folder),  # the token lies there
            "PLAYED": str(self._played),
            "SLURM_JOB_ID": str(JOB),
            "SLURM_JOB_NODELIST": "node-[0-1]",
            "SLURM_JOB_NUM_NODES": "2",
            "SLURM_SUBMIT_DIR": str(self._folder),
            "SLURM_RESTART_COUNT": str(self._starts),
        }

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Slurm starts the batch script on the first node, for the first time or again."""
        (self._played / "requeued").unlink(missing_ok=True)
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self._inside(0, "bash", str(ROOT / "deploy" / "slurm.sh"), *arguments),
                env=self._environment(),
                stdout=log,
                stderr=log,
            )
        self._starts += 1
        return process

    @property
    def requeued(self) -> bool:
        """Whether the last start has asked to be queued again."""
        return (self._played / "requeued").exists()

    def named(self, name: str) -> list[psutil.Process]:
        """Processes of the nodes with that name."""
        ours = {os.readlink(f"/proc/{pid}/ns/pid") for pid in self._inits}
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, OSError):
                if os.readlink(f"/proc/{process.pid}/ns/pid") in ours and process.name() == name:
                    found.append(process)
        return found

    @staticmethod
    def warn(start: subprocess.Popen[bytes]) -> None:
        """Slurm tells the batch shell that its time is nearly up."""
        (shell,) = psutil.Process(start.pid).children()
        shell.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """End all processes of both nodes, and leave nothing."""
        for holder in self._holders:
            holder.kill()  # its child, the first process of the node, dies with it, and so do all
            holder.wait()
        if self._second is not None:
            self._second.wait()
        with contextlib.suppress(OSError):
            RAY_TEMP.rmdir()
