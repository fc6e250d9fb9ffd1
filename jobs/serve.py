"""Serve strategies behind an OpenAI-compatible endpoint: a question in, the scaled answer out.

    python -m jobs.serve --config configs/laptop.yaml
    python -m jobs.serve --config configs/laptop.yaml --port 8080
    curl http://127.0.0.1:8000/v1/models

Each strategy of the configuration is a model, such as ``markovscale/chain_asc-8``; see
docs/serving.md. Listens to this machine alone unless --host says otherwise. Where
MARKOVSCALE_API_KEY is set in the environment, requests must bring that key. SIGTERM or Ctrl-C
finishes open requests and stops every process. Exits with 0 then, with 2 for a configuration error,
with 1 where serving failed, with 75 where Ray is missing or lost: start it again.
"""

from __future__ import annotations

import argparse
import ipaddress
import logging
import os
import sys
from datetime import UTC, datetime

from jobs.cli import VerbParser, add_set_option, log_to_stderr, shipped_config
from jobs.endings import in_one_line
from jobs.supervision import supervised
from pipeline.core.errors import ConfigError

logger = logging.getLogger(__name__)

KEY = "MARKOVSCALE_API_KEY"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = VerbParser("serve", __doc__)
    options.add_argument(
        "--config",
        metavar="FILE",
        type=shipped_config(),
        required=True,
        help="YAML file of a run",
    )
    add_set_option(options)
    options.add_argument("--host", default="127.0.0.1", help="address to listen to (127.0.0.1)")
    options.add_argument("--port", type=int, default=8000, help="port to listen to (8000)")
    options.add_argument(
        "--queue",
        metavar="N",
        type=int,
        help="requests that may wait before others are refused with 429 (as many as are worked on)",
    )
    options.add_argument(
        "--cors",
        metavar="ORIGIN",
        action="append",
        default=[],
        help="let web pages of this origin read answers, such as https://example.com; repeatable",
    )
    return options


@in_one_line
def main(argv: list[str] | None = None) -> int:
    """Run the job; returns the exit status."""
    arguments = parser().parse_args(argv)
    log_to_stderr(arguments.level)
    from actors.serving.app import digest_of
    from actors.serving.served_models import BENCHMARK, served_models
    from jobs.cluster import start_ray
    from pipeline.config.run import RunConfig
    from pipeline.config.strategies import own_modules

    if arguments.queue is not None and arguments.queue < 0:
        raise ConfigError(f"--queue must be >= 0, got {arguments.queue}")
    if not 1 <= arguments.port <= 65_535:
        raise ConfigError(f"--port must be in [1, 65535], got {arguments.port}")
    values = RunConfig.read(arguments.config, arguments.overrides)
    if isinstance(science := values.get("science"), dict):  # requests are the questions
        science.setdefault("benchmarks", [{"name": BENCHMARK, "path": "requests"}])
    config = RunConfig.parse(values, arguments.config)
    if caps := config.runtime.limits.caps:
        raise ConfigError(
            f"runtime.limits must have no caps, an endpoint has no end of its own, got "
            f"{', '.join(caps)}"
        )
    models = served_models(config.science)
    for sentence in config.warnings():
        logger.warning("%s", sentence)
    for name, why in models.refused.items():
        logger.warning("%s is not served: %s", name, why)
    for role, pool in config.runtime.pools.items():
        if pool.endpoint is not None and KEY in (
            pool.endpoint.api_key_env,
            *pool.endpoint.headers_env.values(),
        ):
            raise ConfigError(
                f"runtime.{role}.endpoint must have its key in another variable: {KEY} is the key "
                "of what is served here"
            )
    key = _key()
    if key is None and not _is_this_machine(arguments.host):
        logger.warning("whoever reaches %s can use it: %s is not set", arguments.host, KEY)
    start_ray(config.runtime, own_modules(config.science))

    import ray

    from actors.driver.service import Service
    from actors.driver.signals import RunInterruptedError

    address = f"http://{_in_url(arguments.host)}:{arguments.port}/v1"

    def ready() -> None:
        print(f"serving {', '.join(models.served)}\nat {address}", flush=True)

    service = Service(
        config,
        f"{config.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}",
        host=arguments.host,
        port=arguments.port,
        key_digest=None if key is None else digest_of(key),
        queue=arguments.queue,
        cors=tuple(arguments.cors),
    )
    try:
        service.execute(ready)
    except RunInterruptedError as error:
        print(f"stopped: {error}", file=sys.stderr)
    finally:
        ray.shutdown()
    return 0


def _key() -> str | None:
    """The API key, taken out of the environment, which Ray's processes would inherit.

    Raises:
        ConfigError: where it is set to nothing: then something that should have set it has failed;
            and where no header can hold it.
    """
    key = os.environ.pop(KEY, None)
    if key is not None and not (key.strip().isascii() and key.strip().isprintable()):
        raise ConfigError(f"{KEY} must be one line of ASCII, as requests bring it in a header")
    if key is not None and not key.strip():
        raise ConfigError(f"{KEY} must hold a key or not be set, it is empty")
    return None if key is None else key.strip()


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


if __name__ == "__main__":
    sys.exit(supervised(main))
