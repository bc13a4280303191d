#include "kv_transfer/transports/ucx/ucx_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kv_transfer/transports/ucx/ucx_path.h"
#include "kv_transfer/transports/ucx/ucx_status.h"

namespace baton::kv_transfer {
namespace {

using testing::HasSubstr;

// As UCX 1.13.1 prints it.
constexpr const char* kPosix =
    "#\n# UCP endpoint \n#\n#               peer: vm:5120\n"
    "#                 lane[0]:  0:posix/memory.0 md[0]      -> md[0]/posix/sysdev[255] am "
    "am_bw#0\n"
    "#                 lane[1]:  0:posix/memory.0 md[0]      -> md[0]/posix/sysdev[255] wireup\n";
constexpr const char* kMixed =
    "#                 lane[0]:  0:posix/memory.0 md[0]      -> md[0]/posix/sysdev[255] am "
    "am_bw#0\n"
    "#                 lane[1]:  3:tcp/lo.0 md[1]      -> md[1]/tcp/sysdev[255] keepalive\n";

TEST(UcxConfigTest, AcceptsTheLaneThatWasAskedFor) {
  EXPECT_TRUE(check_lanes(kPosix, "ucx-posix").ok());
}

TEST(UcxConfigTest, NamesTheLaneThatUcxTookInstead) {
  const Status status = check_lanes(kPosix, "ucx-tcp");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "ucx-tcp runs on the lane 'posix', expected 'tcp'");
}

TEST(UcxConfigTest, OneOtherLaneIsEnoughToRefuse) {
  EXPECT_THAT(check_lanes(kMixed, "ucx-posix").message(), HasSubstr("'tcp', expected 'posix'"));
}

TEST(UcxConfigTest, NoLaneIsNone) {
  EXPECT_THAT(check_lanes("# UCP endpoint\n", "ucx-posix").message(), HasSubstr("no lane"));
  EXPECT_FALSE(check_lanes("lane[0] nonsense", "ucx-posix").ok());
}

TEST(UcxConfigTest, TcpNeedsDevices) {
  const auto path = open_ucx_path({"ucx-tcp", {}, 2s});
  ASSERT_FALSE(path.ok());
  EXPECT_THAT(path.status().message(), HasSubstr("network devices"));
}

TEST(UcxConfigTest, ADeviceThatDoesNotExistIsAnError) {
  EXPECT_FALSE(open_ucx_path({"ucx-tcp", {"nosuchdevice0"}, 2s}).ok());
}

TEST(UcxStatusTest, DeadPeersOfAnyCodeAreLost) {
  EXPECT_TRUE(from_ucx(UCS_OK, "x").ok());
  for (const ucs_status_t status : {UCS_ERR_ENDPOINT_TIMEOUT, UCS_ERR_CONNECTION_RESET,
                                    UCS_ERR_CANCELED, UCS_ERR_NOT_CONNECTED}) {
    EXPECT_EQ(from_ucx(status, "x").code(), StatusCode::kWorkerLost);
  }
  EXPECT_EQ(from_ucx(UCS_ERR_REJECTED, "x").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(from_ucx(UCS_ERR_NO_MEMORY, "x").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(from_ucx(UCS_ERR_INVALID_PARAM, "call").code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace baton::kv_transfer
