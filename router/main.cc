// The program baton-router.

#include <unistd.h>

#include <chrono>
#include <iostream>

#include "common/base/log.h"
#include "common/base/stop_signal.h"
#include "common/config/program_options.h"
#include "common/tokenizer/load_tokenizer.h"
#include "router/endpoint.h"
#include "router/open_files.h"

namespace baton::router {
namespace {

Status check_exposure(const config::Router& router, bool keyless) {
  const std::string& listen = router.listen;
  const bool loopback =
      listen.starts_with("127.") || listen.starts_with("localhost:") || listen.starts_with("[::1]");
  if (keyless && !loopback && !router.allow_keyless) {
    return invalid_argument("router.listen: " + listen +
                            " is not loopback and no API key is set; set router.api_keys_file, or "
                            "router.allow_keyless: "
                            "true if everybody who reaches this address may use it");
  }
  return Status();
}

Status run(const config::Startup& startup, int stop_fd) {
  const config::Config& config = startup.config;
  const SteadyClock clock;
  SystemRandom random;
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<ApiKeys> keys,
                         ApiKeys::open(config.router.api_keys_file, clock));
  BATON_RETURN_IF_ERROR(check_exposure(config.router, keys->keyless()));
  BATON_ASSIGN_OR_RETURN(const std::optional<wire::ClusterKey> key,
                         wire::read_cluster_key(config.cluster.key_file));
  // First of all, so that workers which start together with this router find the door open and do
  // not have to come again. What they say waits for the loop.
  wire::Context context(key);
  BATON_RETURN_IF_ERROR(context.start_faults(config.test.faults, "router", random));
  BATON_ASSIGN_OR_RETURN(wire::Listener listener,
                         wire::Listener::bind(context, config.router.control));
  BATON_ASSIGN_OR_RETURN(const tokenizer::Tokenizer vocab,
                         tokenizer::load_tokenizer(config.model.path));
  BATON_ASSIGN_OR_RETURN(
      const ChatPrompt chat,
      ChatPrompt::create(vocab, {config.router.tool_format, config.router.reasoning}));
  metrics::Registry registry(
      {.program = metrics::kByRouter, .model_name = config.model.name, .worker = ""});

  std::unique_ptr<http::Server> server;
  std::unique_ptr<RequestLog> request_log;
  if (!config.router.request_log.empty()) {
    BATON_ASSIGN_OR_RETURN(request_log,
                           RequestLog::open(config.router.request_log, clock, registry));
  }
  RouterLoop loop({.config = &config,
                   .incarnation = Incarnation{random.next_nonzero()},
                   .request_log = request_log.get(),
                   .stop_fd = stop_fd,
                   .on_drain = [&server] { server->stop_accepting(); }},
                  clock, random, vocab, std::move(listener), registry);
  const int64_t now_unix = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  const Endpoint endpoint({.config = &config.router,
                           .api_keys = keys.get(),
                           .model = {config.model.name, &vocab},
                           .started_unix = now_unix},
                          chat, loop, registry, clock, random);
  http::ServerOptions options;
  options.name = "http";
  options.io_threads = static_cast<int>(config.router.io_threads);
  options.max_body_bytes = config.router.max_body;
  options.max_connections = allow_connections(static_cast<uint64_t>(config.router.max_connections));
  options.header_timeout = config.router.header_timeout;
  options.idle_timeout = config.router.idle_timeout;
  if (!config.router.tls_certificate_file.empty()) {
    BATON_ASSIGN_OR_RETURN(
        options.tls, http::TlsCertificate::open(
                         {config.router.tls_certificate_file, config.router.tls_key_file}, clock));
  }
  options.address_hint = "--port or router.listen";
  options.decorate = [&endpoint](const http::Request& request, http::Headers& headers) {
    for (const auto& [name, value] : endpoint.answer_headers(request)) {
      headers.set(name, value);
    }
  };
  BATON_ASSIGN_OR_RETURN(
      server, http::Server::start(
                  config.router.listen, options,
                  [&endpoint](http::Request request, std::shared_ptr<http::Responder> responder) {
                    endpoint.handle(std::move(request), responder);
                  }));
  log_info(
      "ready",
      {{"url", server->url()}, {"control", config.router.control}, {"model", config.model.name}});
  loop.run();
  // Answers that are complete still have to reach slow readers.
  server->drain(clock.now() + 2s);
  server->stop();
  return Status();
}

}  // namespace
}  // namespace baton::router

int main(int argc, char** argv) {
  using namespace baton;
  const config::Startup startup =
      config::start_program({.program = "baton-router",
                             .purpose = "Takes OpenAI API requests, places them on workers.",
                             .role = config::Role::kRouter,
                             .instruction_sets = ""},
                            argc, argv, std::cout, std::cerr);
  if (startup.exit_status) {
    return *startup.exit_status;
  }
  init_log(startup.log);
  const int stop_fd = block_stop_signals();
  const Status status = router::run(startup, stop_fd);
  close(stop_fd);
  if (!status.ok()) {
    log_error(status.message());
    return config::kExitCannotStart;
  }
  log_info("stopped");
  return config::kExitStopped;
}
