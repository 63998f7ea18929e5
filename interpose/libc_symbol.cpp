#include "interpose/libc_symbol.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

namespace gpusnap {
namespace {

using Symbol = ElfW(Sym);
using Versym = ElfW(Versym);
using Verdef = ElfW(Verdef);

constexpr Versym kVersionIndex = 0x7fff;  // without the bit that says 'not the default'

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
    return std::strcmp(name, "libc.so.6") == 0 || std::strcmp(name, "libdl.so.2") == 0;
  }
};

// The loader turns these entries into addresses, except in libraries that it may not write to.
template <class T>
const T* at(const dl_phdr_info& library, ElfW(Addr) value) {
  return reinterpret_cast<const T*>(value < library.dlpi_addr ? library.dlpi_addr + value : value);
}

Tables tables_of(const dl_phdr_info& library) {
  Tables tables;
  for (int i = 0; i < library.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = library.dlpi_phdr[i];
    if (header.p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(library.dlpi_addr + header.p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
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
      return std::strcmp(tables.strings + label->vda_name, version) == 0;
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
        std::strcmp(tables.strings + candidate.st_name, name) == 0 &&
        has_version(tables, symbol, version)) {
      return &candidate;
    }
    if (chain & 1) return nullptr;  // the last one of its bucket
  }
}

struct Search {
  const char* name;
  const char* version;
  void* found = nullptr;
};

int visit(dl_phdr_info* library, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  const Tables tables = tables_of(*library);
  if (!tables.of_libc()) return 0;
  const Symbol* symbol = find_in(tables, search.name, search.version);
  if (symbol == nullptr) return 0;
  search.found = reinterpret_cast<void*>(library->dlpi_addr + symbol->st_value);
  return 1;
}

}  // namespace

void* find_libc_symbol(const char* name, const char* version) {
  Search search{name, version};
  dl_iterate_phdr(visit, &search);
  return search.found;
}

}  // namespace gpusnap
