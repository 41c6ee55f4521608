// MSL to C++ by rewriting tokens: address spaces become checked pointer types, threadgroup variables become claims on the
// group's memory, kernel parameters lose their attributes and gain a thunk that fills them, function constants become
// reads of the launch. Lines stay where they were, so the compiler's positions are the source's.
// It is no parser of C++: types in macros and pointers to pointers across address spaces are not understood.
#include "rewrite.h"

#include <cstring>
#include <map>
#include <set>

#include "tokens.h"

namespace soft {

namespace {

enum class Space { None, Device, Constant, Threadgroup };

/** `device const T *`: where it begins and ends, and what it says. */
struct AddressType {
  Space space = Space::None;
  bool isConst = false, pointer = false, reference = false;
  std::string type;
  size_t begin = 0, end = 0;  // tokens; end is one past the `*`, `&` or the type
};

const std::set<std::string> kForbidden = {"double", "goto", "new", "delete", "try", "throw", "catch", "virtual", "dynamic_cast",
  "typeid", "thread_local", "asm", "__asm__", "std"};
const std::map<std::string, std::string> kBuiltins = {
  {"thread_position_in_grid", "sm::inGrid(l).v"},
  {"thread_position_in_threadgroup", "l->position"},
  {"thread_index_in_threadgroup", "l->index"},
  {"threadgroup_position_in_grid", "l->group->id"},
  {"threads_per_threadgroup", "l->group->size"},
  {"dispatch_threads_per_threadgroup", "l->group->launch->size"},
  {"threads_per_grid", "l->group->launch->threads"},
  {"threadgroups_per_grid", "l->group->launch->groups"},
  {"thread_index_in_simdgroup", "l->lane"},
  {"simdgroup_index_in_threadgroup", "l->simdIndex"},
  {"simdgroups_per_threadgroup", "(l->group->count + 31) / 32"},
  {"dispatch_simdgroups_per_threadgroup", "(l->group->count + 31) / 32"},
  {"threads_per_simdgroup", "sm::kLanes"},
  {"thread_execution_width", "sm::kLanes"},
  {"quadgroup_index_in_threadgroup", "l->index / 4"},
  {"thread_index_in_quadgroup", "(l->index & 3)"},
};

bool collectiveWord(const std::string& w) {
  return w == "threadgroup_barrier" || w == "simd_is_first" || w.rfind("simdgroup_", 0) == 0 || w.rfind("quad_", 0) == 0 ||
    w == "make_filled_simdgroup_matrix" || (w.rfind("simd_", 0) == 0);
}

class Rewriter {
 public:
  Rewriter(const std::string& source) : source_(source), t_(tokenize(source)) {}

  Rewritten run() {
    plainTokens();
    functionConstants();
    for (size_t i = 0; i < t_.size(); i++)
      if (t_[i].text == "kernel" || (t_[i].text == "[[" && at(i + 1) == "kernel")) kernelAt(i);
    findCollectives();
    for (size_t i = 0; i < t_.size(); i++) {
      if (space(i) != Space::None) addressAt(i);
      else if (t_[i].text == "[[") blank(i, closing(i, "[[", "]]") + 1);
    }
    autos();
    finish();
    return std::move(out_);
  }

 private:
  const std::string& source_;
  std::vector<Token> t_;
  Rewritten out_;
  struct Body { size_t begin, end; };
  std::vector<Body> bodies_;       // of kernels, in order
  std::vector<uint32_t> slots_;    // threadgroup variables per kernel

  std::string at(size_t i) const { return i < t_.size() ? t_[i].text : ""; }
  bool word(size_t i) const { return i < t_.size() && t_[i].kind == Token::Word; }
  void blank(size_t from, size_t to) { for (size_t i = from; i < to && i < t_.size(); i++) t_[i].text.clear(); }
  void error(const Token& where, const std::string& text) { out_.errors += diagnostic(source_, where.line, where.column, "error", text); }

  size_t closing(size_t i, const char* open, const char* close) const {
    int depth = 0;
    for (; i < t_.size(); i++) {
      if (t_[i].text == open) depth++;
      else if (t_[i].text == close && --depth == 0) return i;
    }
    return t_.size() - 1;
  }
  std::string join(size_t from, size_t to) const {
    std::string s;
    for (size_t i = from; i < to; i++)
      if (!t_[i].text.empty()) s += (s.empty() ? "" : " ") + t_[i].text;
    return s;
  }

  Space space(size_t i) const {
    const std::string& w = t_[i].text;
    if (t_[i].kind != Token::Word) return Space::None;
    return w == "device" ? Space::Device : w == "constant" ? Space::Constant : w == "threadgroup" ? Space::Threadgroup : Space::None;
  }

  // Literals, directives, dropped keywords and what Metal does not have.
  void plainTokens() {
    for (auto& t : t_) {
      if (t.kind == Token::Directive) {
        bool include = t.text.find("include") != std::string::npos;
        if (include && t.text.find("<metal") == std::string::npos && t.text.find("<simd") == std::string::npos)
          error(t, "file not found: a library made from source has no other headers");
        if (include || t.text.find("pragma") != std::string::npos) t.text.clear();
      } else if (t.kind == Token::Number) number(t);
      else if (t.kind == Token::Word) {
        if (t.text == "thread" || t.text == "restrict" || t.text == "__restrict" || t.text == "ray_data") t.text.clear();
        else if (t.text == "reinterpret_cast") t.text = "sm::recast";
        else if (kForbidden.count(t.text)) error(t, "'" + t.text + "' is not supported in Metal");
      }
    }
    for (size_t i = 0; i + 1 < t_.size(); i++)
      if (t_[i].text == "_Pragma") blank(i, closing(i, "(", ")") + 1);
  }

  // An unsuffixed floating literal is a float in MSL, and `h` says half.
  void number(Token& t) {
    std::string& s = t.text;
    bool hex = s.size() > 1 && (s[1] == 'x' || s[1] == 'X');
    bool real = s.find('.') != std::string::npos || (hex ? s.find_first_of("pP") : s.find_first_of("eE")) != std::string::npos;
    char last = s.back();
    if (!hex && (last == 'h' || last == 'H')) s = "half(" + s.substr(0, s.size() - 1) + (real ? "f)" : ")");
    else if (real && last != 'f' && last != 'F') s += "f";
  }

  // `constant T NAME [[function_constant(n)]];` disappears; NAME becomes a read of the launch wherever it is used.
  void functionConstants() {
    std::map<std::string, std::string> value;
    for (size_t i = 0; i < t_.size(); i++) {
      if (space(i) != Space::Constant) continue;
      AddressType a = parse(i);
      if (a.pointer || a.reference || !word(a.end)) continue;
      size_t end = a.end;
      while (end < t_.size() && t_[end].text != ";") end++;
      std::string name = t_[a.end].text, type = a.type;
      if (at(a.end + 1) == "[[" && at(a.end + 2) == "function_constant") {
        ConstantInfo c{name, type, static_cast<uint32_t>(std::stoul("0" + at(a.end + 4)))};
        if (c.index >= 64) error(t_[a.end], "function constants beyond 63 are not supported");
        value[name] = "sm::functionConstant<" + type + ">(" + std::to_string(c.index) + ")";
        out_.constants.push_back(c);
        blank(a.begin, end + 1);
      } else if (at(a.end + 1) == "=") {
        bool derived = false;
        for (size_t k = a.end + 2; k < end; k++) derived = derived || value.count(t_[k].text);
        if (!derived) continue;
        substitute(value, a.end + 2, end);
        value[name] = "((" + type + ")(" + join(a.end + 2, end) + "))";
        blank(a.begin, end + 1);
      }
    }
    substitute(value, 0, t_.size());
  }
  void substitute(const std::map<std::string, std::string>& value, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
      if (!word(i) || !value.count(t_[i].text)) continue;
      if (at(i - 2) == "function_constant") continue;  // the attribute of an optional parameter
      if (i >= 2 && at(i - 2) == "is_function_constant_defined") {
        std::string v = value.at(t_[i].text);
        t_[i - 2].text = "sm::constantDefined";
        t_[i].text = v.substr(v.rfind('(') + 1, v.rfind(')') - v.rfind('(') - 1);
      } else if (i == 0 || (at(i - 1) != "." && at(i - 1) != "->")) t_[i].text = value.at(t_[i].text);
    }
  }

  // The type around the address space at token i.
  AddressType parse(size_t i) const {
    AddressType a;
    a.space = space(i);
    a.begin = i;
    while (a.begin > 0 && (at(a.begin - 1) == "const" || at(a.begin - 1) == "volatile")) a.begin--;
    for (size_t k = a.begin; k < i; k++) a.isConst = a.isConst || t_[k].text == "const";
    size_t k = i + 1;
    auto qualifiers = [&] {
      while (at(k) == "const" || at(k) == "volatile" || at(k) == "constexpr" || at(k) == "static" || at(k) == "coherent" ||
        (at(k).empty() && k + 1 < t_.size())) {
        a.isConst = a.isConst || at(k) == "const";
        k++;
      }
    };
    qualifiers();
    size_t typeBegin = k;
    if (at(k) == "struct" || at(k) == "typename") k++;
    if (at(k) == "unsigned" || at(k) == "signed") {
      k++;
      while (at(k) == "int" || at(k) == "char" || at(k) == "short" || at(k) == "long") k++;
    } else {
      k++;
      while (at(k) == "::" || at(k - 1) == "::") k++;
      if (at(k) == "<") k = templateEnd(k);
    }
    a.type = join(typeBegin, k);
    qualifiers();
    if (a.space == Space::Constant) a.isConst = true;
    if (at(k) == "*") a.pointer = true, k++;
    else if (at(k) == "&") a.reference = true, k++;
    a.end = k;
    return a;
  }
  size_t templateEnd(size_t k) const {
    int depth = 0;
    for (; k < t_.size(); k++) {
      const std::string& s = t_[k].text;
      if (s == "<") depth++;
      else if (s == ">") depth--;
      else if (s == ">>") depth -= 2;
      if (depth <= 0) return k + 1;
    }
    return k;
  }
  static std::string qualified(const AddressType& a) { return (a.isConst ? "const " : "") + a.type; }
  static const char* spaceName(Space s) { return s == Space::Threadgroup ? "sm::kThreadgroup" : "sm::kDevice"; }

  void addressAt(size_t i) {
    AddressType a = parse(i);
    if (a.pointer || (a.reference && a.space != Space::Constant)) {
      blank(a.begin, a.end);
      t_[a.begin].text = (a.pointer ? "sm::ptr<" : "sm::Reference<") + qualified(a) + ", " + spaceName(a.space) + ">";
      if (!a.pointer) t_[a.begin].text += " ";
      else dropStars(a.end);
    } else if (a.reference) {
      blank(a.begin, a.end);
      t_[a.begin].text = "const " + a.type + "&";
    } else if (a.space == Space::Threadgroup && word(a.end)) threadgroupVariables(a);
    else if (a.space == Space::Constant) t_[i].text = kernelOf(i) < 0 ? "static const" : "const";
    else t_[i].text.clear();
    if (t_[a.begin].text.size() && t_[a.begin].lead.empty() && a.begin > 0 && word(a.begin - 1)) t_[a.begin].lead = " ";
  }

  // `device float *a = x, *b = y;`: the type is a pointer already, later stars go. Inside parentheses a comma ends it.
  void dropStars(size_t i) {
    if (!word(i)) return;
    int depth = 0;
    for (; i < t_.size(); i++) {
      const std::string& s = t_[i].text;
      if (s == "(" || s == "[" || s == "{") depth++;
      else if (s == ")" || s == "]" || s == "}") { if (--depth < 0) return; }
      else if (s == ";") return;
      else if (s == "," && depth == 0 && at(i + 1) == "*" && word(i + 2)) t_[i + 1].text.clear();
    }
  }

  int kernelOf(size_t i) const {
    for (size_t k = 0; k < bodies_.size(); k++)
      if (i > bodies_[k].begin && i < bodies_[k].end) return static_cast<int>(k);
    return -1;
  }

  void threadgroupVariables(const AddressType& a) {
    int k = kernelOf(a.begin);
    if (k < 0) return error(t_[a.begin], "variable in threadgroup address space must be declared in a kernel function");
    std::string text;
    size_t i = a.end;
    for (;;) {
      std::string name = at(i++), type = a.type, dims;
      while (at(i) == "[") {
        size_t close = closing(i, "[", "]");
        dims += join(i, close + 1);
        i = close + 1;
      }
      uint32_t slot = slots_[static_cast<size_t>(k)]++;
      if (slot >= 32) return error(t_[a.begin], "more than 32 threadgroup variables in a kernel");
      std::string args = "<" + std::to_string(k) + ", " + std::to_string(slot) + ", " + type + dims + ">(__LINE__); ";
      text += dims.empty() ? "auto&& " + name + " = sm::threadgroupVariable" + args : "auto " + name + " = sm::threadgroupArray" + args;
      if (at(i) == "=") return error(t_[i], "variable in threadgroup address space cannot have an initializer");
      if (at(i) != ",") break;
      i++;
    }
    blank(a.begin, i);
    text.resize(text.size() - 2);  // the source's own `;` ends the last one
    t_[a.begin].text = text;
  }

  // kernel [[attributes]] void NAME ( parameters ) { body }
  void kernelAt(size_t i) {
    KernelInfo info;
    size_t k = i;
    uint32_t nextBuffer = 0;
    while (k < t_.size() && (t_[k].text == "kernel" || t_[k].text == "[[" || t_[k].text == "static" || t_[k].text.empty())) {
      if (t_[k].text == "[[") {
        size_t end = closing(k, "[[", "]]");
        for (size_t m = k; m < end; m++)
          if (t_[m].text == "max_total_threads_per_threadgroup") info.maxThreads = static_cast<uint32_t>(std::stoul("0" + at(m + 2)));
        blank(k, end + 1);
        k = end + 1;
      } else t_[k++].text.clear();
    }
    if (at(k) != "void" || at(k + 2) != "(") return error(t_[k], "a kernel must be a function that returns void");
    info.name = at(k + 1);
    info.line = t_[k + 1].line;
    t_[k].text = "static void";
    size_t open = k + 2, close = closing(open, "(", ")");
    size_t begin = open + 1;
    int depth = 0;
    for (size_t p = open + 1; p <= close; p++) {
      const std::string& s = t_[p].text;
      if (s == "(" || s == "[" || s == "[[" || s == "<") depth++;
      else if (p < close && (s == ")" || s == "]" || s == "]]" || s == ">")) depth--;
      else if (p == close || (s == "," && depth == 0)) {
        if (p > begin) parameter(info, begin, p, nextBuffer);
        begin = p + 1;
      }
    }
    size_t body = close + 1;
    while (body < t_.size() && t_[body].text != "{") body++;
    bodies_.push_back({body, closing(body, "{", "}")});
    slots_.push_back(0);
    out_.kernels.push_back(info);
  }

  void parameter(KernelInfo& info, size_t begin, size_t end, uint32_t& nextBuffer) {
    KernelArg arg;
    arg.line = info.line;
    std::string attribute;
    uint32_t index = 0;
    bool indexed = false;
    size_t stop = end;
    for (size_t i = begin; i < end; i++) {
      if (t_[i].text != "[[") continue;
      stop = i < stop ? i : stop;
      size_t close = closing(i, "[[", "]]");
      for (size_t k = i + 1; k < close; k++) {
        if (!word(k) || (at(k - 1) != "[[" && at(k - 1) != ",")) continue;
        if (at(k) == "function_constant") arg.optional = true;
        else attribute = at(k);
        if (at(k) == "buffer" || at(k) == "threadgroup") index = static_cast<uint32_t>(std::stoul("0" + at(k + 2))), indexed = true;
      }
      blank(i, close + 1);
      i = close;
    }
    arg.name = at(stop - 1);
    for (size_t i = begin; i < stop; i++) {
      if (space(i) == Space::None) continue;
      AddressType a = parse(i);
      arg.type = qualified(a);
      arg.kind = a.space == Space::Threadgroup ? KernelArg::Threadgroup : a.pointer ? KernelArg::Buffer : KernelArg::Reference;
      arg.writable = a.space == Space::Device && !a.isConst;
      arg.index = indexed ? index : nextBuffer;
      if (arg.kind != KernelArg::Threadgroup) nextBuffer = arg.index + 1;
      if (arg.index >= 31) error(t_[i], "'" + attribute + "' attribute parameter is out of bounds: must be between 0 and 30");
      for (auto& other : info.args)
        if (other.kind != KernelArg::Builtin && (other.kind == KernelArg::Threadgroup) == (arg.kind == KernelArg::Threadgroup) && other.index == arg.index)
          error(t_[i], "cannot reserve 'buffer' resource location at index " + std::to_string(arg.index) + ": already used by '" + other.name + "'");
      info.args.push_back(arg);
      return;
    }
    if (attribute == "buffer") return error(t_[begin], "pointer type must have explicit address space qualifier");
    if (!kBuiltins.count(attribute)) return error(t_[begin], attribute.empty() ? "invalid type for input declaration in a kernel function" : "unsupported attribute '" + attribute + "'");
    for (size_t i = begin; i + 1 < stop; i++)
      if (t_[i].text != "const") arg.type += (arg.type.empty() ? "" : " ") + t_[i].text;
    arg.builtin = attribute;
    info.args.push_back(arg);
  }

  // Which kernels meet other threads, directly or through the functions they call.
  void findCollectives() {
    std::map<std::string, std::set<std::string>> words;
    bool hidden = false;  // a collective outside the functions found here: in a struct, a namespace or a macro
    int depth = 0;
    for (size_t i = 0; i < t_.size(); i++) {
      if (t_[i].text == "(" && depth == 0 && i > 0 && word(i - 1)) {
        size_t close = closing(i, "(", ")"), body = close + 1;
        while (at(body).empty() && body + 1 < t_.size()) body++;
        if (at(body) == "{") {
          size_t end = closing(body, "{", "}");
          auto& set = words[t_[i - 1].text];
          for (size_t k = body; k < end; k++)
            if (word(k)) set.insert(t_[k].text);
          i = end;
          continue;
        }
      }
      if (t_[i].text == "{") depth++;
      else if (t_[i].text == "}") depth--;
      else hidden = hidden || (word(i) && collectiveWord(t_[i].text));
    }
    std::set<std::string> meeting;
    for (bool grew = true; grew;) {
      grew = false;
      for (auto& [name, set] : words) {
        if (meeting.count(name)) continue;
        for (auto& w : set)
          if (collectiveWord(w) || meeting.count(w)) { meeting.insert(name), grew = true; break; }
      }
    }
    for (auto& t : t_) hidden = hidden || (t.kind == Token::Directive && (t.text.find("simd") != std::string::npos || t.text.find("barrier") != std::string::npos));
    for (auto& k : out_.kernels) {
      k.collective = hidden || meeting.count(k.name) > 0 || !words.count(k.name);
      std::set<std::string> seen;
      std::set<uint32_t> constants;
      constantsOf(k.name, words, seen, constants);
      k.constants.assign(constants.begin(), constants.end());
    }
  }
  void constantsOf(const std::string& name, std::map<std::string, std::set<std::string>>& words, std::set<std::string>& seen, std::set<uint32_t>& found) const {
    if (!words.count(name) || !seen.insert(name).second) return;
    for (auto& w : words[name]) {
      constantsOf(w, words, seen, found);
      for (size_t at = w.find("sm::functionConstant<"); at != std::string::npos; at = w.find("sm::functionConstant<", at + 1))
        found.insert(static_cast<uint32_t>(std::stoul(w.substr(w.find(">(", at) + 2))));
    }
  }

  // `auto v = p[i];` must copy the element, not the checked reference to it.
  void autos() {
    for (size_t i = 0; i + 2 < t_.size(); i++) {
      if (t_[i].text != "auto" || !word(i + 1) || t_[i + 2].text != "=") continue;
      int depth = 0;
      for (size_t k = i + 3; k < t_.size(); k++) {
        const std::string& s = t_[k].text;
        if (s == "(" || s == "[" || s == "{") depth++;
        else if (s == ")" || s == "]" || s == "}") depth--;
        else if (s == ";" && depth == 0) {
          t_[i + 2].text = "= sm::val(";
          t_[k].text = ");";
          break;
        }
      }
    }
  }

  std::string arguments(const KernelInfo& k) const {
    std::string s;
    for (auto& a : k.args) {
      std::string where = "(l, " + std::to_string(a.index) + ", " + std::to_string(a.line) + ")";
      s += s.empty() ? "" : ", ";
      if (a.kind == KernelArg::Buffer) s += "sm::bufferArgument<" + a.type + ">" + where;
      else if (a.kind == KernelArg::Threadgroup) s += "sm::threadgroupArgument<" + a.type + ">" + where;
      else if (a.kind == KernelArg::Reference) s += (a.writable ? "sm::bufferArgument<" : "sm::referenceArgument<") + a.type + ">" + where + (a.writable ? "[0]" : "");
      else s += "sm::builtin<" + a.type + ">(" + kBuiltins.at(a.builtin) + ")";
    }
    return s;
  }

  void finish() {
    size_t n = out_.kernels.size();
    std::string s = "extern \"C\" { __attribute__((visibility(\"default\"))) sm::KernelStatics sm_statics[" + std::to_string(n ? n : 1) + "] = {}; }\n";
    s += "namespace sm_user {\n#line 1 \"program_source\"\n" + print(t_) + "\n}\n#line 1 \"soft_metal_thunks\"\n";
    s += "using namespace sm_user;\n";
    for (size_t k = 0; k < n; k++) {
      auto& info = out_.kernels[k];
      std::string call = "sm_user::" + info.name + "(" + arguments(info) + ");";
      std::string head = "extern \"C\" __attribute__((visibility(\"default\"))) void sm_";
      std::string tail = "_" + std::to_string(k) + "(sm::Lane* l) {\n";
      if (info.collective) s += head + "call" + tail + call + "\n}\n";
      else
        s += head + "loop" + tail +
          "  sm::Group* g = l->group;\n  for (l->position[2] = 0; l->position[2] < g->size[2]; l->position[2]++)\n"
          "  for (l->position[1] = 0; l->position[1] < g->size[1]; l->position[1]++)\n"
          "  for (l->position[0] = 0; l->position[0] < g->size[0]; l->position[0]++) {\n"
          "    l->simdIndex = l->index / 32; l->lane = l->index & 31; l->simd = g->simds + l->simdIndex;\n    " +
          call + "\n    l->index++;\n  }\n}\n";
    }
    out_.text = s;
  }
};

}  // namespace

std::string diagnostic(const std::string& source, int line, int column, const std::string& severity, const std::string& text) {
  std::string out = "program_source:" + std::to_string(line) + ":" + std::to_string(column) + ": " + severity + ": " + text + "\n";
  size_t at = 0;
  for (int i = 1; i < line && at != std::string::npos; i++) {
    at = source.find('\n', at);
    if (at != std::string::npos) at++;
  }
  if (at == std::string::npos || at >= source.size()) return out;
  out += source.substr(at, source.find('\n', at) - at) + "\n";
  return out + std::string(column > 0 ? static_cast<size_t>(column - 1) : 0, ' ') + "^\n";
}

Rewritten rewriteMsl(const std::string& source) { return Rewriter(source).run(); }

}  // namespace soft
