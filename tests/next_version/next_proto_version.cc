// In place of common/wire/proto_version.cc, which the linker then leaves in its library.

#include "common/wire/messages.h"

namespace baton::wire {

const uint32_t kProtoVersion = 2;

}  // namespace baton::wire
