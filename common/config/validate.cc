#include <set>

#include "common/base/fault_point.h"
#include "common/config/assemble.h"
#include "common/config/effective.h"
#include "common/config/values.h"

namespace baton::config {
namespace {

// Says where a value stands and what is wrong with it.
class Judge {
 public:
  Judge(const Origins& origins, std::string_view source) : origins_(origins), source_(source) {}

  Status fail(const std::string& key, const std::string& message) const {
    const auto found = origins_.find(key);
    const std::string where = found == origins_.end() ? std::string(source_) : found->second;
    return invalid_argument(where + ": " + key + ": " + message);
  }

 private:
  const Origins& origins_;
  const std::string_view source_;
};

bool control_is_local(std::string_view address) {
  return address.starts_with("ipc:") ||
         is_loopback(host_of_address(address.substr(address.find("//") + 2)).value_or(""));
}
bool address_is_local(std::string_view address) {
  return address.empty() || is_loopback(host_of_address(address).value_or(""));
}

Status check_router(const Config& config, const Judge& judge) {
  const Router& router = config.router;
  if (router.api_keys_file.empty() && !router.allow_keyless && !address_is_local(router.listen)) {
    return judge.fail("router.listen", router.listen +
                                           " can be reached from other machines; set "
                                           "router.api_keys_file, or router.allow_keyless: true");
  }
  if (router.tls_certificate_file.empty() != router.tls_key_file.empty()) {
    return judge.fail(
        router.tls_key_file.empty() ? "router.tls_key_file" : "router.tls_certificate_file",
        "is empty; TLS needs both router.tls_certificate_file and router.tls_key_file");
  }
  if (config.prefill.empty() && router.local_prefill == LocalPrefill::kNever) {
    return judge.fail("router.local_prefill",
                      "never needs a prefill worker, and the file has none");
  }
  return Status();
}

// What a listener at this host cannot tell others to connect to.
bool is_any_address(std::string_view host) {
  return host == "0.0.0.0" || host == "::" || host == "*";
}

// Without a key control links are not encrypted, and anyone who reaches one could order the workers
// about.
Status check_control_links(const Config& config, const Judge& judge) {
  if (!config.cluster.key_file.empty()) {
    return Status();
  }
  const auto refuse = [&](const std::string& key, const std::string& address) {
    return judge.fail(key, address +
                               " can be reached from other machines; set cluster.key_file, which "
                               "encrypts control links, or keep them on loopback");
  };
  if (!control_is_local(config.router.control)) {
    return refuse("router.control", config.router.control);
  }
  for (const std::string& router : config.workers.routers) {
    if (!control_is_local(router)) {
      return refuse("workers.routers", router);
    }
  }
  // Prefill workers connect and listen for no control link.
  for (size_t i = 0; i < config.decode.size(); ++i) {
    const std::string key = "decode[" + std::to_string(i) + "].";
    if (!address_is_local(config.decode[i].listen)) {
      return refuse(key + "listen", config.decode[i].listen);
    }
    if (!address_is_local(config.decode[i].advertise)) {
      return refuse(key + "advertise", config.decode[i].advertise);
    }
  }
  return Status();
}

// Of the own entry only: in a file that many machines share each one sets its own address.
Status check_advertised(const Config& config, const std::optional<Self>& self, const Judge& judge) {
  if (!self || self->role != Role::kDecode) {
    return Status();
  }
  const Result<const Worker*> own = own_entry(config, *self);
  if (!own.ok()) {
    return Status();  // told by whoever needs the entry
  }
  const Worker& worker = **own;
  const std::string key =
      "decode[" + std::to_string(&worker - config.decode.data()) + "].advertise";
  if (is_any_address(host_of_address(worker.advertise).value_or(""))) {
    return judge.fail(key, worker.advertise + " is no address that others can connect to");
  }
  if (worker.advertise.empty() && is_any_address(host_of_address(worker.listen).value_or(""))) {
    return judge.fail(key, "listen is " + worker.listen +
                               ", so others must be told where this worker is; set for example "
                               "--set worker.advertise=ADDRESS:0 (port 0: that of listen)");
  }
  return Status();
}

Status check_workers(const Config& config, const Judge& judge) {
  if (config.workers.routers.empty()) {
    return judge.fail("workers.routers", "the list is empty; name at least one router");
  }
  if (config.decode.empty()) {
    return judge.fail("decode", "the list is empty; at least one decode worker is needed");
  }
  std::set<std::string> names;
  for (const Role role : {Role::kPrefill, Role::kDecode}) {
    const std::vector<Worker>& workers = role == Role::kPrefill ? config.prefill : config.decode;
    for (size_t i = 0; i < workers.size(); ++i) {
      const std::string key = std::string(to_string(role)) + "[" + std::to_string(i) + "].";
      if (!names.insert(workers[i].name).second) {
        return judge.fail(key + "name", "\"" + workers[i].name + "\" is taken by another worker");
      }
      if (config.reduction_segments % workers[i].tensor_parallel != 0) {
        return judge.fail("reduction_segments", std::to_string(config.reduction_segments) +
                                                    " is no multiple of tensor_parallel " +
                                                    std::to_string(workers[i].tensor_parallel) +
                                                    " of " + workers[i].name);
      }
    }
  }
  return Status();
}

Status check_transfer(const Transfer& transfer, const Judge& judge) {
  if (transfer.transports.empty()) {
    return judge.fail("transfer.transports", "the list is empty; name at least one transport");
  }
  for (const std::string& transport : transfer.transports) {
    if (transport == "ucx-tcp" && transfer.devices.empty()) {
      return judge.fail("transfer.devices", "ucx-tcp needs at least one device");
    }
  }
  if (transfer.heartbeat >= transfer.dead_after) {
    return judge.fail("transfer.heartbeat", format_duration(transfer.heartbeat) +
                                                " must be shorter than transfer.dead_after, " +
                                                format_duration(transfer.dead_after));
  }
  if (transfer.reconnect_min > transfer.reconnect_max) {
    return judge.fail("transfer.reconnect_min", format_duration(transfer.reconnect_min) +
                                                    " is longer than transfer.reconnect_max, " +
                                                    format_duration(transfer.reconnect_max));
  }
  return Status();
}

}  // namespace

Status validate(const Config& config, const std::optional<Self>& self, const Origins& origins,
                std::string_view source) {
  const Judge judge(origins, source);
  BATON_RETURN_IF_ERROR(check_router(config, judge));
  BATON_RETURN_IF_ERROR(check_workers(config, judge));
  BATON_RETURN_IF_ERROR(check_control_links(config, judge));
  BATON_RETURN_IF_ERROR(check_advertised(config, self, judge));
  BATON_RETURN_IF_ERROR(check_transfer(config.transfer, judge));
  if (config.numerics_force && config.numerics != Numerics::kFast) {
    return judge.fail("numerics_force", "means something with numerics: fast only");
  }
  if (!kFaultPoints && !config.test.faults.empty()) {
    return judge.fail("test.faults", "this build has no fault points; they need -DBATON_FAULTS=ON");
  }
  if (config.workers.heartbeat >= config.router.worker_timeout) {
    return judge.fail("workers.heartbeat", format_duration(config.workers.heartbeat) +
                                               " must be shorter than router.worker_timeout, " +
                                               format_duration(config.router.worker_timeout));
  }
  return Status();
}

}  // namespace baton::config
