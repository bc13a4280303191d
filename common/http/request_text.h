#pragma once

// How the clients write a request. Internal to this folder.

#include <string>

#include "common/http/address.h"
#include "common/http/client.h"

namespace baton::http {

// Request line, fields and body; Host and, where it belongs, Content-Length are added.
std::string encode_request(const ClientRequest& request, const Url& url);

}  // namespace baton::http
