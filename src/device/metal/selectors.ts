// Every message Ingot sends, in one table: class, selector, types of arguments and result, and whether the caller owns the
// result (+1). Data only; objc.ts turns it into calls. A test compares it with what the software Metal implements.
//
// Written from Apple's headers. The receiver and the selector itself are left out of the arguments. An NSError** is a
// 'pointer': null, or an array of one address. What only newer systems have is asked for with respondsToSelector: first.

import type { CType } from './ffi.ts'

export interface Signature {
  readonly args: readonly CType[]
  readonly returns: CType
  /** true: +1, the caller must release the result */
  readonly owned: boolean
  /** sent to the class itself */
  readonly onClass: boolean
}

/** Sent to an object; the result is borrowed. */
function gives<const R extends CType, const A extends readonly CType[]>(
  returns: R,
  ...args: A
): { args: A; returns: R; owned: false; onClass: false } {
  return { args, returns, owned: false, onClass: false }
}
/** Sent to an object; no result. */
function takes<const A extends readonly CType[]>(...args: A): { args: A; returns: 'void'; owned: false; onClass: false } {
  return { args, returns: 'void', owned: false, onClass: false }
}
/** Sent to an object; the result is owned. */
function makes<const A extends readonly CType[]>(...args: A): { args: A; returns: 'pointer'; owned: true; onClass: false } {
  return { args, returns: 'pointer', owned: true, onClass: false }
}
/** Sent to a class; the result is borrowed. */
function lends<const A extends readonly CType[]>(...args: A): { args: A; returns: 'pointer'; owned: false; onClass: true } {
  return { args, returns: 'pointer', owned: false, onClass: true }
}
const created = { args: [], returns: 'pointer', owned: true, onClass: true } as const

export const SELECTORS = {
  NSObject: { 'respondsToSelector:': gives('bool', 'pointer') },
  NSString: {
    alloc: created,
    // Takes over what alloc gave.
    'initWithBytes:length:encoding:': makes('pointer', 'u64', 'u64'),
    UTF8String: gives('text'),
  },
  NSArray: { count: gives('u64'), 'objectAtIndex:': gives('pointer', 'u64') },
  NSError: { localizedDescription: gives('pointer'), code: gives('i64') },
  NSURL: { 'fileURLWithPath:': lends('pointer') },
  NSProcessInfo: { processInfo: lends(), operatingSystemVersionString: gives('pointer') },
  MTLDevice: {
    name: gives('pointer'),
    recommendedMaxWorkingSetSize: gives('u64'),
    maxBufferLength: gives('u64'),
    maxThreadgroupMemoryLength: gives('u64'),
    'supportsFamily:': gives('bool', 'i64'),
    newCommandQueue: makes(),
    'newBufferWithLength:options:': makes('u64', 'u64'),
    'newBufferWithBytesNoCopy:length:options:deallocator:': makes('pointer', 'u64', 'u64', 'pointer'),
    'newLibraryWithSource:options:error:': makes('pointer', 'pointer', 'pointer'),
    'newComputePipelineStateWithDescriptor:options:reflection:error:': makes('pointer', 'u64', 'pointer', 'pointer'),
    'newIndirectCommandBufferWithDescriptor:maxCommandCount:options:': makes('pointer', 'u64', 'u64'),
    'newResidencySetWithDescriptor:error:': makes('pointer', 'pointer'), // macOS 15
  },
  MTLCompileOptions: {
    new: created,
    'setLanguageVersion:': takes('u64'),
    'setMathMode:': takes('i64'), // macOS 15
    'setFastMathEnabled:': takes('bool'),
  },
  MTLLibrary: { 'newFunctionWithName:': makes('pointer') },
  MTLComputePipelineDescriptor: {
    new: created,
    'setComputeFunction:': takes('pointer'),
    'setLabel:': takes('pointer'),
    'setSupportIndirectCommandBuffers:': takes('bool'),
  },
  MTLComputePipelineState: { maxTotalThreadsPerThreadgroup: gives('u64'), threadExecutionWidth: gives('u64') },
  MTLBuffer: { contents: gives('pointer') },
  MTLCommandQueue: {
    commandBufferWithUnretainedReferences: gives('pointer'),
    'addResidencySet:': takes('pointer'), // macOS 15
    'removeResidencySet:': takes('pointer'), // macOS 15
  },
  MTLCommandBuffer: {
    'computeCommandEncoderWithDispatchType:': gives('pointer', 'u64'),
    commit: takes(),
    waitUntilCompleted: takes(),
    status: gives('u64'),
    error: gives('pointer'),
    GPUStartTime: gives('f64'),
    GPUEndTime: gives('f64'),
  },
  MTLComputeCommandEncoder: {
    'setComputePipelineState:': takes('pointer'),
    'setBuffers:offsets:withRange:': takes('pointer', 'pointer', 'range'),
    'setBytes:length:atIndex:': takes('pointer', 'u64', 'u64'),
    'dispatchThreadgroups:threadsPerThreadgroup:': takes('size', 'size'),
    'memoryBarrierWithScope:': takes('u64'),
    'useResources:count:usage:': takes('pointer', 'u64', 'u64'),
    'executeCommandsInBuffer:withRange:': takes('pointer', 'range'),
    endEncoding: takes(),
  },
  MTLIndirectCommandBufferDescriptor: {
    new: created,
    'setCommandTypes:': takes('u64'),
    'setInheritBuffers:': takes('bool'),
    'setInheritPipelineState:': takes('bool'),
    'setMaxKernelBufferBindCount:': takes('u64'),
  },
  MTLIndirectCommandBuffer: { 'indirectComputeCommandAtIndex:': gives('pointer', 'u64') },
  MTLIndirectComputeCommand: {
    'setComputePipelineState:': takes('pointer'),
    'setKernelBuffer:offset:atIndex:': takes('pointer', 'u64', 'u64'),
    'concurrentDispatchThreadgroups:threadsPerThreadgroup:': takes('size', 'size'),
    setBarrier: takes(),
  },
  MTLResidencySetDescriptor: { new: created }, // macOS 15
  MTLResidencySet: {
    // macOS 15
    'addAllocation:': takes('pointer'),
    'removeAllocation:': takes('pointer'),
    removeAllAllocations: takes(),
    commit: takes(),
    requestResidency: takes(),
    endResidency: takes(),
  },
  MTLCaptureManager: {
    sharedCaptureManager: lends(),
    'supportsDestination:': gives('bool', 'i64'),
    'startCaptureWithDescriptor:error:': gives('bool', 'pointer', 'pointer'),
    stopCapture: takes(),
  },
  MTLCaptureDescriptor: {
    new: created,
    'setCaptureObject:': takes('pointer'),
    'setDestination:': takes('i64'),
    'setOutputURL:': takes('pointer'),
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, Signature>>>>

export type ClassName = keyof typeof SELECTORS
