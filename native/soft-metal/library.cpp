// MTLCompileOptions, MTLLibrary, MTLFunction, MTLFunctionConstantValues and compute pipelines.
// Compiling is compile.cpp's; this file gives it Metal's objects and errors.
#include <cstring>
#include <map>

#include "metal.h"

namespace soft {

Class* Pipeline::isa;

namespace {

const char* const kLibraryDomain = "MTLLibraryErrorDomain";
const char* const kPipelineDomain = "AGXMetalSoft";

struct CompileOptions : Object {
  static Class* isa;
  u64 version = 0;
  i64 mathMode = 2, functions = 0;
  Strong macros;
};
struct Library : Object {
  static Class* isa;
  std::shared_ptr<Program> program;
};
struct ConstantValues : Object {
  static Class* isa;
  struct Value { u64 bits = 0, type = 0; };
  std::map<u64, Value> byIndex;
  std::map<std::string, Value> byName;
};
struct Function : Object {
  static Class* isa;
  std::shared_ptr<Program> program;
  size_t kernel = 0;
  u64 constants[sm::kConstants]{};
  u64 defined = 0;
  const KernelInfo& info() const { return program->info.kernels[kernel]; }
};
struct FunctionDescriptor : Object {
  static Class* isa;
  std::string name;
  Strong values;
};
struct PipelineDescriptor : Object {
  static Class* isa;
  Strong function;
  std::string label;
  bool indirect = false;
  u64 maxThreads = 0;
};
Class *CompileOptions::isa, *Library::isa, *ConstantValues::isa, *Function::isa, *FunctionDescriptor::isa, *PipelineDescriptor::isa;

struct DataType { const char* name; u64 code, bytes; };
const DataType kTypes[] = {{"float", 3, 4}, {"half", 16, 2}, {"int", 29, 4}, {"uint", 33, 4}, {"short", 37, 2}, {"ushort", 41, 2}, {"char", 45, 1},
  {"uchar", 49, 1}, {"bool", 53, 1}, {"long", 81, 8}, {"ulong", 85, 8}, {"bfloat", 121, 2}, {"int32_t", 29, 4}, {"uint32_t", 33, 4}};
u64 bytesOf(u64 code) {
  for (auto& t : kTypes) if (t.code == code) return t.bytes;
  return 0;
}

void setValue(id h, const void* value, u64 type, ConstantValues::Value* into) {
  u64 bytes = bytesOf(type);
  if (!value || !bytes) return misuse("bad-argument", h->cls->name + " setConstantValue: wants a value and a known MTLDataType, got type " + std::to_string(type));
  into->bits = 0;
  into->type = type;
  memcpy(&into->bits, value, bytes);
}

id newFunction(Library* lib, const std::string& name, ConstantValues* values, id* error) {
  size_t kernel = 0;
  const KernelInfo* info = lib->program->find(name, &kernel);
  if (!info) {
    giveError(error, kLibraryDomain, 5, "Function " + name + " was not found in the library");
    return nullptr;
  }
  Function f;
  f.program = lib->program;
  f.kernel = kernel;
  for (auto& c : lib->program->info.constants) {
    if (!values) break;
    const ConstantValues::Value* v = nullptr;
    if (values->byIndex.count(c.index)) v = &values->byIndex[c.index];
    if (values->byName.count(c.name)) v = &values->byName[c.name];
    if (!v || !v->type) continue;
    for (auto& t : kTypes)
      if (c.type == t.name && t.code != v->type) {
        giveError(error, kLibraryDomain, 3, "function constant '" + c.name + "' is " + c.type + ", the value given has MTLDataType " + std::to_string(v->type));
        return nullptr;
      }
    f.constants[c.index] = v->bits;
    f.defined |= 1ull << c.index;
  }
  if (values)
    for (u32 i : info->constants)
      if (!(f.defined >> i & 1)) {
        giveError(error, kLibraryDomain, 3, "Function " + name + " needs a value for function constant " + std::to_string(i));
        return nullptr;
      }
  id h = create<Function>();
  auto* own = self<Function>(h);
  own->program = f.program, own->kernel = f.kernel, own->defined = f.defined;
  memcpy(own->constants, f.constants, sizeof f.constants);
  return h;
}

id newPipeline(Function* f, bool indirect, u64 maxThreads, const std::string& label, id* error) {
  if (!f) {
    giveError(error, kPipelineDomain, 3, "computeFunction must not be nil");
    return nullptr;
  }
  const KernelInfo& info = f->info();
  for (u32 i : info.constants)
    if (!(f->defined >> i & 1)) {
      giveError(error, kPipelineDomain, 3, "Function " + info.name + " uses function constant " + std::to_string(i) +
        " and must be specialised with newFunctionWithName:constantValues:error:");
      return nullptr;
    }
  u64 bytes = f->program->statics[f->kernel].bytes;
  if (bytes > kMaxThreadgroupMemory) {
    giveError(error, kPipelineDomain, 3, "Threadgroup memory size (" + std::to_string(bytes) + ") exceeds the maximum threadgroup memory allowed (" +
      std::to_string(kMaxThreadgroupMemory) + ")");
    return nullptr;
  }
  id h = create<Pipeline>();
  auto* p = self<Pipeline>(h);
  p->program = f->program, p->kernel = f->kernel, p->defined = f->defined, p->indirect = indirect, p->label = label;
  memcpy(p->constants, f->constants, sizeof p->constants);
  p->maxThreads = info.maxThreads < kMaxThreads ? info.maxThreads : kMaxThreads;
  if (maxThreads && maxThreads < p->maxThreads) p->maxThreads = maxThreads;
  return h;
}

id newLibrary(id source, id options, id* error) {
  auto* text = expect<String>(source, "-[MTLDevice newLibraryWithSource:options:error:]");
  if (!text) return nullptr;
  auto* o = options ? expect<CompileOptions>(options, "-[MTLDevice newLibraryWithSource:options:error:]") : nullptr;
  counters.libraries++;
  if (Injections::take(injections.compileError)) {
    giveError(error, kLibraryDomain, 3, "program_source:1:1: error: injected compile error\n");
    return nullptr;
  }
  std::string code = text->text;
  if (o && o->macros) {
    std::string defines;
    for (auto& [k, v] : self<Dictionary>(o->macros.get())->entries) defines += "#define " + k.get()->impl->describe() + " " + v.get()->impl->describe() + "\n";
    if (!defines.empty()) code = defines + "#line 1 \"program_source\"\n" + code;
  }
  CompileResult r = compileMsl(code);
  if (!r.program) {
    giveError(error, kLibraryDomain, 3, r.error);
    return nullptr;
  }
  id h = create<Library>();
  self<Library>(h)->program = r.program;
  return h;
}

void defineOptions() {
  Class* c = CompileOptions::isa = defineClass("MTLCompileOptions");
  creatable<CompileOptions>(c);
  method(c, "setLanguageVersion:", [](id h, SEL, u64 v) {
    if (v < 0x10000 || v > 0x40000 || (v & 0xffff) > 4) misuse("bad-argument", "-[MTLCompileOptions setLanguageVersion:] wants major<<16|minor, got " + std::to_string(v));
    self<CompileOptions>(h)->version = v;
  });
  method(c, "languageVersion", [](id h, SEL) { return self<CompileOptions>(h)->version; });
  method(c, "setMathMode:", [](id h, SEL, i64 v) {
    if (v < 0 || v > 2) misuse("bad-argument", "-[MTLCompileOptions setMathMode:] wants 0, 1 or 2, got " + std::to_string(v));
    self<CompileOptions>(h)->mathMode = v;
  });
  method(c, "mathMode", [](id h, SEL) { return self<CompileOptions>(h)->mathMode; });
  method(c, "setMathFloatingPointFunctions:", [](id h, SEL, i64 v) { self<CompileOptions>(h)->functions = v; });
  method(c, "setFastMathEnabled:", [](id h, SEL, bool v) { self<CompileOptions>(h)->mathMode = v ? 2 : 0; });
  method(c, "setOptimizationLevel:", [](id, SEL, i64) {});
  method(c, "setMaxTotalThreadsPerThreadgroup:", [](id, SEL, u64) {});
  method(c, "setEnableLogging:", [](id, SEL, bool) {});
  method(c, "setPreprocessorMacros:", [](id h, SEL, id d) {
    if (expect<Dictionary>(d, "-[MTLCompileOptions setPreprocessorMacros:]")) self<CompileOptions>(h)->macros = Strong(d);
  });
}

void defineFunctions() {
  Class* v = ConstantValues::isa = defineClass("MTLFunctionConstantValues");
  creatable<ConstantValues>(v);
  method(v, "setConstantValue:type:atIndex:", [](id h, SEL, const void* p, u64 type, u64 i) {
    setValue(h, p, type, &self<ConstantValues>(h)->byIndex[i]);
  });
  method(v, "setConstantValue:type:withName:", [](id h, SEL, const void* p, u64 type, id name) {
    setValue(h, p, type, &self<ConstantValues>(h)->byName[textOf(name, "-[MTLFunctionConstantValues setConstantValue:type:withName:]")]);
  });
  method(v, "setConstantValues:type:withRange:", [](id h, SEL, const void* p, u64 type, NSRange r) {
    for (u64 i = 0; i < r.length; i++)
      setValue(h, p ? static_cast<const char*>(p) + i * bytesOf(type) : nullptr, type, &self<ConstantValues>(h)->byIndex[r.location + i]);
  });
  method(v, "reset", [](id h, SEL) { self<ConstantValues>(h)->byIndex.clear(), self<ConstantValues>(h)->byName.clear(); });

  Class* d = FunctionDescriptor::isa = defineClass("MTLFunctionDescriptor");
  creatable<FunctionDescriptor>(d);
  classMethod(d, "functionDescriptor", [](id, SEL) { return autorelease(create<FunctionDescriptor>()); });
  method(d, "setName:", [](id h, SEL, id n) { self<FunctionDescriptor>(h)->name = textOf(n, "-[MTLFunctionDescriptor setName:]"); });
  method(d, "setSpecializedName:", [](id, SEL, id) {});
  method(d, "setConstantValues:", [](id h, SEL, id v) {
    if (!v || expect<ConstantValues>(v, "-[MTLFunctionDescriptor setConstantValues:]")) self<FunctionDescriptor>(h)->values = Strong(v);
  });

  Class* f = Function::isa = defineClass("MTLFunction");
  method(f, "name", [](id h, SEL) { return string(self<Function>(h)->info().name); });
  method(f, "setLabel:", [](id, SEL, id) {});

  Class* l = Library::isa = defineClass("MTLLibrary");
  method(l, "newFunctionWithName:", [](id h, SEL, id name) { return newFunction(self<Library>(h), textOf(name, "-[MTLLibrary newFunctionWithName:]"), nullptr, nullptr); });
  method(l, "newFunctionWithName:constantValues:error:", [](id h, SEL, id name, id values, id* error) -> id {
    auto* v = expect<ConstantValues>(values, "-[MTLLibrary newFunctionWithName:constantValues:error:]");
    return v ? newFunction(self<Library>(h), textOf(name, "-[MTLLibrary newFunctionWithName:constantValues:error:]"), v, error) : nullptr;
  });
  method(l, "newFunctionWithDescriptor:error:", [](id h, SEL, id desc, id* error) -> id {
    auto* d = expect<FunctionDescriptor>(desc, "-[MTLLibrary newFunctionWithDescriptor:error:]");
    return d ? newFunction(self<Library>(h), d->name, d->values ? self<ConstantValues>(d->values.get()) : nullptr, error) : nullptr;
  });
  method(l, "functionNames", [](id h, SEL) {
    id a = create<Array>();
    for (auto& k : self<Library>(h)->program->info.kernels) self<Array>(a)->items.emplace_back(string(k.name));
    return autorelease(a);
  });
  method(l, "setLabel:", [](id, SEL, id) {});
}

void definePipelines() {
  Class* d = PipelineDescriptor::isa = defineClass("MTLComputePipelineDescriptor");
  creatable<PipelineDescriptor>(d);
  method(d, "setComputeFunction:", [](id h, SEL, id f) {
    if (expect<Function>(f, "-[MTLComputePipelineDescriptor setComputeFunction:]")) self<PipelineDescriptor>(h)->function = Strong(f);
  });
  method(d, "setLabel:", [](id h, SEL, id t) { self<PipelineDescriptor>(h)->label = textOf(t, "-[MTLComputePipelineDescriptor setLabel:]"); });
  method(d, "setSupportIndirectCommandBuffers:", [](id h, SEL, bool v) { self<PipelineDescriptor>(h)->indirect = v; });
  method(d, "setThreadGroupSizeIsMultipleOfThreadExecutionWidth:", [](id, SEL, bool) {});
  method(d, "setMaxTotalThreadsPerThreadgroup:", [](id h, SEL, u64 n) { self<PipelineDescriptor>(h)->maxThreads = n; });

  Class* p = Pipeline::isa = defineClass("MTLComputePipelineState");
  method(p, "maxTotalThreadsPerThreadgroup", [](id h, SEL) { return self<Pipeline>(h)->maxThreads; });
  method(p, "threadExecutionWidth", [](id, SEL) -> u64 { return sm::kLanes; });
  method(p, "staticThreadgroupMemoryLength", [](id h, SEL) -> u64 {
    auto* s = self<Pipeline>(h);
    return (s->program->statics[s->kernel].bytes + 15) / 16 * 16;
  });
  method(p, "supportIndirectCommandBuffers", [](id h, SEL) -> bool { return self<Pipeline>(h)->indirect; });
  method(p, "gpuResourceID", [](id h, SEL) -> u64 { return reinterpret_cast<uintptr_t>(h); });
  method(p, "label", [](id h, SEL) { return string(self<Pipeline>(h)->label); });

  Class* dev = findClass("MTLDevice");
  method(dev, "newLibraryWithSource:options:error:", [](id, SEL, id source, id options, id* error) { return newLibrary(source, options, error); });
  method(dev, "newComputePipelineStateWithFunction:error:", [](id, SEL, id f, id* error) -> id {
    auto* fn = expect<Function>(f, "-[MTLDevice newComputePipelineStateWithFunction:error:]");
    return fn ? newPipeline(fn, false, 0, "", error) : nullptr;
  });
  method(dev, "newComputePipelineStateWithDescriptor:options:reflection:error:", [](id, SEL, id desc, u64, id* reflection, id* error) -> id {
    auto* d = expect<PipelineDescriptor>(desc, "-[MTLDevice newComputePipelineStateWithDescriptor:options:reflection:error:]");
    if (reflection) *reflection = nullptr;
    return d ? newPipeline(d->function ? self<Function>(d->function.get()) : nullptr, d->indirect, d->maxThreads, d->label, error) : nullptr;
  });
}

}  // namespace

void defineLibrary() {
  defineOptions();
  defineFunctions();
  definePipelines();
}

}  // namespace soft
