#!/usr/bin/env bash
# run.sh ALL NAME: what ./dev test does once the model is there.
#   ALL   1: sanitizers, fuzzing, the checks of the tree and the long end-to-end tests, too
#   NAME  only the tests whose name contains it; empty: all
# Prints the end of what failed, the minutes of each part, the names of what failed, and as its last line
# "N passed, N failed, N skipped" over all runners.
#
# shellcheck disable=SC2317  # functions are called through part()
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

all=${1:-0} name=${2:-}
jobs=$(nproc)
results=build/test_results
rm -rf "$results"
mkdir -p "$results"
passed=0 failed=0 skipped=0
report=() broken=()

# Test programs that a sanitizer leaves out, because it makes them minutes long: their kernels are
# covered by the small models of "model" and "engine".
readonly NOT_SANITIZED=(matmul probe engine_real_model)
# Those in which threads meet.
readonly TSAN_TESTS=(base metrics http wire device kv_transfer router)
readonly FUZZERS=(gguf gguf_parts description model_folder tokenizer tokenizer_json chat_template http grammar tool_calls)
readonly FUZZ_SECONDS=10

say() { printf 'test: %s\n' "$*"; }

# part TITLE COMMAND...: runs it and notes its minutes; a failure is one failed test unless the
# command has counted its own.
part() {
  local title=$1 begin status=0 before=$failed
  shift
  say "$title"
  begin=$(date +%s)
  "$@" > >(tee "$results/part.log") 2>&1 || status=$?
  wait "$!"
  report+=("$(printf '%5.1f min  %s' "$(awk -v s=$(($(date +%s) - begin)) 'BEGIN{print s / 60}')" "$title")")
  if [ "$status" != 0 ] && [ "$failed" = "$before" ]; then
    failed=$((failed + 1))
    broken+=("$title")
    { echo "---- $title, the end of its output"; tail -40 "$results/part.log"; } >>"$results/failures.txt"
  fi
  return "$status"
}

# Adds up what ctest wrote in JUnit's form.
count() { # count TITLE FILE
  local numbers
  numbers=$(python3 - "$1" "$2" "$results/failures.txt" <<'PY'
import sys
import xml.etree.ElementTree as tree
title, file, failures = sys.argv[1:]
cases = tree.parse(file).getroot().findall("testcase")
failed = [c for c in cases if c.find("failure") is not None or c.get("status") == "fail"]
bad = [c.get("name").split()[0] for c in failed]
with open(failures, "a", encoding="utf-8") as out:
    for case in failed:
        lines = (case.findtext("system-out") or "").splitlines()
        print(f"---- {title}: {case.get('name')}, the end of its output", *lines[-40:], sep="\n", file=out)
skip = [c for c in cases if c.find("skipped") is not None and c.get("name").split()[0] not in bad]
print(len(cases) - len(bad) - len(skip), len(bad), len(skip), *bad)
PY
  ) || return 1
  local values
  read -ra values <<<"$numbers"
  passed=$((passed + values[0]))
  failed=$((failed + values[1]))
  skipped=$((skipped + values[2]))
  local test
  for test in "${values[@]:3}"; do broken+=("$1: $test"); done
}

tests_of() { # tests_of TITLE BUILD_FOLDER ctest-arguments...
  local title=$1 folder=$2 status=0 file
  file="$PWD/$results/${title//[^a-z0-9]/_}.xml"
  shift 2
  ctest --test-dir "$folder" --output-junit "$file" --no-tests=ignore "$@" || status=$?
  [ -f "$file" ] || return "$status"
  count "$title" "$file" || status=1
  return "$status"
}

build_release() {
  ./dev build-all release >"$results/build_release.log" 2>&1 || {
    tail -30 "$results/build_release.log"
    return 1
  }
}

configure() { # configure PRESET
  cmake --preset "$1" >"$results/build_$1.log" 2>&1 || {
    tail -20 "$results/build_$1.log"
    return 1
  }
}

build_targets() { # build_targets PRESET TARGET...
  local log="$results/build_$1.log"
  cmake --build "build/$1" --target "${@:2}" >>"$log" 2>&1 || {
    tail -30 "$log"
    return 1
  }
}

all_test_programs() { # all_test_programs PRESET: their names without _test
  ninja -C "build/$1" -t targets all | sed -n '/^cmake_/d; s/^\([a-z0-9_]*\)_test: phony$/\1/p' |
    grep -vxF "$(printf '%s\n' "${NOT_SANITIZED[@]}")"
}

# sanitized PRESET [TEST...]: builds the test programs (all, if none is named) and runs them.
sanitized() {
  local preset=$1 tests
  shift
  configure "$preset" || return 1
  tests=("$@")
  [ $# -gt 0 ] || mapfile -t tests < <(all_test_programs "$preset")
  build_targets "$preset" "${tests[@]/%/_test}" || return 1
  tests_of "$preset tests" "build/$preset" -R "^($(IFS='|'; echo "${tests[*]}"))/" -j "$jobs" \
    --timeout 300 --output-on-failure
}

package_and_image() {
  ./dev set-up build package image || return 1
  tests_of "package and image" build/release -L image "${only[@]}" --verbose
}

# Those of the clients that are installed and run in a minute or so.
real_clients() { ./dev test clients openai langchain litellm; }

# Prints how many cases passed, failed and were skipped in each of its runs.
conformance() {
  local log="$results/conformance.log"
  ./dev test conformance >"$log" 2>&1 || {
    tail -40 "$log"
    return 1
  }
  grep '^conformance:' "$log"
}

fuzzed() {
  local fuzzer corpus status=0
  build_targets asan "${FUZZERS[@]/%/_fuzz}" || return 1
  for fuzzer in "${FUZZERS[@]}"; do
    corpus="$results/corpus_$fuzzer"
    mkdir -p "$corpus"
    # New inputs go to the first folder, which is not the committed one.
    if "build/asan/bin/${fuzzer}_fuzz" -max_total_time="$FUZZ_SECONDS" -timeout=10 -rss_limit_mb=2048 \
      -artifact_prefix="$results/$fuzzer-" -print_final_stats=1 "$corpus" \
      "tests/fuzz/corpus/$fuzzer" >"$results/fuzz_$fuzzer.log" 2>&1; then
      passed=$((passed + 1))
      say "$fuzzer: $(awk '/number_of_executed_units/ {print $2}' "$results/fuzz_$fuzzer.log") inputs, no finding"
    else
      tail -40 "$results/fuzz_$fuzzer.log"
      failed=$((failed + 1))
      broken+=("fuzz: $fuzzer")
      status=1
    fi
  done
  return "$status"
}

finish() {
  # Once more, where the end of a long record is what remains of it.
  [ ! -s "$results/failures.txt" ] || cut -c 1-300 "$results/failures.txt"
  say "minutes of each part:"
  printf '  %s\n' "${report[@]}"
  local entry
  for entry in "${broken[@]}"; do say "FAILED $entry"; done
  if [ $((passed + failed)) = 0 ]; then
    say "no test is called like \"$name\""
    failed=1
  fi
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" = 0 ]
  exit
}

set_up() { ./dev set-up build test && deploy/prometheus/fetch.sh; }
part "set-up" set_up || finish
part "release build" build_release || finish
# Tests that are asked for by name, and all of --all, run in their long form.
if [ "$all" = 1 ] || [ -n "$name" ]; then export BATON_E2E=full; else export BATON_E2E=short; fi
show=(--output-on-failure)
only=()
if [ -n "$name" ]; then
  only=(-R "$name")
  show=(--verbose)
fi
part "unit tests" tests_of "unit tests" build/release -LE 'e2e|image' -j "$jobs" "${only[@]}" "${show[@]}"
# What these print is the result of interest.
part "end-to-end tests" tests_of "end-to-end tests" build/release -L e2e "${only[@]}" --verbose
if [ "$all" = 1 ] || [[ -n $name && 'image/package image/image' == *"$name"* ]]; then
  part "package and image" package_and_image
fi
if [ "$all" = 1 ] && [ -z "$name" ]; then
  export TSAN_OPTIONS="suppressions=$PWD/tests/sanitizers/tsan.supp halt_on_error=1 second_deadlock_stack=1"
  export LSAN_OPTIONS="suppressions=$PWD/tests/sanitizers/lsan.supp print_suppressions=0"
  export ASAN_OPTIONS="detect_stack_use_after_return=1"
  # UCX's hooks would patch functions that clang's ASan has replaced.
  export UCX_MEM_MMAP_HOOK_MODE=none
  export UBSAN_OPTIONS="print_stacktrace=1"
  part "real clients" real_clients && passed=$((passed + 1))
  part "conformance" conformance && passed=$((passed + 1))
  part "checks" ./dev check && passed=$((passed + 1))
  part "set-up of clang" ./dev set-up build test asan
  part "ASan and UBSan" sanitized asan
  part "TSan" sanitized tsan "${TSAN_TESTS[@]}"
  part "fuzzing" fuzzed
fi
finish
