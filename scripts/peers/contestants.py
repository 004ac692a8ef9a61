"""Those who take part: rivals in worker processes, Foldmill's own bench, and the study's prototype.

All have: versions (a dict), missing (why it takes no part, or None), prepare(net, batch), measure(seconds) ->
(chunks in us a step, share of the core), finish(); these raise Failed with a reason in one line. All run on `core`.
"""
import json
import math
import os
import re
import resource
import selectors
import subprocess
import sys
import tempfile
import time

from peers import report, sweeps

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PREPARING, ANSWERING = 900, 120  # seconds, beyond what was asked for


class Failed(Exception):
    pass


def one_core_environment(backend=None):
    """Every library's own way of saying: one thread, no GPU, no chatter."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
                         "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "TORCHINDUCTOR_COMPILE_THREADS"), "1")
    more = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
            "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    if backend:
        more["KERAS_BACKEND"] = backend
    return os.environ | one | more


class Rival:
    def __init__(self, name, core, trial):
        self.name, self.trial, self.missing, self.versions = name, trial, None, {}
        self.log = tempfile.TemporaryFile()
        backend = name.partition("_")[2]
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "worker.py"), name, str(core)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env=one_core_environment(backend))
        self.waiting, self.left = selectors.DefaultSelector(), b""
        self.waiting.register(self.process.stdout, selectors.EVENT_READ)
        try:
            answer = self.read(PREPARING)
            self.missing, self.versions = answer.get("missing"), answer.get("versions", {})
        except Failed as error:
            self.missing = str(error)

    def read(self, seconds):
        ends = time.monotonic() + seconds
        while b"\n" not in self.left:
            if not self.waiting.select(max(0, ends - time.monotonic())):
                self.close()
                raise Failed(f"no answer within {seconds:.0f} seconds")
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                raise Failed(f"its process ended with status {self.process.wait()}{self.last_words()}")
            self.left += more
        line, _, self.left = self.left.partition(b"\n")
        return json.loads(line)

    def last_words(self):
        self.log.seek(max(0, self.log.seek(0, 2) - 4000))
        lines = [line.strip() for line in self.log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return f": {lines[-1][:200]}" if lines else ""

    def ask(self, patience, **request):
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Failed(f"its process is gone{self.last_words()}") from error
        answer = self.read(patience)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def prepare(self, net, batch):
        return self.ask(PREPARING, do="prepare", net=net, batch=batch, seconds=self.trial)

    def measure(self, seconds):
        answer = self.ask(seconds + ANSWERING, do="measure", seconds=seconds)
        return answer["us"], answer["share"]

    def finish(self):
        self.ask(ANSWERING, do="finish")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def run_on(core, arguments, seconds, **options):
    """(what it printed, its CPU time / time)."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL,
                              preexec_fn=lambda: os.sched_setaffinity(0, {core}), **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(str(error)) from error
    took = time.perf_counter() - began
    if done.returncode:
        words = done.stderr.strip().splitlines()
        raise Failed(f"status {done.returncode}{': ' + words[-1] if words else ''}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / took


class Foldmill:
    """`foldmill bench`, one row at a time where it can (--network, --batch), else all rows, of which one is taken."""

    def __init__(self, program, core):
        self.program, self.core, self.missing, self.versions = program, core, None, {}
        self.learnt, self.key = set(), None
        try:
            help_text, _ = run_on(core, [program, "bench", "--help"], 60)
            version, _ = run_on(core, [program, "--version"], 60)
            devices, _ = run_on(core, [program, "devices"], 60)
        except Failed as error:
            self.missing = f"{error} (run make first)"
            return
        # Options are named at the beginning of a line, behind at most a short one.
        self.options = set(re.findall(r"^\s+(?:-\w, )?(--[\w-]+)", help_text, re.M))
        self.versions = {"foldmill": (re.findall(r"\d+(?:\.\d+)+\S*", version) or ["unknown"])[0]}
        self.device = next((line.split(None, 1)[1] for line in devices.splitlines() if line.startswith("cpu ")), "")

    def prepare(self, net, batch):
        self.key = net, batch
        if net not in self.learnt:
            try:
                before, after = sweeps.losses(net, lambda a, **o: run_on(self.core, [self.program] + a, 300, **o)[0])
            except (OSError, LookupError, TypeError, ValueError) as error:
                raise Failed(f"foldmill run does not tell its losses: {error!r}") from error
            if not (math.isfinite(after) and after < before):
                raise Failed(f"the loss of {net} did not fall: {before}, then {after}")
            self.learnt.add(net)
        if not self.alone() and self.key not in self.row(1)[0]:
            raise Failed("foldmill bench has no such row")

    def alone(self):
        return {"--network", "--batch"} <= self.options

    def row(self, seconds):
        arguments = [self.program, "bench", "--device", "cpu", "--seconds", f"{seconds:g}"]
        if self.alone():
            arguments += ["--network", self.key[0], "--batch", str(self.key[1])]
        if "--json" in self.options:
            arguments.append("--json")
        printed, share = run_on(self.core, arguments, seconds + 300)
        return report.parse_bench(printed), share

    def measure(self, seconds):
        rows, share = self.row(seconds if self.alone() else 7 * seconds)
        if self.key not in rows:
            raise Failed("foldmill bench printed no such row")
        return [rows[self.key]], share

    def finish(self):
        pass

    def close(self):
        pass


class Study:
    """The prototype of the kernel study, where it lies beside the repository. Its own `check` vouches for it."""

    def __init__(self, core):
        self.core, self.versions, self.missing, self.key = core, {}, None, None
        source = os.path.join(ROOT, "..", "shared", "prototypes", "cpu_kernels")
        folder = os.path.join(ROOT, "build", "peers")
        self.program = os.path.join(folder, "cpu_kernels")
        if not os.path.exists(os.path.join(source, "build.sh")):
            self.missing = "../shared/prototypes/cpu_kernels is not there"
            return
        try:
            if not os.path.exists(self.program):
                os.makedirs(folder, exist_ok=True)
                run_on(core, ["sh", "-e", os.path.join(source, "build.sh")], 600, env=os.environ | {"OUT": folder})
            line = report.machine_line()
            self.isa = "0" if "avx512f yes" in line else "1" if "avx2 yes, fma yes" in line else "2"
        except (Failed, OSError) as error:
            self.missing = str(error)

    def run(self, steps):
        """Runs ten chunks and gives the best, in us a step."""
        net, batch = self.key
        printed, share = run_on(self.core, [self.program, "bench", net[-1], str(batch), self.isa, str(steps)], 300)
        found = re.search(r": ([\d.]+) us/step", printed)
        if not found:
            raise Failed("the prototype printed no time")
        return float(found[1]), share

    def prepare(self, net, batch):
        self.key = net, batch
        self.guess = self.run(10)[0]

    def measure(self, seconds):
        took, share = self.run(max(10, int(seconds * 1e6 / self.guess)))
        return [took], share

    def finish(self):
        pass

    def close(self):
        pass
