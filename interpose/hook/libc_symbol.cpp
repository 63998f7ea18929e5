#include "interpose/hook/libc_symbol.h"

#include <elf.h>
#include <link.h>

#include <cstdint>

namespace gpusnap {
namespace {

using Symbol = ElfW(Sym);
using Versym = ElfW(Versym);
using Verdef = ElfW(Verdef);

constexpr Versym kVersionIndex = 0x7fff;  // without the bit that says 'not the default'

// Not strcmp: a sanitizer that looks it up has not got it yet.
bool equal(const char* a, const char* b) {
  while (*a == *b && *a != '\0') ++a, ++b;
  return *a == *b;
}

// The dynamic symbol table of one loaded library.
struct Tables {
  const Symbol* symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* hash = nullptr;  // of the GNU kind, which every library has had for long
  const Versym* versions = nullptr;
  const Verdef* definitions = nullptr;
  ElfW(Xword) own_name = 0;  // offset in strings

  bool of_libc() const {
    // Others lack some of these, or have another name.
    if (!symbols || !strings || !hash || !versions || !definitions) return false;
    const char* name = strings + own_name;
    return equal(name, "libc.so.6") || equal(name, "libdl.so.2");
  }
};

// The loader turns these entries into addresses, except in libraries that it may not write to.
template <class T>
const T* at(const link_map& library, ElfW(Addr) value) {
  return reinterpret_cast<const T*>(value < library.l_addr ? library.l_addr + value : value);
}

Tables tables_of(const link_map& library) {
  Tables tables;
  for (const ElfW(Dyn)* entry = library.l_ld; entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) value = entry->d_un.d_ptr;
    switch (entry->d_tag) {
      case DT_SONAME:
        tables.own_name = entry->d_un.d_val;
        break;
      case DT_SYMTAB:
        tables.symbols = at<Symbol>(library, value);
        break;
      case DT_STRTAB:
        tables.strings = at<char>(library, value);
        break;
      case DT_GNU_HASH:
        tables.hash = at<uint32_t>(library, value);
        break;
      case DT_VERSYM:
        tables.versions = at<Versym>(library, value);
        break;
      case DT_VERDEF:
        tables.definitions = at<Verdef>(library, value);
        break;
      default:
        break;
    }
  }
  return tables;
}

uint32_t gnu_hash(const char* name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

bool has_version(const Tables& tables, uint32_t symbol, const char* version) {
  const unsigned wanted = tables.versions[symbol] & kVersionIndex;
  const Verdef* definition = tables.definitions;
  for (;;) {
    const auto* bytes = reinterpret_cast<const char*>(definition);
    if ((definition->vd_ndx & kVersionIndex) == wanted) {
      const auto* label = reinterpret_cast<const ElfW(Verdaux)*>(bytes + definition->vd_aux);
      return equal(tables.strings + label->vda_name, version);
    }
    if (definition->vd_next == 0) return false;
    definition = reinterpret_cast<const Verdef*>(bytes + definition->vd_next);
  }
}

const Symbol* find_in(const Tables& tables, const char* name, const char* version) {
  const uint32_t bucket_count = tables.hash[0], first_hashed = tables.hash[1];
  const uint32_t bloom_words = tables.hash[2];
  const uint32_t* buckets = tables.hash + 4 + bloom_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
  const uint32_t* chains = buckets + bucket_count;
  if (bucket_count == 0) return nullptr;

  const uint32_t hash = gnu_hash(name);
  uint32_t symbol = buckets[hash % bucket_count];
  if (symbol < first_hashed) return nullptr;
  for (;; ++symbol) {
    const uint32_t chain = chains[symbol - first_hashed];
    const Symbol& candidate = tables.symbols[symbol];
    if ((chain | 1) == (hash | 1) && candidate.st_shndx != SHN_UNDEF &&
        equal(tables.strings + candidate.st_name, name) && has_version(tables, symbol, version)) {
      return &candidate;
    }
    if (chain & 1) return nullptr;  // the last one of its bucket
  }
}

}  // namespace

void* find_libc_symbol(const char* name, const char* version) {
  // The C library and what was loaded before it are never unloaded, so the walk needs no lock; and
  // sanitizers, who put themselves before dl_iterate_phdr, look symbols up before they can run.
  for (const link_map* library = _r_debug.r_map; library != nullptr; library = library->l_next) {
    const Tables tables = tables_of(*library);
    if (!tables.of_libc()) continue;
    if (const Symbol* symbol = find_in(tables, name, version)) {
      return reinterpret_cast<void*>(library->l_addr + symbol->st_value);
    }
  }
  return nullptr;
}

}  // namespace gpusnap
