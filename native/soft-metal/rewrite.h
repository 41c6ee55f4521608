// From MSL text to C++ that the system's compiler takes: what rewrite.cpp found and wrote.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace soft {

struct KernelArg {
  enum Kind { Buffer, Reference, Threadgroup, Builtin } kind = Builtin;
  uint32_t index = 0;      // [[buffer(n)]] or [[threadgroup(n)]]
  bool writable = false;   // a device pointer to something that is not const
  bool optional = false;   // present only under a function constant
  std::string type, name, builtin;
  int line = 0;
};

struct KernelInfo {
  std::string name;
  std::vector<KernelArg> args;
  bool collective = false;  // it, or a function it calls, meets other threads
  uint32_t maxThreads = 1024;
  std::vector<uint32_t> constants;  // function constants it reads, directly or through calls
  int line = 0;
};

struct ConstantInfo {
  std::string name, type;
  uint32_t index = 0;
};

struct Rewritten {
  std::string text;
  std::vector<KernelInfo> kernels;
  std::vector<ConstantInfo> constants;
  std::string errors;  // in Metal's shape; empty when the text can be compiled
};

Rewritten rewriteMsl(const std::string& source);
/** `program_source:L:C: error: text` with the source line and a caret below. */
std::string diagnostic(const std::string& source, int line, int column, const std::string& severity, const std::string& text);

}  // namespace soft
