#!/usr/bin/env bash
# run.sh [NAME]: the benchmarks of docs/performance.md, as ./dev bench calls it; all without a NAME.
#   engine    prefill and decode of one process, beside the machine's roofline
#   transfer  the hand-over between two processes, beside memcpy: ucx-posix and ucx-tcp
#   serve     the highest rate at which 90 % of requests meet both limits, through HTTP:
#             disaggregated and colocated
#   faults    workers killed and stopped under load: how soon that is noticed, how soon streams go
#             on; not part of "all"
#   overload [RATE]  goodput below RATE, there and at twice of it, without and with router.slo_ttft;
#             not part of "all"
#   soak      ten minutes of load under kills, stops, restarts and clients that leave
#             (tests/e2e/soak.py --help for its length and seed); not part of "all"
#   router [FLAGS]  the router's own work with a worker that answers at once, beside nginx (router
#             --help); not part of "all"
#   idle [FLAGS]  CPU of a cluster without requests (idle --help); not part of "all"
#   sharing [FLAGS]  one stream alone, and streams while long prompts arrive, with the CPUs split,
#             lent, and shared by both workers, in turn (sharing --help); not part of "all"
#   gap [FLAGS]  the gap between the first token and the second, which comes from the other worker,
#             on an idle and on a busy decode worker (gap --help); not part of "all"
#   overlap [FLAGS]  what a hand-over adds to the prefill that it hides behind, with the transfer
#             thread on a CPU of its own and on that of the prefill (overlap --help); not part of "all"
#   cpu [FLAGS]  the engine beside other engines on the same CPUs, in turn (cpu --help); not part
#             of "all"
#   servers [FLAGS]  Baton and other servers through HTTP, in turn (servers --help); not part of "all"
# Each prints its table; the commands are printed first, so that one can be repeated alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

model=models/smollm2-135m-instruct-q4_1.gguf
baton=build/release/bin/baton

run() { printf '\n$ %s\n' "$*"; "$@"; }

engine() { run "$baton" bench engine --model "$model" --prompt 512,2048 --decode-batch 1,8,16,32; }

transfer() {
  run "$baton" bench transfer --transport ucx-posix
  run "$baton" bench transfer --transport ucx-tcp
}

# With a cluster of its own on a free port.
with_cluster() { # with_cluster "FILE FLAGS..." COMMAND ARGS...: COMMAND URL ARGS...
  local ready pid url up
  read -ra up <<<"$1"
  shift
  ready=$(mktemp -d)
  printf '\n# %s\n' "${up[*]}"
  "$baton" up "${up[@]}" --port 0 --ready-file "$ready/file" 2>"$ready/log" &
  pid=$!
  trap 'kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; rm -rf "$ready"' EXIT
  while [ ! -s "$ready/file" ]; do
    kill -0 "$pid" 2>/dev/null || { tail -5 "$ready/log" >&2; exit 1; }
    sleep 0.1
  done
  url=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["url"])' "$ready/file")
  "$1" "$url" "${@:2}"
  kill "$pid"
  wait "$pid" || true
  rm -rf "$ready"
  trap - EXIT
}

search() { # search URL
  run "$baton" bench serve --url "$1" --search --rate 1 --duration 20 --input 300 --output 64 \
    --slo-ttft-ms 1000 --slo-tpot-ms 100
}

serve() {
  with_cluster deploy/local.yaml search
  with_cluster deploy/colocated.yaml search
}

# Goodput at shares of a rate: 1 is what --search finds, or RATE.
loads() { # loads URL RATE SHARE...
  local url=$1 rate=$2 share load
  for share in "${@:3}"; do
    load=$(python3 -c 'import sys; print(round(float(sys.argv[1]) * float(sys.argv[2]), 3))' \
      "$rate" "$share")
    run "$baton" bench serve --url "$url" --rate "$load" --duration "${seconds:-30}" --input 300 \
      --output 64 --slo-ttft-ms 1000 --slo-tpot-ms 200
  done
}

# Without the limit requests wait for ever longer; with it those that are let in are in time.
overload() { # overload [RATE]: of a load that the cluster just bears
  local rate=${1:-4}
  with_cluster deploy/local.yaml loads "$rate" 0.5 0.75 1 2
  with_cluster "deploy/local.yaml --set router.slo_ttft=1s" loads "$rate" 0.5 0.75 1 2
}

faults() { run "$baton" bench faults --model "$model"; }

soak() { run python3 tests/e2e/soak.py --seconds 600; }

# Their tables or their JSON, and nothing else, are on stdout.
router() { python3 tests/bench/router.py --model "$model" "$@"; }

idle() { python3 tests/bench/idle.py --model "$model" "$@"; }

cpu() { python3 tests/bench/cpu.py --baton "$baton" --model "$model" "$@"; }

servers() { python3 tests/bench/servers.py --baton "$baton" --model "$model" "$@"; }

sharing() { BATON_BIN=$(dirname "$baton") python3 tests/bench/sharing.py "$@"; }

gap() { BATON_BIN=$(dirname "$baton") python3 tests/bench/gap.py "$@"; }

overlap() { BATON_BIN=$(dirname "$baton") python3 tests/bench/overlap.py "$@"; }

case ${1:-all} in
  engine | transfer | serve | faults | soak) "$1" ;;
  cpu | gap | overlap | overload | router | idle | sharing | servers) "$@" ;;
  all) engine; transfer; serve ;;
  *)
    echo "run.sh: no benchmark is called \"$1\"; there are: engine, transfer, serve, faults, overload," \
      "soak, router, idle, sharing, gap, overlap, servers, cpu" >&2
    exit 2
    ;;
esac
