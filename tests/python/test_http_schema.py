"""The HTTP API holds what its own description promises: schemathesis, against the real binary, for a bounded time."""

import pathlib
import subprocess
import sys

from conftest import Server

CONFIG = pathlib.Path(__file__).with_name("schemathesis.toml")
EXAMPLES = "30"
TOKEN = "schema-test-0123456789abcdef"


def test_no_answer_contradicts_the_description(tmp_path):
    server = Server(tmp_path, tokens=f"schema:admin:{TOKEN}")
    try:
        fuzz = [str(pathlib.Path(sys.executable).with_name("schemathesis")), "--config-file", str(CONFIG), "run"]
        fuzz += [f"{server.http}/openapi.json", "--checks", "all", "--max-examples", EXAMPLES, "--seed", "1"]
        fuzz += ["--header", f"Authorization: Bearer {TOKEN}", "--no-color"]
        fuzzed = subprocess.run(fuzz, cwd=tmp_path, capture_output=True, text=True)
        assert fuzzed.returncode == 0, fuzzed.stdout[-20000:] + fuzzed.stderr
        assert server.process.poll() is None, "the server did not survive"
    finally:
        server.stop()
