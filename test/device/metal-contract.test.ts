// The rules of a device on Metal, with every optimisation and without any.

import { testContract } from './contract.ts'
import { findSoft } from './metal-soft.ts'

const { soft, missing } = await findSoft()
const open = (changes = {}) => () => soft!.open(changes)

testContract('metal', open(), { missing })
testContract('metal without its optimisations', open({ concurrent: false, indirect: false, residency: false, tiles: false, mapped: false }), { missing })
testContract('metal, one command buffer per kernel', open({ profile: true }), { missing })
