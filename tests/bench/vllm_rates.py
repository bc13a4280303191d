#!/usr/bin/env python3
"""Rates of vLLM on CPUs in this process, without a tokenizer or HTTP.

  printf 'prefill 512,2048\\ndecode 256 8,16,32\\n' | python3 vllm_rates.py FOLDER THREADS

cpu.py runs it with a Python that has the package, and asks it again and again: vLLM takes a minute
or more to start. FOLDER has the safetensors of a model. For each line on stdin prints one JSON
list of tokens/s: per prompt length the median of three prompts; per number of sequences that hold 256
tokens each, from the median step.
"""
import json
import os
import statistics
import sys
import time

REPEATS = 3
STEPS = 32  # of a decode measurement, half of them before the context, half after
SPAN = 40000  # ids below this are ordinary tokens in common vocabularies
LONGEST = 4096
TCMALLOC = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"  # Debian's libtcmalloc-minimal4


def settings(threads):
    """The environment that vLLM's guide for CPUs asks for."""
    openmp = os.path.join(sys.prefix, "lib", "libiomp5.so")
    for library in (TCMALLOC, openmp):
        if not os.path.exists(library):
            sys.exit(f"vllm_rates: {library} is missing")
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    return {"LD_PRELOAD": f"{TCMALLOC}:{openmp}",
            "VLLM_CPU_KVCACHE_SPACE": "2",  # GiB
            "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cpus)),
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # a call of step() is a step
            "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}


def open_engine(folder):
    import vllm

    return vllm.LLM(
        folder, dtype="bfloat16", max_model_len=LONGEST, max_num_batched_tokens=LONGEST,
        max_num_seqs=64, enable_prefix_caching=False, skip_tokenizer_init=True).llm_engine


class Rates:
    def __init__(self, engine):
        self.engine = engine
        self.requests = 0

    def step_seconds(self, sequences, prompt, generated):
        """How long each step took, from the first prompts to the last token of the last sequence."""
        from vllm import SamplingParams

        params = SamplingParams(
            max_tokens=generated, ignore_eos=True, temperature=0, detokenize=False)
        for sequence in range(sequences):
            ids = [(token * 7919 + 101 + sequence) % SPAN for token in range(prompt)]
            self.requests += 1
            self.engine.add_request(str(self.requests), {"prompt_token_ids": ids}, params)
        seconds = []
        while self.engine.has_unfinished_requests():
            start = time.perf_counter()
            self.engine.step()
            seconds.append(time.perf_counter() - start)
        return seconds

    def prefill(self, prompt):
        self.step_seconds(1, prompt, 1)
        return prompt / statistics.median(
            sum(self.step_seconds(1, prompt, 1)) for _ in range(REPEATS))

    def decode(self, context, sequences):
        seconds = self.step_seconds(sequences, context - STEPS // 2, STEPS + 1)
        # The prompts took as many steps as there are more than tokens; with the last of them the
        # first sequences decode, and at the end they are done before the others.
        prompts = len(seconds) - STEPS
        return sequences / statistics.median(seconds[prompts:-prompts])

    def answer(self, line):
        words = line.split()
        if words[0] == "prefill":
            return [self.prefill(int(prompt)) for prompt in words[1].split(",")]
        context = int(words[1])
        self.decode(context, 1)
        return [self.decode(context, int(one)) for one in words[2].split(",")]


def main():
    folder, threads = sys.argv[1], int(sys.argv[2])
    wanted = settings(threads)
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        # Libraries are preloaded when a program starts.
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what vLLM says
    rates = Rates(open_engine(folder))
    for line in sys.stdin:
        print(json.dumps(rates.answer(line)), file=answers, flush=True)


if __name__ == "__main__":
    main()
