#include "common/worker/resolver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/clock.h"
#include "common/wire/sockets.h"

namespace baton::worker {
namespace {

std::optional<Resolver::Answer> wait_for_answer(Resolver& resolver) {
  const TimePoint deadline = SteadyClock().now() + 60s;
  while (SteadyClock().now() < deadline) {
    if (std::optional<Resolver::Answer> answer = resolver.take()) {
      return answer;
    }
    wire::wait_readable({}, SteadyClock().now() + 2ms);
  }
  return std::nullopt;
}

TEST(SystemResolverTest, ResolvesTheNameOfThisMachine) {
  SystemResolver resolver;
  EXPECT_FALSE(resolver.take().has_value());
  ASSERT_TRUE(resolver.ask("localhost"));
  const std::optional<Resolver::Answer> answer = wait_for_answer(resolver);
  ASSERT_TRUE(answer && answer->addresses.ok());
  EXPECT_EQ(answer->host, "localhost");
  EXPECT_THAT(*answer->addresses, testing::IsSupersetOf({"127.0.0.1"}));
}

TEST(SystemResolverTest, TellsWhenANameDoesNotResolve) {
  SystemResolver resolver;
  ASSERT_TRUE(resolver.ask("no such name"));  // no name server is asked for a name with spaces
  const std::optional<Resolver::Answer> answer = wait_for_answer(resolver);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->addresses.status().code(), StatusCode::kNotFound);
}

TEST(SystemResolverTest, EndsWithQuestionsAndAnswersLeft) {
  SystemResolver resolver;
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(resolver.ask("localhost"));
  }
}

}  // namespace
}  // namespace baton::worker
