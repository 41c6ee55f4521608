// Whether these tests run on an emulated processor (scripts/test-arm64.js), which takes many times longer: then the ones that repeat
// themselves over models, threads and cases do with less. What is left out there runs on the host anyway.

export const EMULATED = process.env['INGOT_EMULATED'] === '1'
