#include "tools/simcuda/driver/linker.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

namespace simcuda {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
}

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

// Where a quoted string that begins at `at` ends.
size_t end_of_string(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

std::string without_comments(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const std::string_view here = text.substr(at);
    size_t end = at + 1;
    if (here.starts_with("//")) {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (here.starts_with("/*")) {
      const size_t close = text.find("*/", at + 2);
      at = close == std::string_view::npos ? text.size() : close + 2;
      result += ' ';
      continue;
    }
    if (text[at] == '"') end = end_of_string(text, at);
    result += text.substr(at, end - at);
    at = end;
  }
  return result;
}

bool has_directive(std::string_view text, std::string_view directive) {
  for (size_t at = text.find(directive); at != std::string_view::npos;
       at = text.find(directive, at + 1)) {
    const size_t end = at + directive.size();
    if (end == text.size() || (!is_word(text[end]) && text[end] != '.')) return true;
  }
  return false;
}

// Directives that end with their line.
bool ends_with_line(std::string_view text) {
  for (const std::string_view directive : {".version", ".target", ".address_size", ".file"}) {
    if (text.starts_with(directive)) return true;
  }
  return false;
}

// The statements at module scope.
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> statements;
  size_t first = 0;
  int depth = 0;
  const auto end_at = [&](size_t end) {
    std::string statement = trimmed(text.substr(first, end - first));
    if (!statement.empty()) statements.push_back(std::move(statement));
    first = end;
  };
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      at = end_of_string(text, at) - 1;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}') {
      // An initial value in braces is followed by a semicolon.
      const std::string_view so_far = text.substr(first, at - first);
      const bool is_body = has_directive(so_far, ".entry") || has_directive(so_far, ".func") ||
                           has_directive(so_far, ".section");
      if (--depth <= 0 && is_body) end_at(at + 1);
    } else if (depth <= 0 &&
               (c == ';' ||
                (c == '\n' && ends_with_line(trimmed(text.substr(first, at - first)))))) {
      end_at(at + 1);
    }
  }
  end_at(text.size());
  return statements;
}

// The word that begins at or behind `at`.
std::string word_from(std::string_view text, size_t at) {
  while (at < text.size() && !is_word(text[at])) ++at;
  size_t end = at;
  while (end < text.size() && is_word(text[end])) ++end;
  return std::string(text.substr(at, end - at));
}

// Behind the directive, and what it returns.
std::string name_of_function(std::string_view text) {
  size_t at = text.find(".entry");
  at = at != std::string_view::npos ? at + 6 : text.find(".func") + 5;
  at = text.find_first_not_of(" \t\r\n", at);
  if (at != std::string_view::npos && text[at] == '(') at = text.find(')', at);
  return at == std::string_view::npos ? std::string() : word_from(text, at);
}

// The last word before dimensions and the initial value.
std::string name_of_variable(std::string_view text) {
  size_t end = text.find_first_of("[=;");
  if (end == std::string_view::npos) end = text.size();
  while (end > 0 && !is_word(text[end - 1])) --end;
  size_t first = end;
  while (first > 0 && is_word(text[first - 1])) --first;
  return std::string(text.substr(first, end - first));
}

// Each whole word that is a key, replaced.
std::string renamed(std::string_view text, const std::map<std::string, std::string>& names) {
  if (names.empty()) return std::string(text);
  std::string result;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (text[at] == '"') {
      end = end_of_string(text, at);
    } else if (is_word(text[at])) {
      while (end < text.size() && is_word(text[end])) ++end;
      const auto found = names.find(std::string(text.substr(at, end - at)));
      if (found != names.end() && (at == 0 || text[at - 1] != '.')) {
        result += found->second;
        at = end;
        continue;
      }
    }
    result += text.substr(at, end - at);
    at = end;
  }
  return result;
}

// "8.10" comes behind "8.9", and "sm_100" behind "sm_90".
std::pair<int, int> numbers_of(std::string_view text) {
  std::pair<int, int> numbers{0, 0};
  int* number = &numbers.first;
  for (const char c : text) {
    if (c == '.') number = &numbers.second;
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) *number = *number * 10 + (c - '0');
  }
  return numbers;
}

}  // namespace

Linker::Statement Linker::understand(std::string text) {
  Statement statement;
  const std::string_view front = std::string_view(text).substr(0, text.find_first_of("{=("));
  if (has_directive(front, ".entry") || has_directive(front, ".func")) {
    const bool has_body = text.find('{') != std::string::npos;
    statement.kind = has_body ? Kind::kFunction : Kind::kDeclaration;
    statement.name = name_of_function(text);
  } else if (has_directive(front, ".global") || has_directive(front, ".const") ||
             has_directive(front, ".shared")) {
    statement.kind = Kind::kVariable;
    statement.name = name_of_variable(text);
  }
  statement.linkage = has_directive(front, ".extern")    ? Linkage::kExtern
                      : has_directive(front, ".visible") ? Linkage::kVisible
                      : has_directive(front, ".weak") || has_directive(front, ".common")
                          ? Linkage::kWeak
                          : Linkage::kOwn;
  statement.text = std::move(text);
  return statement;
}

void Linker::add(std::string_view text, std::string name) {
  Unit& unit = units_.emplace_back();
  unit.name = std::move(name);
  for (std::string& statement : split(without_comments(text))) {
    const std::string_view all = statement;
    if (all.starts_with(".version")) {
      unit.version = trimmed(all.substr(8));
    } else if (all.starts_with(".target")) {
      unit.target = word_from(all, 7);
    } else if (!ends_with_line(all) && !all.starts_with(".section")) {
      unit.statements.push_back(understand(std::move(statement)));
    }
  }
}

// The header has the newest version and the newest target of all the texts.
std::string Linker::head() const {
  std::string version, target;
  for (const Unit& unit : units_) {
    if (numbers_of(unit.version) > numbers_of(version)) version = unit.version;
    if (numbers_of(unit.target) > numbers_of(target)) target = unit.target;
  }
  return ".version " + version + "\n.target " + target + "\n.address_size 64\n";
}

Linker::Linked Linker::link() const {
  if (units_.empty()) return {{}, "there is nothing to link"};
  // The unit and statement that define each name that all units can see. These names are taken.
  std::map<std::string, std::pair<const Unit*, const Statement*>> definitions;
  for (const Unit& unit : units_) {
    for (const Statement& statement : unit.statements) {
      if (!statement.defines() || statement.linkage == Linkage::kOwn) continue;
      auto& [owner, defined] = definitions[statement.name];
      if (defined != nullptr && statement.linkage == Linkage::kVisible &&
          defined->linkage == Linkage::kVisible) {
        return {{},
                "'" + statement.name + "' is defined in " + owner->name + " and in " + unit.name};
      }
      if (defined == nullptr || statement.linkage == Linkage::kVisible) {
        owner = &unit;
        defined = &statement;
      }
    }
  }
  std::string variables, declarations, functions, others;
  std::set<std::string> own_names, declared;
  for (size_t i = 0; i < units_.size(); ++i) {
    std::map<std::string, std::string> names;
    for (const Statement& statement : units_[i].statements) {
      if (statement.linkage != Linkage::kOwn || !statement.defines()) continue;
      if (definitions.contains(statement.name) || !own_names.insert(statement.name).second) {
        names[statement.name] = statement.name + "$" + std::to_string(i);
      }
    }
    for (const Statement& statement : units_[i].statements) {
      const auto found = definitions.find(statement.name);
      const bool known = statement.kind != Kind::kOther && found != definitions.end();
      const bool is_it = known && found->second.second == &statement;
      const bool is_own = statement.linkage == Linkage::kOwn;
      const bool is_declaration = statement.kind == Kind::kDeclaration;
      // Another one's, or a weak one that is not needed. Functions are declared before their use.
      if (known && !is_it && !is_own && !is_declaration) continue;
      std::string text = renamed(statement.text, names) + "\n";
      if (known && is_declaration && statement.linkage == Linkage::kExtern) {
        text.replace(text.find(".extern"), 7, ".visible");
      }
      if (statement.kind == Kind::kOther) {
        others += text;
      } else if (statement.kind == Kind::kFunction) {
        functions += text;
      } else if (is_declaration) {
        if (is_own || declared.insert(statement.name).second) declarations += text;
      } else if (!statement.defines() && !has_directive(statement.text, ".shared")) {
        return {{},
                "'" + statement.name + "', which " + units_[i].name + " needs, is defined nowhere"};
      } else if (statement.defines() || declared.insert(statement.name).second) {
        variables += text;
      }
    }
  }
  return {head() + others + variables + declarations + functions, {}};
}

}  // namespace simcuda
