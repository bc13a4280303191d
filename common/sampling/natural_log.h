#pragma once

// ln in f64 by one fixed sequence of operations: the C library's differs in its last bits between
// versions and instruction sets, and the result decides tokens (min-p) and log-probabilities.

namespace baton::sampling {

// Within 2 ulp for normal positive x; -infinity for 0. Other x are not meant.
double natural_log(double x);

}  // namespace baton::sampling
