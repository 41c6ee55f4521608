// Runs a subset of soft-metal from C++, for the build with sanitizers (which can not be loaded into Node): memory of
// the runtime, fibers, checks and reports. Prints one line per case; the exit code is the number of failures.
// `test_driver bench` times a mat-vec instead.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

extern "C" {
void* objc_getClass(const char*);
void* sel_registerName(const char*);
void objc_msgSend();
void* objc_autoreleasePoolPush();
void objc_autoreleasePoolPop(void*);
void objc_release(void*);
void* MTLCreateSystemDefaultDevice();
const char* soft_metal_report();
void soft_metal_reset();
bool soft_metal_inject(const char*, uint64_t);
}

namespace {

using u64 = uint64_t;
struct Size { u64 x, y, z; };

template <class R = void*, class... A> R send(void* self, const char* sel, A... a) {
  return reinterpret_cast<R (*)(void*, void*, A...)>(objc_msgSend)(self, sel_registerName(sel), a...);
}
void* text(const char* s) { return send(objc_getClass("NSString"), "stringWithUTF8String:", s); }
std::string utf8(void* s) { return s ? send<const char*>(s, "UTF8String") : ""; }

void* device;
void* queue;
int failures = 0;

void expect(const char* name, bool ok, const std::string& got = "") {
  printf("%s %s%s%s\n", ok ? "ok  " : "FAIL", name, got.empty() || ok ? "" : ": ", ok ? "" : got.c_str());
  failures += !ok;
}

void* pipeline(const std::string& body) {
  std::string source = "#include <metal_stdlib>\nusing namespace metal;\nkernel void k(device float* y [[buffer(0)]], device const float* x [[buffer(1)]],\n"
    "uint lid [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]], uint i [[thread_position_in_grid]], uint g [[threadgroup_position_in_grid]]) {\n" + body + "\n}";
  void* error = nullptr;
  void* library = send(device, "newLibraryWithSource:options:error:", text(source.c_str()), static_cast<void*>(nullptr), &error);
  if (!library) {
    printf("%s\n", utf8(send(error, "localizedDescription")).c_str());
    failures++;
    return nullptr;
  }
  void* function = send(library, "newFunctionWithName:", text("k"));
  void* p = send(device, "newComputePipelineStateWithFunction:error:", function, &error);
  objc_release(function);
  objc_release(library);
  return p;
}

/** Run a body on 64 floats in each of two buffers; the error text. */
std::string run(const std::string& body, u64 groups = 1, u64 threads = 64, std::vector<float>* out = nullptr, bool freeEarly = false) {
  void* pool = objc_autoreleasePoolPush();
  void* p = pipeline(body);
  void* y = send(device, "newBufferWithLength:options:", u64{256}, u64{0});
  void* x = send(device, "newBufferWithLength:options:", u64{256}, u64{0});
  auto* in = send<float*>(x, "contents");
  for (int i = 0; i < 64; i++) in[i] = static_cast<float>(i);
  void* cb = send(queue, freeEarly ? "commandBufferWithUnretainedReferences" : "commandBuffer");
  void* e = send(cb, "computeCommandEncoder");
  send<void>(e, "setComputePipelineState:", p);
  send<void>(e, "setBuffer:offset:atIndex:", y, u64{0}, u64{0});
  send<void>(e, "setBuffer:offset:atIndex:", x, u64{0}, u64{1});
  send<void>(e, "dispatchThreadgroups:threadsPerThreadgroup:", Size{groups, 1, 1}, Size{threads, 1, 1});
  send<void>(e, "endEncoding");
  if (freeEarly) objc_release(x);
  send<void>(cb, "commit");
  send<void>(cb, "waitUntilCompleted");
  void* error = send(cb, "error");
  std::string result = error ? utf8(send(error, "localizedDescription")) : "";
  if (out) out->assign(send<float*>(y, "contents"), send<float*>(y, "contents") + 64);
  if (!freeEarly) objc_release(x);
  objc_release(y);
  objc_release(p);
  objc_autoreleasePoolPop(pool);
  return result;
}

void cases() {
  std::vector<float> y;
  std::string e = run("y[i] = x[i] + 1.0;", 2, 32, &y);
  expect("add", e.empty() && y[63] == 64, e);
  e = run("threadgroup float t[64]; t[lid] = x[lid]; threadgroup_barrier(mem_flags::mem_threadgroup);\n"
    "for (uint s = 32; s > 0; s >>= 1) { if (lid < s) t[lid] += t[lid + s]; threadgroup_barrier(mem_flags::mem_threadgroup); }\ny[lid] = t[0];", 1, 64, &y);
  expect("reduce", e.empty() && y[5] == 2016, e);
  e = run("y[lid] = simd_sum(x[lid]) + simd_shuffle_xor(x[lid], 1);", 1, 64, &y);
  expect("simd", e.empty() && y[0] == 497 && y[33] == 1520 + 32, e);
  e = run("simdgroup_float8x8 a, b; simdgroup_load(a, x); b = simdgroup_float8x8(2.0f); simdgroup_float8x8 c = make_filled_simdgroup_matrix<float, 8>(1.0f);\n"
    "simdgroup_multiply_accumulate(c, a, b, c); simdgroup_store(c, y);", 1, 32, &y);
  expect("matrix", e.empty() && y[10] == 21, e);
  e = run("y[lid * 2] = 1.0;");
  expect("bounds", e.find("out of bounds") != std::string::npos, e);
  e = run("threadgroup float t[1]; t[0] = float(lid); y[lid] = t[0];");
  expect("race", e.find("threadgroup race") != std::string::npos, e);
  e = run("if (lid < 8) threadgroup_barrier(mem_flags::mem_threadgroup); y[lid] = 1.0;");
  expect("divergence", e.find("divergent barrier") != std::string::npos, e);
  e = run("y[lid] = x[lid];", 1, 64, nullptr, true);
  expect("freed buffer", e.find("was freed") != std::string::npos, e);
  e = run("y[lid] = 1.0;", 1, 2000);
  expect("limits", e.find("more than 1024") != std::string::npos, e);
  soft_metal_inject("command-error", 1);
  e = run("y[lid] = 1.0;");
  expect("injected", e.find("injected") != std::string::npos, e);
  send(device, "noSuchSelector:", u64{1});
  std::string report = soft_metal_report();
  expect("report", report.find("noSuchSelector") != std::string::npos && report.find("\"live\":{}") != std::string::npos, report);
}

void bench() {
  u64 rows = 2048, columns = 2048;
  void* p = pipeline("float sum = 0; uint row = g * 4 + lid / 32; for (uint c = lane; c < 2048; c += 32) sum += x[row * 2048 + c] * x[c];\nsum = simd_sum(sum); if (lane == 0) y[row] = sum;");
  void* x = send(device, "newBufferWithLength:options:", rows * columns * 4, u64{0});
  void* y = send(device, "newBufferWithLength:options:", rows * 4, u64{0});
  void* tiny = pipeline("y[i] = x[i];");
  void* mma = pipeline("simdgroup_float8x8 a, b, c = make_filled_simdgroup_matrix<float, 8>(0.0f);\n"
    "for (uint k = 0; k < 256; k++) { simdgroup_load(a, x + k * 64); simdgroup_load(b, x + k * 64 + g * 64); simdgroup_multiply_accumulate(c, a, b, c); }\nsimdgroup_store(c, y);");
  auto timed = [&](const char* name, void* p, u64 groups, int dispatches) {
    auto start = std::chrono::steady_clock::now();
    clock_t cpu = clock();
    void* cb = send(queue, "commandBuffer");
    void* e = send(cb, "computeCommandEncoder");
    for (int i = 0; i < dispatches; i++) {
      send<void>(e, "setComputePipelineState:", p);
      send<void>(e, "setBuffer:offset:atIndex:", y, u64{0}, u64{0});
      send<void>(e, "setBuffer:offset:atIndex:", x, u64{0}, u64{1});
      send<void>(e, "dispatchThreadgroups:threadsPerThreadgroup:", Size{groups, 1, 1}, Size{128, 1, 1});
    }
    send<void>(e, "endEncoding");
    send<void>(cb, "commit");
    send<void>(cb, "waitUntilCompleted");
    double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    double used = static_cast<double>(clock() - cpu) * 1000 / CLOCKS_PER_SEC;
    printf("%s: %.3f ms per dispatch (%.3f ms of processor), status %d\n", name, ms / dispatches, used / dispatches, static_cast<int>(send<u64>(cb, "status")));
  };
  timed("mat-vec 2048x2048", p, rows / 4, 4);
  timed("mat-vec 4x2048", p, 1, 2000);
  timed("copy of 128", tiny, 1, 5000);
  timed("copy of 512", tiny, 4, 5000);
  timed("16384 tile multiplications", mma, 16, 2);
  for (void* o : {p, tiny, mma, x, y}) objc_release(o);
}

}  // namespace

int main(int argc, char** argv) {
  device = MTLCreateSystemDefaultDevice();
  queue = send(device, "newCommandQueue");
  soft_metal_reset();
  void* pool = objc_autoreleasePoolPush();
  if (argc > 1 && !strcmp(argv[1], "bench")) bench();
  else cases();
  objc_autoreleasePoolPop(pool);
  objc_release(queue);
  printf("%d failed\n", failures);
  return failures;
}
