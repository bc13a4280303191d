#include "router/tool_calls/answer_form.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace baton::router {
namespace {

TEST(AnswerFormTest, IdsOfCallsDiffer) {
  for (const CallForm form : {CallForm::kHermes, CallForm::kMistral}) {
    std::set<std::string> ids;
    for (const char* answer : {"chatcmpl-1", "chatcmpl-2"}) {
      for (int choice = 0; choice < 10; ++choice) {
        for (int call = 0; call < 10; ++call) {
          ids.insert(call_id(form, answer, choice, call));
        }
      }
    }
    EXPECT_EQ(ids.size(), 200);
    EXPECT_EQ(call_id(form, "a", 0, 0), call_id(form, "a", 0, 0));
  }
  EXPECT_TRUE(call_id(CallForm::kLlama3, "a", 0, 0).starts_with("call_"));
}

TEST(AnswerFormTest, IdsOfMistralAreNineLettersAndDigits) {
  for (int call = 0; call < 100; ++call) {
    const std::string id = call_id(CallForm::kMistral, "chatcmpl-1", 0, call);
    EXPECT_EQ(id.size(), 9);
    EXPECT_TRUE(std::all_of(id.begin(), id.end(),
                            [](char c) { return std::isalnum(static_cast<unsigned char>(c)); }));
  }
}

TEST(AnswerFormTest, EachFormHasItsMarkers) {
  for (const CallForm form : {CallForm::kHermes, CallForm::kLlama3, CallForm::kMistral}) {
    const std::vector<std::string_view> markers = form_markers(form);
    EXPECT_EQ(std::count(markers.begin(), markers.end(), call_marker(form)), 1);
    EXPECT_EQ(std::count(markers.begin(), markers.end(), kThinkEnd), 1);
  }
}

}  // namespace
}  // namespace baton::router
