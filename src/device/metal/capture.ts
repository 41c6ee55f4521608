// A GPU trace for Xcode: everything a device does from now on, until it is closed. INGOT_METAL_CAPTURE names the file.

import { IngotError } from '../../base/error.ts'
import { type Id, type Objc, required } from './objc.ts'

const GPUTRACE = 2

/** Starts a capture; the result ends it. Throws `device-unavailable` with Metal's reason. */
export function startCapture(objc: Objc, device: Id, file: string): () => void {
  const { MTLCaptureManager, MTLCaptureDescriptor, NSURL } = objc.messages
  return objc.pooled(() => {
    const captures = required(MTLCaptureManager.sharedCaptureManager(), 'a capture manager')
    if (!MTLCaptureManager['supportsDestination:'](captures, GPUTRACE)) throw refuse(file, 'this process may not capture')
    objc.using(MTLCaptureDescriptor.new(), 'a capture descriptor', (descriptor) =>
      objc.using(objc.string(file), 'a string', (path) => {
        MTLCaptureDescriptor['setCaptureObject:'](descriptor, device)
        MTLCaptureDescriptor['setDestination:'](descriptor, GPUTRACE)
        MTLCaptureDescriptor['setOutputURL:'](descriptor, NSURL['fileURLWithPath:'](path))
        const error = new BigUint64Array(1)
        if (!MTLCaptureManager['startCaptureWithDescriptor:error:'](captures, descriptor, error))
          throw refuse(file, objc.describe(error[0] || null))
      }),
    )
    return () => MTLCaptureManager.stopCapture(captures)
  })
}

function refuse(file: string, why: string): IngotError {
  return new IngotError('device-unavailable', `no capture: ${why}`, {
    op: 'metal',
    got: file,
    hint: 'set METAL_CAPTURE_ENABLED=1, and name a .gputrace that does not exist',
  })
}
