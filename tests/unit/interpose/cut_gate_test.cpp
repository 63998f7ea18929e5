// SPDX-License-Identifier: Apache-2.0
// When a cut may be made, over all combinations of facts.
#include "interpose/snapshot/cut_gate.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace gpusnap {
namespace {

using mpi::Unready;

// Each fact, as what stands against a cut: setting it makes the cut less likely, never more.
using Obstacle = bool CutFacts::*;
constexpr Obstacle kObstacles[] = {&CutFacts::in_doubt,     &CutFacts::busy,
                                   &CutFacts::request_open, &CutFacts::reloading,
                                   &CutFacts::replaying,    &CutFacts::capturing};

void for_all_facts(const std::function<void(const CutFacts&)>& visit) {
  for (unsigned bits = 0; bits < 1U << 7; ++bits) {
    CutFacts facts;
    facts.has_context = (bits & 1) != 0;
    for (size_t i = 0; i < std::size(kObstacles); ++i) {
      facts.*kObstacles[i] = (bits >> (i + 1) & 1) != 0;
    }
    visit(facts);
  }
}

CutGate gate_of(bool coordinated, bool blocking) {
  CutGate gate;
  gate.set_rules(coordinated, blocking);
  return gate;
}

TEST(CutGate, ARankOfSeveralNeverCutsAlone) {
  for (const bool blocking : {false, true}) {
    const CutGate gate = gate_of(true, blocking);
    for_all_facts([&](const CutFacts& facts) { EXPECT_FALSE(gate.may_cut_alone(facts)); });
  }
}

// By a list of what rules a cut out, which says it in another way than the class does.
TEST(CutGate, AProcessCutsAloneUnlessOneFactRulesItOut) {
  for (const bool blocking : {false, true}) {
    const CutGate gate = gate_of(false, blocking);
    std::vector<Obstacle> against = {&CutFacts::in_doubt, &CutFacts::request_open,
                                     &CutFacts::reloading};
    if (!blocking) against.push_back(&CutFacts::busy);
    size_t cuts = 0;
    for_all_facts([&](const CutFacts& facts) {
      bool expected = facts.has_context;
      for (const Obstacle one : against) expected = expected && !(facts.*one);
      EXPECT_EQ(gate.may_cut_alone(facts), expected);
      cuts += expected ? 1 : 0;
    });
    // Captures and replays are looked at elsewhere: of the seven facts four or five decide.
    EXPECT_EQ(cuts, blocking ? 8U : 4U);
  }
}

TEST(CutGate, NoObstacleMakesACutPossible) {
  for (const bool blocking : {false, true}) {
    const CutGate gate = gate_of(false, blocking);
    for_all_facts([&](const CutFacts& facts) {
      for (const Obstacle one : kObstacles) {
        CutFacts worse = facts;
        worse.*one = true;
        EXPECT_FALSE(gate.may_cut_alone(worse) && !gate.may_cut_alone(facts));
        const bool ready = gate.unready(facts) == Unready::kReady;
        EXPECT_FALSE(gate.unready(worse) == Unready::kReady && !ready);
      }
    });
  }
}

TEST(CutGate, ARankTellsTheObstacleThatLastsLongest) {
  // From the one that passes first.
  const std::pair<Obstacle, Unready> order[] = {{&CutFacts::busy, Unready::kBusy},
                                                {&CutFacts::capturing, Unready::kCapture},
                                                {&CutFacts::request_open, Unready::kRequest},
                                                {&CutFacts::reloading, Unready::kReplaying},
                                                {&CutFacts::replaying, Unready::kReplaying}};
  for (const bool blocking : {false, true}) {
    const CutGate gate = gate_of(true, blocking);
    for_all_facts([&](const CutFacts& facts) {
      Unready expected = Unready::kReady;
      for (const auto& [obstacle, says] : order) {
        if (facts.*obstacle && !(blocking && says == Unready::kBusy)) expected = says;
      }
      EXPECT_EQ(gate.unready(facts), expected);
    });
  }
}

TEST(CutGate, ARankThatSharesMemoryCutsInStepAlone) {
  CutGate gate = gate_of(true, false);
  EXPECT_TRUE(gate.may_cut_with_others(false));
  EXPECT_TRUE(gate.may_cut_with_others(true));
  gate.note_sharing();
  EXPECT_TRUE(gate.shares());
  EXPECT_FALSE(gate.may_cut_with_others(false));
  EXPECT_TRUE(gate.may_cut_with_others(true));
}

}  // namespace
}  // namespace gpusnap
