// The public face of Ingot: load a model and talk to it, or compute with tensors on a device.

export type { ElementType } from './base/element.ts'
export { type ErrorCode, IngotError, isIngotError } from './base/error.ts'
export type { Device, Stats } from './device/device.ts'
export { type OpenDeviceOptions, type Opened, listDevices, open } from './device/open/open.ts'
export { type GenerateOptions, Generation, type GenerationResult } from './llm/generation.ts'
export type { FinishReason } from './llm/generation-output.ts'
export type { GenerationStats } from './llm/generation-stats.ts'
export type { AdapterChoice } from './llm/adapter/adapted.ts'
export { type ChatOptions, type LoadOptions, Model, load } from './llm/model.ts'
export type { SampleOptions } from './llm/sample.ts'
export type { ChatMessage } from './llm/template.ts'
export type { Tokenizer } from './llm/tokenizer/tokenizer.ts'
export type { LoadProgress } from './llm/weights.ts'
export {
  type AdamOptions,
  type LionOptions,
  type Named,
  type Optimizer,
  type SgdOptions,
  type WeightDecay,
  adam,
  adamw,
  clipByNorm,
  clipFactor,
  globalNorm,
  lion,
  sgd,
} from './nn/optim.ts'
export { type Schedule, type Warmup, rateAt } from './nn/schedule.ts'
export {
  type LoadSafetensorsOptions,
  type LoadTensorOptions,
  type SaveSafetensorsOptions,
  type SaveTensorOptions,
  loadNpy,
  loadSafetensors,
  saveNpy,
  saveSafetensors,
} from './tensor/file.ts'
export { type Compiled, compile } from './tensor/compile.ts'
export { type DeviceChoice, closeDevices, setDefaultDevice } from './tensor/default-device.ts'
export { type GradOptions, checkpoint, grad, gradients, valueAndGrad } from './tensor/grad.ts'
export { type Plan, type PlanSpec, assignment, buildPlan } from './tensor/plan.ts'
export { type RandomOptions, dropout, random } from './tensor/random.ts'
export { scope } from './tensor/scope.ts'
export type { NestedNumbers, NumberSource } from './tensor/host.ts'
export { type MakeOptions, Tensor } from './tensor/tensor.ts'
export { onTensorWarning } from './tensor/warning.ts'
export { type Gguf, openGguf, readTensor } from './weights/gguf/gguf.ts'
export type { Safetensor } from './weights/safetensors/header.ts'
export { type Safetensors, openSafetensors } from './weights/safetensors/safetensors.ts'
export { type ByteSource, fromBlob, fromBytes, openFile } from './weights/source.ts'
export { openUrl } from './weights/source-http.ts'
