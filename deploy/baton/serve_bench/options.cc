#include "deploy/baton/serve_bench/options.h"

namespace baton::serve_bench {
namespace {

Status check_arrivals(const ServeBenchOptions& options) {
  const int given = (options.rate > 0 ? 1 : 0) + (options.trace.empty() ? 0 : 1) +
                    (options.concurrency > 0 ? 1 : 0);
  if (given > 1) {
    return invalid_argument("give one of --rate, --trace and --concurrency, not several");
  }
  if (options.search && options.concurrency > 0) {
    return invalid_argument(
        "--search looks for the highest rate of arrivals; it does not go with --concurrency");
  }
  if (given == 0 && !options.search) {
    return invalid_argument(
        "give one of --rate R (requests a second), --trace FILE and --concurrency N");
  }
  return Status();
}

}  // namespace

Status check_options(const ServeBenchOptions& options) {
  BATON_RETURN_IF_ERROR(check_arrivals(options));
  if (options.trace_scale != 1 && options.trace.empty()) {
    return invalid_argument("--trace-scale speeds up a trace; it needs --trace FILE");
  }
  if (options.concurrency > options.max_connections) {
    return invalid_argument("--concurrency " + std::to_string(options.concurrency) +
                            " needs as many connections; --max-connections is " +
                            std::to_string(options.max_connections));
  }
  if (!options.url.starts_with("http://") && !options.url.starts_with("https://")) {
    return invalid_argument("--url " + options.url +
                            " does not begin with http:// or https://, for example "
                            "http://127.0.0.1:8000");
  }
  return Status();
}

}  // namespace baton::serve_bench
