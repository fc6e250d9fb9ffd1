"""What jobs are started with on a cluster of several Rays on this machine."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_worker_prestart": "0",
    "PYTHONPATH": str(ROOT),
    # as in a submitted job: the code is there, nothing is uploaded
    "RAY_JOB_CONFIG_JSON_ENV_VAR": "{}",
}
