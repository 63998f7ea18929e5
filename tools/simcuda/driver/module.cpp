#include "tools/simcuda/driver/module.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <utility>

#include "tools/simcuda/driver/driver.h"
#include "tools/simcuda/driver/machine_image.h"
#include "tracker/cubin.h"
#include "tracker/image.h"
#include "tracker/ptx.h"

namespace simcuda {
namespace {

using gpusnap::ImageContents;
using gpusnap::ImageEntry;
namespace ptx = gpusnap::ptx;

unsigned target_number(const std::string& target) {
  size_t digits = target.find_first_of("0123456789");
  unsigned number = 0;
  for (size_t i = digits; i < target.size() && target[i] >= '0' && target[i] <= '9'; ++i) {
    number = number * 10 + static_cast<unsigned>(target[i] - '0');
  }
  return number;
}

// ": kernel 'a', kernel 'b'", as far as they fit on a line.
std::string kernels_in(const ImageContents& contents) {
  constexpr size_t kMost = 500;
  std::string list;
  for (const ImageEntry& entry : contents.entries) {
    std::vector<gpusnap::CubinKernel> kernels;
    if (entry.kind == ImageEntry::Kind::kPtx ||
        !gpusnap::read_cubin_kernels(std::as_bytes(std::span(entry.bytes)), kernels).empty()) {
      continue;
    }
    for (const gpusnap::CubinKernel& kernel : kernels) {
      const std::string name = "kernel '" + kernel.name + "'";
      if (list.find(name) != std::string::npos) continue;
      if (list.size() + name.size() > kMost) return list + ", ...";
      list += (list.empty() ? ": " : ", ") + name;
    }
  }
  return list;
}

// Machine code that passes for it comes before PTX, as on a device.
bool select_machine_code(const ImageContents& contents, std::string* ptx_text) {
  for (const ImageEntry& entry : contents.entries) {
    if (entry.kind != ImageEntry::Kind::kElf) continue;
    if (auto hidden = ptx_of_machine_image(entry.bytes)) {
      *ptx_text = *std::move(hidden);
      return true;
    }
  }
  return false;
}

CUresult select(const ImageContents& contents, int arch, std::string* ptx_text, LoadLog* log) {
  if (!contents.error.empty()) {
    log->error = "the image cannot be read: " + contents.error;
    return CUDA_ERROR_INVALID_IMAGE;
  }
  if (select_machine_code(contents, ptx_text)) return CUDA_SUCCESS;
  const ImageEntry* best = nullptr;
  bool newer = false;
  for (const ImageEntry& entry : contents.entries) {
    if (entry.kind != ImageEntry::Kind::kPtx) continue;
    bool suits = entry.arch <= static_cast<uint32_t>(arch);
    newer |= !suits;
    if (suits && (best == nullptr || entry.arch > best->arch)) best = &entry;
  }
  if (best != nullptr) {
    *ptx_text = best->bytes;
    return CUDA_SUCCESS;
  }
  log->error =
      newer ? "the image's PTX is for newer devices than this one; SIMCUDA_ARCH sets it"
            : "the image holds no PTX, and machine code cannot run here" + kernels_in(contents);
  for (const std::string& line : contents.unreadable) log->error += "; " + line;
  return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

std::string refusal(uint32_t line, const std::string& instruction, const std::string& reason) {
  return "PTX refused at line " + std::to_string(line) + ": '" + instruction + "': " + reason;
}

// Variables that got a place; gives them back unless kept.
class Placement {
 public:
  Placement(Driver& driver, Module& module) : driver_(driver), module_(module) {}
  ~Placement() {
    std::vector<Allocation> retired;
    constexpr unsigned kTypes = 1u << static_cast<unsigned>(MemoryType::kVariable) |
                                1u << static_cast<unsigned>(MemoryType::kManaged);
    for (uint64_t address : placed_) {
      if (auto allocation = driver_.memory.retire(address, kTypes)) {
        retired.push_back(std::move(*allocation));
      }
    }
    driver_.release(retired);
  }
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

  CUresult place(GlobalPlacement& global) {
    const ptx::Variable& variable = *global.variable;
    Allocation wanted;
    wanted.size = variable.size;
    wanted.type = variable.managed ? MemoryType::kManaged : MemoryType::kVariable;
    wanted.device = module_.device;
    wanted.context = module_.context;
    // Constants, too: kernels that are given where one lies write it, as they can on real devices.
    wanted.writers = 1u << module_.device;
    CUresult result = driver_.memory.allocate(std::move(wanted), &global.address);
    if (result != CUDA_SUCCESS) return result;
    placed_.push_back(global.address);
    if (variable.reference != ptx::Reference::kNone) return CUDA_SUCCESS;
    module_.variables.emplace(std::string(global.name),
                              Variable{global.address, variable.size, variable.managed});
    return CUDA_SUCCESS;
  }
  // Device variables start as zeros where the code does not say otherwise.
  void initialise(const GlobalPlacement& global, const std::vector<std::byte>& initial) {
    uint64_t size = global.variable->size;
    auto hold = driver_.memory.hold();
    std::byte* host = driver_.memory.resolve(hold, global.address, size);
    uint64_t given = std::min<uint64_t>(initial.size(), size);
    if (given != 0) std::memcpy(host, initial.data(), given);
    std::memset(host + given, 0, size - given);
  }
  void keep() { placed_.clear(); }
  // Takes over the variables of a module that was loaded: they go with this object.
  void adopt() {
    for (const auto& global : module_.code.program->globals()) placed_.push_back(global.address);
  }

 private:
  Driver& driver_;
  Module& module_;
  std::vector<uint64_t> placed_;
};

CUresult place_variables(Placement& placement, Program& program, LoadLog* log) {
  auto& globals = program.globals();
  for (GlobalPlacement& global : globals) {
    const ptx::Variable& variable = *global.variable;
    if (variable.linkage == ptx::Linkage::kExtern || variable.size == 0) {
      log->error = refusal(variable.line, std::string(global.name),
                           "an extern variable that nothing defines");
      return CUDA_ERROR_INVALID_PTX;
    }
    if (CUresult result = placement.place(global); result != CUDA_SUCCESS) {
      log->error = "out of memory for variable '" + std::string(global.name) + "' of " +
                   std::to_string(variable.size) + " bytes";
      return result;
    }
  }
  auto initial = program.bind();
  for (size_t i = 0; i < globals.size(); ++i) placement.initialise(globals[i], initial[i]);
  return CUDA_SUCCESS;
}

// As large as the limit says when the first module that takes memory of it is loaded. It goes with
// the context, as all memory that was made in it.
CUresult make_heap(Driver& driver, Context& context, LoadLog* log) {
  if (context.heap() != nullptr) return CUDA_SUCCESS;
  Allocation wanted;
  wanted.size = context.limits[CU_LIMIT_MALLOC_HEAP_SIZE] / 16 * 16;
  wanted.type = MemoryType::kVariable;
  wanted.device = context.device();
  wanted.context = context.handle();
  wanted.writers = 1u << context.device();
  const uint64_t bytes = wanted.size;
  uint64_t address = 0;
  const CUresult result = driver.memory.allocate(std::move(wanted), &address);
  if (result != CUDA_SUCCESS) {
    log->error = "out of memory for a heap of " + std::to_string(bytes) + " bytes";
    return result;
  }
  context.set_heap(address, bytes);
  return CUDA_SUCCESS;
}

void make_functions(Driver& driver, const std::shared_ptr<Module>& module) {
  for (std::string_view name : module->code.program->kernel_names()) {
    auto function = std::make_shared<Function>();
    function->handle = driver.functions.reserve();
    function->module = module;
    function->kernel = module->code.program->kernel(name);
    function->name = name;
    module->functions.emplace(function->name, function->handle);
    driver.functions.insert(function->handle, function);
  }
}

// Its address is what kernels know a reference by.
void make_references(Driver& driver, Module& module) {
  for (const GlobalPlacement& global : module.code.program->globals()) {
    const std::string name(global.name);
    if (global.variable->reference == ptx::Reference::kTexture) {
      auto reference = std::make_shared<TextureReference>();
      reference->context = module.context;
      reference->object = global.address;
      const CUtexref handle = driver.texture_references.reserve();
      driver.texture_references.insert(handle, std::move(reference));
      module.textures.emplace(name, handle);
    } else if (global.variable->reference == ptx::Reference::kSurface) {
      auto reference = std::make_shared<SurfaceReference>();
      reference->object = global.address;
      const CUsurfref handle = driver.surface_references.reserve();
      driver.surface_references.insert(handle, std::move(reference));
      module.surfaces.emplace(name, handle);
    }
  }
}

}  // namespace

CUresult select_ptx(const void* image, int arch, std::string* ptx_text, LoadLog* log) {
  return select(gpusnap::read_image_at(image), arch, ptx_text, log);
}

CUresult select_ptx_file(const char* path, int arch, std::string* ptx_text, LoadLog* log) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    log->error = std::string("cannot open the module file '") + path + "'";
    return CUDA_ERROR_FILE_NOT_FOUND;
  }
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return select(gpusnap::read_image(std::as_bytes(std::span(bytes.data(), bytes.size()))), arch,
                ptx_text, log);
}

CUresult decode(const std::string& text, ModuleCode* code, LoadLog* log) {
  auto parsed = ptx::parse(text);
  if (!parsed.module) {
    log->error = refusal(parsed.error.line, parsed.error.near_text, parsed.error.reason);
    return CUDA_ERROR_INVALID_PTX;
  }
  code->ptx_version = 10 * parsed.module->version_major + parsed.module->version_minor;
  code->target = target_number(parsed.module->target);
  LoadError error;
  code->program = Program::decode(std::move(parsed.module), &error);
  if (code->program) return CUDA_SUCCESS;
  log->error = refusal(error.line, error.instruction, error.reason);
  return CUDA_ERROR_INVALID_PTX;
}

CUresult load_module(Driver& driver, Context& context, ModuleCode code, Library* library,
                     std::shared_ptr<Module>* out, LoadLog* log) {
  auto module = std::make_shared<Module>();
  module->context = context.handle();
  module->device = context.device();
  module->library = library;
  module->code = std::move(code);
  if (module->code.program->uses_heap()) {
    if (const CUresult result = make_heap(driver, context, log); result != CUDA_SUCCESS) {
      return result;
    }
  }
  Placement placement(driver, *module);
  CUresult result = place_variables(placement, *module->code.program, log);
  if (result != CUDA_SUCCESS) return result;
  placement.keep();
  make_functions(driver, module);
  make_references(driver, *module);
  module->handle = driver.modules.reserve();
  driver.modules.insert(module->handle, module);
  ++driver.stats.modules_loaded;
  *out = std::move(module);
  return CUDA_SUCCESS;
}

void remove_handles(Driver& driver, const Module& module) {
  for (const auto& [name, function] : module.functions) driver.functions.remove(function);
  for (const auto& [name, handle] : module.textures) {
    if (const auto reference = driver.texture_references.remove(handle)) {
      driver.arrays.remove(reference->object);
    }
  }
  for (const auto& [name, handle] : module.surfaces) {
    if (const auto reference = driver.surface_references.remove(handle)) {
      driver.arrays.remove_surface(reference->object);
    }
  }
}

void unload_module(Driver& driver, const std::shared_ptr<Module>& module) {
  driver.modules.remove(module->handle);
  remove_handles(driver, *module);
  Placement placement(driver, *module);
  placement.adopt();
}

CUresult module_in(Driver& driver, Context& context, Library& library,
                   std::shared_ptr<Module>* module) {
  std::lock_guard lock(library.mutex);
  auto& loaded = library.modules[context.handle()];
  if (!loaded) {
    LoadLog log;
    ModuleCode code = std::exchange(library.unused, {});
    if (!code.program) {
      if (CUresult result = decode(library.ptx, &code, &log); result != CUDA_SUCCESS) return result;
    }
    CUresult result = load_module(driver, context, std::move(code), &library, &loaded, &log);
    if (result != CUDA_SUCCESS) return result;
  }
  *module = loaded;
  return CUDA_SUCCESS;
}

}  // namespace simcuda
