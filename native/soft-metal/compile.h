// From MSL source to loaded code: rewrite, compile with the system's compiler, cache, load.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>

#include "rewrite.h"
#include "shim/abi.h"

namespace soft {

/** A loaded library of kernels. Never unloaded: pipelines and reports point into it. */
struct Program {
  Rewritten info;
  sm::KernelStatics* statics = nullptr;
  std::vector<void (*)(sm::Lane*)> run;  // per kernel: one thread (collective) or a whole threadgroup
  const KernelInfo* find(const std::string& name, size_t* index) const;
};

struct CompileResult {
  std::shared_ptr<Program> program;
  std::string error;  // Metal's text when there is no program
};

bool checkedMode();
CompileResult compileMsl(const std::string& source);

}  // namespace soft
