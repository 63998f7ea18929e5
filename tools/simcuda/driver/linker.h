// Joins texts of PTX into one, as a linker joins objects: what one declares as extern is what
// another defines, and names that are a text's own stay apart from the same names in others.
//
// Texts are taken apart at module scope only. Errors inside of a function are found by
// decode().
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace simcuda {

class Linker {
 public:
  // `name` is what messages call it.
  void add(std::string_view text, std::string name);
  // The whole, or what stands in the way.
  struct Linked {
    std::string text;
    std::string error;  // not empty: there is no text
  };
  Linked link() const;

 private:
  enum class Kind : unsigned char { kFunction, kDeclaration, kVariable, kOther };
  enum class Linkage : unsigned char { kOwn, kVisible, kWeak, kExtern };
  struct Statement {
    std::string text;
    std::string name;  // of a function or a variable
    Kind kind = Kind::kOther;
    Linkage linkage = Linkage::kOwn;
    bool defines() const {
      return kind == Kind::kFunction || (kind == Kind::kVariable && linkage != Linkage::kExtern);
    }
  };
  struct Unit {
    std::string name;
    std::string version, target;  // "8.0", "sm_75"
    std::vector<Statement> statements;
  };

  static Statement understand(std::string text);
  std::string head() const;

  std::vector<Unit> units_;
};

}  // namespace simcuda
