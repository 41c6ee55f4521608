import { DEVICES } from './devices.ts'
import { testConformance } from './suite.ts'

testConformance('reference', DEVICES.reference)
