#include "deploy/baton/serve_bench/rate_search.h"

#include <cmath>

namespace baton::serve_bench {

Result<SearchResult> search_rate(const SearchOptions& options,
                                 const std::function<Result<ProbeResult>(double load)>& probe) {
  SearchResult out;
  const auto passes = [&](double load) -> Result<bool> {
    BATON_ASSIGN_OR_RETURN(const ProbeResult result, probe(load));
    out.probes.push_back(result);
    return result.passed;
  };
  double load = options.first;
  double failed = 0;  // lowest that did
  BATON_ASSIGN_OR_RETURN(bool passed, passes(load));
  if (passed) {
    for (int i = 0; passed && i < options.most_doublings; ++i) {
      out.best = load;
      load *= 2;
      BATON_ASSIGN_OR_RETURN(passed, passes(load));
    }
    if (passed) {
      out.best = load;
      return out;
    }
    failed = load;
  } else {
    for (int i = 0; !passed && i < options.most_halvings; ++i) {
      failed = load;
      load /= 2;
      BATON_ASSIGN_OR_RETURN(passed, passes(load));
    }
    if (!passed) {
      out.bounded = true;
      return out;
    }
    out.best = load;
  }
  out.bounded = true;
  while (failed > out.best * (1 + options.precision)) {
    // Halves the ratio, not the difference: the precision is a ratio, too.
    const double middle = std::sqrt(failed * out.best);
    BATON_ASSIGN_OR_RETURN(passed, passes(middle));
    (passed ? out.best : failed) = middle;
  }
  return out;
}

}  // namespace baton::serve_bench
