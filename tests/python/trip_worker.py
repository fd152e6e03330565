"""The worker that the suite starts, kills and starts again: python trip_worker.py ADDRESS WORKER_ID [TOKEN]."""

import os
import signal
import sys
import threading
import time

from durable_worker import Failed, Worker


def main():
    address, worker_id = sys.argv[1:3]
    worker = Worker(address, worker_id, token=sys.argv[3] if len(sys.argv) > 3 else None)

    @worker.activity("greet")
    def greet(task, name):
        return f"Hello, {name}!"

    @worker.activity("moody")
    def moody(task, input):
        if task.task.lease.attempt < 3:
            raise Failed("Moody", "not in the mood")
        return task.task.lease.attempt

    @worker.activity("ratio")
    def ratio(task, parts):
        """What Python calls a number, and JSON does not."""
        return float("nan") if parts[1] == 0 else parts[0] / parts[1]

    @worker.activity("endless")
    def endless(task, input):
        """Runs until it is told to stop, and says so to the file it was given."""
        with open(input["began"], "w") as began:
            began.write(worker_id)
        while not task.cancelled.wait(0.05):
            task.heartbeat({"alive": True})
        with open(input["stopped"], "w") as stopped:
            stopped.write(worker_id)
        raise Failed("Stopped")

    @worker.workflow("trip")
    def trip(ctx, input):
        seen = ["started"]
        ctx.queries["where"] = lambda _: seen[-1]
        ctx.queries["stop"] = lambda at: seen[at]
        greeting = yield ctx.activity("greet", input["name"])
        seen.append("greeted")
        yield ctx.timer(input.get("ms", 20))
        seen.append("slept")
        go = yield ctx.signal("go")
        seen.append("signalled")
        child = yield ctx.child("double", go)
        return {"greeting": greeting, "child": child, "seen": seen}

    @worker.workflow("double")
    def double(ctx, number):
        yield ctx.timer(1)
        return number * 2

    @worker.workflow("patient")
    def patient(ctx, input):
        attempt = yield ctx.activity("moody", None, max_attempts=5, initial_interval_ms=1)
        return attempt

    @worker.workflow("divide")
    def divide(ctx, parts):
        ratio = yield ctx.activity("ratio", parts)
        return ratio

    @worker.workflow("endless_number")
    def endless_number(ctx, input):
        yield ctx.timer(1)
        return float("inf")

    @worker.workflow("run_endless")
    def run_endless(ctx, input):
        yield ctx.activity("endless", input, heartbeat_timeout_ms=5000)

    @worker.workflow("deadly")
    def deadly(ctx, path):
        """Kills its worker in the middle of a turn, once: the code is the same for all, the world is not, which is what the test needs."""
        yield ctx.timer(1)
        if not os.path.exists(path):
            with open(path, "w") as file:
                file.write(worker_id)
            os.kill(os.getpid(), signal.SIGKILL)
        yield ctx.timer(1)
        return "survived"

    def leave(*_):
        threading.Thread(target=worker.leave).start()

    signal.signal(signal.SIGTERM, leave)
    serving = threading.Thread(target=worker.run)
    serving.start()
    while serving.is_alive():
        time.sleep(0.05)


main()
