#!/usr/bin/env python3
"""Rates of OpenVINO GenAI's continuous batching in this process, without a tokenizer or HTTP.

  python3 openvino_rates.py MODEL.gguf THREADS prefill 512,2048
  python3 openvino_rates.py MODEL.gguf THREADS decode 256 8,16,32

cpu.py runs it with a Python that has the package. Prints one JSON list of tokens/s: per prompt length
the median of three prompts; per number of sequences that hold 256 tokens each, from the median step.
"""
import json
import statistics
import sys
import time

import numpy
import openvino
import openvino_genai

REPEATS = 3
STEPS = 32  # of a decode measurement, half of them before the context, half after
SPAN = 40000  # ids below this are ordinary tokens in common vocabularies


def open_pipeline(model, threads):
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size = 2  # GiB
    scheduler.enable_prefix_caching = False
    scheduler.max_num_batched_tokens = 4096
    scheduler.max_num_seqs = 64
    return openvino_genai.ContinuousBatchingPipeline(
        model, scheduler_config=scheduler, device="CPU",
        properties={"INFERENCE_NUM_THREADS": threads})


def step_seconds(pipeline, sequences, prompt, generated):
    """How long each step took, from the first prompts to the last token of the last sequence."""
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = generated
    config.ignore_eos = True
    config.do_sample = False
    handles = []
    for sequence in range(sequences):
        ids = (numpy.arange(prompt, dtype=numpy.int64) * 7919 + 101 + sequence) % SPAN
        handles.append(pipeline.add_request(sequence, openvino.Tensor(ids[None]), config))
    seconds = []
    while pipeline.has_non_finished_requests():
        start = time.perf_counter()
        pipeline.step()
        seconds.append(time.perf_counter() - start)
    return seconds


def prefill_rate(pipeline, prompt):
    step_seconds(pipeline, 1, prompt, 1)
    return prompt / statistics.median(
        sum(step_seconds(pipeline, 1, prompt, 1)) for _ in range(REPEATS))


def decode_rate(pipeline, context, sequences):
    seconds = step_seconds(pipeline, sequences, context - STEPS // 2, STEPS + 1)
    # The prompts took as many steps as there are more than tokens; with the last of them the
    # first sequences decode, and at the end they are done before the others.
    prompts = len(seconds) - STEPS
    return sequences / statistics.median(seconds[prompts:-prompts])


def main():
    model, threads, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    pipeline = open_pipeline(model, threads)
    if what == "prefill":
        rates = [prefill_rate(pipeline, int(prompt)) for prompt in sys.argv[4].split(",")]
    else:
        context = int(sys.argv[4])
        decode_rate(pipeline, context, 1)
        rates = [decode_rate(pipeline, context, int(one)) for one in sys.argv[5].split(",")]
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
