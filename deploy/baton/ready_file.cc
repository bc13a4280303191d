#include "deploy/baton/ready_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "common/http/error.h"

namespace baton::cli {

std::string ready_json(const std::string& url, const std::vector<RunningProgram>& programs) {
  std::string out = "{\"url\":";
  http::append_json_string(out, url);
  out += ",\"processes\":[";
  for (const RunningProgram& program : programs) {
    out += out.ends_with('[') ? "{\"role\":" : ",{\"role\":";
    http::append_json_string(out, config::to_string(program.role));
    out += ",\"name\":";
    http::append_json_string(out, program.name);
    out += ",\"pid\":" + std::to_string(program.pid) + ",\"metrics_url\":";
    http::append_json_string(out, program.metrics_url);
    out += '}';
  }
  return out + "]}\n";
}

Status write_atomically(const std::string& path, const std::string& text) {
  const std::string temporary = path + "." + std::to_string(getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "we");
  if (file == nullptr) {
    return unavailable("cannot write " + path + ": " + std::strerror(errno));
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::remove(temporary.c_str());
    return unavailable("cannot write " + path + ": " + std::strerror(error));
  }
  return Status();
}

}  // namespace baton::cli
