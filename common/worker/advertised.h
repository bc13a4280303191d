#pragma once

// The addresses of a worker as others are told.

#include <string>

namespace baton::worker {

// `bound` is where the worker listens ("tcp://0.0.0.0:34567"), `advertise` the configuration's
// HOST:PORT: its host, and its port unless that is 0. Empty: as bound.
std::string advertised_address(const std::string& bound, const std::string& advertise);

// `url` of the health server ("http://0.0.0.0:9001"): with the host of `advertise`, where the
// server listens on any address.
std::string advertised_url(const std::string& url, const std::string& advertise);

}  // namespace baton::worker
