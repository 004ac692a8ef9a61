"""One rival in a process of its own on one core: worker.py RIVAL CORE. Reads requests and writes answers, both one
JSON object a line; everything that libraries print goes to stderr.

  (at start)                                        {"versions": {...}} or {"missing": why}
  {"do": "prepare", "net", "batch", "seconds"}      {"way", "tried": {way: us or why not}, "loss": [before, after]}
  {"do": "measure", "seconds"}                      {"us": [microseconds a step, by chunk], "share": CPU time / time}
  {"do": "finish"}                                  {"loss": now}
or {"error": why}. A way of computing whose first loss is not the reference's, or whose loss does not fall, is out.
"""
import gc
import importlib
import json
import math
import os
import sys
import time

RIVALS = {"jax": "rival_jax", "keras_tensorflow": "rival_keras", "keras_jax": "rival_keras", "torch": "rival_torch"}


def least_steps(batch):
    """Before the loss is looked at."""
    return 50 if batch <= 128 else 12


def one_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"[:200]


def time_chunks(run, seconds, least=0):
    """(steps, seconds) of chunk after chunk; the first one warms up and is left out."""
    if hasattr(run, "slice"):
        return run.slice(seconds, least)
    chunks, steps, ends = [], 0, None
    while True:
        batches = run.deal()
        began = time.perf_counter()
        run.chunk(batches)
        now = time.perf_counter()
        steps += run.steps
        if ends is None:
            ends = now + seconds
            continue
        chunks.append((run.steps, now - began))
        if now >= ends and steps >= least:
            return chunks


def per_step(chunks):
    return [1e6 * seconds / steps for steps, seconds in chunks]


class Worker:
    def __init__(self, module):
        self.nets = importlib.import_module("peers.nets")
        self.module, self.name, self.rival, self.run = module, None, None, None

    def load(self, name):
        if self.name == name:
            return
        self.rival = None
        gc.collect()
        net = self.net = self.nets.NETS[name]
        data = self.nets.make_data(net)
        x = self.nets.windows(net, data, data.evaluated)
        self.reference = self.nets.reference_loss(net, self.nets.make_weights(net), x, data.labels[data.evaluated])
        self.rival, self.name = self.module.Rival(net, data), name

    def attempt(self, way, batch, seconds):
        """(run, losses, best microseconds); raises when the network is not the one that was asked for."""
        run = self.rival.start(way, batch)
        if run.parameters() != self.net.parameters:
            raise ValueError(f"{run.parameters()} parameters instead of {self.net.parameters}")
        before = run.loss()
        if not abs(before - self.reference) < 1e-3:
            raise ValueError(f"its first loss is {before:.5f}, the reference's {self.reference:.5f}")
        best = min(per_step(time_chunks(run, seconds, least_steps(batch))))
        after = run.loss()
        if not (math.isfinite(after) and after < 0.99 * before):
            raise ValueError(f"its loss did not fall: {before:.5f}, then {after:.5f}")
        return run, [before, after], best

    def prepare(self, request):
        self.load(request["net"])
        self.run, best, answer, tried = None, math.inf, None, {}
        for way in self.rival.ways(request["batch"]):
            try:
                run, losses, took = self.attempt(way, request["batch"], request["seconds"])
            except Exception as error:  # whatever a library raises: the other ways may work
                tried[way] = one_line(error)
                continue
            tried[way] = took
            if took < best:
                self.run, best, answer = run, took, {"way": way, "loss": losses}
            run = None
        if not answer:
            return {"error": "; ".join(f"{way}: {why}" for way, why in tried.items())}
        self.before = answer["loss"][0]
        return answer | {"tried": tried}

    def measure(self, request):
        cpu, began = time.process_time(), time.perf_counter()
        chunks = time_chunks(self.run, request["seconds"])
        share = (time.process_time() - cpu) / (time.perf_counter() - began)
        return {"us": per_step(chunks), "share": share}

    def finish(self, request):
        loss = self.run.loss()
        self.run = None
        gc.collect()
        if not (math.isfinite(loss) and loss < 0.99 * self.before):
            return {"error": f"after all steps its loss is {loss:.5f}, before the first it was {self.before:.5f}"}
        return {"loss": loss}


def main():
    rival, core = sys.argv[1], int(sys.argv[2])
    os.sched_setaffinity(0, {core})  # before the libraries start their threads
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        module = importlib.import_module("peers." + RIVALS[rival])
    except Exception as error:
        print(json.dumps({"missing": one_line(error)}), file=answers)
        return
    worker = Worker(module)
    print(json.dumps({"versions": module.VERSIONS}), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(worker, request["do"])(request)
        except Exception as error:
            answer = {"error": one_line(error)}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    main()
