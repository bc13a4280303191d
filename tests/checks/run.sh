#!/usr/bin/env bash
# run.sh [--all] [--tidy] [--stats]: the rules of the source tree, as ./dev check runs them.
#   --all    also compiles every header by itself
#   --tidy   also asks clang-tidy for function sizes (minutes)
#   --stats  prints sizes, parameters and shares of comments and tests, and checks nothing
# Installs nothing. Each check prints one line when it is content; the last line counts.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit

checks=tests/checks
build=build/checks
failed=()

run() { # run NAME COMMAND...
  local name=$1
  shift
  "$@" || failed+=("$name")
}

formatted() {
  find common router prefill_worker decode_worker kv_transfer deploy tests \
    \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
    xargs -0 -P "$(nproc)" -n 40 clang-format-19 --dry-run -Werror && echo "clang-format: ok"
}

scripts() {
  local files=(dev .ci/run)
  while IFS= read -r -d '' file; do files+=("$file"); done \
    < <(find deploy tests -name '*.sh' -print0)
  shellcheck -x --severity=warning "${files[@]}" && echo "shellcheck: ok, ${#files[@]} files"
}

configured() {
  if cmake --preset release -B "$build" "--graphviz=$build/graph/targets.dot" \
    >"$build.log" 2>&1; then
    rm -f "$build.log"
    return 0
  fi
  tail -20 "$build.log"
  return 1
}

all=0
tidy=0
for argument in "$@"; do
  case $argument in
    --all) all=1 ;;
    --tidy) tidy=1 ;;
    --stats) exec python3 "$checks/stats.py" ;;
    *)
      echo "run.sh: unknown argument $argument" >&2
      exit 2
      ;;
  esac
done

mkdir -p build
for check in layering code_rules sizes tests_beside documents dashboards fault_table; do
  run "$check" python3 "$checks/$check.py"
done
run clang-format formatted
command -v shellcheck >/dev/null && run shellcheck scripts
if configured; then
  run "link graph" python3 "$checks/link_graph.py" "$build/graph/targets.dot" build/release/bin
  run "lock discipline" python3 "$checks/compile_checks.py" "$build" threads
  [ "$all" = 0 ] || run headers python3 "$checks/compile_checks.py" "$build" headers
  [ "$tidy" = 0 ] || run clang-tidy python3 "$checks/compile_checks.py" "$build" tidy
else
  failed+=("cmake")
fi

exceptions=$(python3 -c "
import json
checks = json.load(open('$checks/exceptions.json'))['checks']
print(sum(len(paths) for paths in checks.values()))")
if [ ${#failed[@]} -gt 0 ]; then
  echo "check: failed: ${failed[*]} ($exceptions exceptions)"
  exit 1
fi
echo "check: all passed, $exceptions exceptions"
