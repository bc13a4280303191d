#pragma once

// The data path of simulated processes. What UCX may do to a message happens here by dice and by
// virtual time: it waits, is announced late, lies half placed while its ticket ends, fails, or is
// reported as sent and never arrives. Memory is copied when a placement ends, so whoever reuses a
// block too early is overwritten, as with real hardware.
//
// As a transport of puts it lets senders write into the pools of receivers: when a write's time has
// come and its process runs, whoever has the block by then. A process that was stopped goes on with
// its writes when it wakes.

#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv_transfer/data_path.h"
#include "kv_transfer/simulation/dice.h"
#include "kv_transfer/simulation/faults.h"

namespace baton::kv_transfer::simulation {

class SimulatedPath;

class Fabric {
 public:
  // Is told before bytes are read from one process's memory and reach another's.
  class Watch {
   public:
    virtual ~Watch() = default;
    virtual void reading(const std::string& address, std::span<const IoSlice> source) = 0;
    virtual void placing(const std::string& address, std::span<const IoSlice> target) = 0;
  };
  // All outlive the fabric, which outlives its paths.
  Fabric(const Clock& clock, Dice& dice, const Faults& faults, Watch& watch)
      : clock_(clock), dice_(dice), faults_(faults), watch_(watch) {}

 private:
  friend class SimulatedPath;
  enum class Stage : uint8_t { kTravelling, kPlacing, kWriting, kResult };
  struct Flight {
    Stage stage = Stage::kTravelling;
    TimePoint due;
    std::string from, to;
    PathPeer from_peer = 0;  // the sender's name for the receiver
    uint64_t cookie = 0;
    std::vector<std::byte> header;
    std::vector<IoSlice> source;
    std::vector<std::byte> own;  // what `source` points to instead of the sender's memory
    uint64_t placement = 0;
    std::vector<IoSlice> target;
    Status status;
  };
  void end(Flight& flight, Status status);
  static void own_source(Flight& flight);

  const Clock& clock_;
  Dice& dice_;
  const Faults& faults_;
  Watch& watch_;
  uint64_t next_address_ = 1;
  std::set<std::string> alive_;
  std::unordered_map<std::string, std::span<const kv_cache::KvPool>> pools_;  // by address
  std::set<std::pair<std::string, std::string>> mapped_;  // who has whose pools mapped
  std::vector<Flight> flights_;
};

class SimulatedPath final : public DataPath {
 public:
  // Of puts: `pools` are those of a receiver and outlive the fabric; a sender has none.
  SimulatedPath(Fabric& fabric, bool puts, std::span<const kv_cache::KvPool> pools);
  ~SimulatedPath() override { die(); }

  // The end of its process, before its memory goes: what it had sent may still arrive.
  void die();

  std::string_view transport() const override { return "inproc"; }
  const std::string& address() const override { return address_; }
  Result<PathPeer> connect(const std::string& address) override;
  Status check_lane(PathPeer) const override { return Status(); }
  bool puts() const override { return puts_; }
  std::span<const kv_cache::KvPool> pools_of(PathPeer peer) const override;
  void send(PathPeer peer, std::span<const std::byte> header, std::span<const IoSlice> slices,
            std::span<const IoSlice> targets, uint64_t cookie) override;
  void close(PathPeer peer) override;
  int progress(DataPathEvents& events) override;
  bool outstanding() const override { return false; }  // nobody sleeps here
  int poll_fd() const override { return -1; }
  bool arm() override { return true; }

 private:
  struct Peer {
    std::string address;
    TimePoint death_seen = TimePoint::max();  // when its end will be noticed
    bool failed = false;
    bool closing = false;
    bool unmapped = false;  // a receiver's: it was seen to write no more
  };
  bool may_write(const Peer& peer) const;
  void write(Fabric::Flight& flight);
  int take(size_t index, DataPathEvents& events);
  void place(Fabric::Flight& flight, DataPathEvents& events);
  int watch_peers(DataPathEvents& events);

  Fabric& fabric_;
  std::string address_;
  const bool puts_;
  const bool receiver_;
  bool dead_ = false;
  PathPeer next_peer_ = 1;
  std::unordered_map<PathPeer, Peer> peers_;
};

}  // namespace baton::kv_transfer::simulation
