// Every opcode with its modifiers that compiled CUDA programs were seen to use must decode.
#include <sstream>

#include "tests/unit/simcuda/machine/harness.h"

namespace simcuda::test::census_test {
namespace {

// Counted over 85 source files of public programs; the most frequent first.
const char* const kSeen = R"(
    add.s32 add.s64 fma.rn.f64 mul.wide.u32 mov.u32 bra fma.rn.f32 mov.f64 mul.f32 mul.f64
    mov.b64 shl.b32 ld.global.nc.f32 add.f32 ld.global.nc.f64 sub.f32 and.b32 ld.global.f32
    mov.f32 st.global.f32 st.global.f64 mov.b32 add.f64 shr.u32 ld.global.f64 sub.f64 mad.lo.s32
    ld.param.u64 cvt.u64.u32 cvta.to.global.u64 sub.s32 mul.wide.s32 and.b64 ld.shared.f32
    setp.eq.s32 neg.s64 bra.uni xor.b64 ld.shared.u32 st.local.u32 ld.local.u32 ld.global.nc.u32
    ld.param.u32 st.global.u32 mul.lo.s32 selp.b32 setp.lt.s32 setp.ge.s32 mov.u64 st.shared.u32
    setp.geu.f32 neg.f32 st.shared.f32 shr.s32 shl.b64 setp.gt.s32 setp.lt.f32 setp.ne.s32
    ld.global.u32 bar.sync rcp.rn.f32 selp.f64 setp.gt.f32 selp.f32 ex2.approx.ftz.f32
    rcp.rn.f64 fma.rm.f32 cvt.sat.f32.f32 abs.f32 ret setp.lt.u32 add.rn.f64 st.global.u64
    setp.lt.f64 min.f32 shfl.sync.down.b32 cvt.s64.s32 cvt.u32.u64 selp.u32 min.f64
    ld.shared.u64 or.b32 not.pred div.rn.f32 cvt.rn.f64.s32 ld.global.nc.v2.f32 st.shared.u64
    xor.pred neg.f64 max.f32 mov.u16 or.pred ld.global.u64 setp.ge.u32 setp.eq.f32
    cvt.rn.f32.s32 shr.u64 st.shared.u8 ld.shared.v2.u64 setp.eq.s64 ld.volatile.global.f32
    xor.b32 and.b16 setp.gt.u32 mul.lo.s64 ld.global.nc.u64 not.b32 st.global.u8 cvt.rn.f32.u32
    sub.s64 and.pred setp.ne.s64 setp.lt.u64 max.f64 st.local.v2.u32 setp.ne.s16 setp.ge.f32
    setp.eq.s16 st.local.u64 cvt.u32.u16 ld.param.f64 ld.global.u8 div.u32 add.s16
    rcp.approx.ftz.f64 cvt.u16.u32 st.global.v4.u32 ld.param.f32 ld.global.nc.v4.u32
    cvt.rzi.s32.f32 popc.b32 abs.f64 st.local.f64 or.b64 ld.global.v4.u8 fma.rn.f16x2
    cvt.rn.f32.u16 mul.hi.s32 ld.local.v2.u32 selp.b16 selp.b64 setp.gtu.f64 not.b64 ld.u64
    ld.shared.u8 add.u64 setp.gt.u64 setp.ge.u64 setp.eq.f64 ld.global.v4.f32 ld.global.nc.u8
    div.rn.f64 st.param.f64 ld.relaxed.gpu.v2.u32 ld.local.u64 cvt.rzi.s32.f64
    atom.global.add.u32 sqrt.rn.f32 rem.s32 ld.global.nc.v2.f64 st.global.u16 max.s32 div.s32
    mov.pred ld.global.u16 ld.volatile.global.u32 cvt.f32.f16 setp.eq.b32 or.b16 neg.s32
    st.shared.f64 nanosleep.u32 mul.rn.f64 membar.cta ld.local.f64 bar.warp.sync
    atom.shared.add.u32 st.global.v4.f32 mul.rn.f32 atom.global.add.f32 setp.eq.b16 selp.s32
    rsqrt.approx.ftz.f32 ld.global.nc.v2.u64 brev.b32 st.relaxed.gpu.v2.u32 setp.gt.s64
    st.volatile.global.u32 setp.lt.u16 cvta.shared.u64 call.uni div.s64 copysign.f32
    vote.sync.ballot.b32 vote.sync.any.pred st.u64 st.shared.v2.u32 mad.lo.cc.u32
    ld.shared.v4.u32 ld.global.v4.u32 ld.const.f32 cvt.rzi.u32.f32 clz.b32 shl.b16 setp.le.u32
    rcp.approx.ftz.f32 sub.s16 ld.local.v2.u64 activemask.b32 st.volatile.global.f32 shr.u16
    setp.lt.s64 setp.le.s32 setp.gt.u16 setp.gt.f64 mul.wide.u16 max.u16 madc.hi.u32
    mad.wide.u32 ld.u32 ld.shared.v4.f32 ld.shared.v2.f64 ld.global.nc.v4.u8 ld.global.nc.u16
    cvt.rn.f64.s64 cvt.rn.f32.f64 bfi.b64 atom.global.add.f64 vote.sync.all.pred setp.neu.f64
    setp.ltu.f64 ld.param.b32 ld.global.nc.v4.f32 cvt.rzi.f64.f64 cvt.rni.s32.f64
    st.global.v2.u32 st.global.v2.f32 setp.le.u64 madc.hi.cc.u32 ld.local.f32 ld.global.v2.f32
    cvt.f64.f32 barrier.sync addc.u32 setp.ltu.f32 ld.param.s8 atom.global.sys.xor.b32
    atom.global.sys.or.b32 atom.global.sys.min.s32 atom.global.sys.max.s32
    atom.global.sys.exch.b32 atom.global.sys.cas.b32 atom.global.sys.and.b32
    atom.global.sys.add.u32 atom.global.cas.b32 subc.cc.u32 st.shared.v2.f32 st.local.v2.u64
    setp.gtu.f32 rem.u32 mul.lo.s16 ld.shared.v4.u8 ld.shared.v2.f32 ld.global.s32 cvt.s32.s8
    cvt.rni.s32.f32 addc.cc.u32 st.volatile.shared.u32 ld.volatile.shared.u32 cvt.u64.u16
    cvt.rn.f64.u32 subc.u32 sub.cc.u32 st.param.b32 st.local.v2.f32 st.local.f32 sqrt.rn.f64
    shfl.sync.up.b32 setp.leu.f32 setp.le.s64 setp.ge.s64 selp.u64 selp.u16 mul.lo.u32
    mul.hi.u32 min.u32 madc.lo.cc.u32 ld.shared.f64 ld.param.v2.u32 ld.global.v4.u16
    ld.global.v2.u16 div.u64 div.approx.ftz.f32 cvta.to.local.u64 cvt.s16.s8 cvt.rn.f64.u64
    clz.b64 atom.global.exch.b32 add.cc.u32 st.shared.v4.u32 st.shared.v4.f32 st.local.v4.u32
    st.global.v4.u8 st.global.v4.u16 st.global.v2.u8 setp.ne.f64 setp.lt.s16 setp.geu.f64
    setp.ge.f64 setp.eq.b64 rsqrt.approx.ftz.f64 rsqrt.approx.f32 rem.s64 min.s32 membar.gl
    ld.shared.v2.u8 ld.shared.s32 ld.param.v4.u8 ld.global.v2.u8 ld.global.v2.u32 cvta.local.u64
    cvt.u16.u64 cvt.rzi.s64.f64 cvt.rzi.f32.f32 cvt.rn.f16.f32 copysign.f64 atom.global.inc.u32
    abs.s32
)";

// Their nearest relatives, which the next program may use.
const char* const kRelated = R"(
    ld.global.nc.v2.u8 ld.global.nc.v2.u16 ld.global.nc.v4.u16 st.global.v2.u16 st.shared.v4.u8
    ld.local.v4.u8 ld.shared.v2.u16 ld.param.v2.f32 ld.param.v4.f32 ld.param.v4.u32 ld.param.u8
    ld.param.u16 ld.const.u32 ld.const.v2.f32 membar.sys fma.rn.f16 fma.rn.bf16 fma.rn.bf16x2
    add.f16x2 mul.f16x2 setp.ne.b16 setp.ge.s16 setp.gt.s16 setp.le.s16 setp.eq.u16 setp.ne.u16
    setp.ge.u16 setp.le.u16 setp.ne.b32 setp.ne.b64 setp.eq.u32 setp.ne.f32 setp.nan.f32
    setp.num.f64 selp.s16 selp.s64 atom.global.sys.inc.u32 atom.global.sys.dec.u32
    atom.global.sys.add.f32 atom.global.sys.add.f64 atom.global.sys.cas.b64
    atom.global.sys.exch.b64 atom.global.sys.add.u64 atom.shared.cas.b32 atom.shared.exch.b32
    atom.shared.min.s32 atom.shared.max.u32 atom.global.min.u64 atom.global.and.b64
    atom.global.gpu.add.u32 atom.add.u32 atom.global.relaxed.gpu.add.u32
    atom.global.acq_rel.gpu.cas.b32 red.global.add.u32 red.shared.add.u32 red.global.max.s32
    red.global.add.f32 cvta.global.u64 cvta.const.u64 cvta.to.shared.u64 cvta.to.const.u64
    madc.lo.u32 mad.hi.cc.u32 add.cc.u64 addc.u64 mul.hi.u64 mul.hi.s64 mad.lo.u64 mad.hi.u32
    rem.u64 max.u32 min.s64 max.u64 min.s16 abs.s64 neg.s16 popc.b64 brev.b64 prmt.b32
    shf.l.wrap.b32 shf.r.wrap.b32 bfe.u32 bfe.s32 bfi.b32 lop3.b32 bfind.u32 sqrt.approx.f32
    lg2.approx.f32 sin.approx.f32 cos.approx.f32 tanh.approx.f32 div.full.f32 fma.rz.f32
    fma.rp.f64 shfl.sync.bfly.b32 shfl.sync.idx.b32 vote.sync.uni.pred fence.sc.gpu
    fence.acq_rel.sys fence.acq_rel.cta ld.acquire.gpu.global.u32 st.release.gpu.global.u32
    ld.relaxed.sys.global.u64 ld.global.cg.f32 ld.global.ca.u32 st.global.cs.f32
    st.wt.global.u32 redux.sync.add.s32 match.any.sync.b32
)";

const char* const kKernel = R"(
.global .align 16 .b8 gl[64];
.const .align 16 .b8 co[64];
.func (.param .b32 o) callee(.param .b32 n) { .reg .b32 %t; ld.param.b32 %t, [n]; st.param.b32 [o], %t; ret; }
.visible .entry k(.param .align 16 .b8 par[64]) {
  .reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %x<9>; .reg .f32 %f<9>; .reg .f64 %d<9>;
  .shared .align 16 .b8 sh[64]; .local .align 16 .b8 lo[64];
)";

std::vector<std::string> split(const std::string& form) {
  std::vector<std::string> parts;
  std::istringstream in(form);
  for (std::string part; std::getline(in, part, '.');) parts.push_back(part);
  return parts;
}

// The number-th register for a type.
std::string reg(const std::string& type, int number) {
  const std::string n = std::to_string(number);
  if (type == "pred") return "%p" + n;
  if (type == "f32") return "%f" + n;
  if (type == "f64") return "%d" + n;
  if (type.find("x2") != std::string::npos || type.find("32") != std::string::npos) return "%r" + n;
  return (type.find("64") != std::string::npos ? "%x" : "%h") + n;
}

class Form {
 public:
  explicit Form(const std::string& form) : text_(form), parts_(split(form)) {}
  // A well-formed instruction, or several where one needs another.
  std::string instruction() const;

 private:
  const std::string& opcode() const { return parts_[0]; }
  const std::string& type() const { return parts_.back(); }
  bool has(const std::string& modifier) const {
    for (size_t i = 1; i < parts_.size(); ++i) {
      if (parts_[i] == modifier) return true;
    }
    return false;
  }
  bool one_of(const std::string& names) const {
    return (" " + names + " ").find(" " + opcode() + " ") != std::string::npos;
  }
  std::string with(const std::string& operands) const { return text_ + " " + operands + ";"; }
  std::string same(int sources) const {
    std::string list = reg(type(), 0);
    for (int i = 1; i <= sources; ++i) list += ", " + reg(type(), i);
    return with(list);
  }
  std::string values() const {
    const int count = has("v2") ? 2 : has("v4") ? 4 : 1;
    if (count == 1) return reg(type(), 1);
    std::string list = "{" + reg(type(), 1);
    for (int i = 2; i <= count; ++i) list += ", " + reg(type(), i);
    return list + "}";
  }
  std::string address() const {
    return has("shared")  ? "[sh]"
           : has("local") ? "[lo]"
           : has("const") ? "[co]"
           : has("param") ? "[par]"
                          : "[%x8]";
  }
  std::string memory() const;
  std::string warp() const;
  std::string control() const;
  std::string arithmetic() const;

  std::string text_;
  std::vector<std::string> parts_;
};

std::string Form::memory() const {
  if (opcode() == "ld") return with(values() + ", " + address());
  if (opcode() == "st" && has("param")) {
    return "{ .param .align 8 .b8 a[8]; st.param." + type() + " [a], " + reg(type(), 1) + "; }";
  }
  if (opcode() == "st") return with(address() + ", " + values());
  if (opcode() == "red") return with(address() + ", " + reg(type(), 1));
  if (opcode() == "cvta") return with("%x1, %x2");
  return with(reg(type(), 0) + ", " + address() + ", " + reg(type(), 1) +
              (has("cas") ? ", " + reg(type(), 2) : ""));
}

std::string Form::warp() const {
  if (opcode() == "shfl") return with("%r1|%p1, %r2, 1, 31, -1");
  if (opcode() == "vote") return with((has("ballot") ? "%r1" : "%p1") + std::string(", %p2, -1"));
  if (opcode() == "activemask") return with("%r1");
  return with("%r1, %r2, -1");  // redux, match
}

std::string Form::control() const {
  if (opcode() == "bra") return with("END");
  if (opcode() == "call") {
    return "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; " + text_ +
           " (b), callee, (a); ld.param.b32 %r1, [b]; }";
  }
  if (opcode() == "nanosleep") return with("20");
  if (has("warp")) return with("-1");
  return one_of("bar barrier") ? with("0") : with("");
}

std::string Form::arithmetic() const {
  const std::string wide = type().substr(0, 1) + (type().substr(1) == "16" ? "32" : "64");
  if (has("wide")) {
    return with(reg(wide, 0) + ", " + reg(type(), 1) + ", " + reg(type(), 2) +
                (opcode() == "mad" ? ", " + reg(wide, 3) : ""));
  }
  if (opcode() == "cvt") return with(reg(parts_[parts_.size() - 2], 0) + ", " + reg(type(), 1));
  if (opcode() == "setp") return with("%p1, " + reg(type(), 1) + ", " + reg(type(), 2));
  if (opcode() == "selp") {
    return with(reg(type(), 0) + ", " + reg(type(), 1) + ", " + reg(type(), 2) + ", %p1");
  }
  if (one_of("shl shr")) return with(reg(type(), 0) + ", " + reg(type(), 1) + ", %r7");
  if (one_of("popc clz bfind")) return with("%r0, " + reg(type(), 1));
  if (opcode() == "bfi") {
    return with(reg(type(), 0) + ", " + reg(type(), 1) + ", " + reg(type(), 2) + ", %r3, %r4");
  }
  if (opcode() == "bfe") return with(reg(type(), 0) + ", " + reg(type(), 1) + ", %r3, %r4");
  if (opcode() == "lop3") return with("%r0, %r1, %r2, %r3, 0x96");
  if (one_of("neg abs not rcp sqrt rsqrt ex2 lg2 sin cos tanh brev mov")) return same(1);
  return same(one_of("mad madc fma shf prmt") ? 3 : 2);
}

std::string Form::instruction() const {
  if (one_of("ld st atom red cvta")) return memory();
  if (one_of("shfl vote activemask redux match")) return warp();
  if (one_of("bra call ret bar barrier membar fence nanosleep")) return control();
  return arithmetic();
}

size_t check_all(const char* list) {
  std::istringstream forms(list);
  size_t count = 0;
  for (std::string form; forms >> form; ++count) {
    const std::string code = Form(form).instruction();
    Machine machine(kKernel + code + "\nEND: ret; }");
    EXPECT_TRUE(machine.ok()) << code << ": " << machine.error().reason;
    // A form must not be accepted because its modifiers are not looked at.
    std::string wrong = code;
    wrong.replace(wrong.rfind(form), form.size(), form + ".unheard");
    EXPECT_FALSE(Machine(kKernel + wrong + "\nEND: ret; }").ok()) << wrong;
  }
  return count;
}

TEST(Census, WhatProgramsUseIsDecoded) {
  EXPECT_EQ(check_all(kSeen), 328u);
  EXPECT_GT(check_all(kRelated), 90u);
}

}  // namespace
}  // namespace simcuda::test::census_test
