#!/usr/bin/env python3
"""Writes a C++ file that compares cudart_abi.h with the CUDA toolkit's own headers.

usage: runtime_abi_check.py cudart_abi.h output.cpp

Every enumerator, every structure's size and field offsets, and every function's signature becomes a
static_assert. Signatures are compared by the shape of their parameters (pointer, number, structure of
a size), since both sets of types exist side by side.
"""

import re
import sys

PRELUDE = '''\
// Generated from cudart_abi.h by runtime_abi_check.py.
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <type_traits>

namespace ours {
#define CUDART_LINKAGE
#include "tools/simcuda/runtime/cudart_abi.h"
}  // namespace ours

namespace {

enum class Kind { kVoid, kPointer, kNumber, kStructure };

template <class T>
constexpr Kind kind_of() {
  if (std::is_void_v<T>) return Kind::kVoid;
  if (std::is_pointer_v<T>) return Kind::kPointer;
  return std::is_class_v<T> ? Kind::kStructure : Kind::kNumber;
}

template <class T>
constexpr size_t size_of() {
  if constexpr (std::is_void_v<T>) return 0;
  else return sizeof(T);
}

template <class A, class B>
constexpr bool kSameShape = kind_of<A>() == kind_of<B>() && size_of<A>() == size_of<B>();
// What a pointer points to is compared as well, where both sides define it.
template <class A, class B>
constexpr bool kSameShape<A*, B*> = std::is_const_v<A> == std::is_const_v<B>;

template <class A, class B>
struct SameSignature : std::false_type {};
template <class R, class... A, class S, class... B>
  requires(sizeof...(A) == sizeof...(B))
struct SameSignature<R(A...), S(B...)> : std::bool_constant<kSameShape<R, S> && (kSameShape<A, B> && ...)> {};

}  // namespace

'''

# Declared by the toolkit only for device compilation or for other API versions; programs built by
# nvcc are the check of the first kind.
NOT_DECLARED = re.compile(r'^__cuda|^cudaGetDriverEntryPoint$')


def without_comments(text):
    return re.sub(r'//[^\n]*', '', text)


def enumerators(text):
    for body in re.findall(r'\benum\s+\w+\s*\{(.*?)\}', text, re.S):
        yield from re.findall(r'(\w+)\s*=', body)


def structures(text):
    for name, body in re.findall(r'\b(?:struct|union)\s+(?:alignas\(\d+\)\s+)?(\w+)\s*\{(.*?)\n\};', text, re.S):
        fields, nested = [], 1
        while nested:
            body, nested = re.subn(r'(?:struct|union)\s*\{[^{}]*\}', 'nested', body)
        for line in body.split(';'):
            line = re.sub(r'\[[^\]]*\]', '', line).strip()
            if re.search(r'\w', line) and line != 'nested':  # by itself: it has no name
                first, *more = line.split(',')
                fields += [re.findall(r'\w+', first)[-1]] + [f.strip() for f in more]
        yield name, fields


def functions(text):
    yield from ((name, '') for name in re.findall(r'CUDART_LINKAGE\s+[\w\s]+[\s*]+(\w+)\(', text)
                if name != 'cudaError_t')
    for suffix, name in re.findall(r'CUDART_API(_DS|_SZ|)\((\w+),', text):
        yield name, {'_DS': '_ptds', '_SZ': '_ptsz', '': ''}[suffix]


def main():
    text = without_comments(open(sys.argv[1], encoding='utf-8').read())
    text = re.sub(r'^#define(?:.*\\\n)*.*\n', '', text, flags=re.M)
    out = [PRELUDE]
    for name in enumerators(text):
        out.append(f'static_assert(int(ours::{name}) == int(::{name}), "{name}");\n')
    for name, fields in structures(text):
        out.append(f'static_assert(sizeof(ours::{name}) == sizeof(::{name}), "{name}");\n')
        out.append(f'static_assert(alignof(ours::{name}) == alignof(::{name}), "{name}");\n')
        for field in fields:
            out.append(f'static_assert(offsetof(ours::{name}, {field}) == offsetof(::{name}, {field}) && '
                       f'sizeof(ours::{name}::{field}) == sizeof(::{name}::{field}), "{name}::{field}");\n')
    checked = 0
    for name, suffix in functions(text):
        if NOT_DECLARED.search(name):
            continue
        for ours in {name, name + suffix}:
            out.append(f'static_assert(SameSignature<decltype(ours::{ours}), decltype(::{name})>::value, "{ours}");\n')
            checked += 1
    if checked < 100:
        sys.exit(f'runtime_abi_check.py: found only {checked} functions in {sys.argv[1]}: its layout has changed')
    with open(sys.argv[2], 'w', encoding='utf-8') as file:
        file.writelines(out)


if __name__ == '__main__':
    main()
