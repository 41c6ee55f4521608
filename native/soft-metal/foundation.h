// The few Foundation classes that a Metal client meets.
#pragma once
#include "runtime.h"

namespace soft {

struct String : Object {
  static Class* isa;
  std::string text;
  String() = default;
  explicit String(std::string t) : text(std::move(t)) {}
  std::string describe() const override { return text; }
};

struct Error : Object {
  static Class* isa;
  std::string domain, text;
  i64 code = 0;
  Error(std::string d, i64 c, std::string t) : domain(std::move(d)), text(std::move(t)), code(c) {}
  std::string describe() const override { return text; }
};

struct Array : Object {
  static Class* isa;
  std::vector<Strong> items;
};

struct Url : Object {
  static Class* isa;
  std::string path;
};

struct Number : Object {
  static Class* isa;
  double value = 0;
  std::string describe() const override;
};

struct Dictionary : Object {
  static Class* isa;
  std::vector<std::pair<Strong, Strong>> entries;
};

/** +0: owned by the current autorelease pool. */
id string(std::string text);
/** The text of an NSString; reports anything else and answers ''. */
std::string textOf(id, const char* where);
/** +0 error written through `out` when the caller asked for it. */
void giveError(id* out, const std::string& domain, i64 code, const std::string& text);

}  // namespace soft
