#include <utility>

#include "tracker/ptx.h"
#include "tracker/ptx_body.h"
#include "tracker/ptx_declaration.h"
#include "tracker/ptx_symbols.h"

namespace gpusnap::ptx {
namespace {

// The directives of a kernel that bound how it is launched or compiled.
bool is_tuning_word(const Token& token) {
  for (const std::string_view word :
       {"maxnreg", "minnctapersm", "maxnctapersm", "maxclusterrank", "reqnctapercluster",
        "explicitcluster", "blocksareclusters", "abi_preserve", "abi_preserve_control"}) {
    if (token.is_word(word)) return true;
  }
  return false;
}

bool same_shape(const std::vector<Variable>& left, const std::vector<Variable>& right) {
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i].size != right[i].size || left[i].offset != right[i].offset) return false;
  }
  return true;
}

class ModuleParser {
 public:
  explicit ModuleParser(Module& module)
      : builder_(module), module_(module), cursor_(builder_.cursor) {}

  bool parse();
  const Error& error() const { return cursor_.error(); }

 private:
  bool parse_item();
  bool parse_version();
  bool parse_target();
  bool parse_address_size();
  bool parse_declaration();
  bool parse_variables(Linkage linkage);
  bool add_variable(std::string_view name, Variable variable);
  bool parse_function(Linkage linkage, bool is_kernel);
  bool parse_signature(Function& function);
  bool parse_tuning(Function& function);
  bool parse_extent(uint32_t (&extent)[3]);
  bool parse_body(Function& function);
  bool enter_function(const Function& function, uint32_t& index);
  bool check_relocations(const std::vector<Variable>& variables);
  bool check_all_relocations();

  ModuleBuilder builder_;
  Module& module_;
  Cursor& cursor_;
  std::string_view function_name_;  // of the function at hand
  std::vector<std::string_view> return_names_;
  std::vector<std::string_view> parameter_names_;
};

bool ModuleParser::parse() {
  if (!cursor_.peek().is_word("version")) return cursor_.fail("PTX must begin with .version");
  while (cursor_.peek().kind != TokenKind::kEnd) {
    if (!parse_item()) return false;
  }
  return check_all_relocations();
}

bool ModuleParser::parse_item() {
  if (cursor_.accept_word("version")) return parse_version();
  if (cursor_.accept_word("target")) return parse_target();
  if (cursor_.accept_word("address_size")) return parse_address_size();
  if (cursor_.accept(";")) return true;
  if (skip_annotation(cursor_)) return true;
  if (cursor_.failed()) return false;
  return parse_declaration();
}

// The lexer takes 7.8 for a decimal float: what counts is its text.
bool ModuleParser::parse_version() {
  const Token token = cursor_.take();
  const size_t dot = token.text.find('.');
  constexpr size_t kMostDigits = 4;
  if (token.kind != TokenKind::kFloat || dot == std::string_view::npos || dot > kMostDigits ||
      token.text.size() - dot - 1 > kMostDigits) {
    return cursor_.fail_at(token.line, token.text, "bad version");
  }
  uint32_t* part = &module_.version_major;
  module_.version_major = module_.version_minor = 0;
  for (const char c : token.text) {
    if (c == '.') {
      part = &module_.version_minor;
    } else if (c >= '0' && c <= '9') {
      *part = *part * 10 + static_cast<uint32_t>(c - '0');
    } else {
      return cursor_.fail_at(token.line, token.text, "bad version");
    }
  }
  return true;
}

bool ModuleParser::parse_target() {
  std::string_view name;
  if (!cursor_.expect_identifier(name)) return false;
  if (module_.target.empty()) module_.target = name;
  while (cursor_.accept(",")) {
    if (!cursor_.expect_identifier(name)) return false;
  }
  return true;
}

bool ModuleParser::parse_address_size() {
  const Token token = cursor_.take();
  if (token.kind != TokenKind::kInteger || (token.value != 32 && token.value != 64)) {
    return cursor_.fail_at(token.line, token.text, "addresses are of 32 or 64 bits");
  }
  module_.address_bits = static_cast<uint32_t>(token.value);
  return true;
}

bool ModuleParser::parse_declaration() {
  Linkage linkage = Linkage::kNone;
  while (linkage_from_word(cursor_.peek(), linkage)) cursor_.take();
  if (cursor_.accept_word("entry")) return parse_function(linkage, true);
  if (cursor_.accept_word("func")) return parse_function(linkage, false);
  if (cursor_.peek().is_word("global") || cursor_.peek().is_word("const") ||
      cursor_.peek().is_word("shared")) {
    return parse_variables(linkage);
  }
  if (cursor_.peek().is_word("alias")) return cursor_.fail("aliases are not supported");
  return cursor_.fail("a directive that may not stand in a module");
}

bool ModuleParser::parse_variables(Linkage linkage) {
  Variable declaration;
  if (!parse_qualifiers(cursor_, declaration)) return false;
  declaration.linkage = linkage;
  const bool initial = declaration.space != Space::kShared && linkage != Linkage::kExtern;
  do {
    Variable variable = declaration;
    std::string_view name;
    if (!parse_declarator(cursor_, variable, name, initial ? &builder_.budget : nullptr) ||
        !add_variable(name, std::move(variable))) {
      return false;
    }
  } while (cursor_.accept(","));
  return cursor_.expect(";");
}

bool ModuleParser::add_variable(std::string_view name, Variable variable) {
  const auto index = static_cast<uint32_t>(module_.variables.size());
  const auto [entry, fresh] =
      builder_.symbols.emplace(name, Symbol{SymbolScope::kModuleVariable, index});
  if (fresh) {
    module_.variables.push_back(std::move(variable));
    return true;
  }
  // A variable may be announced as .extern before, and again after, it is defined.
  if (entry->second.scope == SymbolScope::kModuleVariable) {
    Variable& known = module_.variables[entry->second.index];
    if (known.space == variable.space && known.type == variable.type) {
      if (known.linkage == Linkage::kExtern) {
        known = std::move(variable);
        return true;
      }
      if (variable.linkage == Linkage::kExtern) return true;
    }
  }
  return cursor_.fail_at(variable.line, name, "the name is taken");
}

bool ModuleParser::parse_signature(Function& function) {
  return_names_.clear();
  parameter_names_.clear();
  uint64_t bytes = 0;
  if (!function.is_kernel) {
    Variable attributed;  // what .attribute says of a function does not matter to its readers
    while (cursor_.accept_word("attribute")) {
      if (!parse_attributes(cursor_, attributed)) return false;
    }
    if (cursor_.peek().is("(") &&
        !parse_parameters(cursor_, function.returns, return_names_, bytes)) {
      return false;
    }
  }
  if (!cursor_.expect_identifier(function_name_)) return false;
  function.name = function_name_;
  if (!cursor_.peek().is("(")) return true;
  return parse_parameters(cursor_, function.parameters, parameter_names_, function.parameter_bytes);
}

bool ModuleParser::parse_extent(uint32_t (&extent)[3]) {
  size_t given = 0;
  do {
    const Token token = cursor_.take();
    if (token.kind != TokenKind::kInteger || token.value > UINT32_MAX || given == 3) {
      return cursor_.fail_at(token.line, token.text, "bad number of threads");
    }
    extent[given++] = static_cast<uint32_t>(token.value);
  } while (cursor_.accept(","));
  while (given < 3) extent[given++] = 1;
  return true;
}

// Parses the words that may stand between a signature and its body.
bool ModuleParser::parse_tuning(Function& function) {
  for (;;) {
    if (cursor_.accept_word("maxntid")) {
      if (!parse_extent(function.max_threads)) return false;
    } else if (cursor_.accept_word("reqntid")) {
      if (!parse_extent(function.required_threads)) return false;
    } else if (cursor_.accept_word("noreturn")) {
      function.no_return = true;
    } else if (is_tuning_word(cursor_.peek())) {
      cursor_.take();
      while (cursor_.peek().kind == TokenKind::kInteger || cursor_.peek().is(",")) cursor_.take();
    } else if (!skip_annotation(cursor_)) {
      return !cursor_.failed();
    }
  }
}

// Finds or makes the entry of a function, and checks that all that is said of it agrees.
bool ModuleParser::enter_function(const Function& function, uint32_t& index) {
  index = static_cast<uint32_t>(module_.functions.size());
  const auto [entry, fresh] =
      builder_.symbols.emplace(function_name_, Symbol{SymbolScope::kFunction, index});
  if (fresh) {
    module_.functions.push_back(function);
    return true;
  }
  if (entry->second.scope != SymbolScope::kFunction) {
    return cursor_.fail_at(function.line, function_name_, "the name is taken");
  }
  index = entry->second.index;
  const Function& known = module_.functions[index];
  if (known.has_body && function.has_body) {
    return cursor_.fail_at(function.line, function_name_, "the function is defined twice");
  }
  if (known.is_kernel != function.is_kernel || !same_shape(known.returns, function.returns) ||
      !same_shape(known.parameters, function.parameters)) {
    return cursor_.fail_at(function.line, function_name_,
                           "the function does not match its declaration");
  }
  return true;
}

bool ModuleParser::parse_body(Function& function) {
  BodyParser body(builder_, function);
  return body.declare_signature(return_names_, parameter_names_) && body.parse();
}

bool ModuleParser::parse_function(Linkage linkage, bool is_kernel) {
  Function function;
  function.line = cursor_.peek().line;
  function.linkage = linkage;
  function.is_kernel = is_kernel;
  if (!parse_signature(function) || !parse_tuning(function)) return false;
  function.has_body = cursor_.peek().is("{");
  if (!function.has_body && !cursor_.expect(";")) return false;
  // Entered before its body is parsed, so that the body can name it.
  uint32_t index = 0;
  if (!enter_function(function, index)) return false;
  if (!function.has_body) return true;
  function.no_return = function.no_return || module_.functions[index].no_return;
  if (!parse_body(function)) return false;
  module_.functions[index] = std::move(function);
  return true;
}

bool ModuleParser::check_relocations(const std::vector<Variable>& variables) {
  for (const Variable& variable : variables) {
    for (const Relocation& relocation : variable.relocations) {
      if (!builder_.symbols.contains(relocation.symbol)) {
        return cursor_.fail_at(variable.line, relocation.symbol,
                               "an initial value names an unknown symbol");
      }
    }
  }
  return true;
}

bool ModuleParser::check_all_relocations() {
  if (!check_relocations(module_.variables)) return false;
  for (const Function& function : module_.functions) {
    if (!check_relocations(function.variables)) return false;
  }
  return true;
}

}  // namespace

ParseResult parse(std::string_view text) {
  ParseResult result;
  auto module = std::make_unique<Module>();
  module->text = text.substr(0, text.find('\0'));
  ModuleParser parser(*module);
  if (parser.parse()) {
    result.module = std::move(module);
  } else {
    result.error = parser.error();
  }
  return result;
}

}  // namespace gpusnap::ptx
