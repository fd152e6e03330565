"""A server and workers for each test. `DURABLE_TEST_BINARY` is the `durable` program, `DURABLE_TEST_STUBS` the folder of the generated stubs."""

import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.error
import urllib.request

sys.path[:0] = [os.environ["DURABLE_TEST_STUBS"], str(pathlib.Path(__file__).parent)]

import grpc
import pytest
from durable.v1 import worker_pb2 as pb
from durable.v1 import worker_pb2_grpc

PATIENCE_S = 60


def eventually(look, what):
    """What `look` answers once it is something; fails when patience runs out."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {PATIENCE_S} s: {what}")


class Server:
    """`durable dev`: its gRPC door for workers, its HTTP door for the test."""

    def __init__(self, folder, db="memory:", tokens=""):
        ready = folder / "ready.json"
        ready.unlink(missing_ok=True)
        command = [os.environ["DURABLE_TEST_BINARY"], "dev", "--db", db, "--ready-file", str(ready)]
        command += ["--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
        environment = {**os.environ, **({"DURABLE_TOKENS": tokens} if tokens else {})}
        self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
        eventually(lambda: ready.exists() or self.process.poll() is not None, "the server is ready")
        assert self.process.poll() is None, "the server did not start"
        doors = json.loads(ready.read_text())
        self.http, self.address = doors["http"], doors["grpc"].removeprefix("http://")
        self.channel = grpc.insecure_channel(self.address)
        self.stub = worker_pb2_grpc.WorkerStub(self.channel)

    def post(self, path, body):
        """What the HTTP door answers; an error of its own is a RuntimeError."""
        url = f"{self.http}/v1/durable/workflows/{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from error

    def signal(self, run_id, name, value):
        return self.post(f"{run_id}/signal", {"signal_type": name, "payload": value})

    def query(self, run_id, name, value=None):
        return self.post(f"{run_id}/query", {"name": name, "input": value})["result"]

    def cancel(self, run_id):
        return self.post(f"{run_id}/cancel", {"reason": "as the test says"})

    def start(self, workflow_type, input=None, **fields):
        new = pb.NewWorkflow(workflow_type=workflow_type, input=json.dumps(input).encode(), **fields)
        created = self.stub.CreateDurableWorkflow(pb.CreateDurableWorkflowRequest(workflows=[new]))
        assert not created.workflows[0].refusal, created
        return created.workflows[0].run_id

    def status(self, run_id):
        request = pb.GetDurableWorkflowStatusRequest(run_ids=[run_id])
        return self.stub.GetDurableWorkflowStatus(request).workflows[0]

    def ended(self, run_id):
        def look():
            status = self.status(run_id)
            return status if status.status in ("completed", "failed", "cancelled") else None

        return eventually(look, f"run {run_id} has ended")

    def result(self, run_id):
        status = self.ended(run_id)
        assert status.status == "completed", status
        return json.loads(status.result)

    def drain(self):
        self.process.terminate()

    def stop(self):
        self.channel.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path)
    yield server
    server.stop()


@pytest.fixture
def workers():
    started = []

    def start(address, worker_id, token=None):
        script = pathlib.Path(__file__).parent / "trip_worker.py"
        command = [sys.executable, str(script), address, worker_id] + ([token] if token else [])
        paths = os.pathsep.join([os.environ["DURABLE_TEST_STUBS"], str(script.parent)])
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths})
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
