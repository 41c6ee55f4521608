// What tests ask soft-metal beyond Metal: reports, counters, injected faults. Plain C functions, strings as JSON.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "counters.h"
#include "runtime.h"

namespace soft {

Counters counters;
Injections injections;

}  // namespace soft

using namespace soft;

/** { live: {class: count}, overReleases: {class: count}, misuse: [{kind, text}] } */
SOFT_EXPORT const char* soft_metal_report() {
  ensureRuntime();
  static thread_local std::string text;
  text = "{\"live\":" + liveJson() + ",\"overReleases\":" + overReleaseJson() + ",\"misuse\":" + misuseJson() + "}";
  return text.c_str();
}

/** Forgets findings, counts, injections, and the objects alive now: the next report starts from here. */
SOFT_EXPORT void soft_metal_reset() {
  ensureRuntime();
  clearMisuse();
  forgetLive();
  messageCount = 0;
  for (auto* c : {&counters.commandBuffers, &counters.dispatches, &counters.encoders, &counters.compiles, &counters.libraries, &counters.barriers}) *c = 0;
  for (auto* c : {&injections.oom, &injections.commandError, &injections.compileError, &injections.slowMs}) *c = 0;
  injections.deviceLost = false;
}

SOFT_EXPORT const char* soft_metal_counters() {
  static thread_local std::string text;
  auto pair = [](const char* name, u64 n) { return "\"" + std::string(name) + "\":" + std::to_string(n); };
  text = "{" + pair("messages", messageCount) + "," + pair("commandBuffers", counters.commandBuffers) + "," + pair("dispatches", counters.dispatches) + "," +
    pair("encoders", counters.encoders) + "," + pair("barriers", counters.barriers) + "," + pair("libraries", counters.libraries) + "," +
    pair("compiles", counters.compiles) + "}";
  return text.c_str();
}

/** "oom", "command-error", "compile-error": the next `count` fail; "device-lost": all from now (0 to undo); "slow": ms. */
SOFT_EXPORT bool soft_metal_inject(const char* what, u64 count) {
  if (!what) return false;
  if (!strcmp(what, "oom")) injections.oom = count;
  else if (!strcmp(what, "command-error")) injections.commandError = count;
  else if (!strcmp(what, "compile-error")) injections.compileError = count;
  else if (!strcmp(what, "slow")) injections.slowMs = count;
  else if (!strcmp(what, "device-lost")) injections.deviceLost = count > 0;
  else return false;
  return true;
}

/** At exit, INGOT_SOFT_METAL_REPORT=1 prints the report, any other value is the file it goes to. */
__attribute__((destructor)) static void reportAtExit() {
  const char* where = getenv("INGOT_SOFT_METAL_REPORT");
  if (!where || !*where || !strcmp(where, "0")) return;
  const char* text = soft_metal_report();
  if (strcmp(where, "1") != 0) std::ofstream(where) << text << "\n";
  else fprintf(stderr, "soft-metal: %s\n", text);
}
