// All that can be written with a tensor: the last of the classes of methods, each of which adds to the one before.

export { NetworkMethods as Methods } from './network.ts'
