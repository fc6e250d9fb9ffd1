"""Two runs share an elastic cluster, from no GPU node to three and back, and one node is lost.

    python -m benchmarks.autoscaling --figure docs/figures/autoscaling.svg   # about five minutes
    python -m benchmarks.autoscaling --draw samples.json --figure autoscaling.svg

The autoscaler and Serve are real, nodes and engines are not (`benchmarks.fake_cluster`): what is
seen is how pools and nodes follow the chains that wait, not how fast a cloud boots.
Prints machine and configuration, then one JSON object with every sample as the last line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from benchmarks.fake_cluster import FakeCluster, wait_until
from benchmarks.machine import described
from pipeline.report import charts

RUNS = {"large": 40, "small": 10}
"""Questions of each run; the small one is submitted a little later."""
NODE = {"resources": {"CPU": 4, "GPU": 4}, "labels": {"pool": "generator"}, "max_workers": 3}
MAX_NODES = 3
IDLE_TIMEOUT_S = 15.0


def config_of(runs: str, questions: int) -> dict[str, Any]:
    """A run on scripted engines whose pools are elastic."""
    pool = {
        "num_gpus": 1,
        "min_replicas": 1,
        "upscale_delay_s": 2,
        "downscale_delay_s": 10,
        "label_selector": {"pool": "generator"},
    }
    return {
        "science": {
            "benchmarks": [{"name": "arithmetic", "size": questions}],
            "strategies": ["mr_thinking"],
            "strategy": {"n": 6},
            "decoding": {"max_tokens": 256},
            "prompts": {"first": "{question}", "revise": "{question} was {answer}"},
            "generator": {"model": "scripted"},
            "verifier": {"model": "scripted"},
        },
        "runtime": {
            "runs": runs,
            "host": "serve",
            "journal_flush_s": 1,
            "generator": {
                **pool,
                "max_replicas": 5,
                "target_ongoing_requests": 4,
                "engine": {"max_num_seqs": 8},
            },
            "verifier": {**pool, "max_replicas": 1, "engine": {"max_num_seqs": 8}},
            "controllers": {
                "actors": 1,
                "num_cpus": 0.5,
                "rows_per_block": 4,
                "label_selector": {"pool": "head"},
            },
            "requests": {"backoff_s": 0.5},
            "scripted": {"slots": 8, "tokens": 55, "tokens_per_s": 8},
        },
    }


class Sampler:
    """What the cluster does, once a second, seen from a driver of its own; tells standard error."""

    def __init__(self, cluster: FakeCluster) -> None:
        import ray

        self._cluster, self._began = cluster, time.monotonic()
        self.samples: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        ray.init(address=cluster.address, log_to_driver=False, logging_level="fatal")

    def note(self, event: str) -> None:
        """Keep an event with its time."""
        self.events.append({"s": round(time.monotonic() - self._began, 1), "event": event})
        print(self.events[-1], file=sys.stderr)

    def sample(self) -> dict[str, Any]:
        """Nodes, replicas and chains at this moment."""
        at = {
            "s": round(time.monotonic() - self._began, 1),
            "nodes": len(self._cluster.workers()),
            "replicas": {run: _replicas(run) for run in RUNS},
            "in_flight": {},
            "done": {},
        }
        for run in RUNS:
            totals = _totals(run)
            at["in_flight"][run] = totals["in_flight"] if totals else 0
            at["done"][run] = sum(totals["stops"].values()) if totals else None
        self.samples.append(at)
        print(at, file=sys.stderr)
        return at

    def close(self) -> None:
        """Leave the cluster; a driver does not outlive one that ends under it."""
        import ray

        ray.shutdown()


def scenario(folder: Path) -> dict[str, Any]:
    """Run all of it; returns samples, events and the exit status of each run."""
    cluster = FakeCluster(
        {"gpu": NODE},
        max_workers=MAX_NODES,
        idle_timeout_s=IDLE_TIMEOUT_S,
        head_cpus=4,
        environment={"PYTHONPATH": str(Path(__file__).resolve().parents[1])},
    )
    running: dict[str, subprocess.Popen[bytes]] = {}
    with contextlib.ExitStack() as cleaning:
        cleaning.callback(cluster.stop)
        cleaning.callback(_end, running)
        sampler = Sampler(cluster)
        cleaning.callback(sampler.close)
        sampler.sample()
        running["large"] = _submit("large", folder, cluster)
        sampler.note("large submitted")
        _sample_until(sampler, lambda at: at["in_flight"]["large"] > 0, 180, "chains of large")
        running["small"] = _submit("small", folder, cluster)
        sampler.note("small submitted")
        _sample_until(sampler, lambda at: at["nodes"] >= 2, 120, "a second node")
        _sample_until(sampler, lambda at: (at["done"]["large"] or 0) >= 4, 180, "finished chains")
        lost = cluster.workers()[0]
        cluster.kill_node(lost)
        sampler.note("a node is lost")
        _sample_until(
            sampler,
            lambda at: all(p.poll() is not None for p in running.values()),
            400,
            "both runs",
        )
        sampler.note("both runs ended")
        _sample_until(sampler, lambda at: at["nodes"] == 0, 120, "the end of the last node")
        sampler.note("no GPU node is left")
        return {
            "samples": sampler.samples,
            "events": sampler.events,
            "status": {run: process.returncode for run, process in running.items()},
        }


def draw(result: dict[str, Any], path: Path) -> None:
    """The time line: nodes, replicas and chains, over one another, events as dotted lines."""
    import altair as alt

    samples = result["samples"]
    events = alt.Chart(alt.Data(values=result["events"])).encode(x="s:Q")
    rows = [
        ("GPU nodes", [("nodes", at["s"], at["nodes"]) for at in samples]),
        *(
            (title, [(f"{run} run", at["s"], at[name][run]) for run in RUNS for at in samples])
            for title, name in (
                ("generator replicas", "replicas"),
                ("chains in flight", "in_flight"),
            )
        ),
    ]
    parts = []
    for title, points in rows:
        data = [{"series": series, "x": x, "y": y} for series, x, y in points]
        lines = charts.lines(data, x="seconds", y=title, step=True, height=110)
        parts.append(alt.layer(lines, events.mark_rule(strokeDash=[2, 3], color="gray")))
    words = events.mark_text(angle=340, align="left", fontSize=8, dy=-60).encode(text="event:N")
    parts[0] = alt.layer(parts[0], words)
    path.parent.mkdir(parents=True, exist_ok=True)
    alt.vconcat(*(part.properties(width=560) for part in parts)).save(str(path), format="svg")


def main(argv: list[str] | None = None) -> int:
    """Run or draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--figure", type=Path, help="SVG to write")
    parser.add_argument("--folder", type=Path, help="for run directories and logs; kept")
    parser.add_argument("--draw", type=Path, metavar="JSON", help="draw samples of an earlier run")
    arguments = parser.parse_args(argv)
    if arguments.draw is not None:
        result = json.loads(arguments.draw.read_text())
    else:
        print(described())
        print(f"fake nodes of {NODE['resources']}, at most {MAX_NODES}, idle {IDLE_TIMEOUT_S:g} s")
        with tempfile.TemporaryDirectory(prefix="autoscaling-") as folder:
            result = scenario(arguments.folder or Path(folder))
        print(json.dumps(result))
    if arguments.figure is not None:
        draw(result, arguments.figure)
    return 0 if set(result["status"].values()) == {0} else 1


def _submit(run: str, folder: Path, cluster: FakeCluster) -> subprocess.Popen[bytes]:
    config = folder / f"{run}.yaml"
    config.write_text(yaml.safe_dump(config_of(str(folder / "runs"), RUNS[run])))
    command = [sys.executable, "-m", "jobs.evaluate", "--config", str(config), "--name", run]
    # as in a submitted job: the code is there. Fake nodes share one folder of uploaded packages,
    # and the first that has no use for one any more deletes it under the others
    there = {"RAY_ADDRESS": cluster.address, "RAY_JOB_CONFIG_JSON_ENV_VAR": "{}"}
    environment = {**cluster.environment, **there}
    with (folder / f"{run}.log").open("wb") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)  # noqa: S603


def _end(running: dict[str, subprocess.Popen[bytes]]) -> None:
    for process in running.values():
        if process.poll() is None:
            process.kill()
            process.wait()


def _sample_until(sampler: Sampler, condition: Any, timeout_s: float, what: str) -> None:
    def seen() -> bool:
        time.sleep(0.75)
        return bool(condition(sampler.sample()))

    wait_until(seen, timeout_s, what)


def _replicas(run: str) -> int:
    import ray
    from ray import serve

    from actors.routing.serve_replicas import DEPLOYMENT

    with contextlib.suppress(ValueError):  # no run has started Serve yet
        ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve")
        status = serve.status().applications.get(f"markovscale-{run}-generator")
        if status is not None and DEPLOYMENT in status.deployments:
            return int(status.deployments[DEPLOYMENT].replica_states.get("RUNNING", 0))
    return 0


def _totals(run: str) -> dict[str, Any] | None:
    import ray

    from actors.cluster.run_monitor import NAMESPACE, monitor_name

    with contextlib.suppress(ValueError, ray.exceptions.RayError):  # not yet, or over
        watch = ray.get_actor(monitor_name(run), namespace=NAMESPACE)
        totals: dict[str, Any] = ray.get(watch.totals.remote(), timeout=5)
        return totals
    return None


if __name__ == "__main__":
    raise SystemExit(main())
