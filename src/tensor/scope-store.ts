// Which scope (scope.ts) is the current one. Node's asynchronous context follows it through awaits; without that, it is the one whose
// function is running right now.

/** Something that is made in a scope. */
export type Member = object

interface Context<T> {
  run<R>(store: T, f: () => R): R
  getStore(): T | undefined
}

const context = findContext() ?? stackContext()
/** whether there has been a scope at all: most programs have none */
let isUsed = false

/** Runs a function; what it makes is put into `members`. */
export function runInside<R>(members: Set<Member>, f: () => R): R {
  isUsed = true
  return context.run(members, f)
}

/** Puts what was made into the current scope, if there is one. */
export function enlist(member: Member): void {
  if (isUsed) context.getStore()?.add(member)
}

function findContext(): Context<Set<Member>> | undefined {
  if (typeof process === 'undefined' || typeof process.getBuiltinModule !== 'function') return undefined
  const { AsyncLocalStorage } = process.getBuiltinModule('node:async_hooks')
  return new AsyncLocalStorage<Set<Member>>()
}

function stackContext(): Context<Set<Member>> {
  const stack: Set<Member>[] = []
  return {
    getStore: () => stack.at(-1),
    run: (store, f) => {
      stack.push(store)
      try {
        return f()
      } finally {
        stack.pop()
      }
    },
  }
}
