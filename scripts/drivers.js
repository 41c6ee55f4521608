// Finds the software Vulkan drivers that the WebGPU tests run on: SwiftShader (it comes with Chromium) and Mesa's
// lavapipe. Knows nothing of Dawn or of tests; a path given in the environment wins over the places searched here.

import { existsSync, readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const VULKAN_FOLDERS = ['/usr/share/vulkan/icd.d', '/usr/local/share/vulkan/icd.d', '/etc/vulkan/icd.d']
const CHROMIUM_FOLDERS = ['/usr/lib/chromium', '/usr/lib/chromium-browser', '/usr/lib64/chromium-browser', '/opt/google/chrome']
/** How Mesa spells this machine in the names of its driver files. */
const MESA_ARCH = { x64: 'x86_64', arm64: 'aarch64' }[process.arch] ?? process.arch

/**
 * @typedef {'swiftshader' | 'lavapipe'} DriverName
 * @typedef {{ name: DriverName, variable: string, icd: string | undefined, hint: string }} Driver
 *   `icd` is the path of the driver's manifest, undefined where it is not installed; `variable` overrides it.
 */

/** @returns {Record<DriverName, Driver>} */
export function findDrivers(env = process.env) {
  return {
    swiftshader: {
      name: 'swiftshader',
      variable: 'INGOT_ICD_SWIFTSHADER',
      icd: firstFile([env.INGOT_ICD_SWIFTSHADER, ...swiftshaderPlaces()]),
      hint: 'SwiftShader not found; install chromium, or set INGOT_ICD_SWIFTSHADER to its vk_swiftshader_icd.json',
    },
    lavapipe: {
      name: 'lavapipe',
      variable: 'INGOT_ICD_LAVAPIPE',
      icd: firstFile([env.INGOT_ICD_LAVAPIPE, ...lavapipePlaces()]),
      hint: 'lavapipe not found; install mesa-vulkan-drivers (23 or later), or set INGOT_ICD_LAVAPIPE to its lvp_icd.json',
    },
  }
}

/** What a process needs in its environment for Vulkan to see this one driver and no other. */
export function driverEnvironment(/** @type {Driver} */ driver) {
  if (driver.icd === undefined) return {}
  return {
    VK_ICD_FILENAMES: driver.icd,
    VK_DRIVER_FILES: driver.icd, // the newer name; loaders that know it let it win, so it must not point elsewhere
    LP_NATIVE_VECTOR_WIDTH: '256', // bits: lavapipe then has subgroups of 8 on any machine with AVX
    GALLIVM_PERF: 'nopt', // no passes of LLVM over shaders: tests wait for lavapipe to compile far longer than for what it computes
  }
}

function swiftshaderPlaces() {
  const playwright = process.env.PLAYWRIGHT_BROWSERS_PATH ?? join(homedir(), '.cache', 'ms-playwright')
  const browsers = list(playwright)
    .filter((name) => name.startsWith('chromium'))
    .map((name) => join(playwright, name))
  const folders = [...CHROMIUM_FOLDERS, ...browsers.flatMap((at) => [join(at, 'chrome-linux'), join(at, 'chrome-linux64')])]
  return folders.map((folder) => join(folder, 'vk_swiftshader_icd.json'))
}

/** Every lavapipe manifest but those of other architectures: `lvp_icd.json`, `lvp_icd.x86_64.json`. */
function lavapipePlaces() {
  const names = ['lvp_icd.json', `lvp_icd.${MESA_ARCH}.json`]
  return VULKAN_FOLDERS.flatMap((folder) => names.map((name) => join(folder, name)))
}

function list(/** @type {string} */ folder) {
  return existsSync(folder) ? readdirSync(folder) : []
}

function firstFile(/** @type {(string | undefined)[]} */ paths) {
  return paths.find((path) => path !== undefined && path !== '' && existsSync(path))
}
