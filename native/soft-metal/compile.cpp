// Compiles rewritten kernels with $CXX (g++, or clang++) against the shim as a precompiled header, and caches the result by content in
// $INGOT_SOFT_METAL_CACHE (default: `cache` beside the library). The shim lies in `shim` beside the library.
// Invariants: files appear in the cache by rename only, so processes can share it; a key covers everything that went in:
// shim, flags, compiler, processor, source.
#include "compile.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <sstream>

#include "counters.h"

extern char** environ;

namespace soft {

namespace {

struct ToolResult { int status; std::string text; };

std::string readText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}
bool exists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }
void makeFolders(const std::string& path) {
  for (size_t i = 1; i <= path.size(); i++)
    if (i == path.size() || path[i] == '/') mkdir(path.substr(0, i).c_str(), 0777);
}

std::string hashOf(const std::string& text) {
  uint64_t a = 0xcbf29ce484222325ull, b = 0x9ae16a3b2f90404full;
  for (unsigned char c : text) {
    a = (a ^ c) * 0x100000001b3ull;
    b = (b + c) * 0x9ddfea08eb382d69ull;
    b ^= b >> 29;
  }
  char out[40];
  snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(a), static_cast<unsigned long long>(b));
  return out;
}

/** Run a tool, with what it says on either stream. */
ToolResult runTool(const std::vector<std::string>& words, const std::string& logPath) {
  std::vector<char*> argv;
  for (auto& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, logPath.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  // Diagnostics are parsed: keep them in English whatever the user's locale.
  std::vector<char*> env;
  for (char** e = environ; *e; e++)
    if (strncmp(*e, "LC_ALL=", 7) != 0) env.push_back(*e);
  char locale[] = "LC_ALL=C";
  env.push_back(locale);
  env.push_back(nullptr);
  pid_t pid = 0;
  int failed = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), env.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return {127, std::string("cannot run ") + words[0] + ": " + strerror(failed)};
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  ToolResult r{WIFEXITED(status) ? WEXITSTATUS(status) : 128, readText(logPath)};
  unlink(logPath.c_str());
  return r;
}

std::string baseFolder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&compileMsl), &info) || !info.dli_fname) return ".";
  std::string path = info.dli_fname;
  char* full = realpath(path.c_str(), nullptr);
  if (full) path = full, free(full);
  return path.substr(0, path.rfind('/'));
}

struct Toolchain {
  std::string cxx, cache, shim, header, error;
  std::vector<std::string> flags;
  ToolResult version;

  Toolchain() {
    const char* env = getenv("CXX");
    cxx = env && *env ? env : "g++";
    env = getenv("INGOT_SOFT_METAL_CACHE");
    std::string base = baseFolder();
    cache = env && *env ? env : base + "/cache";
    shim = base + "/shim";
    makeFolders(cache);
    version = runTool({cxx, "--version"}, temporary(cache + "/version"));
    // -Og: compiling is what tests wait for. Against -O2 it takes three fifths of the time; kernels that are compiled run as fast.
    flags = {"-std=c++17", "-Og", "-fPIC", "-fsigned-char", "-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv",
      "-fno-math-errno", "-fno-trapping-math", "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden", "-fno-stack-protector",
      "-fno-asynchronous-unwind-tables", "-Wno-attributes", "-Wno-unknown-pragmas", "-fno-diagnostics-show-option",
      checkedMode() ? "-DSM_CHECKED=1" : "-DSM_CHECKED=0"};
    const bool clang = version.text.find("clang") != std::string::npos;
    // The name of a cache folder covers what the shim says, so files that were copied anew are not another shim (-fno-pch-timestamp).
    const std::vector<std::string> own = clang
      ? std::vector<std::string>{"-Wframe-larger-than=65536", "-Werror=frame-larger-than", "-fno-caret-diagnostics",
          "-fno-color-diagnostics", "-Xclang", "-fno-pch-timestamp"}
      : std::vector<std::string>{"-Werror=frame-larger-than=65536", "-fno-diagnostics-show-caret"};
    flags.insert(flags.end(), own.begin(), own.end());
#if defined(__x86_64__)
    // Halves are rounded after every operation, as on a GPU. ARM has no other way, and no -march=native that a cross compiler knows.
    flags.push_back("-march=native");
    flags.push_back(clang ? "-ffloat16-excess-precision=none" : "-fexcess-precision=16");
#endif
    precompile();
  }

  std::string temporary(const std::string& path) const {
    static std::atomic<int> serial{0};
    return path + ".tmp" + std::to_string(getpid()) + "-" + std::to_string(serial++);
  }
  std::vector<std::string> command() const {
    std::vector<std::string> c{cxx};
    c.insert(c.end(), flags.begin(), flags.end());
    return c;
  }

  void precompile() {
    std::string all;
    if (DIR* d = opendir(shim.c_str())) {
      std::vector<std::string> names;
      while (dirent* e = readdir(d)) if (strstr(e->d_name, ".h")) names.push_back(e->d_name);
      closedir(d);
      std::sort(names.begin(), names.end());
      for (auto& n : names) all += n + "\n" + readText(shim + "/" + n);
    }
    if (all.empty()) {
      error = "soft-metal: no shim headers in " + shim;
      return;
    }
    if (version.status != 0) {
      error = "soft-metal: no working C++ compiler ('" + cxx + "'): " + version.text;
      return;
    }
    for (auto& f : flags) all += f + " ";
    std::ifstream cpu("/proc/cpuinfo");
    for (std::string line; std::getline(cpu, line);)
      if (line.rfind("flags", 0) == 0 || line.rfind("Features", 0) == 0) { all += line; break; }
    all += version.text + runTool({cxx, "-dumpmachine"}, temporary(cache + "/machine")).text;
    std::string folder = cache + "/shim-" + hashOf(all);
    header = folder + "/metal_stdlib.h";
    if (exists(header + ".gch")) return;
    makeFolders(folder);
    // The header only forwards: its own text never changes while the folder's name covers the shim's content. It is compiled where it
    // stays, because clang notes its path; it appears there once and is never replaced, and what is compiled from it comes by rename.
    std::string draft = temporary(header), built = draft + ".gch";
    std::ofstream(draft) << "#include \"" << shim << "/metal_stdlib.h\"\n";
    // Some file systems have no links; there two processes that begin at once may have to compile twice.
    if (link(draft.c_str(), header.c_str()) != 0 && errno != EEXIST && rename(draft.c_str(), header.c_str()) != 0)
      error = "soft-metal: cannot write " + folder;
    unlink(draft.c_str());
    if (!error.empty()) return;
    auto c = command();
    c.insert(c.end(), {"-x", "c++-header", header, "-o", built});
    ToolResult r = runTool(c, draft + ".log");
    if (r.status != 0) error = "soft-metal: the shim does not compile: " + r.text;
    else if (rename(built.c_str(), (header + ".gch").c_str()) != 0) error = "soft-metal: cannot write " + folder;
  }
};
Toolchain& toolchain() {
  static Toolchain* t = new Toolchain;
  return *t;
}

// Compiler output in Metal's shape: positions in program_source only; errors inside the shim are put where they were
// instantiated from.
std::string shapeDiagnostics(const std::string& source, const std::string& text) {
  std::string out, from;
  int errors = 0, warnings = 0, fromLine = 1, fromColumn = 1;
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    int l = 0, c = 0, n = 0;
    if (sscanf(line.c_str(), "program_source:%d:%d: %n", &l, &c, &n) == 2 && n > 0) {
      std::string rest = line.substr(static_cast<size_t>(n));
      fromLine = l, fromColumn = c;
      for (const char* severity : {"fatal error", "error", "warning", "note"}) {
        std::string head = std::string(severity) + ": ";
        if (rest.rfind(head, 0) != 0) continue;
        bool bad = strstr(severity, "error") != nullptr;
        errors += bad, warnings += severity[0] == 'w';
        out += diagnostic(source, l, c, bad ? "error" : severity, rest.substr(head.size()));
      }
    } else {
      size_t at = line.find(": error: ");
      if (at == std::string::npos) continue;
      errors++;
      out += diagnostic(source, fromLine, fromColumn, "error", line.substr(at + 9));
    }
  }
  if (errors == 0) return text;
  out += std::to_string(errors) + (errors == 1 ? " error" : " errors") + " generated.\n";
  return out;
}

std::mutex lock;
std::unordered_map<std::string, CompileResult> loaded;

CompileResult fail(const std::string& text) { return {nullptr, text}; }

CompileResult load(const std::string& path, Rewritten info) {
  void* so = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!so) return fail(std::string("soft-metal: cannot load compiled kernels: ") + dlerror());
  auto p = std::make_shared<Program>();
  p->info = std::move(info);
  p->statics = static_cast<sm::KernelStatics*>(dlsym(so, "sm_statics"));
  for (size_t i = 0; i < p->info.kernels.size(); i++) {
    std::string name = (p->info.kernels[i].collective ? "sm_call_" : "sm_loop_") + std::to_string(i);
    p->run.push_back(reinterpret_cast<void (*)(sm::Lane*)>(dlsym(so, name.c_str())));
  }
  return {p, ""};
}

}  // namespace

const KernelInfo* Program::find(const std::string& name, size_t* index) const {
  for (size_t i = 0; i < info.kernels.size(); i++)
    if (info.kernels[i].name == name) {
      *index = i;
      return &info.kernels[i];
    }
  return nullptr;
}

bool checkedMode() {
  static const bool checked = [] {
    const char* e = getenv("INGOT_SOFT_METAL_CHECK");
    return !(e && e[0] == '0');
  }();
  return checked;
}

CompileResult compileMsl(const std::string& source) {
  std::unique_lock<std::mutex> hold(lock);
  auto known = loaded.find(source);
  if (known != loaded.end()) return known->second;
  Rewritten r = rewriteMsl(source);
  if (!r.errors.empty()) return fail(r.errors);
  Toolchain& tools = toolchain();
  if (!tools.error.empty()) return fail(tools.error);
  std::string key = hashOf(tools.header + r.text), path = tools.cache + "/" + key + ".so";
  if (!exists(path)) {
    counters.compiles++;
    std::string draft = tools.temporary(tools.cache + "/" + key), code = draft + ".cpp", object = draft + ".so";
    std::ofstream(code) << r.text;
    auto c = tools.command();
    c.insert(c.end(), {"-shared", "-nostdlib", "-include", tools.header, code, "-o", object, "-lm", "-lc", "-lgcc"});
    // Others may compile meanwhile, even the same text: files appear in the cache by rename only.
    hold.unlock();
    ToolResult done = runTool(c, draft + ".log");
    hold.lock();
    if (!getenv("INGOT_SOFT_METAL_KEEP")) unlink(code.c_str());
    if (done.status != 0) {
      unlink(object.c_str());
      return fail(shapeDiagnostics(source, done.text));
    }
    if (rename(object.c_str(), path.c_str()) != 0) return fail("soft-metal: cannot write " + path);
  }
  CompileResult result = load(path, std::move(r));
  if (result.program) loaded[source] = result;
  return result;
}

}  // namespace soft
