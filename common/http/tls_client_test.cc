// Both clients over TLS, against a Server with certificates of the test's own making.

#include <gmock/gmock.h>

#include <filesystem>
#include <thread>

#include "common/http/async_client.h"
#include "common/http/client.h"
#include "common/http/server_fixture.h"
#include "common/http/test_certificates.h"

namespace baton::http {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TlsClientTest : public ServerTestBase {
 protected:
  TlsClientTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "baton-tls-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    make("server", "IP:127.0.0.1");
    make("other", "IP:127.0.0.1");
  }
  ~TlsClientTest() override {
    server.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string certificate(const std::string& name) const { return folder_ + "/" + name + ".crt"; }
  std::string key(const std::string& name) const { return folder_ + "/" + name + ".key"; }
  void make(const std::string& name, const char* host) const {
    const Key made = make_key();
    write_key(key(name), made.get());
    write_certificate(certificate(name), made.get(), name.c_str(), host);
  }

  void start_tls(const std::string& name = "server") {
    Result<std::unique_ptr<TlsCertificate>> opened =
        TlsCertificate::open({certificate(name), key(name)}, clock_);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    ServerOptions options;
    options.tls = *std::move(opened);
    start(std::move(options));
    ASSERT_THAT(server->url(), StartsWith("https://127.0.0.1:"));
  }

  static ClientOptions trusting(TlsTrust trust) {
    ClientOptions options;
    options.trust = std::move(trust);
    return options;
  }
  // Empty when there was an answer.
  std::string failure(TlsTrust trust) {
    Client client(trusting(std::move(trust)));
    const Result<Response> answer = client.get(server->url() + "/echo");
    return answer.ok() ? "" : answer.status().message();
  }

  SteadyClock clock_;
  std::string folder_;
};

TEST_F(TlsClientTest, ExchangesLargeBodiesOverOneConnection) {
  start_tls();
  Client client(trusting({.authorities = certificate("server")}));
  const std::string body(3 << 20, 'q');
  for (int i = 0; i < 3; ++i) {
    const Result<Response> echo = client.post(server->url() + "/echo", body);
    ASSERT_TRUE(echo.ok()) << echo.status().to_string();
    EXPECT_EQ(echo->body, "POST /echo  " + body);
    EXPECT_EQ(server->connections(), 1u);
  }
}

TEST_F(TlsClientTest, ReadsAStreamAsItComes) {
  start_tls();
  Client client(trusting({.authorities = certificate("server")}));
  Held taken;
  std::string seen;
  std::jthread producer([&] {
    taken = take_held();
    taken.responder->begin_stream(200, {});
    taken.responder->write("first");
  });
  const Result<Response> answer =
      client.stream({.method = "GET", .url = server->url() + "/hold", .headers = {}, .body = {}},
                    {}, [&](std::string_view bytes) {
                      seen += bytes;
                      if (seen == "first") {  // it has arrived alone
                        producer.join();
                        taken.responder->write(std::string(100'000, '2'));
                        taken.responder->finish();
                      }
                      return true;
                    });
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  EXPECT_EQ(seen, "first" + std::string(100'000, '2'));
}

TEST_F(TlsClientTest, RefusesACertificateThatNothingTrusted) {
  start_tls();
  EXPECT_EQ(failure({.authorities = certificate("other"), .hint = "; hint"}),
            server->url() +
                "/echo: cannot send: the server's certificate is not trusted: self-signed "
                "certificate; hint");
  EXPECT_THAT(failure({}), HasSubstr("is not trusted: self-signed certificate"));
  EXPECT_EQ(failure({.authorities = folder_ + "/none"}),
            "cannot use the certificates in '" + folder_ + "/none': No such file or directory");
}

TEST_F(TlsClientTest, RefusesACertificateForAnotherHost) {
  make("elsewhere", "DNS:elsewhere.example");
  start_tls("elsewhere");
  EXPECT_THAT(failure({.authorities = certificate("elsewhere")}),
              EndsWith("is not trusted: IP address mismatch"));
}

TEST_F(TlsClientTest, ComparesNamesOfHosts) {
  make("local", "DNS:localhost");
  start_tls("local");
  Client client(trusting({.authorities = certificate("local")}));
  const std::string port = std::to_string(server->port());
  const Result<Response> answer = client.get("https://localhost:" + port + "/echo");
  EXPECT_TRUE(answer.ok()) << answer.status().to_string();
}

TEST_F(TlsClientTest, KnowsItsOwnServerByTheCertificateAlone) {
  make("elsewhere", "DNS:elsewhere.example");
  start_tls("elsewhere");
  const auto own = [&](const std::string& name) {
    return failure({.own_certificate = certificate(name)});
  };
  EXPECT_EQ(own("elsewhere"), "");
  EXPECT_THAT(own("server"), HasSubstr("is not trusted: certificate not trusted"));
  EXPECT_THAT(own("none"), StartsWith("cannot use the TLS certificate '" + folder_ + "/none.crt'"));
}

TEST_F(TlsClientTest, SaysThatAServerSpeaksNoTls) {
  start();
  Client client;
  const std::string url = "https://127.0.0.1:" + std::to_string(server->port()) + "/echo";
  EXPECT_THAT(client.get(url).status().message(),
              HasSubstr("the server does not speak TLS; use http://"));
}

struct Seen final : ExchangeObserver {
  void on_head(const Response& head) override { status = head.status; }
  bool on_body(std::string_view bytes, TimePoint) override {
    body += bytes;
    return true;
  }
  void on_end(const Status& s, TimePoint) override {
    end = s;
    ended = true;
  }
  int status = 0;
  std::string body;
  Status end;
  bool ended = false;
};

class TlsAsyncClientTest : public TlsClientTest {
 protected:
  void connect(const std::string& authorities) {
    AsyncClientOptions options;
    options.trust.authorities = authorities;
    Result<std::unique_ptr<AsyncClient>> made =
        AsyncClient::create(server->url(), std::move(options), clock_);
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    client = *std::move(made);
  }
  void exchange(std::vector<Seen>& all, const std::string& body) {
    for (Seen& seen : all) {
      ASSERT_TRUE(client->start({"POST", "/echo", {}, body}, 20s, seen).ok());
    }
    const TimePoint deadline = clock_.now() + 20s;
    while (client->exchanges() > 0 && clock_.now() < deadline) {
      client->run_for(1ms);
    }
  }
  std::unique_ptr<AsyncClient> client;
};

TEST_F(TlsAsyncClientTest, KeepsItsConnectionsBetweenExchanges) {
  start_tls();
  connect(certificate("server"));
  const std::string body(300'000, 'q');
  for (int round = 0; round < 3; ++round) {
    std::vector<Seen> all(20);
    exchange(all, body);
    for (const Seen& seen : all) {
      ASSERT_TRUE(seen.ended);
      EXPECT_TRUE(seen.end.ok()) << seen.end.to_string();
      EXPECT_EQ(seen.status, 200);
      EXPECT_EQ(seen.body, "POST /echo  " + body);
    }
    EXPECT_EQ(client->connections(), 20u);
  }
}

TEST_F(TlsAsyncClientTest, RefusesACertificateThatNothingTrusted) {
  start_tls();
  connect(certificate("other"));
  std::vector<Seen> all(1);
  exchange(all, "x");
  ASSERT_TRUE(all[0].ended);
  EXPECT_EQ(all[0].end.code(), StatusCode::kUnavailable);
  EXPECT_THAT(all[0].end.message(), HasSubstr("is not trusted: self-signed certificate"));
  EXPECT_FALSE(
      AsyncClient::create(server->url(), {.trust = {.authorities = folder_ + "/none"}}, clock_)
          .ok());
}

}  // namespace
}  // namespace baton::http
