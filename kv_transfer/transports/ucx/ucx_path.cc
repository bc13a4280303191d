#include "kv_transfer/transports/ucx/ucx_path.h"

#include <ucp/api/ucp.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <utility>

#include "common/base/log.h"
#include "kv_transfer/transports/ucx/ucx_config.h"
#include "kv_transfer/transports/ucx/ucx_status.h"

namespace baton::kv_transfer {
namespace {

constexpr unsigned kAmId = 1;
// UCX 1.13 aborts the process when an endpoint of tcp is closed by force, or its worker destroyed,
// while the answer to a connection request is queued (an assertion in ucp_request_send_state_ff,
// "got REP message"). Young endpoints are closed only after this time, workers after as much quiet.
constexpr Duration kConnectionSettles = 50ms;

struct CleanupContext {
  void operator()(ucp_context_h context) const { ucp_cleanup(context); }
};
struct DestroyWorker {
  void operator()(ucp_worker_h worker) const { ucp_worker_destroy(worker); }
};
using ContextHandle = std::unique_ptr<std::remove_pointer_t<ucp_context_h>, CleanupContext>;
using WorkerHandle = std::unique_ptr<std::remove_pointer_t<ucp_worker_h>, DestroyWorker>;

class UcxPath final : public DataPath {
 public:
  static Result<std::unique_ptr<UcxPath>> create(const UcxOptions& options);
  ~UcxPath() override;

  std::string_view transport() const override { return transport_; }
  const std::string& address() const override { return address_; }
  Result<PathPeer> connect(const std::string& address) override;
  Status check_lane(PathPeer peer) const override;
  bool puts() const override { return false; }
  std::span<const kv_cache::KvPool> pools_of(PathPeer) const override { return {}; }
  void send(PathPeer peer, std::span<const std::byte> header, std::span<const IoSlice> slices,
            std::span<const IoSlice> targets, uint64_t cookie) override;
  void close(PathPeer peer) override;
  int progress(DataPathEvents& events) override;
  bool outstanding() const override { return !sends_.empty() || !receives_.empty(); }
  int poll_fd() const override { return poll_fd_; }
  bool arm() override;

 private:
  struct Peer {
    UcxPath* path = nullptr;
    PathPeer id = 0;
    ucp_ep_h endpoint = nullptr;
    int sends = 0;
    TimePoint opened;
    bool closing = false;
    TimePoint close_began;
    void* close_request = nullptr;
  };
  struct Send {
    UcxPath* path = nullptr;
    uint64_t cookie = 0;
    Peer* peer = nullptr;
    std::vector<std::byte> header;
    std::vector<ucp_dt_iov_t> iov;
  };
  struct Receive {
    UcxPath* path = nullptr;
    uint64_t id = 0;
    std::vector<ucp_dt_iov_t> iov;
  };
  enum class Kind : uint8_t { kSent, kPlaced, kPeerFailed, kMalformed };
  struct Completion {
    Kind kind = Kind::kSent;
    uint64_t id = 0;
    Status status;
  };

  explicit UcxPath(const UcxOptions& options)
      : transport_(options.transport), close_limit_(options.close_limit) {}
  Status open(const UcxOptions& options);
  Status open_worker();
  void finish_send(Send* send, ucs_status_t status);
  void finish_receive(Receive* receive, ucs_status_t status);
  void close_endpoint(Peer& peer);
  bool close_finished(Peer& peer);
  void abandon(Peer& peer);
  std::vector<PathPeer> take_closed();
  ucs_status_t on_message(const void* header, size_t header_bytes, void* data, size_t bytes,
                          const ucp_am_recv_param_t* param);

  static ucs_status_t am_callback(void* arg, const void* header, size_t header_bytes, void* data,
                                  size_t bytes, const ucp_am_recv_param_t* param) {
    return static_cast<UcxPath*>(arg)->on_message(header, header_bytes, data, bytes, param);
  }
  static void send_callback(void* request, ucs_status_t status, void* user_data) {
    auto* send = static_cast<Send*>(user_data);
    send->path->finish_send(send, status);
    ucp_request_free(request);
  }
  static void receive_callback(void* request, ucs_status_t status, size_t, void* user_data) {
    auto* receive = static_cast<Receive*>(user_data);
    receive->path->finish_receive(receive, status);
    ucp_request_free(request);
  }
  static void error_callback(void* arg, ucp_ep_h, ucs_status_t status) {
    auto* peer = static_cast<Peer*>(arg);
    if (peer->closing) {
      return;
    }
    peer->path->completions_.push_back(
        {Kind::kPeerFailed, peer->id, worker_lost(from_ucx(status, "UCX").message())});
  }

  const std::string transport_;
  const Duration close_limit_;
  std::string address_;
  ContextHandle context_;
  WorkerHandle worker_;
  int poll_fd_ = -1;
  DataPathEvents* events_ = nullptr;  // during progress()
  PathPeer next_peer_ = 1;
  std::unordered_map<PathPeer, std::unique_ptr<Peer>> peers_;
  std::unordered_map<Send*, std::unique_ptr<Send>> sends_;
  std::unordered_map<Receive*, std::unique_ptr<Receive>> receives_;
  // Of peers whose endpoints do not close: UCX still holds pointers to them.
  std::unordered_map<Send*, std::unique_ptr<Send>> abandoned_sends_;
  std::vector<std::unique_ptr<Peer>> abandoned_peers_;
  std::deque<Completion> completions_;
};

// ---------------------------------------------------------------- opening

Result<std::unique_ptr<UcxPath>> UcxPath::create(const UcxOptions& options) {
  std::unique_ptr<UcxPath> path(new UcxPath(options));
  if (Status status = path->open(options); !status.ok()) {
    return status.with_context(options.transport);
  }
  return path;
}

Status UcxPath::open(const UcxOptions& options) {
  restore_signal_handlers();
  BATON_ASSIGN_OR_RETURN(const UcxConfig config, make_config(options));
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "baton";
  ucp_context_h context = nullptr;
  if (const ucs_status_t status = ucp_init(&params, config.get(), &context); status != UCS_OK) {
    return unavailable(from_ucx(status, "ucp_init").message());
  }
  context_.reset(context);
  return open_worker();
}

Status UcxPath::open_worker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucp_worker_h worker = nullptr;
  BATON_RETURN_IF_ERROR(
      from_ucx(ucp_worker_create(context_.get(), &params, &worker), "ucp_worker_create"));
  worker_.reset(worker);
  BATON_RETURN_IF_ERROR(from_ucx(ucp_worker_get_efd(worker, &poll_fd_), "ucp_worker_get_efd"));

  ucp_address_t* address = nullptr;
  size_t length = 0;
  BATON_RETURN_IF_ERROR(
      from_ucx(ucp_worker_get_address(worker, &address, &length), "ucp_worker_get_address"));
  address_.assign(reinterpret_cast<const char*>(address), length);
  ucp_worker_release_address(worker, address);

  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kAmId;
  handler.cb = &UcxPath::am_callback;
  handler.arg = this;
  return from_ucx(ucp_worker_set_am_recv_handler(worker, &handler), "am handler");
}

// The requests that are left hold memory of ours, so the endpoints go first and their requests end.
// A library that does not keep to that is not waited for.
UcxPath::~UcxPath() {
  if (worker_ == nullptr) {
    return;
  }
  const TimePoint begin = std::chrono::steady_clock::now();
  constexpr Duration kLongest = 500ms;
  TimePoint quiet_since = begin;
  for (TimePoint now = begin; now - begin < kLongest; now = std::chrono::steady_clock::now()) {
    if (ucp_worker_progress(worker_.get()) != 0) {
      quiet_since = now;
    }
    bool open = false;
    for (auto& [id, peer] : peers_) {
      peer->closing = true;
      open = !close_finished(*peer) || open;
    }
    for (const std::unique_ptr<Peer>& peer : abandoned_peers_) {
      open = !close_finished(*peer) || open;
    }
    const bool settled = transport_ != "ucx-tcp" || now - quiet_since >= kConnectionSettles;
    if (!open && settled) {
      break;
    }
  }
  worker_.reset();
}

// ---------------------------------------------------------------- peers

Result<PathPeer> UcxPath::connect(const std::string& address) {
  if (address.empty()) {
    return invalid_argument("the peer's UCX address is empty");
  }
  auto peer = std::make_unique<Peer>();
  peer->path = this;
  peer->id = next_peer_++;
  peer->opened = std::chrono::steady_clock::now();
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &UcxPath::error_callback;
  params.err_handler.arg = peer.get();
  const ucs_status_t status = ucp_ep_create(worker_.get(), &params, &peer->endpoint);
  if (status != UCS_OK) {
    return unavailable(transport_ + ": " + from_ucx(status, "ucp_ep_create").message());
  }
  const PathPeer id = peer->id;
  peers_.emplace(id, std::move(peer));
  return id;
}

Status UcxPath::check_lane(PathPeer id) const {
  const auto it = peers_.find(id);
  if (it == peers_.end() || it->second->endpoint == nullptr) {
    return worker_lost("the peer is closed");
  }
  char* text = nullptr;
  size_t length = 0;
  FILE* stream = open_memstream(&text, &length);
  if (stream == nullptr) {
    return internal_error("open_memstream failed");
  }
  ucp_ep_print_info(it->second->endpoint, stream);
  std::fclose(stream);
  const Status status = check_lanes(std::string_view(text, length), transport_);
  std::free(text);
  return status;
}

void UcxPath::close(PathPeer id) {
  if (const auto it = peers_.find(id); it != peers_.end() && !it->second->closing) {
    it->second->closing = true;
    it->second->close_began = std::chrono::steady_clock::now();
  }
}

void UcxPath::close_endpoint(Peer& peer) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* request = ucp_ep_close_nbx(peer.endpoint, &param);
  peer.endpoint = nullptr;
  if (UCS_PTR_IS_PTR(request)) {
    peer.close_request = request;
  }
}

// Drives the closing of a peer; true when nothing is left of it.
bool UcxPath::close_finished(Peer& peer) {
  if (peer.endpoint != nullptr) {
    const Duration age = std::chrono::steady_clock::now() - peer.opened;
    if (transport_ == "ucx-tcp" && age < kConnectionSettles) {
      return false;
    }
    close_endpoint(peer);
  }
  if (peer.close_request != nullptr) {
    if (ucp_request_check_status(peer.close_request) == UCS_INPROGRESS) {
      return false;
    }
    ucp_request_free(peer.close_request);
    peer.close_request = nullptr;
  }
  return peer.sends == 0;
}

// UCX closes an endpoint of shared memory only when the peer's queue has room, which it never has
// again when the peer is stopped. What the peer could still fetch it can put nowhere but into its
// receive for this very message, so our side may forget it; the requests themselves stay until UCX
// lets go of them.
void UcxPath::abandon(Peer& peer) {
  for (auto it = sends_.begin(); it != sends_.end();) {
    Send* send = it->first;
    if (send->peer != &peer) {
      ++it;
      continue;
    }
    completions_.push_back(
        {Kind::kSent, send->cookie, worker_lost(transport_ + ": the peer does not respond")});
    abandoned_sends_.emplace(send, std::move(it->second));
    it = sends_.erase(it);
  }
}

// Peers whose closing has just finished. Their last completions are queued.
std::vector<PathPeer> UcxPath::take_closed() {
  std::erase_if(abandoned_peers_,
                [&](const std::unique_ptr<Peer>& peer) { return close_finished(*peer); });
  std::vector<PathPeer> closed;
  for (auto it = peers_.begin(); it != peers_.end();) {
    Peer& peer = *it->second;
    if (!peer.closing) {
      ++it;
      continue;
    }
    const bool finished = close_finished(peer);
    if (!finished && std::chrono::steady_clock::now() - peer.close_began < close_limit_) {
      ++it;
      continue;
    }
    closed.push_back(it->first);
    if (!finished) {
      abandon(peer);
      abandoned_peers_.push_back(std::move(it->second));
    }
    it = peers_.erase(it);
  }
  return closed;
}

// ---------------------------------------------------------------- messages

void UcxPath::send(PathPeer id, std::span<const std::byte> header, std::span<const IoSlice> slices,
                   std::span<const IoSlice>, uint64_t cookie) {
  const auto it = peers_.find(id);
  if (it == peers_.end() || it->second->closing) {
    completions_.push_back({Kind::kSent, cookie, worker_lost("the peer is closed")});
    return;
  }
  auto made = std::make_unique<Send>();
  Send* send = made.get();
  send->path = this;
  send->cookie = cookie;
  send->peer = it->second.get();
  // 1.13 has no flag to copy the header: it must live as long as the request.
  send->header.assign(header.begin(), header.end());
  send->iov.reserve(slices.size());
  for (const IoSlice& slice : slices) {
    send->iov.push_back({slice.data, slice.bytes});
  }
  sends_.emplace(send, std::move(made));
  ++send->peer->sends;

  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE;
  // Without it, small payloads travel with the message, and the sender sees a success before the
  // receiver has decided.
  param.flags = UCP_AM_SEND_FLAG_RNDV;
  param.cb.send = &UcxPath::send_callback;
  param.user_data = send;
  param.datatype = ucp_dt_make_iov();
  const ucs_status_ptr_t request =
      ucp_am_send_nbx(send->peer->endpoint, kAmId, send->header.data(), send->header.size(),
                      send->iov.data(), send->iov.size(), &param);
  if (!UCS_PTR_IS_PTR(request)) {
    finish_send(send, UCS_PTR_RAW_STATUS(request));
  }
}

void UcxPath::finish_send(Send* send, ucs_status_t status) {
  --send->peer->sends;
  if (abandoned_sends_.erase(send) == 1) {
    return;
  }
  completions_.push_back({Kind::kSent, send->cookie, from_ucx(status, transport_)});
  sends_.erase(send);
}

void UcxPath::finish_receive(Receive* receive, ucs_status_t status) {
  completions_.push_back({Kind::kPlaced, receive->id, from_ucx(status, transport_)});
  receives_.erase(receive);
}

// Runs inside ucp_worker_progress() and must not progress itself.
ucs_status_t UcxPath::on_message(const void* header, size_t header_bytes, void* data, size_t bytes,
                                 const ucp_am_recv_param_t* param) {
  if (events_ == nullptr) {
    return UCS_ERR_REJECTED;  // the path is being closed
  }
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
    completions_.push_back({Kind::kMalformed, 0, Status()});
    return UCS_OK;  // drops the payload that came along
  }
  Result<DataPathEvents::Placement> placement =
      events_->announced({static_cast<const std::byte*>(header), header_bytes}, bytes);
  if (!placement.ok()) {
    return UCS_ERR_REJECTED;
  }
  auto made = std::make_unique<Receive>();
  Receive* receive = made.get();
  receive->path = this;
  receive->id = placement->id;
  receive->iov.reserve(placement->slices.size());
  for (const IoSlice& slice : placement->slices) {
    receive->iov.push_back({slice.data, slice.bytes});
  }
  receives_.emplace(receive, std::move(made));

  ucp_request_param_t receive_param{};
  receive_param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE;
  receive_param.cb.recv_am = &UcxPath::receive_callback;
  receive_param.user_data = receive;
  receive_param.datatype = ucp_dt_make_iov();
  const ucs_status_ptr_t request = ucp_am_recv_data_nbx(worker_.get(), data, receive->iov.data(),
                                                        receive->iov.size(), &receive_param);
  if (!UCS_PTR_IS_PTR(request)) {
    finish_receive(receive, UCS_PTR_RAW_STATUS(request));
  }
  return UCS_INPROGRESS;
}

int UcxPath::progress(DataPathEvents& events) {
  events_ = &events;
  int done = 0;
  // Bounded, so that a flood of messages does not keep the caller from its timers.
  constexpr int kMostRounds = 64;
  for (int round = 0; round < kMostRounds; ++round) {
    if (ucp_worker_progress(worker_.get()) == 0) {
      break;
    }
    ++done;
  }
  const std::vector<PathPeer> closed = take_closed();
  while (!completions_.empty()) {
    const Completion completion = std::move(completions_.front());
    completions_.pop_front();
    ++done;
    switch (completion.kind) {
      case Kind::kSent:
        events.sent(completion.id, completion.status);
        break;
      case Kind::kPlaced:
        events.placed(completion.id, completion.status);
        break;
      case Kind::kPeerFailed:
        events.peer_failed(static_cast<PathPeer>(completion.id), completion.status);
        break;
      case Kind::kMalformed:
        events.malformed();
        break;
    }
  }
  for (const PathPeer peer : closed) {
    events.peer_closed(peer);
  }
  events_ = nullptr;
  return done + static_cast<int>(closed.size());
}

bool UcxPath::arm() { return completions_.empty() && ucp_worker_arm(worker_.get()) == UCS_OK; }

// ---------------------------------------------------------------- self test

constexpr size_t kProbeBytes = 4u << 20;

// Accepts one message into a buffer.
class SelfTest final : public DataPathEvents {
 public:
  explicit SelfTest(std::vector<std::byte>& target) : target_(target) {}
  Result<Placement> announced(std::span<const std::byte>, size_t bytes) override {
    if (bytes != target_.size()) {
      return invalid_argument("unexpected length");
    }
    return Placement{1, {{target_.data(), target_.size()}}};
  }
  void malformed() override { failure_ = internal_error("the payload did not use rendezvous"); }
  void placed(uint64_t, const Status& status) override { note(status, placed_); }
  void sent(uint64_t, const Status& status) override { note(status, sent_); }
  void peer_failed(PathPeer, const Status& status) override { failure_ = status; }
  void peer_closed(PathPeer) override { closed_ = true; }

  bool arrived() const { return sent_ && placed_; }
  bool closed() const { return closed_; }
  const Status& failure() const { return failure_; }

 private:
  void note(const Status& status, bool& flag) {
    flag = true;
    if (!status.ok()) {
      failure_ = status;
    }
  }
  std::vector<std::byte>& target_;
  bool placed_ = false, sent_ = false, closed_ = false;
  Status failure_;
};

Status self_test(DataPath& path, Duration limit) {
  std::vector<std::byte> source(kProbeBytes);
  std::vector<std::byte> target(kProbeBytes);
  for (size_t i = 0; i < kProbeBytes; ++i) {
    source[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  }
  SelfTest events(target);
  const TimePoint begin = std::chrono::steady_clock::now();
  BATON_ASSIGN_OR_RETURN(const PathPeer peer, path.connect(path.address()));
  const std::byte header{};
  const IoSlice slice{source.data(), source.size()};
  path.send(peer, {&header, 1}, {&slice, 1}, {}, 1);
  const TimePoint deadline = begin + limit;
  while (!events.arrived() && events.failure().ok() &&
         std::chrono::steady_clock::now() < deadline) {
    path.progress(events);
  }
  const double seconds = to_seconds(std::chrono::steady_clock::now() - begin);
  BATON_RETURN_IF_ERROR(events.failure());
  if (!events.arrived() || std::memcmp(source.data(), target.data(), kProbeBytes) != 0) {
    return unavailable("the transfer to itself at the start did not arrive");
  }
  BATON_RETURN_IF_ERROR(path.check_lane(peer));
  path.close(peer);
  while (!events.closed() && std::chrono::steady_clock::now() < deadline) {
    path.progress(events);
  }
  log_info("transport open", {{"transport", std::string(path.transport())},
                              {"probe_gb_per_s", kProbeBytes / seconds / 1e9}});
  return Status();
}

}  // namespace

Result<std::unique_ptr<DataPath>> open_ucx_path(const UcxOptions& options) {
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<UcxPath> path, UcxPath::create(options));
  if (Status status = self_test(*path, options.start_limit); !status.ok()) {
    return status.with_context(options.transport);
  }
  return std::unique_ptr<DataPath>(std::move(path));
}

}  // namespace baton::kv_transfer
