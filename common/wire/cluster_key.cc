// The one file that sees libsodium.
#include "common/wire/cluster_key.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace baton::wire {
namespace {

constexpr size_t kMaxFileBytes = 4096;
constexpr const char* kHowToMake = "make one with: (umask 077; head -c 32 /dev/urandom | base64 > ";

Status refuse(const std::string& path, const std::string& why) {
  return invalid_argument("cluster.key_file: '" + path + "' " + why);
}

// One secret, two key pairs: a member cannot be taken for a listener. BLAKE2b under the secret
// keeps them independent of each other.
ClusterKey::Pair derive(const CurveKey& secret, std::string_view purpose) {
  ClusterKey::Pair pair;
  crypto_generichash(pair.secret_key.data(), pair.secret_key.size(),
                     reinterpret_cast<const unsigned char*>(purpose.data()), purpose.size(),
                     secret.data(), secret.size());
  BATON_CHECK(crypto_scalarmult_base(pair.public_key.data(), pair.secret_key.data()) == 0,
              "a public key can be derived");
  return pair;
}

Status check_rights(const std::string& path, const struct stat& file) {
  if (!S_ISREG(file.st_mode)) {
    return refuse(path, "is not a file");
  }
  const mode_t forbidden = file.st_uid == 0 ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;
  if ((file.st_mode & forbidden) != 0) {
    return refuse(path,
                  "can be read by others than its owner; chmod 600 it (a mounted Kubernetes "
                  "secret: defaultMode: 0400)");
  }
  return Status();
}

struct CloseFile {
  int fd = -1;
  ~CloseFile() {
    if (fd >= 0) {
      ::close(fd);
    }
  }
};

}  // namespace

ClusterKey::~ClusterKey() {
  sodium_memzero(&listener_, sizeof(listener_));
  sodium_memzero(&member_, sizeof(member_));
}

Result<ClusterKey> ClusterKey::parse(std::string_view text) {
  BATON_CHECK(sodium_init() >= 0, "libsodium starts");
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  text = first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
  CurveKey secret{};
  size_t bytes = 0;
  const char* end = nullptr;
  const bool decoded =
      sodium_base642bin(secret.data(), secret.size(), text.data(), text.size(), nullptr, &bytes,
                        &end, sodium_base64_VARIANT_ORIGINAL) == 0 &&
      end == text.data() + text.size() && bytes == secret.size();
  if (!decoded) {
    return invalid_argument("holds no key: 32 random bytes in base64 (44 characters) are expected");
  }
  ClusterKey key;
  key.listener_ = derive(secret, "baton control listener 1");
  key.member_ = derive(secret, "baton control member 1");
  sodium_memzero(secret.data(), secret.size());
  return key;
}

Result<ClusterKey> ClusterKey::read(const std::string& path) {
  const CloseFile file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat info{};
  if (file.fd < 0 || ::fstat(file.fd, &info) != 0) {
    const std::string reason = std::strerror(errno);
    return refuse(path, "cannot be read: " + reason + "; " + kHowToMake + path + ")");
  }
  BATON_RETURN_IF_ERROR(check_rights(path, info));
  std::array<char, kMaxFileBytes> text{};
  const ssize_t length = ::read(file.fd, text.data(), text.size());
  if (length < 0) {
    return refuse(path, std::string("cannot be read: ") + std::strerror(errno));
  }
  Result<ClusterKey> key = parse({text.data(), static_cast<size_t>(length)});
  sodium_memzero(text.data(), text.size());
  if (!key.ok()) {
    return refuse(path, key.status().message() + "; " + kHowToMake + path + ")");
  }
  return key;
}

Result<std::optional<ClusterKey>> read_cluster_key(const std::string& path) {
  if (path.empty()) {
    return std::optional<ClusterKey>();
  }
  BATON_ASSIGN_OR_RETURN(ClusterKey key, ClusterKey::read(path));
  return std::optional<ClusterKey>(key);
}

}  // namespace baton::wire
