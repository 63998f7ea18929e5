// The calling thread's object of a type. It ends with the thread, after the thread's C++ objects.
//
// exit() ends the thread_local objects of its thread before it calls the handlers of atexit(), and
// there libraries still call the driver (libgomp does). A driver's thread-specific data is still
// there then; so is this.
#pragma once

#include <pthread.h>

#include <cstdlib>

namespace simcuda {

template <class T>
T& thread_owned() {
  static const pthread_key_t kKey = [] {
    pthread_key_t key = 0;
    const auto destroy = [](void* object) { delete static_cast<T*>(object); };
    if (pthread_key_create(&key, destroy) != 0) std::abort();
    return key;
  }();
  auto* own = static_cast<T*>(pthread_getspecific(kKey));
  if (own == nullptr) {
    own = new T();
    if (pthread_setspecific(kKey, own) != 0) std::abort();
  }
  return *own;
}

}  // namespace simcuda
