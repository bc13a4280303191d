#include "kv_transfer/data_header.h"

#include <bit>
#include <cstring>

namespace baton::kv_transfer {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little endian");

class Writer {
 public:
  explicit Writer(std::byte* to) : to_(to) {}
  template <typename T>
  void put(T value) {
    std::memcpy(to_, &value, sizeof(value));
    to_ += sizeof(value);
  }

 private:
  std::byte* to_;
};

class Reader {
 public:
  explicit Reader(const std::byte* from) : from_(from) {}
  template <typename T>
  T get() {
    T value;
    std::memcpy(&value, from_, sizeof(value));
    from_ += sizeof(value);
    return value;
  }

 private:
  const std::byte* from_;
};

}  // namespace

DataHeaderBytes encode_header(const DataHeader& header) {
  DataHeaderBytes bytes;
  Writer w(bytes.data());
  w.put(kDataMagic);
  w.put(kDataVersion);
  w.put(header.slot);
  w.put(header.generation);
  w.put(header.seq);
  w.put(header.dst_rank);
  w.put(header.layer);
  w.put(header.group);
  w.put(header.head_lo);
  w.put(header.head_hi);
  w.put(header.token_lo);
  w.put(header.token_hi);
  w.put(header.digest);
  return bytes;
}

Result<DataHeader> decode_header(std::span<const std::byte> bytes) {
  if (bytes.size() != kDataHeaderBytes) {
    return invalid_argument("DATA header of " + std::to_string(bytes.size()) + " bytes, expected " +
                            std::to_string(kDataHeaderBytes));
  }
  Reader r(bytes.data());
  if (r.get<uint32_t>() != kDataMagic) {
    return invalid_argument("DATA header without its magic");
  }
  if (const auto version = r.get<uint16_t>(); version != kDataVersion) {
    return invalid_argument("DATA version " + std::to_string(version) + ", expected " +
                            std::to_string(kDataVersion));
  }
  DataHeader h;
  h.slot = r.get<uint32_t>();
  h.generation = r.get<uint32_t>();
  h.seq = r.get<uint32_t>();
  h.dst_rank = r.get<uint8_t>();
  h.layer = r.get<uint16_t>();
  h.group = r.get<uint8_t>();
  h.head_lo = r.get<uint16_t>();
  h.head_hi = r.get<uint16_t>();
  h.token_lo = r.get<uint32_t>();
  h.token_hi = r.get<uint32_t>();
  h.digest = r.get<uint64_t>();
  return h;
}

}  // namespace baton::kv_transfer
