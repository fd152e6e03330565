"""A Python worker, written from the contract alone, hosts activities and workflows."""

import pathlib
import signal

import pytest
from conftest import Server, eventually


def test_workflow_with_timer_signal_child_and_query(server, workers):
    workers(server.address, "one")
    run_id = server.start("trip", {"name": "Ann"})
    eventually(lambda: asked(server, run_id) == "slept", "it waits for its signal")
    server.signal(run_id, "go", 21)
    result = server.result(run_id)
    assert result["greeting"] == "Hello, Ann!"
    assert result["child"] == 42
    assert result["seen"] == ["started", "greeted", "slept", "signalled"]
    assert server.query(run_id, "where") == "signalled", "a run that has ended can be asked too"


def asked(server, run_id):
    try:
        return server.query(run_id, "where")
    except RuntimeError:
        return None  # It has not begun, or its worker has not connected yet.


def test_failing_activity_is_tried_again(server, workers):
    workers(server.address, "one")
    assert server.result(server.start("patient")) == 3


def test_result_that_is_no_json_fails_its_activity_alone(server, workers):
    worker = workers(server.address, "one")
    failed = server.ended(server.start("divide", [1, 0]))
    assert (failed.status, failed.error.type) == ("failed", "InvalidOutput"), failed
    failed = server.ended(server.start("endless_number"))
    assert (failed.status, failed.error.type) == ("failed", "InvalidOutput"), failed
    assert server.result(server.start("divide", [1, 2])) == 0.5
    assert worker.poll() is None


def test_query_that_raises_is_answered_by_its_error(server, workers):
    worker = workers(server.address, "one")
    run_id = server.start("trip", {"name": "Ann"})
    eventually(lambda: asked(server, run_id) == "slept", "it waits for its signal")
    with pytest.raises(RuntimeError, match="IndexError"):
        server.query(run_id, "stop", 7)
    assert server.query(run_id, "stop", 0) == "started"
    assert worker.poll() is None


def test_worker_killed_in_mid_turn_goes_on_elsewhere(server, workers, tmp_path):
    mark = tmp_path / "killed"
    victim = workers(server.address, "victim")
    run_id = server.start("deadly", str(mark))
    assert victim.wait(timeout=60) == -signal.SIGKILL
    assert mark.read_text() == "victim"
    assert server.status(run_id).status == "running", "nothing of the turn was committed"
    workers(server.address, "heir")
    assert server.result(run_id) == "survived"


def test_worker_killed_with_an_activity_loses_it_to_another(server, workers, tmp_path):
    files = {name: str(tmp_path / name) for name in ("began", "stopped")}
    victim = workers(server.address, "victim")
    run_id = server.start("run_endless", files)
    began = pathlib.Path(files["began"])
    eventually(lambda: began.exists() and began.read_text() == "victim", "it runs")
    victim.kill()
    workers(server.address, "heir")
    eventually(lambda: began.read_text() == "heir", "its task is run by the other")
    server.cancel(run_id)
    assert server.ended(run_id).status == "cancelled"


def test_cancelled_run_stops_its_activity(server, workers, tmp_path):
    files = {name: str(tmp_path / name) for name in ("began", "stopped")}
    workers(server.address, "one")
    run_id = server.start("run_endless", files)
    eventually(pathlib.Path(files["began"]).exists, "it runs")
    server.cancel(run_id)
    assert server.ended(run_id).status == "cancelled"
    eventually(pathlib.Path(files["stopped"]).exists, "the activity was told to stop")


def test_polite_worker_leaves_its_task_to_another_at_once(server, workers, tmp_path):
    files = {name: str(tmp_path / name) for name in ("began", "stopped")}
    leaver = workers(server.address, "leaver")
    server.start("run_endless", files)
    began = pathlib.Path(files["began"])
    eventually(lambda: began.exists() and began.read_text() == "leaver", "it runs")
    leaver.terminate()
    workers(server.address, "heir")
    eventually(lambda: began.read_text() == "heir", "its task is run by the other")


def test_draining_server_ends_well_and_its_successor_goes_on(workers, tmp_path):
    database = f"sqlite:{tmp_path / 'durable.db'}"
    first = Server(tmp_path, db=database)
    worker = workers(first.address, "one")
    run_id = first.start("trip", {"name": "Ann"})
    eventually(lambda: asked(first, run_id) == "slept", "it waits for its signal")
    first.drain()
    assert first.process.wait(timeout=60) == 0
    first.stop()
    worker.kill()
    second = Server(tmp_path, db=database)
    try:
        workers(second.address, "two")
        second.signal(run_id, "go", 1)
        assert second.result(run_id)["child"] == 2
    finally:
        second.stop()


def test_many_runs_on_several_workers(server, workers):
    for number in range(3):
        workers(server.address, f"worker-{number}")
    runs = [server.start("trip", {"name": str(number), "ms": 1}) for number in range(50)]
    for number, run_id in enumerate(runs):
        server.signal(run_id, "go", number)
    for number, run_id in enumerate(runs):
        result = server.result(run_id)
        assert (result["greeting"], result["child"]) == (f"Hello, {number}!", number * 2)
