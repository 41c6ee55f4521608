// `ingot/train`: fine-tune a model on data of your own.

export { type DataSource, type DataSummary, type Dropped, describeDropped } from './train/data/dataset.ts'
export type { TrainingRecord } from './train/data/record.ts'
export type { Origin } from './train/data/store.ts'
export {
  type CheckpointEvent,
  type DataEvent,
  type EndEvent,
  type Estimate,
  type FinetuneResult,
  LossError,
  type StartEvent,
  type StepEvent,
  type TrainEvent,
  type ValidationEvent,
} from './train/event.ts'
export type { StepMemory } from './train/memory.ts'
export { Finetune, estimateFinetune, finetune } from './train/finetune.ts'
export type { FinetuneOptions, LoraSettings, ResolvedSettings, ScheduleSettings, TrainSettings } from './train/options.ts'
