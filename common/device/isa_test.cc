#include "common/device/isa.h"

#include <gtest/gtest.h>

#include "common/device/cpu_info.h"

namespace baton::device {
namespace {

TEST(IsaTest, AvailableLevelsAscendFromScalar) {
  const std::vector<Isa>& isas = available_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), Isa::kScalar);
  for (size_t i = 1; i < isas.size(); ++i) {
    EXPECT_LT(isas[i - 1], isas[i]);
  }
}

TEST(IsaTest, AutoIsTheHighestLevelAndEveryLevelIsFoundByName) {
  EXPECT_EQ(choose_isa("auto").value(), available_isas().back());
  for (const Isa isa : available_isas()) {
    EXPECT_EQ(choose_isa(isa_name(isa)).value(), isa);
  }
}

TEST(IsaTest, AmxNeedsTheKernelsPermission) {
  CpuInfo cpu;
  cpu.avx2_fma_f16c = cpu.avx512 = cpu.amx_bf16 = true;
  const IsaLevels allowed = find_levels(cpu, [] { return true; });
  EXPECT_EQ(allowed.isas.back(), Isa::kAmx);
  EXPECT_EQ(allowed.amx_refusal, "");
  const IsaLevels refused = find_levels(cpu, [] { return false; });
  EXPECT_EQ(refused.isas, (std::vector<Isa>{Isa::kScalar, Isa::kAvx2, Isa::kAvx512}));
  EXPECT_EQ(refused.amx_refusal, "the kernel refused tile permission");
  EXPECT_EQ(find_levels({}, [] { return true; }).isas, std::vector<Isa>{Isa::kScalar});
}

TEST(IsaTest, UnknownNameIsRefusedWithTheList) {
  const Status status = choose_isa("sse9").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("scalar"), std::string::npos) << status.to_string();
}

TEST(IsaTest, MissingLevelIsRefusedWithTheList) {
  if (available_isas().back() == Isa::kAmx) {
    EXPECT_TRUE(amx_refusal().empty());
    return;
  }
  const Status status = choose_isa("amx").status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("scalar"), std::string::npos) << status.to_string();
}

TEST(IsaTest, CpuHasAName) { EXPECT_FALSE(cpu_info().model.empty()); }

}  // namespace
}  // namespace baton::device
