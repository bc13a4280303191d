#include "kv_transfer/handshake.h"

#include <algorithm>

namespace baton::kv_transfer {
namespace {

using kv_cache::CacheGroup;
using kv_cache::CacheKind;
using kv_cache::HeadRange;
using kv_cache::KvDtype;
using kv_cache::KvLayout;

constexpr size_t kMaxRanks = 255;  // dst_rank of DATA is one byte
constexpr size_t kMaxLayers = 65'535;
constexpr uint32_t kMaxHeads = 4'096;
constexpr uint32_t kMaxDim = 4'096;
constexpr uint32_t kMaxBlockTokens = 4'096;
constexpr uint32_t kMaxWindow = 1u << 28;

// Hello::worker_address: for each transport, length (one byte) and name, length (two bytes, little
// endian) and address.
std::string pack_addresses(std::span<DataPath* const> paths) {
  std::string packed;
  for (const DataPath* path : paths) {
    const std::string_view name = path->transport();
    const std::string& address = path->address();
    BATON_CHECK(name.size() < 256 && address.size() < 65'536, "addresses fit their length fields");
    packed += static_cast<char>(name.size());
    packed += name;
    packed += static_cast<char>(address.size() & 0xff);
    packed += static_cast<char>(address.size() >> 8);
    packed += address;
  }
  return packed;
}

// Takes `count` bytes off the front; nothing when there are fewer.
std::optional<std::string_view> take(std::string_view& bytes, size_t count) {
  if (bytes.size() < count) {
    return std::nullopt;
  }
  const std::string_view head = bytes.substr(0, count);
  bytes.remove_prefix(count);
  return head;
}

size_t as_size(std::string_view little_endian) {
  size_t value = 0;
  for (size_t i = little_endian.size(); i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(little_endian[i]);
  }
  return value;
}

Status differ(const char* what, const std::string& sender, const std::string& receiver) {
  return incompatible(std::string(what) + " differ: prefill worker has " + sender +
                      ", decode worker has " + receiver);
}

std::string describe(const wire::CacheGroupInfo& g) {
  return "{kind " + std::to_string(g.kind) + ", dtype " + std::to_string(g.dtype) + ", " +
         std::to_string(g.layers) + " layers, " + std::to_string(g.kv_heads) + " KV heads, dim " +
         std::to_string(g.k_dim) + "/" + std::to_string(g.v_dim) +
         (g.window > 0 ? ", window " + std::to_string(g.window) : "") + "}";
}

// The groups, and which layer is in which.
std::string describe_groups(const wire::Hello& hello) {
  std::string text;
  for (const wire::CacheGroupInfo& g : hello.groups) {
    text += (text.empty() ? "" : " ") + describe(g);
  }
  text += hello.layer_groups.empty() ? "" : " layers ";
  for (const uint8_t group : hello.layer_groups) {
    text += std::to_string(group);
  }
  return text;
}

// Of a checked HELLO.
KvLayout layout_of(const wire::Hello& hello) {
  KvLayout layout;
  for (const wire::CacheGroupInfo& g : hello.groups) {
    layout.groups.push_back({.kind = static_cast<CacheKind>(g.kind),
                             .layers = static_cast<int>(g.layers),
                             .kv_heads = static_cast<int>(g.kv_heads),
                             .k_dim = static_cast<int>(g.k_dim),
                             .v_dim = static_cast<int>(g.v_dim),
                             .dtype = static_cast<KvDtype>(g.dtype),
                             .window = static_cast<int>(g.window)});
  }
  layout.layer_groups = hello.layer_groups;
  layout.block_tokens = static_cast<int>(hello.block_tokens);
  return layout;
}

// Nothing of a HELLO is used in arithmetic before this.
Status check_sizes(const wire::Hello& hello) {
  if (hello.groups.empty() || hello.groups.size() > kv_cache::kMaxGroups) {
    return unsupported(hello.name + " has " + std::to_string(hello.groups.size()) +
                       " cache groups; one or two are supported");
  }
  bool shape_ok = hello.block_tokens <= kMaxBlockTokens && !hello.heads.empty() &&
                  hello.heads.size() <= kMaxRanks && hello.layer_groups.size() <= kMaxLayers;
  for (const wire::CacheGroupInfo& g : hello.groups) {
    shape_ok = shape_ok && g.layers >= 1 && g.layers <= kMaxLayers && g.kv_heads >= 1 &&
               g.kv_heads <= kMaxHeads && g.k_dim >= 1 && g.k_dim <= kMaxDim && g.v_dim >= 1 &&
               g.v_dim <= kMaxDim && g.window <= kMaxWindow;
  }
  const wire::CacheGroupInfo& g = hello.groups.front();
  if (!shape_ok) {
    return incompatible(hello.name + " names a cache of impossible shape " +
                        describe_groups(hello));
  }
  for (const wire::HeadRangeInfo& range : hello.heads) {
    if (range.begin >= range.end || range.end > g.kv_heads) {
      return incompatible(hello.name + " names KV heads [" + std::to_string(range.begin) + ", " +
                          std::to_string(range.end) + ") of " + std::to_string(g.kv_heads));
    }
  }
  if (hello.incarnation.value == 0) {
    return incompatible(hello.name + " has no incarnation");
  }
  return Status();
}

PlanSide side_of(const wire::Hello& hello) {
  PlanSide side;
  side.block_tokens = static_cast<int>(hello.block_tokens);
  for (const wire::HeadRangeInfo& range : hello.heads) {
    side.ranks.push_back(HeadRange{static_cast<int>(range.begin), static_cast<int>(range.end)});
  }
  return side;
}

bool only_loopback(const wire::Hello& hello) {
  return !hello.devices.empty() &&
         std::all_of(hello.devices.begin(), hello.devices.end(),
                     [](const std::string& device) { return device == "lo"; });
}

// What the transport lacks between the two, and what would be right; empty when it can be used.
std::string obstacle(std::string_view transport, const wire::Hello& a, const wire::Hello& b) {
  const HostIdentity host_a = host_of(a);
  const HostIdentity host_b = host_of(b);
  const std::string both = a.name + " and " + b.name;
  if (transport == "inproc") {
    return host_a.shares_pids(host_b) && a.pid == b.pid ? "" : both + " are two processes";
  }
  if (transport == "ucx-tcp") {
    return (only_loopback(a) || only_loopback(b)) && !host_a.shares_network(host_b)
               ? both + " share no loopback device; name their network in transfer.devices"
               : "";
  }
  if (host_a.shares_memory(host_b)) {
    return "";
  }
  const char* why = !host_a.same_kernel(host_b) ? "they run on different machines"
                    : !host_a.shares_pids(host_b)
                        ? "their pid namespaces differ"
                        : "they see different mounts or are different users";
  if (transport == "pool") {
    return both + " cannot map each other's memory (" + why + ")";
  }
  return both + " share no /dev/shm (" + why +
         "); name ucx-tcp in transfer.transports, and their network in transfer.devices";
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "none" : text;
}

// The first that can be used; those before it that cannot go to `passed_over`.
Result<std::string> choose_transport(const wire::Hello& sender, const wire::Hello& receiver,
                                     std::vector<PassedOver>& passed_over) {
  for (const std::string& name : sender.transports) {
    if (std::find(receiver.transports.begin(), receiver.transports.end(), name) ==
        receiver.transports.end()) {
      continue;
    }
    const std::string why_not = obstacle(name, sender, receiver);
    if (why_not.empty()) {
      return name;
    }
    passed_over.push_back({name, why_not});
  }
  if (!passed_over.empty()) {
    return incompatible(describe(passed_over));
  }
  return differ("transports", join(sender.transports), join(receiver.transports));
}

}  // namespace

wire::Hello make_hello(const AgentOptions& options, const HostIdentity& host,
                       std::span<DataPath* const> paths) {
  wire::Hello hello;
  hello.name = options.name;
  hello.role = options.role;
  hello.incarnation = options.incarnation;
  hello.boot_id = host.boot_id;
  hello.pid_namespace = host.pid_namespace;
  hello.network_namespace = host.network_namespace;
  hello.shared_memory = host.shared_memory;
  hello.pid = host.pid;
  hello.model_hash = options.model_hash;
  hello.numerics = options.numerics;
  hello.segments = static_cast<uint32_t>(options.segments);
  const kv_cache::KvLayout& layout = options.pools.front()->layout();
  hello.block_tokens = static_cast<uint32_t>(layout.block_tokens);
  for (const CacheGroup& g : layout.groups) {
    hello.groups.push_back({static_cast<uint8_t>(g.kind), static_cast<uint8_t>(g.dtype),
                            static_cast<uint32_t>(g.layers), static_cast<uint32_t>(g.kv_heads),
                            static_cast<uint32_t>(g.k_dim), static_cast<uint32_t>(g.v_dim),
                            static_cast<uint32_t>(g.window)});
  }
  hello.layer_groups = layout.layer_groups;
  hello.layouts = {static_cast<uint8_t>(layout.id)};
  for (const kv_cache::KvPool* pool : options.pools) {
    hello.heads.push_back(
        {static_cast<uint32_t>(pool->heads().begin), static_cast<uint32_t>(pool->heads().end)});
  }
  for (const DataPath* path : paths) {
    hello.transports.emplace_back(path->transport());
  }
  hello.worker_address = pack_addresses(paths);
  hello.devices = options.devices;
  hello.digest = options.digest;
  hello.heartbeat_ms = static_cast<uint32_t>(to_ms(options.timeouts.heartbeat));
  return hello;
}

Result<Agreement> agree(const wire::Hello& sender, const wire::Hello& receiver) {
  if (sender.proto_version != receiver.proto_version) {
    return differ("protocol versions", std::to_string(sender.proto_version),
                  std::to_string(receiver.proto_version));
  }
  if (sender.model_hash != receiver.model_hash) {
    return differ("models", to_hex(sender.model_hash), to_hex(receiver.model_hash));
  }
  if (sender.numerics != receiver.numerics) {
    return differ("numerics", sender.numerics, receiver.numerics);
  }
  if (sender.segments != receiver.segments) {
    return differ("reduction_segments", std::to_string(sender.segments),
                  std::to_string(receiver.segments));
  }
  BATON_RETURN_IF_ERROR(check_sizes(sender));
  BATON_RETURN_IF_ERROR(check_sizes(receiver));
  const std::string sender_groups = describe_groups(sender);
  const std::string receiver_groups = describe_groups(receiver);
  if (sender_groups != receiver_groups) {
    return differ("cache groups", sender_groups, receiver_groups);
  }
  // The first common layout travels raw; this build's pools hold pairs32 only.
  const auto pairs32 = static_cast<uint8_t>(kv_cache::LayoutId::kPairs32);
  for (const wire::Hello* hello : {&sender, &receiver}) {
    if (std::find(hello->layouts.begin(), hello->layouts.end(), pairs32) == hello->layouts.end()) {
      return incompatible(hello->name + " does not offer the layout pairs32");
    }
  }
  std::vector<PassedOver> passed_over;
  BATON_ASSIGN_OR_RETURN(std::string transport, choose_transport(sender, receiver, passed_over));
  const KvLayout layout = layout_of(sender);
  BATON_ASSIGN_OR_RETURN(PiecePlan plan,
                         PiecePlan::make(layout, side_of(sender), side_of(receiver)));
  if (const Status status = kv_cache::validate(layout); !status.ok()) {
    return incompatible(sender.name + ": " + status.message());
  }
  return Agreement{std::move(transport), std::move(passed_over), std::move(plan),
                   sender.digest || receiver.digest};
}

std::string describe(std::span<const PassedOver> passed_over) {
  std::string text;
  for (const PassedOver& passed : passed_over) {
    text += (text.empty() ? "" : "; ") + passed.transport + ": " + passed.why;
  }
  return text;
}

HostIdentity host_of(const wire::Hello& hello) {
  HostIdentity host;
  host.boot_id = hello.boot_id;
  host.pid_namespace = hello.pid_namespace;
  host.network_namespace = hello.network_namespace;
  host.shared_memory = hello.shared_memory;
  host.pid = hello.pid;
  return host;
}

std::optional<std::string> path_address(const wire::Hello& hello, std::string_view transport) {
  std::string_view rest = hello.worker_address;
  while (!rest.empty()) {
    const auto name_length = take(rest, 1);
    const auto name = take(rest, as_size(*name_length));
    const auto address_length = name ? take(rest, 2) : std::nullopt;
    const auto address = address_length ? take(rest, as_size(*address_length)) : std::nullopt;
    if (!address) {
      return std::nullopt;
    }
    if (*name == transport) {
      return std::string(*address);
    }
  }
  return std::nullopt;
}

}  // namespace baton::kv_transfer
