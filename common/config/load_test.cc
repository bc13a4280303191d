#include "common/config/load.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "common/config/assemble.h"
#include "common/config/keys.h"

namespace baton::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

Result<Config> parse(std::string_view yaml, std::vector<std::string> overrides = {},
                     std::optional<Self> self = std::nullopt) {
  return parse_config(yaml, "c.yaml", {"c.yaml", std::move(overrides), std::move(self)});
}

std::string error_of(std::string_view yaml, std::vector<std::string> overrides = {},
                     std::optional<Self> self = std::nullopt) {
  const Result<Config> config = parse(yaml, std::move(overrides), std::move(self));
  return config.ok() ? "ok" : config.status().message();
}

constexpr std::string_view kExample = R"(
cluster: {key_file: ""}                # empty: control links on loopback only
model:
  path: models/smollm2-135m-instruct-q4_1.gguf
  name: smollm2-135m-instruct
  max_context: 0                       # 0 = the file's own limit
numerics: invariant                    # or fast
reduction_segments: auto
router:
  listen: 127.0.0.1:8000               # HTTP: API, health, /metrics
  control: tcp://127.0.0.1:7800        # workers register here
  api_keys_file: ""                    # required beyond loopback, unless allow_keyless: true
  local_prefill: auto                  # auto | never | always
  drain: 30s
workers: {routers: [tcp://127.0.0.1:7800]}
prefill:
  - {name: p0, cpus: auto, tensor_parallel: 1, kv_cache: auto, listen: 127.0.0.1:0, advertise: "", http: 127.0.0.1:0}
decode:
  - {name: d0, cpus: auto, tensor_parallel: 1, kv_cache: auto, listen: 127.0.0.1:0, advertise: "", http: 127.0.0.1:0}
transfer:
  transports: [ucx-posix]              # name ucx-tcp for workers on several machines
  devices: [lo]
)";

TEST(LoadTest, TheDocumentedExampleIsTheDefault) {
  const Result<Config> example = parse(kExample);
  ASSERT_TRUE(example.ok()) << example.status().to_string();
  EXPECT_EQ(to_yaml(*example), to_yaml(default_config()));
  const Result<Config> empty = parse("");
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(to_yaml(*empty), to_yaml(default_config()));
}

TEST(LoadTest, ReadsEveryKindOfValue) {
  const Result<Config> config = parse(R"(
isa: avx2
reduction_segments: 4
router: {drain: 1500ms, max_body: 1MiB, cors_origins: ["https://a.example", "http://b"], allow_keyless: true}
transfer: {deadline_rate_share: 0.5, digest: false, transports: [ucx-tcp, ucx-posix]}
log: {level: warn, format: json}
prefill: []
decode:
  - {kv_cache: 64blocks, tensor_parallel: 2, cpus: "0-1"}
  - {kv_cache: 512MiB, waiting: yield, tensor_parallel: 4}
)");
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->isa, Isa::kAvx2);
  EXPECT_EQ(config->reduction_segments, 4);
  EXPECT_EQ(config->router.drain, 1500ms);
  EXPECT_EQ(config->router.max_body, 1u << 20);
  EXPECT_TRUE(config->router.allow_keyless);
  EXPECT_THAT(config->router.cors_origins, ElementsAre("https://a.example", "http://b"));
  EXPECT_EQ(config->transfer.deadline_rate_share, 0.5);
  EXPECT_FALSE(config->transfer.digest);
  EXPECT_THAT(config->transfer.transports, ElementsAre("ucx-tcp", "ucx-posix"));
  EXPECT_EQ(config->log.level, LogLevel::kWarn);
  EXPECT_THAT(config->prefill, IsEmpty());
  ASSERT_EQ(config->decode.size(), 2u);
  EXPECT_EQ(config->decode[0].name, "d0");
  EXPECT_EQ(config->decode[1].name, "d1");
  EXPECT_EQ(config->decode[0].kv_cache, (KvCacheSize{KvCacheSize::Unit::kBlocks, 64}));
  EXPECT_EQ(config->decode[1].kv_cache, (KvCacheSize{KvCacheSize::Unit::kBytes, 512ull << 20}));
  EXPECT_EQ(config->decode[1].waiting, Waiting::kYield);
}

TEST(LoadTest, PrintsWhatItReadsBack) {
  const Result<Config> config = parse(R"(
model: {name: "x: y", path: "/a b/\"file\""}
router: {cors_origins: ["*", "null", "a,b"], api_keys_file: "- odd", drain: 90m}
decode: [{name: d-1, chunk_time: 7500us, listen: "[::1]:0"}]
)");
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  const std::string printed = to_yaml(*config);
  const Result<Config> again = parse(printed);
  ASSERT_TRUE(again.ok()) << again.status().to_string() << "\n" << printed;
  EXPECT_EQ(to_yaml(*again), printed);
  EXPECT_EQ(again->model.path, "/a b/\"file\"");
  EXPECT_EQ(again->model.name, "x: y");
  EXPECT_EQ(again->router.api_keys_file, "- odd");
  EXPECT_THAT(again->router.cors_origins, ElementsAre("*", "null", "a,b"));
  EXPECT_EQ(again->decode[0].chunk_time, 7500us);
}

// ---- the messages, by their exact text

TEST(LoadTest, NamesUnknownKeysAndTheNearestKnown) {
  EXPECT_EQ(error_of("router:\n  liste: 127.0.0.1:1\n"),
            "c.yaml:2: unknown key router.liste; the nearest is router.listen");
  EXPECT_EQ(error_of("\nruoter: {}\n"), "c.yaml:2: unknown key ruoter; the nearest is router");
  EXPECT_EQ(error_of("decode:\n  - name: d0\n    kv_cach: auto\n"),
            "c.yaml:3: unknown key decode[0].kv_cach; the nearest is decode[].kv_cache");
  EXPECT_EQ(error_of("router: {tensor_parallel: 2}"),
            "c.yaml:1: unknown key router.tensor_parallel; the nearest is "
            "prefill[].tensor_parallel");
  EXPECT_EQ(error_of("listen: x"), "c.yaml:1: unknown key listen; the nearest is router.listen");
}

TEST(LoadTest, SaysWhatWouldBeRight) {
  EXPECT_EQ(error_of("router:\n  drain: soon\n"),
            "c.yaml:2: router.drain: \"soon\" is not right; expected duration like 30s or 500ms, "
            "0s..24h");
  EXPECT_EQ(error_of("router: {drain: 30}"),
            "c.yaml:1: router.drain: \"30\" is not right; expected duration like 30s or 500ms, "
            "0s..24h");
  EXPECT_EQ(error_of("router: {local_prefill: sometimes}"),
            "c.yaml:1: router.local_prefill: \"sometimes\" is not right; expected auto | never | "
            "always");
  EXPECT_EQ(error_of("router: {allow_keyless: yes}"),
            "c.yaml:1: router.allow_keyless: \"yes\" is not right; expected true | false");
  EXPECT_EQ(error_of("router: {io_threads: 0}"),
            "c.yaml:1: router.io_threads: \"0\" is not right; expected integer 1..64");
  EXPECT_EQ(error_of("router: {max_body: 2TB}"),
            "c.yaml:1: router.max_body: \"2TB\" is not right; expected size like 32MiB, "
            "1KiB..1TiB");
  EXPECT_EQ(error_of("prefill: [{tensor_parallel: 3}]"),
            "c.yaml:1: prefill[0].tensor_parallel: \"3\" is not right; expected power of two "
            "1..4");
  EXPECT_EQ(error_of("reduction_segments: 0"),
            "c.yaml:1: reduction_segments: \"0\" is not right; expected auto, or an integer 1..64");
  EXPECT_EQ(error_of("transfer: {deadline_rate_share: 2}"),
            "c.yaml:1: transfer.deadline_rate_share: \"2\" is not right; expected number 0.001..1");
  EXPECT_EQ(error_of("decode: [{kv_cache: 0blocks}]"),
            "c.yaml:1: decode[0].kv_cache: \"0blocks\" is not right; expected auto, a size like "
            "512MiB, or a count like 64blocks");
}

TEST(LoadTest, ChecksTheFormOfTexts) {
  EXPECT_EQ(error_of("router: {listen: 8000}"),
            "c.yaml:1: router.listen: \"8000\" is not an address; write host:port, for example "
            "127.0.0.1:0");
  EXPECT_EQ(error_of("router: {control: 127.0.0.1:7800}"),
            "c.yaml:1: router.control: \"127.0.0.1:7800\" is not a control address; write "
            "tcp://host:port or ipc:///path");
  EXPECT_EQ(error_of("decode: [{name: D 0}]"),
            "c.yaml:1: decode[0].name: \"D 0\" is not a name; use up to 32 of a-z, 0-9 and -");
  EXPECT_EQ(error_of("decode: [{cpus: all}]"),
            "c.yaml:1: decode[0].cpus: \"all\" is not a list of CPUs; write auto or for example "
            "0-3,8");
  EXPECT_EQ(error_of("transfer: {transports: [rdma]}"),
            "c.yaml:1: transfer.transports: \"rdma\" is not a transport; known are pool, "
            "ucx-posix, ucx-tcp");
  EXPECT_EQ(error_of("decode: [{advertise: host}]"),
            "c.yaml:1: decode[0].advertise: \"host\" is not an address; write host:port, for "
            "example 127.0.0.1:0");
}

TEST(LoadTest, RefusesTheWrongShape) {
  EXPECT_EQ(error_of("- a"), "c.yaml:1: the file must be a mapping of keys");
  EXPECT_EQ(error_of("router: 5"), "c.yaml:1: router must be a mapping of keys");
  EXPECT_EQ(error_of("prefill: {name: p0}"), "c.yaml:1: prefill must be a list of workers");
  EXPECT_EQ(error_of("prefill: [p0]"), "c.yaml:1: prefill[0] must be a mapping of keys");
  EXPECT_EQ(error_of("router: {drain: [1s]}"),
            "c.yaml:1: router.drain: a list is not right; expected duration like 30s or 500ms, "
            "0s..24h");
  EXPECT_EQ(error_of("router:\n  drain:\n"),
            "c.yaml:2: router.drain: no value is not right; expected duration like 30s or 500ms, "
            "0s..24h");
  EXPECT_EQ(error_of("router: {drain: {a: b}}"),
            "c.yaml:1: router.drain: a mapping is not right; expected duration like 30s or 500ms, "
            "0s..24h");
  EXPECT_EQ(error_of("transfer: {devices: lo}"),
            "c.yaml:1: transfer.devices: \"lo\" is not right; expected list of text");
  EXPECT_EQ(error_of("transfer: {devices: [[lo]]}"),
            "c.yaml:1: transfer.devices: an item of the list is no text");
  EXPECT_EQ(error_of("router: {drain: 1s}\nlog: {}\nrouter: {}\n"),
            "c.yaml:3: router is given twice, first in line 1");
  EXPECT_EQ(error_of("? [a]\n: b\n"), "c.yaml:1: a key must be a word");
  EXPECT_EQ(error_of("a: 1\n---\nb: 2\n"), "c.yaml: more than one document in the file");
  EXPECT_THAT(error_of("router: {drain: 1s"), StartsWith("c.yaml:1: not valid YAML: "));
  EXPECT_THAT(error_of("router:\n\t- x"), StartsWith("c.yaml:2: not valid YAML: "));
  EXPECT_EQ(error_of("router:\n"), "ok");  // an empty section
  EXPECT_EQ(error_of("# nothing\n"), "ok");
}

TEST(LoadTest, WantsBothFilesOfTls) {
  EXPECT_EQ(error_of("router: {tls_certificate_file: a, tls_key_file: b}"), "ok");
  EXPECT_THAT(error_of("router: {tls_certificate_file: a}"),
              HasSubstr("router.tls_key_file: is empty; TLS needs both"));
  EXPECT_THAT(error_of("router: {tls_key_file: b}"),
              HasSubstr("router.tls_certificate_file: is empty; TLS needs both"));
}

TEST(LoadTest, ChecksHowKeysAgree) {
  EXPECT_EQ(error_of("router:\n  listen: 0.0.0.0:8000\n"),
            "c.yaml:2: router.listen: 0.0.0.0:8000 can be reached from other machines; set "
            "router.api_keys_file, or router.allow_keyless: true");
  EXPECT_EQ(error_of("router: {listen: \"0.0.0.0:8000\", allow_keyless: true}"), "ok");
  EXPECT_EQ(error_of("router: {listen: \"0.0.0.0:8000\", api_keys_file: keys}"), "ok");
  EXPECT_EQ(error_of("router: {listen: \"[::1]:8000\"}"), "ok");
  EXPECT_EQ(error_of("router: {control: tcp://10.0.0.1:7800}"),
            "c.yaml:1: router.control: tcp://10.0.0.1:7800 can be reached from other machines; set "
            "cluster.key_file, which encrypts control links, or keep them on loopback");
  EXPECT_EQ(error_of("router: {control: ipc:///run/baton/control}"), "ok");
  EXPECT_EQ(error_of("workers: {routers: [tcp://router:7800]}"),
            "c.yaml:1: workers.routers: tcp://router:7800 can be reached from other machines; set "
            "cluster.key_file, which encrypts control links, or keep them on loopback");
  EXPECT_THAT(error_of("workers: {routers: [tcp://127.evil.example:7800]}"),
              HasSubstr("tcp://127.evil.example:7800 can be reached from other machines"));
  EXPECT_EQ(error_of("numerics: fast"), "ok");
  EXPECT_EQ(error_of("numerics: fast\nnumerics_force: true"), "ok");
  EXPECT_EQ(error_of("numerics_force: true"),
            "c.yaml:1: numerics_force: means something with numerics: fast only");
  EXPECT_EQ(error_of("router: {request_log: log}"), "ok");
  EXPECT_EQ(error_of("prefill: [{listen: \"10.0.0.1:0\", advertise: \"10.0.0.1:0\"}]"), "ok")
      << "prefill workers connect";
  EXPECT_EQ(error_of("decode: [{listen: \"10.0.0.1:0\"}]"),
            "c.yaml:1: decode[0].listen: 10.0.0.1:0 can be reached from other machines; set "
            "cluster.key_file, which encrypts control links, or keep them on loopback");
  EXPECT_EQ(error_of("workers: {routers: []}"),
            "c.yaml:1: workers.routers: the list is empty; name at least one router");
  EXPECT_EQ(error_of("decode: []"),
            "c.yaml: decode: the list is empty; at least one decode worker is needed");
  EXPECT_EQ(error_of("prefill: []\nrouter: {local_prefill: never}"),
            "c.yaml:2: router.local_prefill: never needs a prefill worker, and the file has none");
  EXPECT_EQ(error_of("prefill: [{name: w}]\ndecode:\n  - {name: w}\n"),
            "c.yaml:3: decode[0].name: \"w\" is taken by another worker");
  EXPECT_EQ(error_of("reduction_segments: 3\ndecode: [{tensor_parallel: 2}]"),
            "c.yaml:1: reduction_segments: 3 is no multiple of tensor_parallel 2 of d0");
  EXPECT_EQ(error_of("transfer: {heartbeat: 2s}"),
            "c.yaml:1: transfer.heartbeat: 2s must be shorter than transfer.dead_after, 1s");
  EXPECT_EQ(error_of("transfer: {reconnect_max: 10ms}"),
            "c.yaml: transfer.reconnect_min: 50ms is longer than transfer.reconnect_max, 10ms");
  EXPECT_EQ(error_of("transfer: {transports: []}"),
            "c.yaml:1: transfer.transports: the list is empty; name at least one transport");
  EXPECT_EQ(error_of("transfer: {transports: [ucx-tcp], devices: []}"),
            "c.yaml:1: transfer.devices: ucx-tcp needs at least one device");
  EXPECT_EQ(error_of("workers: {heartbeat: 5s}"),
            "c.yaml:1: workers.heartbeat: 5s must be shorter than router.worker_timeout, 1s");
}

// ---- overrides

TEST(LoadTest, AppliesOverridesInOrder) {
  const Result<Config> config =
      parse("router: {drain: 1s}",
            {"router.drain=2s", "router.drain=3s", "isa=scalar", "model.name=a=b",
             "transfer.devices=[lo, eth0]", "router.cors_origins=http://a,http://b"});
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->router.drain, 3s);
  EXPECT_EQ(config->isa, Isa::kScalar);
  EXPECT_EQ(config->model.name, "a=b");
  EXPECT_THAT(config->transfer.devices, ElementsAre("lo", "eth0"));
  EXPECT_THAT(config->router.cors_origins, ElementsAre("http://a", "http://b"));
}

TEST(LoadTest, OverridesWorkersByName) {
  const std::string_view two = "decode: [{name: d0}, {name: d1}]";
  const Result<Config> config = parse(
      two,
      {"decode.*.block_tokens=64", "decode.d1.kv_cache=8blocks", "worker.max_batch_sequences=3"},
      Self{Role::kDecode, "d0"});
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->decode[0].block_tokens, 64);
  EXPECT_EQ(config->decode[1].block_tokens, 64);
  EXPECT_EQ(config->decode[0].max_batch_sequences, 3);
  EXPECT_EQ(config->decode[1].max_batch_sequences, 128);
  EXPECT_EQ(config->decode[1].kv_cache.count, 8u);
  EXPECT_EQ(config->prefill[0].block_tokens, 32);
}

TEST(LoadTest, RefusesWrongOverrides) {
  EXPECT_EQ(error_of("", {"router.drain"}), "--set: \"router.drain\" is not section.key=value");
  EXPECT_EQ(error_of("", {"router.dran=1s"}),
            "--set: unknown key router.dran; the nearest is router.drain");
  EXPECT_EQ(error_of("", {"router.drain=x"}),
            "--set: router.drain: \"x\" is not right; expected duration like 30s or 500ms, "
            "0s..24h");
  EXPECT_EQ(error_of("", {"nonsense=1"}).substr(0, 30), "--set: unknown key nonsense; t");
  EXPECT_EQ(error_of("", {"decode.d7.cpus=0"}),
            "--set: decode.d7.cpus: no decode worker is called \"d7\"; there are: d0");
  EXPECT_EQ(error_of("", {"decode.cpus=0"}),
            "--set: decode.cpus: name the worker, for example decode.*.cpus");
  EXPECT_EQ(error_of("", {"worker.cpus=0"}),
            "--set: worker.cpus: this process is no worker; name one, for example decode.d0.cpus");
  EXPECT_EQ(error_of("", {"worker.cpu=0"}, Self{Role::kPrefill, ""}),
            "--set: unknown key worker.cpu; the nearest is prefill[].cpus");
  EXPECT_EQ(error_of("", {"worker.cpus=x"}, Self{Role::kPrefill, ""}),
            "--set: worker.cpus: \"x\" is not a list of CPUs; write auto or for example 0-3,8");
  EXPECT_EQ(error_of("", {"router.listen=0.0.0.0:1"}),
            "--set: router.listen: 0.0.0.0:1 can be reached from other machines; set "
            "router.api_keys_file, or router.allow_keyless: true");
}

TEST(LoadTest, WithAClusterKeyControlLinksMayLeaveTheMachine) {
  const std::string keyed = "cluster: {key_file: k}\n";
  EXPECT_EQ(error_of(keyed), "ok");
  EXPECT_EQ(error_of(keyed + "router: {control: tcp://0.0.0.0:7800}"), "ok");
  EXPECT_EQ(error_of(keyed + "workers: {routers: [tcp://baton-routers:7800]}"), "ok");
  EXPECT_EQ(error_of(keyed + "decode: [{listen: \"10.0.0.1:7801\"}]"), "ok");
  EXPECT_EQ(error_of(keyed + "prefill: [{advertise: \"p0:0\"}]"), "ok");
}

TEST(LoadTest, AWorkerOnAnyAddressMustSayWhichOne) {
  const std::string text = "cluster: {key_file: k}\ndecode: [{listen: \"0.0.0.0:7801\"}]";
  const Self d0{Role::kDecode, ""};
  EXPECT_EQ(
      error_of(text, {}, d0),
      "c.yaml: decode[0].advertise: listen is 0.0.0.0:7801, so others must be told where this "
      "worker is; set for example --set worker.advertise=ADDRESS:0 (port 0: that of listen)");
  EXPECT_EQ(error_of(text, {"worker.advertise=10.0.0.7:0"}, d0), "ok");
  EXPECT_EQ(error_of(text, {"worker.advertise=0.0.0.0:7801"}, d0),
            "--set: decode[0].advertise: 0.0.0.0:7801 is no address that others can connect to");
  // The file is everybody's: only the worker itself has to know.
  EXPECT_EQ(error_of(text, {}, Self{Role::kPrefill, ""}), "ok");
  EXPECT_EQ(error_of(text, {}, Self{Role::kRouter, ""}), "ok");
}

TEST(LoadTest, FindsTheOwnEntry) {
  const Result<Config> config = parse("decode: [{name: d0}, {name: d1}]");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ((*own_entry(*config, {Role::kPrefill, ""}))->name, "p0");
  EXPECT_EQ((*own_entry(*config, {Role::kDecode, "d1"}))->name, "d1");
  EXPECT_EQ(own_entry(*config, {Role::kDecode, ""}).status().message(),
            "the file has several decode workers; choose one with --name: d0, d1");
  EXPECT_EQ(own_entry(*config, {Role::kDecode, "p0"}).status().message(),
            "the file has no decode worker \"p0\"; there are: d0, d1");
}

// ---- files

TEST(LoadTest, NamesTheFileThatIsMissing) {
  const Result<Config> config = load_config({"no/such.yaml", {}, std::nullopt});
  EXPECT_EQ(config.status().message(),
            "cannot read no/such.yaml: No such file or directory (tried " +
                std::filesystem::current_path().string() + "/no/such.yaml)");
  EXPECT_THAT(load_config({"/", {}, std::nullopt}).status().message(),
              StartsWith("cannot read /: "));
}

TEST(LoadTest, RefusesAFileThatIsNoConfiguration) {
  const std::string path =
      testing::TempDir() + "/baton_config_" + std::to_string(getpid()) + ".yaml";
  std::ofstream(path) << std::string(2 << 20, '#');
  EXPECT_EQ(load_config({path, {}, std::nullopt}).status().message(),
            path + ": larger than 1 MiB; is this a configuration?");
  std::ofstream(path) << "router: {drain: 5s}\n";
  const Result<Config> config = load_config({path, {}, std::nullopt});
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->router.drain, 5s);
  std::filesystem::remove(path);
}

TEST(LoadTest, SurvivesHostileYaml) {
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("c.yaml"));
  EXPECT_THAT(error_of("a: &a [*a]"), HasSubstr("c.yaml"));
  EXPECT_THAT(error_of("\x80: \x81"), HasSubstr("c.yaml"));
  EXPECT_EQ(error_of(std::string("\xFF\xFE\0\0", 4)), "ok");  // an empty file in UTF-16
}

TEST(KeysTest, EveryKeyIsDocumentedAndHasItsDefault) {
  std::set<std::string> paths;
  for (const KeyInfo& key : all_keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    EXPECT_FALSE(key.doc.empty()) << key.path;
    EXPECT_FALSE(key.type.empty()) << key.path;
    EXPECT_FALSE(key.default_value.empty()) << key.path;
  }
  EXPECT_TRUE(paths.contains("router.listen"));
  EXPECT_TRUE(paths.contains("prefill[].kv_cache"));
  EXPECT_TRUE(paths.contains("isa"));
  EXPECT_TRUE(paths.contains("test.time_scale"));
}

TEST(KeysTest, EveryKeyCanBeSetToItsDefault) {
  for (const KeyInfo& key : all_keys()) {
    std::string path = key.path;
    for (const auto& [list, name] :
         {std::pair{"prefill[]", "prefill.p0"}, std::pair{"decode[]", "decode.d0"}}) {
      if (path.starts_with(list)) {
        path.replace(0, std::string_view(list).size(), name);
      }
    }
    std::string value = key.default_value == "\"\"" ? "" : key.default_value;
    EXPECT_EQ(error_of("", {path + "=" + value}), "ok") << path;
  }
}

}  // namespace
}  // namespace baton::config
