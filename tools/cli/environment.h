// The environment that a program is going to be started with.
#pragma once

#include <string>
#include <vector>

namespace gpusnap {

class Environment {
 public:
  // A copy of this process' own.
  Environment();
  void set(const std::string& name, const std::string& value);
  void unset(const std::string& name);
  std::string get(const std::string& name) const;  // empty where it is not set
  // `value` before what is there already, with `separator` between.
  void prepend(const std::string& name, const std::string& value, char separator);
  // Adds variables that mean nothing, up to a size that a run and its restore have in common,
  // whatever settings they have: the program's stack begins below its environment, and addresses
  // in it get about in the program's memory.
  void even_out();
  const std::vector<std::string>& entries() const { return entries_; }  // "NAME=value"
  // For parse_settings() and exec; valid until the next change.
  std::vector<char*> pointers();

 private:
  std::vector<std::string>::iterator find(const std::string& name);

  std::vector<std::string> entries_;
};

}  // namespace gpusnap
