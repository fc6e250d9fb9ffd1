"""Ray on one machine, and the address of one that is joined."""

import socket
import threading
from contextlib import contextmanager

import pytest

from jobs.cluster import _check_reachable, cpus_of
from pipeline.config.runtime import RuntimeConfig


@pytest.mark.parametrize(
    ("generator", "controllers", "cores", "expected"),
    [
        ({"num_cpus": 0.3}, {"num_cpus": 0.3}, 8, 8),
        ({"num_cpus": 1.5}, {"num_cpus": 0.3}, 2, 4),
        ({"num_cpus": 1, "replicas": 4}, {"num_cpus": 1, "actors": 2}, 2, 8),
    ],
)
def test_a_run_always_finds_room_on_its_own_machine(generator, controllers, cores, expected):
    """Ray counts at least what pools, controllers and one more task ask for."""
    runtime = RuntimeConfig.model_validate({"generator": generator, "controllers": controllers})

    assert cpus_of(runtime, cores) == expected


@contextmanager
def answering(answer):
    """A server that says this to whoever comes, as ``host:port``."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            while True:
                try:
                    caller, _ = listening.accept()
                except OSError:
                    return  # closed
                with caller:
                    caller.recv(100)
                    caller.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def test_an_address_is_tried_before_ray_tries_it_for_minutes():
    """What speaks gRPC passes, with a scheme or without; names without a port are left to Ray."""
    with answering(bytes([0, 0, 6, 4, 0, 0, 0, 0, 0]) + bytes(6)) as address:
        _check_reachable(address)
        _check_reachable(f"ray://{address}")
        _check_reachable("auto")

    with pytest.raises(ConnectionRefusedError):
        _check_reachable(address)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_a_port_of_something_else_is_no_cluster(answer, monkeypatch):
    """The dashboard's, say. With TLS nothing can be told before Ray's own handshake."""
    with answering(answer) as address:
        with pytest.raises(ConnectionError, match="is not Ray, whose port is 6379 unless set"):
            _check_reachable(address)
        monkeypatch.setenv("RAY_USE_TLS", "1")
        _check_reachable(address)


def test_the_address_of_submissions_is_told_from_that_of_programs():
    """RAY_ADDRESS may hold either; joining needs the second."""
    with pytest.raises(ValueError, match=r"a program joins at HOST:6379, or is submitted with RAY"):
        _check_reachable("http://127.0.0.1:8265")
