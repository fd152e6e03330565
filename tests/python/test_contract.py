"""The contract by itself: fences, roles, reflection, health, a crowd."""

import json
import queue
import threading

import grpc
import pytest
from conftest import Server, eventually
from durable.v1 import worker_pb2 as pb
from durable.v1 import worker_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

ROLES = ["worker", "reader", "operator", "admin"]
ALLOWED = {
    "Session": {"worker", "admin"},
    "ClaimDurableTasks": {"worker", "admin"},
    "CompleteDurableTask": {"worker", "admin"},
    "FailDurableTask": {"worker", "admin"},
    "HeartbeatDurableTask": {"worker", "admin"},
    "ReleaseDurableTask": {"worker", "admin"},
    "SubscribeTaskNotifications": {"worker", "admin"},
    "CreateDurableWorkflow": {"operator", "admin"},
    "GetDurableWorkflowStatus": {"reader", "operator", "admin"},
}


@pytest.fixture
def guarded(tmp_path):
    server = Server(tmp_path, tokens=",".join(f"{role}:{role}:secret-{role}" for role in ROLES))
    yield server
    server.stop()


def call(stub, name, token):
    """The code that a call with nothing in it ends with."""
    metadata = [("authorization", f"Bearer {token}")] if token else []
    try:
        if name == "Session":
            for _ in stub.Session(iter([pb.WorkerMessage(hello=pb.Hello())]), metadata=metadata):
                pass
        elif name == "SubscribeTaskNotifications":
            next(stub.SubscribeTaskNotifications(pb.SubscribeTaskNotificationsRequest(), metadata=metadata))
        else:
            getattr(stub, name)(getattr(pb, f"{name}Request")(), metadata=metadata)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def test_every_method_is_for_its_roles_and_nobody_else(guarded):
    methods = pb.DESCRIPTOR.services_by_name["Worker"].methods
    assert {method.name for method in methods} == set(ALLOWED), "a new method needs its line"
    for name, roles in ALLOWED.items():
        for role in ROLES:
            code = call(guarded.stub, name, f"secret-{role}")
            refused = code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
            assert refused == (role not in roles), f"{role} at {name}: {code}"
        for token in (None, "nobody's"):
            assert call(guarded.stub, name, token) == grpc.StatusCode.UNAUTHENTICATED, name


def test_reflection_serves_the_contract(server):
    database = ProtoReflectionDescriptorDatabase(server.channel)
    assert "durable.v1.Worker" in database.get_services()
    file = database.FindFileContainingSymbol("durable.v1.Worker")
    assert {method.name for method in file.service[0].method} == set(ALLOWED)


def test_health_needs_no_token(guarded):
    stub = health_pb2_grpc.HealthStub(guarded.channel)
    for service in ("", "durable.v1.Worker"):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


def claim(server, worker_id, **fields):
    request = pb.ClaimDurableTasksRequest(worker_id=worker_id, activity_types=["fenced"], max_tasks=1, **fields)
    return eventually(lambda: list(server.stub.ClaimDurableTasks(request).tasks), "a task waits")[0]


def complete(server, lease, result):
    task = pb.CompletedTask(lease=lease, result=json.dumps(result).encode())
    answer = server.stub.CompleteDurableTask(pb.CompleteDurableTaskRequest(tasks=[task]))
    return answer.outcomes[0].outcome


def test_stale_fences_are_refused(server):
    request = {"activity_type": "fenced", "input": 1}
    run_id = server.start("durable.activity", request)
    first = claim(server, "zombie", lease_ms=1)
    second = claim(server, "heir", lease_ms=60_000)
    assert second.lease.task_id == first.lease.task_id and second.lease.token != first.lease.token

    assert complete(server, first.lease, "stale") == pb.OUTCOME_LEASE_LOST
    held = server.stub.HeartbeatDurableTask(pb.HeartbeatDurableTaskRequest(tasks=[pb.TaskHeartbeat(lease=first.lease), pb.TaskHeartbeat(lease=second.lease)]))
    assert list(held.held) == [False, True]
    assert complete(server, second.lease, "good") == pb.OUTCOME_RECORDED
    assert complete(server, second.lease, "good") == pb.OUTCOME_LEASE_LOST, "sent again, it is recognised"
    assert server.result(run_id) == "good"


def test_a_thousand_sessions_at_once(server):
    """Each is welcomed; then one task is for one of them, and the server still answers."""
    channels = [grpc.insecure_channel(server.address, options=[("grpc.use_local_subchannel_pool", 1)]) for _ in range(10)]
    sessions = []
    for number in range(1000):
        outgoing = queue.Queue()
        hello = pb.Hello(worker_id=f"crowd-{number}", activity_types=["crowded"], task_slots=1)
        outgoing.put(pb.WorkerMessage(hello=hello))
        stub = worker_pb2_grpc.WorkerStub(channels[number % len(channels)])
        sessions.append((outgoing, stub.Session(iter(outgoing.get, None))))
    for _, incoming in sessions:
        assert next(incoming).WhichOneof("message") == "welcome"
    run_id = server.start("durable.activity", {"activity_type": "crowded", "input": None})
    given = queue.Queue()

    def listen(outgoing, incoming):
        try:
            for message in incoming:
                if message.WhichOneof("message") == "task":
                    given.put((outgoing, message.task))
        except grpc.RpcError:
            pass

    listeners = [threading.Thread(target=listen, args=session, daemon=True) for session in sessions]
    for listener in listeners:
        listener.start()
    outgoing, task = given.get(timeout=60)
    outgoing.put(pb.WorkerMessage(task_done=pb.TaskDone(lease=task.lease, result=b"1")))
    assert server.result(run_id) == 1
    assert given.empty(), "one task is for one worker"
    for outgoing, _ in sessions:
        outgoing.put(None)
    for channel in channels:
        channel.close()


def test_killed_server_leaves_workers_their_tasks(tmp_path):
    database = f"sqlite:{tmp_path / 'durable.db'}"
    first = Server(tmp_path, db=database)
    run_id = first.start("durable.activity", {"activity_type": "fenced", "input": 1})
    task = claim(first, "holder", lease_ms=600_000)
    first.stop()
    second = Server(tmp_path, db=database)
    try:
        assert complete(second, task.lease, "kept") == pb.OUTCOME_RECORDED
        assert second.result(run_id) == "kept"
    finally:
        second.stop()
