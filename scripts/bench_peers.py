#!/usr/bin/env python3
"""Compares Foldmill's training steps with those of JAX, Keras and PyTorch on one core of this machine.

For each row (a network at a batch size) every contestant first finds its best way of computing, and must show that
it trains the right network: the first loss equals a NumPy reference's and the loss falls. Then they take turns, for
several rounds; a round's figure is the best chunk of its slice of time (Foldmill's is what its bench prints), a
row's the median over rounds. Prints Markdown; progress goes to stderr. What is not installed is left out.

    make && pip install -r scripts/bench_peers.txt && python3 scripts/bench_peers.py
"""
import argparse
import datetime
import json
import os
import platform
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from peers import contestants, report

BATCHES = {"S": [1, 8, 64, 128], "P2": [1, 8, 64], "P3": [1, 8, 64]}
WORKERS = {"jax": ["jax"], "keras": ["keras_tensorflow", "keras_jax"], "torch": ["torch"]}
BUSY = 0.5  # load average above which a warning is printed


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--quick", action="store_true", help="only S and P3 at batch 64, three rounds")
    add("--large", action="store_true", help="also S at batch 4096")
    add("--networks", help="only these, as S,P2")
    add("--batches", help="at these batch sizes, as 1,64")
    add("--only", help="only these contestants: foldmill,jax,keras,torch,study")
    add("--rounds", type=int, help="turns of each contestant; default 5")
    add("--slice", type=float, default=1.0, help="seconds of a turn; default 1")
    add("--trial", type=float, default=0.4, help="seconds for trying one way of computing; default 0.4")
    add("--core", type=int, help="the core that all run on; default the last one that may be used")
    add("--foldmill", default=os.path.join(contestants.ROOT, "build", "foldmill"), help="the program")
    add("--save", metavar="FILE", help="write every measurement as JSON")
    add("--self-test", action="store_true", help="test reading and printing, measure nothing")
    a = parser.parse_args()
    a.rounds = a.rounds or (3 if a.quick else 5)
    a.only = a.only.split(",") if a.only else list(report.TITLES)
    cores = sorted(os.sched_getaffinity(0))
    a.core = cores[-1] if a.core is None else a.core
    if unknown := set(a.only) - set(report.TITLES):
        parser.error(f"--only: there is no {sorted(unknown)[0]}; there are {', '.join(report.TITLES)}")
    if a.core not in cores:
        parser.error(f"--core: {a.core} is not among the cores that may be used: {cores}")
    if a.rounds < 1 or not 0 < a.slice <= 600 or not 0 < a.trial <= 600:
        parser.error("--rounds must be at least 1, --slice and --trial more than 0 and at most 600 seconds")
    a.foldmill = os.path.abspath(a.foldmill)
    a.rows = wanted_rows(a, parser)
    return a


def wanted_rows(a, parser):
    networks = a.networks.split(",") if a.networks else ["S", "P3"] if a.quick else list(BATCHES)
    if unknown := [n for n in networks if n not in BATCHES]:
        parser.error(f"--networks: there is no {unknown[0]}; there are {', '.join(BATCHES)}")
    if a.batches:
        try:
            batches = [int(b) for b in a.batches.split(",")]
        except ValueError:
            batches = [0]
        if min(batches) < 1 or max(batches) > 4096:
            parser.error("--batches: numbers from 1 to 4096 with commas between them")
        return [(n, b) for n in networks for b in batches]
    rows = [(n, b) for n in networks for b in ([64] if a.quick else BATCHES[n])]
    return rows + ([("S", 4096)] if a.large and "S" in networks else [])


def gather(a):
    """{name: contestant} of those that are there; says in one line why another is not."""
    there = {}
    for who in a.only:
        for name in WORKERS.get(who, [who]):
            if who == "foldmill":
                one = contestants.Foldmill(a.foldmill, a.core)
            elif who == "study":
                one = contestants.Study(a.core)
            else:
                one = contestants.Rival(name, a.core, a.trial)
            if one.missing:
                say(f"skipped: {name}: {one.missing}")
                one.close()
            else:
                there[name] = one
    return there


def attempt(name, row, action, *arguments):
    """The action's result, or None when the contestant is out of this row."""
    try:
        return action(*arguments) or {}
    except contestants.Failed as error:
        say(f"left out: {name} on {row[0]} at batch {row[1]}: {error}")
        return None


def prepare_row(there, row):
    ready = {}
    for name, one in there.items():
        say(f"{row[0]}, batch {row[1]}: preparing {name}")
        answer = attempt(name, row, one.prepare, *row)
        if answer is not None:
            ready[name] = answer
    return ready


def measure_row(a, there, row):
    """{name: {"us", "share", "way", "rounds", ...}}, after all rounds and the last look at the losses."""
    ready = prepare_row(there, row)
    rounds, shares = {name: [] for name in ready}, {name: [] for name in ready}
    for number in range(a.rounds):
        say(f"{row[0]}, batch {row[1]}: round {number + 1} of {a.rounds}")
        for name in list(rounds):
            answer = attempt(name, row, there[name].measure, a.slice)
            if not answer:
                del rounds[name]
                continue
            rounds[name].append(answer[0])
            shares[name].append(answer[1])
    results = {}
    for name in rounds:
        if attempt(name, row, there[name].finish) is None:
            continue
        share = sum(shares[name]) / len(shares[name])
        results[name] = ready[name] | {"us": report.summarise(rounds[name]), "share": share, "rounds": rounds[name]}
    return results


def best_of_keras(results):
    """Keras's backends run as two contestants; the table shows the faster one."""
    backends = {name: results[name] for name in WORKERS["keras"] if name in results}
    rest = {name: result for name, result in results.items() if name not in backends}
    if backends:
        name = min(backends, key=lambda n: backends[n]["us"])
        backend = name.partition("_")[2]
        rest["keras"] = backends[name] | {"way": f"{backend}, {backends[name]['way']}"}
    return rest


def versions_line(there):
    versions = {"python": platform.python_version()}
    for one in there.values():
        versions |= one.versions
    try:
        import numpy
        versions["numpy"] = numpy.__version__
    except ImportError:
        pass
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def print_report(a, there, rows, loads):
    who = [w for w in report.TITLES if any(w in row["results"] for row in rows)]
    engine = getattr(there.get("foldmill"), "device", "")
    print("Microseconds a training step on one core, less is better; in brackets: times Foldmill's.\n")
    print(report.table(rows, who) + "\n")
    print(report.ways(rows, who) + "\n" if report.ways(rows, who) else "", end="")
    print(f"- Machine: {report.machine_line()}")
    print(f"- Versions: {versions_line(there)}" + (f"; Foldmill's device: {engine}" if engine else ""))
    print(f"- Measured {datetime.date.today().isoformat()}: {a.rounds} rounds of {a.slice:g} s in turn on core {a.core}; "
          f"best chunk of a round, median over rounds; load average {loads[0]:.2f} before and {loads[1]:.2f} after")
    if report.disturbed(rows):
        print("- \\* something else ran on the core meanwhile: the figure is an upper bound, measure again on a quiet machine")


def self_test():
    from peers import test_report
    suite = unittest.defaultTestLoader.loadTestsFromModule(test_report)
    return 0 if unittest.TextTestRunner(stream=sys.stderr).run(suite).wasSuccessful() else 1


def main():
    a = read_arguments()
    if a.self_test:
        return self_test()
    before = os.getloadavg()[0]
    if before > BUSY:
        say(f"warning: the load average is {before:.2f}: this machine is busy, and figures will be too high")
    there, rows = gather(a), []
    try:
        for row in a.rows:
            results = measure_row(a, there, row)
            rows.append({"network": row[0], "batch": row[1], "results": best_of_keras(results), "all": results})
    except KeyboardInterrupt:
        say("interrupted; this is what was measured until now")
    finally:
        for one in there.values():
            one.close()
    if not any(row["results"] for row in rows):
        say("nothing was measured")
        return 1
    print_report(a, there, rows, (before, os.getloadavg()[0]))
    if a.save:
        with open(a.save, "w") as file:
            json.dump({"machine": report.machine_line(), "versions": versions_line(there), "rows": rows}, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
