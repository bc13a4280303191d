#include "common/worker/advertised.h"

#include <gtest/gtest.h>

namespace baton::worker {
namespace {

TEST(AdvertisedTest, TheBoundAddressUnlessTheFileSaysOtherwise) {
  EXPECT_EQ(advertised_address("tcp://127.0.0.1:41000", ""), "tcp://127.0.0.1:41000");
  EXPECT_EQ(advertised_address("tcp://0.0.0.0:41000", "10.0.0.7:7801"), "tcp://10.0.0.7:7801");
}

TEST(AdvertisedTest, PortZeroIsTheOneThatIsListenedOn) {
  EXPECT_EQ(advertised_address("tcp://0.0.0.0:41000", "10.0.0.7:0"), "tcp://10.0.0.7:41000");
  EXPECT_EQ(advertised_address("tcp://[::]:41000", "[fd00::7]:0"), "tcp://[fd00::7]:41000");
  EXPECT_EQ(advertised_address("tcp://0.0.0.0:41000", "d0.pods:0"), "tcp://d0.pods:41000");
}

TEST(AdvertisedTest, TheHealthAddressIsReachableWhereItListensOnAny) {
  EXPECT_EQ(advertised_url("http://0.0.0.0:9001", "10.0.0.7:0"), "http://10.0.0.7:9001");
  EXPECT_EQ(advertised_url("http://[::]:9001", "[fd00::7]:7801"), "http://[fd00::7]:9001");
  EXPECT_EQ(advertised_url("http://127.0.0.1:9001", "10.0.0.7:0"), "http://127.0.0.1:9001");
  EXPECT_EQ(advertised_url("http://0.0.0.0:9001", ""), "http://0.0.0.0:9001");
}

}  // namespace
}  // namespace baton::worker
