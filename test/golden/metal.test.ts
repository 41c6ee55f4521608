// The story on Metal: Apple's on a Mac, the software one elsewhere.

import { missingMetal } from '../device/metal-soft.ts'
import { testGolden } from './story.ts'

testGolden({ name: 'metal', nmse: 1e-5, missing: await missingMetal() })
