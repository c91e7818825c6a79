"""transformers.js or onnxruntime-web in headless Chromium: a server here gives the page, the library and the folder.

python by_chromium.py FOLDER, where FOLDER has node_modules
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

HERE = Path(__file__).parent
SECONDS = 200
TYPES = {".mjs": "text/javascript", ".js": "text/javascript", ".wasm": "application/wasm", ".html": "text/html"}
FLAGS = ("--headless=new", "--no-sandbox", "--no-first-run", "--disable-extensions", "--disable-background-networking")
WEBGPU = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")


class Requests(BaseHTTPRequestHandler):
    def __init__(self, job: dict[str, Any], packages: Path, results: Queue[str], *arguments: Any) -> None:
        self.job, self.packages, self.results = job, packages, results
        super().__init__(*arguments)

    def do_GET(self) -> None:
        if self.path == "/job":
            return self.send(json.dumps(self.job).encode(), "application/json")
        file = self.file()
        if not file.is_file():
            return self.send_error(404)
        return self.send(file.read_bytes(), TYPES.get(file.suffix, "application/octet-stream"))

    def do_POST(self) -> None:
        self.results.put(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send(b"", "text/plain")

    def file(self) -> Path:
        if self.path.startswith("/models/model/"):
            return Path(self.job["folder"]) / self.path.removeprefix("/models/model/")
        folder = self.packages if self.path.startswith("/node_modules/") else HERE
        return folder / self.path.lstrip("/")

    def send(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Prints nothing: what a client asks for is no result."""


def answer(job: dict[str, Any], packages: Path) -> str:
    results: Queue[str] = Queue()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Requests, job, packages, results))
    Thread(target=server.serve_forever, daemon=True).start()
    with browser(f"http://127.0.0.1:{server.server_port}/page.html", WEBGPU if "steps" in job else ()):
        try:
            return results.get(timeout=SECONDS)
        except Empty:
            return json.dumps({"error": f"no result after {SECONDS} s"})
        finally:
            server.shutdown()


@contextmanager
def browser(address: str, flags: tuple[str, ...]) -> Iterator[None]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        program = shutil.which("chromium") or "chromium"
        command = [program, *FLAGS, *flags, f"--user-data-dir={profile}", address]
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sys.stderr, env=environment)
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=20)


if __name__ == "__main__":
    for line in sys.stdin:
        print(answer(json.loads(line), Path(sys.argv[1])), flush=True)
