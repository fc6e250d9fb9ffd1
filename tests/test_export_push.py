"""Uploads of exports: to the hub only where one asks for it, and then all of it."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from jobs.export import main
from tests.export_runs import whole

Asked = list[tuple[str, bytes]]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """Stands in for the hub on this machine; gives the paths and bodies that it is asked with."""
    asked: Asked = []

    class Hub(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append((self.path, body))
            answer: dict[str, Any] = {"url": f"{address}/datasets/me/mine"}
            if "/preupload/" in self.path:
                told = {"uploadMode": "regular", "shouldIgnore": False, "oid": None}
                files = json.loads(body)["files"]
                answer = {"files": [{"path": file["path"], **told} for file in files]}
            elif "/commit/" in self.path:
                answer = {"commitUrl": f"{address}/datasets/me/mine/commit/0", "commitOid": "0"}
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Hub)
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", address)
    monkeypatch.setenv("HF_TOKEN", "hf_not_a_token")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield asked
    server.shutdown()
    server.server_close()


def test_nothing_is_uploaded_unasked_and_all_of_it_on_request(tmp_path: Path, hub: Asked) -> None:
    """Without --push the hub hears nothing; with it a private data set gets every file as it is."""
    run = whole(tmp_path).address
    assert main([run, "--to", "hf_dataset", "--out", str(tmp_path / "kept")]) == 0
    assert not hub

    out = tmp_path / "pushed"
    assert main([run, "--to", "hf_dataset", "--out", str(out), "--push", "me/mine"]) == 0
    made = json.loads(dict(hub)["/api/repos/create"])
    assert (made["name"], made["type"]) == ("mine", "dataset")
    assert made.get("private") or made.get("visibility") == "private"
    [commit] = [body for path, body in hub if "/commit/" in path]
    lines = [json.loads(line) for line in commit.splitlines()]
    sent = {
        line["value"]["path"]: base64.b64decode(line["value"]["content"])
        for line in lines
        if line["key"] == "file"
    }
    written = {
        str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()
    }
    assert sent == written


def test_a_hub_that_is_away_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2; what was written stays whole."""
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    out = tmp_path / "out"
    arguments = [whole(tmp_path).address, "--to", "hf_dataset", "--out", str(out)]

    assert main([*arguments, "--push", "me/mine"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {out} is whole but could not be pushed to me/mine: ")
    assert error.count("\n") == 1
    assert (out / "README.md").is_file()
