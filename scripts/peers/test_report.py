"""python3 scripts/bench_peers.py --self-test"""
import json
import unittest

from peers import contestants, report, sweeps

TABLE = """cpu: avx512, 1 worker thread; numbers cpu-fma; 2 usable cores
peak of one core: 179.0 GFLOP/s (multiply-adds in registers)

network  batch      steps/s   examples/s    us/step   GFLOP/s  of_peak
S            1       6460.8         6461      154.8     0.984        -
S           64        216.2        13839     4624.5     2.108       2%
a line between that has more words than the table has columns in it
P2           8        185.0         1480     5404.2     3.137       3%

2 lanes: 1.97x the work of one (S at batch 64)
Each row is the best of many stretches of 20 ms: other work only ever makes one slower.
"""
JSON = """{"format": 1, "device": "cpu: avx512, 1 worker thread", "numbers": "cpu-fma", "cores": 2, "peak_gflops": 179.0, "rows": [
  {"network": "S", "batch": 1, "steps_per_second": 6460, "examples_per_second": 6460, "us_per_step": 154.8, "share": null},
  {"network": "S", "batch": 64, "steps_per_second": 216.2, "us_per_step": 4624.5, "gflops": 2.1, "share": 0.02},
  {"network": "P2", "batch": 8, "steps_per_second": 185.0, "us_per_step": 5404.2, "gflops": 3.137, "share": 0.03}],
  "side_by_side": {"network": "S", "batch": 64, "lanes": 2, "times": 1.97}}
"""
LSCPU = """Architecture:   x86_64
CPU(s):         2
Model name:     Some Processor
CPU family:     6
Model:          207
Stepping:       2
Flags:          fpu avx2 fma
"""


def row(network, batch, **us):
    return {"network": network, "batch": batch,
            "results": {who: {"us": t, "share": 1.0, "way": "fast" if who == "jax" else None} for who, t in us.items()}}


class ParseBench(unittest.TestCase):
    expected = {("S", 1): 154.8, ("S", 64): 4624.5, ("P2", 8): 5404.2}

    def test_table(self):
        self.assertEqual(report.parse_bench(TABLE), self.expected)
        self.assertEqual(report.parse_bench(JSON), self.expected)

    def test_table_with_more_columns_and_without_times(self):
        self.assertEqual(report.parse_bench("network batch lanes us/step peak\nS 64 1 95.5 0.4\n"), {("S", 64): 95.5})
        self.assertEqual(report.parse_bench("network batch steps/s share\nS 64 10000 40%\nS 64 8000 0.4\n"),
                         {("S", 64): 125.0})

    def test_json_in_all_arrangements(self):
        rows = [{"network": n, "batch": b, "us_per_step": t, "gflops": 1.5} for (n, b), t in self.expected.items()]
        nested = [{"network": "S", "rows": [{"batch": 1, "us_step": 154.8}, {"batch": 64, "us/step": 4624.5}]},
                  {"network": "P2", "rows": [{"batch": 8, "steps_per_second": 1e6 / 5404.2}]}]
        for text in (json.dumps(rows), json.dumps({"format": 1, "rows": rows}), json.dumps({"a": {"b": nested}}),
                     "\n".join(map(json.dumps, rows)), "note: [warm {up}\n" + json.dumps(rows, indent=2)):
            with self.subTest(text):
                self.assertEqual(report.parse_bench(text).keys(), self.expected.keys())
                for key, took in report.parse_bench(text).items():
                    self.assertAlmostEqual(took, self.expected[key])

    def test_nonsense_is_no_row(self):
        for text in ("", "network batch", "{}", "[1, 2", '{"network": "S", "batch": 1}', "S 64 1 2 3 4",
                     '{"network": "S", "batch": 1, "us_per_step": 0}', '{"network": "S", "batch": "x", "us": 3}',
                     '{"network": "S", "batch": 1, "us_per_step": NaN}', '{"network": 3, "batch": 1, "us": 3}',
                     "network batch us/step\nS many 3\nS 1 fast\nS 1 nan\nS 1 -3\n"):
            with self.subTest(text):
                self.assertEqual(report.parse_bench(text), {})


class Table(unittest.TestCase):
    def test_whole_table(self):
        rows = [row("S", 64, foldmill=95.04, jax=831.4, torch=2628), row("S", 4096, foldmill=6000.0, jax=60000.0),
                row("P3", 1, jax=47.25)]
        self.assertEqual(report.table(rows, ["foldmill", "jax", "torch"]),
                         "| network, batch | Foldmill | JAX | PyTorch |\n"
                         "| --- | ---: | ---: | ---: |\n"
                         "| S, 64 | **95.0** | 831 (8.7x) | 2,628 (28x) |\n"
                         "| S, 4,096 | **6,000** | 60,000 (10x) | - |\n"
                         "| P3, 1 | - | 47.2 | - |")
        self.assertEqual(report.ways(rows, ["foldmill", "jax", "torch"]), "- JAX: fast: S 64, S 4,096, P3 1")

    def test_disturbed_figures_are_marked(self):
        rows = [row("S", 1, foldmill=10.0, jax=50.0)]
        self.assertFalse(report.disturbed(rows))
        rows[0]["results"]["jax"]["share"] = 0.5
        self.assertTrue(report.disturbed(rows))
        self.assertIn("50.0\\* (5.0x)", report.table(rows, ["foldmill", "jax"]))

    def test_rounds(self):
        self.assertEqual(report.summarise([[5.0, 3.0], [9.0], [4.0, 8.0]]), 4.0)

    def test_machine(self):
        self.assertEqual(report.machine_line(LSCPU),
                         "Some Processor (family/model/stepping 6/207/2), 2 CPUs, avx2 yes, fma yes, avx512f no")


class Guards(unittest.TestCase):
    def test_losses_come_from_the_history(self):
        def foldmill(arguments, cwd):
            self.assertEqual(arguments[:2], ["run", "sweep.yaml"])
            history = [{"epoch": 1, "loss": 0.7}, {"epoch": 2, "loss": 0.2}]
            return json.dumps({"trials": [{"runs": [{"history": history}]}]})

        for net in ("S", "P2", "P3"):
            self.assertEqual(sweeps.losses(net, foldmill), (0.7, 0.2))

    def test_a_program_that_is_not_there_is_missing(self):
        self.assertTrue(contestants.Foldmill("/nonexistent/foldmill", 0).missing)


if __name__ == "__main__":
    unittest.main()
