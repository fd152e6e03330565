"""The program of the guide's page runs as it stands."""

import os
import pathlib
import re
import subprocess
import sys

from conftest import eventually

PAGE = pathlib.Path(__file__).parents[2] / "docs/guide/remote-workers.md"


def test_the_guides_worker_runs(server, tmp_path):
    program = tmp_path / "worker.py"
    program.write_text(re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1])
    paths = os.pathsep.join([os.environ["DURABLE_TEST_STUBS"], str(pathlib.Path(__file__).parent)])
    worker = subprocess.Popen([sys.executable, program, server.address], env={**os.environ, "PYTHONPATH": paths})
    try:
        run_id = server.start("welcome", "Ann")
        eventually(lambda: server.status(run_id).status == "running", "a worker has taken it")
        assert server.query(run_id, "whom") == "Ann"
        server.signal(run_id, "answer", "Hello yourself!")
        assert server.result(run_id) == "Hello, Ann! Hello yourself!"
    finally:
        worker.kill()
        worker.wait()
