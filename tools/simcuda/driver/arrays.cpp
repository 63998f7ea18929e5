#include "tools/simcuda/driver/arrays.h"

#include <utility>

namespace simcuda {
namespace {

constexpr uint64_t kHandleStep = 16;

template <class Objects, class Object>
bool find_in(const Objects& objects, uint64_t handle, Object* object) {
  auto found = objects.find(handle);
  if (found == objects.end()) return false;
  *object = found->second;
  return true;
}

}  // namespace

CUtexObject Arrays::add(TextureObject texture) {
  std::lock_guard lock(mutex_);
  textures_.emplace(next_ += kHandleStep, std::move(texture));
  return next_;
}

CUsurfObject Arrays::add(SurfaceObject surface) {
  std::lock_guard lock(mutex_);
  surfaces_.emplace(next_ += kHandleStep, std::move(surface));
  return next_;
}

void Arrays::put(uint64_t handle, TextureObject texture) {
  std::lock_guard lock(mutex_);
  textures_[handle] = std::move(texture);
}

void Arrays::put(uint64_t handle, SurfaceObject surface) {
  std::lock_guard lock(mutex_);
  surfaces_[handle] = std::move(surface);
}

bool Arrays::find(CUtexObject handle, TextureObject* texture) const {
  std::lock_guard lock(mutex_);
  return find_in(textures_, handle, texture);
}

bool Arrays::find_surface(CUsurfObject handle, SurfaceObject* surface) const {
  std::lock_guard lock(mutex_);
  return find_in(surfaces_, handle, surface);
}

bool Arrays::remove(CUtexObject handle) {
  std::lock_guard lock(mutex_);
  return textures_.erase(handle) != 0;
}

bool Arrays::remove_surface(CUsurfObject handle) {
  std::lock_guard lock(mutex_);
  return surfaces_.erase(handle) != 0;
}

void Arrays::remove_all(CUcontext context) {
  const auto made_there = [context](const auto& object) { return object.context == context; };
  arrays.remove_if(made_there);
  mipmapped.remove_if(made_there);
  std::lock_guard lock(mutex_);
  std::erase_if(textures_, [&](const auto& entry) { return made_there(entry.second); });
  std::erase_if(surfaces_, [&](const auto& entry) { return made_there(entry.second); });
}

std::shared_ptr<const ImageTable> Arrays::table() const {
  std::lock_guard lock(mutex_);
  if (textures_.empty() && surfaces_.empty()) return nullptr;
  auto table = std::make_shared<ImageTable>();
  const auto image_of = [&](const std::weak_ptr<Array>& array) {
    auto there = array.lock();
    if (there) table->bytes.push_back(there->bytes);
    return there ? there->image : Image();
  };
  for (const auto& [handle, object] : textures_) {
    Texture texture{handle, {}, object.sampler};
    if (object.levels.empty()) texture.levels.push_back(object.memory);
    for (const auto& level : object.levels) {
      Image image = image_of(level);
      if (image.host == nullptr) {
        texture.levels.clear();
        break;
      }
      texture.levels.push_back(image);
    }
    table->textures.push_back(std::move(texture));
  }
  for (const auto& [handle, object] : surfaces_) {
    const Image image = image_of(object.array);
    table->surfaces.push_back({handle, image, image.host == nullptr});
  }
  return table;
}

bool texel_format(CUarray_format format, unsigned channels, TexelFormat* texel) {
  if (channels != 1 && channels != 2 && channels != 4) return false;
  texel->channels = channels;
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_UNSIGNED_INT32:
      texel->kind = TexelKind::kUnsigned;
      texel->channel_bytes = 1u << (format - CU_AD_FORMAT_UNSIGNED_INT8);
      return true;
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT32:
      texel->kind = TexelKind::kSigned;
      texel->channel_bytes = 1u << (format - CU_AD_FORMAT_SIGNED_INT8);
      return true;
    case CU_AD_FORMAT_HALF:
      texel->kind = TexelKind::kHalf;
      texel->channel_bytes = 2;
      return true;
    case CU_AD_FORMAT_FLOAT:
      texel->kind = TexelKind::kFloat;
      texel->channel_bytes = 4;
      return true;
    default:
      return false;
  }
}

}  // namespace simcuda
