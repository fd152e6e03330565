"""A worker for Durable in one file, written from `worker.proto` alone.

Activities are functions. Workflows are generators: they yield what they wait for and are sent what came of it.

    worker = Worker("127.0.0.1:7401", "python-1")

    @worker.activity("greet")
    def greet(task, name):
        return f"Hello, {name}!"

    @worker.workflow("trip")
    def trip(ctx, name):
        greeting = yield ctx.activity("greet", name)
        yield ctx.timer(1000)
        return greeting

    worker.run()
"""

import json
import queue
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
from durable.v1 import worker_pb2 as pb
from durable.v1 import worker_pb2_grpc

OPTIONS = [("grpc.max_receive_message_length", 64 << 20), ("grpc.keepalive_time_ms", 20_000)]


def dump(value):
    """JSON, or a failure: NaN and infinity, which Python would write, are none."""
    try:
        return json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise Failed("InvalidOutput", str(error), retryable=False) from error


def load(payload):
    return json.loads(payload) if payload else None


class Failed(Exception):
    """What an activity or a child failed with, as the workflow sees it; raise one to fail with a type of your own."""

    def __init__(self, type, message="", retryable=True):
        super().__init__(f"{type}: {message}")
        self.type, self.message, self.retryable = type, message, retryable

    @classmethod
    def of(cls, failure):
        return cls(failure.type, failure.message, not failure.non_retryable)


def failure(error):
    if isinstance(error, Failed):
        return pb.Failure(type=error.type, message=error.message, non_retryable=not error.retryable)
    return pb.Failure(type=type(error).__name__, message=str(error))


class Context:
    """What a workflow asks for. Each call answers a key that the workflow yields to wait for it."""

    def __init__(self):
        self.actions, self.queries, self.signals, self.count = [], {}, {}, 0

    def _next(self):
        self.count += 1
        return str(self.count)

    def activity(self, activity_type, input=None, **options):
        id = self._next()
        asked = pb.ScheduleActivity(activity_id=id, activity_type=activity_type, input=dump(input), options=pb.ActivityOptions(**options))
        self.actions.append(pb.Action(schedule_activity=asked))
        return ("activity", id)

    def timer(self, ms):
        id = self._next()
        self.actions.append(pb.Action(start_timer=pb.StartTimer(timer_id=id, duration_ms=ms)))
        return ("timer", id)

    def child(self, workflow_type, input=None):
        id = self._next()
        asked = pb.StartChild(child_id=id, workflow_type=workflow_type, input=dump(input))
        self.actions.append(pb.Action(start_child=asked))
        return ("child", id)

    def signal(self, name):
        return ("signal", name)


class Instance:
    """One run's workflow: items in, actions out."""

    def __init__(self, function):
        self.function, self.context, self.items = function, Context(), 0
        self.code = self.awaited = None
        self.results = {}

    def step(self, item):
        self.items += 1
        self.context.actions = []
        kind = item.WhichOneof("item")
        event = getattr(item, kind)
        if kind == "query_asked":
            return pb.Step(query=self.answer(event))
        if kind == "started":
            self.code = self.function(self.context, load(event.input))
            self.advance(None)
        elif kind == "cancel_requested":
            self.context.actions.append(pb.Action(cancel_workflow=pb.CancelWorkflow(reason=event.reason)))
        else:
            self.settle(kind, event)
        return pb.Step(actions=self.context.actions)

    def settle(self, kind, event):
        if kind == "signal_received":
            self.context.signals.setdefault(event.signal_type, []).append(load(event.payload))
        elif kind == "timer_fired":
            self.results["timer", event.timer_id] = None
        elif kind == "activity_completed":
            self.results["activity", event.activity_id] = load(event.result)
        elif kind == "activity_failed":
            self.results["activity", event.activity_id] = Failed.of(event.failure)
        elif kind == "child_completed":
            self.results["child", event.child_id] = load(event.result)
        elif kind == "child_failed":
            self.results["child", event.child_id] = Failed.of(event.failure)
        while self.awaited is not None and self.is_here(self.awaited):
            self.advance(self.take(self.awaited))

    def is_here(self, key):
        kind, name = key
        return bool(self.context.signals.get(name)) if kind == "signal" else key in self.results

    def take(self, key):
        kind, name = key
        return self.context.signals[name].pop(0) if kind == "signal" else self.results.pop(key)

    def advance(self, value):
        """Runs the code up to its next wait, or to its end."""
        try:
            try:
                if isinstance(value, Exception):
                    self.awaited = self.code.throw(value)
                else:
                    self.awaited = self.code.send(value)
            except StopIteration as end:
                self.awaited = None
                self.context.actions.append(pb.Action(complete_workflow=pb.CompleteWorkflow(result=dump(end.value))))
        except Exception as error:
            self.awaited = None
            self.context.actions.append(pb.Action(fail_workflow=pb.FailWorkflow(failure=failure(error))))

    def answer(self, asked):
        handler = self.context.queries.get(asked.name)
        if handler is None:
            return pb.QueryAnswer(failure=pb.Failure(type="QueryNotFound", message=f"no query {asked.name}"))
        try:
            return pb.QueryAnswer(result=dump(handler(load(asked.input))))
        except Exception as error:
            return pb.QueryAnswer(failure=failure(error))


class Running:
    """A task that runs here, as its activity sees it."""

    def __init__(self, worker, task):
        self.worker, self.task, self.cancelled = worker, task, threading.Event()

    def heartbeat(self, details):
        self.worker.send(heartbeat=pb.TaskHeartbeat(lease=self.task.lease, details=dump(details)))


class Worker:
    def __init__(self, address, worker_id, token=None, build="1", slots=8):
        self.address, self.worker_id, self.token = address, worker_id, token
        self.build, self.slots = build, slots
        self.activities, self.workflows, self.instances = {}, {}, {}
        self.running, self.unsettled = {}, {}
        self.outgoing, self.moving = None, False
        self.pool = ThreadPoolExecutor(max_workers=slots)
        self.leaving = threading.Event()

    def activity(self, activity_type):
        return lambda function: self.activities.setdefault(activity_type, function)

    def workflow(self, workflow_type):
        return lambda function: self.workflows.setdefault(workflow_type, function)

    def run(self):
        """Serves until `leave`; connects again whenever the connection is lost or the server says so."""
        wait = 0.05
        while not self.leaving.is_set():
            try:
                self.session()
                wait = 0.05
            except grpc.RpcError as error:
                if error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.INVALID_ARGUMENT):
                    raise
            time.sleep(wait * random.uniform(0.5, 1.5))
            wait = min(wait * 2, 2)

    def leave(self):
        self.leaving.set()
        self.send(goodbye=pb.Goodbye())
        if self.outgoing is not None:
            self.outgoing.put(None)

    def send(self, **message):
        if self.outgoing is not None:
            self.outgoing.put(pb.WorkerMessage(**message))

    def hello(self):
        return pb.Hello(
            worker_id=self.worker_id,
            build=self.build,
            activity_types=list(self.activities),
            workflow_types=[pb.WorkflowType(workflow_type=name) for name in self.workflows],
            task_slots=self.slots,
            holding=[running.task.lease for running in self.running.values()],
        )

    def session(self):
        self.outgoing, self.moving = queue.Queue(), False
        self.instances.clear()
        self.send(hello=self.hello())
        for done in list(self.unsettled.values()):
            self.send(task_done=done)
        metadata = [("authorization", f"Bearer {self.token}")] if self.token else []
        with grpc.insecure_channel(self.address, options=OPTIONS) as channel:
            stub = worker_pb2_grpc.WorkerStub(channel)
            for message in stub.Session(iter(self.outgoing.get, None), metadata=metadata):
                self.take(message)

    def take(self, message):
        kind = message.WhichOneof("message")
        if kind == "task":
            running = Running(self, message.task)
            self.running[message.task.lease.token, message.task.lease.task_id] = running
            self.pool.submit(self.execute, running)
        elif kind == "task_settled":
            lease = message.task_settled.lease
            self.unsettled.pop((lease.token, lease.task_id), None)
        elif kind == "cancel_task":
            lease = message.cancel_task.lease
            running = self.running.get((lease.token, lease.task_id))
            if running is not None:
                running.cancelled.set()
        elif kind == "activation":
            self.send(turn_answer=self.turn(message.activation))
        elif kind == "forget_run":
            self.instances.pop(message.forget_run.run_id, None)
        elif kind == "go_elsewhere":
            self.moving = True
        if self.moving and not self.running and not self.unsettled:
            self.outgoing.put(None)

    def execute(self, running):
        task = running.task
        done = pb.TaskDone(lease=task.lease)
        try:
            done.result = dump(self.activities[task.activity_type](running, load(task.input)))
        except Exception as error:
            if running.cancelled.is_set():
                done.cancelled = str(error)
            else:
                done.failure.CopyFrom(failure(error))
        key = task.lease.token, task.lease.task_id
        self.unsettled[key] = done  # Until the server says that it is stored.
        self.running.pop(key, None)
        self.send(task_done=done)

    def turn(self, activation):
        answer = pb.TurnAnswer(activation_id=activation.activation_id)
        run_id = activation.run.run_id
        instance = None if activation.from_start else self.instances.get(run_id)
        if activation.from_start:
            instance = Instance(self.workflows[activation.run.workflow_type])
            if not activation.ephemeral:
                self.instances[run_id] = instance
        elif instance is None or instance.items != activation.after_items:
            answer.not_kept.SetInParent()
            return answer
        answer.steps.steps.extend(instance.step(item) for item in activation.items)
        return answer
