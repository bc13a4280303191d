#include "common/wire/messages.h"

namespace baton::wire {

const uint32_t kProtoVersion = 1;

}  // namespace baton::wire
