"""cpu.py, with programs that print what the real ones printed."""
import contextlib
import io
import json
import os
import pathlib
import stat
import tempfile
import unittest

import cpu

# A Baton whose prefill makes 10 tokens/s a prompt token, and whose decode 100 a sequence.
BATON = """
import json, sys
flag = dict(zip(sys.argv[3:], sys.argv[4:]))
assert sys.argv[1:3] == ["bench", "engine"]
probe = {"flops": 5e11, "read_bytes_per_s": 5e10}
print(json.dumps({
    "prefill": [{"prompt": int(n), "tokens_per_s": 10.0 * int(n), "peak_share": 0.5}
                for n in flag["--prompt"].split(",")],
    "decode": [{"batch": int(n), "tokens_per_s": 100.0 * int(n), "bandwidth_share": 0.25}
               for n in flag["--decode-batch"].split(",")],
    "probe": {"start": probe, "end": probe, "steady": "--isa" not in flag},
    "isa": flag.get("--isa", "amx"), "threads": int(flag["--threads"])}))
"""
# Half as fast; with --repack 0 a tenth.
LLAMA_BENCH = """
import json, sys
flag = dict(zip(sys.argv[1:], sys.argv[2:]))
part = 0.1 if "--repack" in flag else 0.5
if flag["-n"] == "0":
    print(json.dumps([{"n_prompt": int(n), "samples_ts": [10 * part * int(n)] * 3}
                      for n in flag["-p"].split(",")]))
else:
    assert flag["-p"] == "0" and flag["-d"] in ("16", "1008")
    print(json.dumps([{"n_gen": 32, "samples_ts": [90 * part, 100 * part, 120 * part]}]))
"""
LLAMA_BATCHED_BENCH = """
import json, sys
flag = dict(zip(sys.argv[1:], sys.argv[2:]))
print("a line before")
part = 0.1 if "--no-repack" in sys.argv else 0.5
for n in flag["-npl"].split(","):
    print(json.dumps({"pl": int(n), "speed_tg": 100 * part * int(n)}))
"""
# In place of a Python with OpenVINO: as fast as Baton.
PYTHON = """
import os, sys
assert os.path.basename(sys.argv[1]) == "openvino_rates.py" and sys.argv[2:4] == ["other.gguf", "2"]
print("a warning")
print([10.0 * int(n) for n in sys.argv[5].split(",")] if sys.argv[4] == "prefill"
      else [100.0 * int(n) for n in sys.argv[6].split(",")])
"""
BROKEN = """
import sys
print("one\\ncannot open the model", file=sys.stderr)
sys.exit(3)
"""


class BenchCpu(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, name, source):
        path = self.folder / name
        path.write_text("#!/usr/bin/env python3\n" + source)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def run_bench(self, *flags, baton=BATON, llama=LLAMA_BENCH):
        out, err = io.StringIO(), io.StringIO()
        command = ["--baton", self.program("baton", baton), "--model", "m.gguf", "--threads", "2"]
        if llama:
            command += ["--llama-bench", self.program("llama-bench", llama), "--llama-batched-bench",
                        self.program("llama-batched-bench", LLAMA_BATCHED_BENCH)]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = cpu.main([*command, *flags])
            except SystemExit as end:
                status = end.code
        return status, out.getvalue(), err.getvalue()

    def test_every_row_has_both_and_their_ratio(self):
        status, out, err = self.run_bench("--runs", "2", "--json")
        self.assertEqual(status, 0, err)
        result = json.loads(out)
        self.assertEqual([row["row"] for row in result["rows"]], [
            "prefill 512", "prefill 2048", "decode, batch 1, context 32",
            "decode, batch 1, context 1024", "decode, batch 8, context 256",
            "decode, batch 16, context 256", "decode, batch 32, context 256"])
        for row in result["rows"]:
            self.assertEqual(row["peers"]["llama.cpp"]["ratio"]["samples"], [2, 2])
        self.assertEqual(result["rows"][0]["baton"]["median"], 5120)
        self.assertEqual(result["rows"][0]["roofline_share"]["median"], 0.5)
        self.assertEqual(result["rows"][4]["roofline_share"]["median"], 0.25)
        self.assertEqual(result["probe"]["starts"], 8)
        self.assertEqual(result["probe"]["unsteady"], 0)

    def test_the_first_of_a_run_alternates(self):
        _, _, err = self.run_bench("--runs", "2")
        order = [line.split("  ")[2] for line in err.splitlines() if "context 32" in line][:4]
        self.assertEqual(order, ["Baton", "llama.cpp", "llama.cpp", "Baton"])

    def test_the_table_has_medians_and_spread(self):
        _, out, _ = self.run_bench("--runs", "1")
        self.assertIn("| decode, batch 8, context 256 | 800 (800-800) | 25 % | 400 (400-400) | "
                      "2.00 (2.00-2.00) × | 2.5 × |", out)
        self.assertIn("0 of 4 starts not steady", out)

    def test_levels_lower_both(self):
        status, out, err = self.run_bench("--runs", "1", "--level", "avx512,avx2", "--json")
        self.assertEqual(status, 0, err)
        result = json.loads(out)
        self.assertEqual([row["level"] for row in result["rows"]], ["avx512"] * 3 + ["avx2"] * 3)
        self.assertEqual(result["rows"][5]["peers"]["llama.cpp"]["ratio"]["samples"], [10])
        self.assertEqual(result["probe"]["unsteady"], 6)

    def test_a_second_peer_has_columns_of_its_own(self):
        flags = ["--openvino", self.program("python", PYTHON), "--openvino-model", "other.gguf"]
        status, out, err = self.run_bench("--runs", "1", *flags)
        self.assertEqual(status, 0, err)
        self.assertIn("| prefill 2048 | 20,480 (20,480-20,480) | 50 % | 20,480 (20,480-20,480) | "
                      "1.00 (1.00-1.00) × | 10,240 (10,240-10,240) | 2.00 (2.00-2.00) × | 3 × |", out)
        self.assertIn("| OpenVINO, other.gguf |", out)
        status, out, err = self.run_bench("--runs", "1", "--level", "avx2", *flags)
        self.assertEqual(status, 0, err)
        self.assertIn("OpenVINO is skipped: its instructions cannot be lowered", err)

    def test_a_peer_may_read_a_file_of_its_own(self):
        llama = LLAMA_BENCH.replace("part =", 'assert flag["-m"] == "fast.gguf"\npart =')
        status, out, err = self.run_bench("--runs", "1", "--llama-model", "fast.gguf", llama=llama)
        self.assertEqual(status, 0, err)
        self.assertIn("| Baton / llama.cpp, fast.gguf |", out)

    def test_without_a_peer_it_says_so(self):
        status, out, err = self.run_bench("--runs", "1", llama=None)
        self.assertEqual(status, 0, err)
        self.assertIn("llama.cpp is skipped: --llama-bench and --llama-batched-bench not given", err)
        self.assertNotIn("llama.cpp", out)

    def test_a_program_that_fails_is_named_with_its_last_words(self):
        status, out, err = self.run_bench("--runs", "1", llama=BROKEN)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("llama-bench exited with 3: cannot open the model", err)

    def test_a_program_that_prints_something_else_fails(self):
        status, _, err = self.run_bench("--runs", "1", baton="print('hello')")
        self.assertEqual(status, 1)
        self.assertIn("baton printed no JSON: 'hello", err)

    def test_flags_that_mean_nothing_are_refused(self):
        for flags, words in [(["--level", "amx"], "--level amx: avx512 or avx2"),
                             (["--runs", "0"], "--runs and --threads are at least 1"),
                             (["--llama-bench", os.devnull], "--llama-bench: /dev/null is no program")]:
            status, _, err = self.run_bench(*flags)
            self.assertEqual(status, 2)
            self.assertIn(words, err)


if __name__ == "__main__":
    unittest.main()
