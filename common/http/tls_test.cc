#include "common/http/tls.h"

#include <gmock/gmock.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "common/http/server_fixture.h"
#include "common/http/test_certificates.h"

namespace baton::http {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// A client on a blocking socket.
class TlsClient {
 public:
  explicit TlsClient(uint16_t port, int version = 0, std::string_view protocols = {})
      : socket_(port), context_(SSL_CTX_new(TLS_client_method())), session_(nullptr) {
    const timeval limit{5, 0};
    setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    // Clients of old versions need this to be allowed them at all.
    SSL_CTX_set_security_level(context_, 0);
    SSL_CTX_set_max_proto_version(context_, version);
    session_ = SSL_new(context_);
    SSL_set_alpn_protos(session_, reinterpret_cast<const unsigned char*>(protocols.data()),
                        static_cast<unsigned>(protocols.size()));
    SSL_set_fd(session_, socket_.fd());
    connected_ = SSL_connect(session_) == 1;
  }
  ~TlsClient() {
    SSL_free(session_);
    SSL_CTX_free(context_);
  }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  bool connected() const { return connected_; }
  std::string version() const { return SSL_get_version(session_); }
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(session_, &name, &size);
    return {reinterpret_cast<const char*>(name), size};
  }
  std::string server_name() const {
    X509* certificate = SSL_get1_peer_certificate(session_);
    char name[64] = "";
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name,
                              sizeof(name));
    X509_free(certificate);
    return name;
  }
  void send(std::string_view bytes) {
    EXPECT_EQ(SSL_write(session_, bytes.data(), static_cast<int>(bytes.size())),
              static_cast<int>(bytes.size()));
  }
  // All that comes until the server says that nothing follows; `farewell` tells whether it did.
  std::string read_all() {
    std::string all;
    char buffer[16 * 1024];
    int n = 0;
    while ((n = SSL_read(session_, buffer, sizeof(buffer))) > 0) {
      all.append(buffer, static_cast<size_t>(n));
    }
    farewell = SSL_get_error(session_, n) == SSL_ERROR_ZERO_RETURN;
    return all;
  }
  // The connection breaks off without a word.
  void vanish() { socket_.close_now(); }

  bool farewell = false;

 private:
  TestSocket socket_;
  SSL_CTX* context_;
  SSL* session_;
  bool connected_ = false;
};

class TlsTest : public ServerTestBase {
 protected:
  TlsTest() {
    std::signal(SIGPIPE, SIG_IGN);  // which OpenSSL's transport of TlsClient would raise
    std::string pattern = std::filesystem::temp_directory_path() / "baton-tls-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    files_ = {folder_ + "/tls.crt", folder_ + "/tls.key"};
    replace("first");
  }
  ~TlsTest() override {
    server.reset();
    std::filesystem::remove_all(folder_);
    std::signal(SIGPIPE, SIG_DFL);
  }

  // Both files anew, by renaming, as what rotates certificates does.
  void replace(const char* name) {
    const Key key = make_key();
    write_key(files_.key + ".new", key.get());
    write_certificate(files_.certificate + ".new", key.get(), name);
    std::filesystem::rename(files_.key + ".new", files_.key);
    std::filesystem::rename(files_.certificate + ".new", files_.certificate);
  }

  void start_tls(ServerOptions options = {}) {
    Result<std::unique_ptr<TlsCertificate>> opened = TlsCertificate::open(files_, clock_);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    options.tls = *std::move(opened);
    start(std::move(options));
  }

  std::string open_error() {
    const Status status = TlsCertificate::open(files_, clock_).status();
    return status.ok() ? "" : status.message();
  }

  FakeClock clock_;
  std::string folder_;
  TlsFiles files_;
};

constexpr std::string_view kGet = "GET /echo?a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

TEST_F(TlsTest, AnswersOverBothVersions) {
  start_tls();
  EXPECT_THAT(server->url(), StartsWith("https://127.0.0.1:"));
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(server->port(), version);
    ASSERT_TRUE(client.connected());
    EXPECT_EQ(client.version(), version == TLS1_2_VERSION ? "TLSv1.2" : "TLSv1.3");
    client.send(kGet);
    const std::string answer = client.read_all();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(answer, HasSubstr("GET /echo a "));
    EXPECT_TRUE(client.farewell);
  }
}

TEST_F(TlsTest, RefusesOlderVersions) {
  start_tls();
  EXPECT_FALSE(TlsClient(server->port(), TLS1_1_VERSION).connected());
  EXPECT_TRUE(wait_for_connections(0));
}

TEST_F(TlsTest, ChoosesHttp11WhereHttp2IsOffered) {
  start_tls();
  TlsClient both(server->port(), 0, "\x02h2\x08http/1.1");
  ASSERT_TRUE(both.connected());
  EXPECT_EQ(both.protocol(), "http/1.1");
  TlsClient other(server->port(), 0, "\x02h2");
  EXPECT_TRUE(other.connected());
  EXPECT_EQ(other.protocol(), "");
}

TEST_F(TlsTest, CarriesLargeBodiesBothWays) {
  start_tls();
  TlsClient client(server->port());
  ASSERT_TRUE(client.connected());
  const std::string body(3 << 20, 'u');
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  client.send(body);
  const std::string answer = client.read_all();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(answer.ends_with("POST /echo  " + body));
}

TEST_F(TlsTest, AnswersRequestsOneAfterTheOtherOnAConnection) {
  start_tls();
  TlsClient client(server->port());
  ASSERT_TRUE(client.connected());
  client.send("GET /big HTTP/1.1\r\nHost: x\r\n\r\nGET /big HTTP/1.1\r\nHost: x\r\n\r\n");
  client.send(kGet);
  const std::string answer = client.read_all();
  EXPECT_GT(answer.size(), 2u << 20);
  EXPECT_THAT(answer.substr(answer.size() - 400), HasSubstr("GET /echo a "));
}

TEST_F(TlsTest, TellsPlainHttpThatItIsWrongHere) {
  start_tls();
  const std::string answer = exchange(kGet);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_THAT(answer, HasSubstr("this port speaks TLS; use https://"));
  EXPECT_TRUE(wait_for_connections(0));
}

TEST_F(TlsTest, ClosesWhatIsNeither) {
  start_tls();
  TestSocket socket(server->port());
  socket.send(std::string(100, 'x'));
  const std::string answer = socket.read_all();
  EXPECT_LE(answer.size(), 7u) << answer;  // an alert
  EXPECT_TRUE(socket.ended());
  socket.close_now();
  EXPECT_TRUE(wait_for_connections(0));
}

TEST_F(TlsTest, CutsASlowHandshake) {
  ServerOptions options;
  options.header_timeout = 50ms;
  start_tls(std::move(options));
  for (const std::string_view begin : {"", "\x16\x03\x01"}) {
    TestSocket socket(server->port());
    socket.send(begin);
    EXPECT_THAT(socket.read_all(), IsEmpty());
    EXPECT_TRUE(socket.ended());
  }
  EXPECT_TRUE(wait_for_connections(0));
  // The limit is of the handshake, not of what follows it.
  TlsClient client(server->port());
  EXPECT_TRUE(client.connected());
}

TEST_F(TlsTest, ClosesConnectionsBeyondTheLimit) {
  ServerOptions options;
  options.max_connections = 1;
  start_tls(std::move(options));
  TlsClient first(server->port());
  ASSERT_TRUE(first.connected());
  EXPECT_FALSE(TlsClient(server->port()).connected());
  first.send(kGet);
  EXPECT_THAT(first.read_all(), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(TlsTest, NoticesAClientThatIsGone) {
  start_tls();
  TlsClient client(server->port());
  ASSERT_TRUE(client.connected());
  client.send("GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
  Held request = take_held();
  // Shared: the callback may still be inside it when the wait has ended.
  const auto closed = std::make_shared<BoundedQueue<int>>(QueueLimits{1});
  request.responder->on_close([closed] { (void)closed->try_push(1); });
  client.vanish();
  EXPECT_TRUE(closed->pop_until(std::chrono::steady_clock::now() + 5s).has_value());
  EXPECT_FALSE(request.responder->alive());
}

TEST_F(TlsTest, StopsInTheMiddleOfAHandshake) {
  start_tls();
  TestSocket socket(server->port());
  socket.send("\x16\x03\x01");
  EXPECT_TRUE(wait_for_connections(1));
  EXPECT_TRUE(server->drain(std::chrono::steady_clock::now() + 5s));
  EXPECT_THAT(socket.read_all(), IsEmpty());
}

TEST_F(TlsTest, ReadsFilesAgainWhenTheyChange) {
  start_tls();
  EXPECT_EQ(TlsClient(server->port()).server_name(), "first");
  replace("second");
  EXPECT_EQ(TlsClient(server->port()).server_name(), "first");  // looked at within this second
  clock_.advance(2s);
  EXPECT_EQ(TlsClient(server->port()).server_name(), "second");
}

TEST_F(TlsTest, KeepsWhatItHasWhenFilesCannotBeUsed) {
  start_tls();
  const Key other = make_key();
  write_key(files_.key + ".new", other.get());
  std::filesystem::rename(files_.key + ".new", files_.key);  // the certificate comes later
  clock_.advance(2s);
  EXPECT_EQ(TlsClient(server->port()).server_name(), "first");
  write_certificate(files_.certificate, other.get(), "second");
  clock_.advance(2s);
  EXPECT_EQ(TlsClient(server->port()).server_name(), "second");
  std::filesystem::remove(files_.certificate);
  clock_.advance(2s);
  EXPECT_EQ(TlsClient(server->port()).server_name(), "second");
}

TEST_F(TlsTest, NamesTheFileThatCannotBeUsed) {
  EXPECT_EQ(open_error(), "");
  const Key other = make_key();
  write_key(files_.key, other.get());
  EXPECT_EQ(open_error(), "cannot use the TLS key '" + files_.key + "' with the certificate '" +
                              files_.certificate + "': key values mismatch");
  write_key(files_.key, other.get(), "secret");
  EXPECT_THAT(open_error(), StartsWith("cannot use the TLS key '" + files_.key));
  std::ofstream(files_.certificate) << "no certificate";
  EXPECT_EQ(open_error(),
            "cannot use the TLS certificate '" + files_.certificate + "': no start line");
  std::filesystem::remove(files_.certificate);
  EXPECT_THAT(open_error(), HasSubstr("No such file or directory"));
}

}  // namespace
}  // namespace baton::http
