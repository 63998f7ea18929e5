// The _ptsz and _ptds forms: the plain call with the null stream meaning the thread's own.

#include <cstddef>
#include <tuple>
#include <type_traits>

#include "tools/simcuda/driver/driver.h"

namespace simcuda {
namespace {

template <class F>
struct Signature;
template <class R, class... A>
struct Signature<R(A...)> {
  using Arguments = std::tuple<A...>;
};
template <auto* Call, size_t I>
using Argument =
    std::tuple_element_t<I, typename Signature<std::remove_pointer_t<decltype(Call)>>::Arguments>;

template <class F, class... A>
CUresult with_thread_streams(F* call, A... arguments) {
  PerThreadStreams scope;
  return call(arguments...);
}

}  // namespace
}  // namespace simcuda

using simcuda::Argument;
using simcuda::with_thread_streams;

#define SIMCUDA_WRAP_none(call, form)
#define SIMCUDA_WRAP_1(call, form)        \
  CUresult form(Argument<&call, 0> a) {   \
    return with_thread_streams(&call, a); \
  }
#define SIMCUDA_WRAP_2(call, form)                            \
  CUresult form(Argument<&call, 0> a, Argument<&call, 1> b) { \
    return with_thread_streams(&call, a, b);                  \
  }
#define SIMCUDA_WRAP_3(call, form)                                                  \
  CUresult form(Argument<&call, 0> a, Argument<&call, 1> b, Argument<&call, 2> c) { \
    return with_thread_streams(&call, a, b, c);                                     \
  }
#define SIMCUDA_WRAP_4(call, form)                                                \
  CUresult form(Argument<&call, 0> a, Argument<&call, 1> b, Argument<&call, 2> c, \
                Argument<&call, 3> d) {                                           \
    return with_thread_streams(&call, a, b, c, d);                                \
  }
#define SIMCUDA_WRAP_5(call, form)                                                \
  CUresult form(Argument<&call, 0> a, Argument<&call, 1> b, Argument<&call, 2> c, \
                Argument<&call, 3> d, Argument<&call, 4> e) {                     \
    return with_thread_streams(&call, a, b, c, d, e);                             \
  }
#define SIMCUDA_WRAP_6(call, form)                                                  \
  CUresult form(Argument<&call, 0> a, Argument<&call, 1> b, Argument<&call, 2> c,   \
                Argument<&call, 3> d, Argument<&call, 4> e, Argument<&call, 5> f) { \
    return with_thread_streams(&call, a, b, c, d, e, f);                            \
  }
#define SIMCUDA_WRAP_7(call, form)                                                \
  CUresult form(Argument<&call, 0> a, Argument<&call, 1> b, Argument<&call, 2> c, \
                Argument<&call, 3> d, Argument<&call, 4> e, Argument<&call, 5> f, \
                Argument<&call, 6> g) {                                           \
    return with_thread_streams(&call, a, b, c, d, e, f, g);                       \
  }
#define SIMCUDA_WRAP_8(call, form)                                                \
  CUresult form(Argument<&call, 0> a, Argument<&call, 1> b, Argument<&call, 2> c, \
                Argument<&call, 3> d, Argument<&call, 4> e, Argument<&call, 5> f, \
                Argument<&call, 6> g, Argument<&call, 7> h) {                     \
    return with_thread_streams(&call, a, b, c, d, e, f, g, h);                    \
  }
#define SIMCUDA_WRAP_9(call, form)                                                  \
  CUresult form(Argument<&call, 0> a, Argument<&call, 1> b, Argument<&call, 2> c,   \
                Argument<&call, 3> d, Argument<&call, 4> e, Argument<&call, 5> f,   \
                Argument<&call, 6> g, Argument<&call, 7> h, Argument<&call, 8> i) { \
    return with_thread_streams(&call, a, b, c, d, e, f, g, h, i);                   \
  }
#define SIMCUDA_WRAP_10(call, form)                                               \
  CUresult form(Argument<&call, 0> a, Argument<&call, 1> b, Argument<&call, 2> c, \
                Argument<&call, 3> d, Argument<&call, 4> e, Argument<&call, 5> f, \
                Argument<&call, 6> g, Argument<&call, 7> h, Argument<&call, 8> i, \
                Argument<&call, 9> j) {                                           \
    return with_thread_streams(&call, a, b, c, d, e, f, g, h, i, j);              \
  }
#define SIMCUDA_WRAP_11(call, form)                                               \
  CUresult form(Argument<&call, 0> a, Argument<&call, 1> b, Argument<&call, 2> c, \
                Argument<&call, 3> d, Argument<&call, 4> e, Argument<&call, 5> f, \
                Argument<&call, 6> g, Argument<&call, 7> h, Argument<&call, 8> i, \
                Argument<&call, 9> j, Argument<&call, 10> k) {                    \
    return with_thread_streams(&call, a, b, c, d, e, f, g, h, i, j, k);           \
  }

#define SIMCUDA_PLAIN(name, since, symbol)
#define SIMCUDA_BOTH(name, since, symbol, per_thread, count) \
  SIMCUDA_WRAP_##count(symbol, per_thread)
#include "tools/simcuda/driver/calls.inc"
