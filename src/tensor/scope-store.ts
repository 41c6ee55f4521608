// Which scope (scope.ts) is the current one. Node's asynchronous context follows it through awaits; without that, it is the one whose
// function is running right now.

/** Something that is made in a scope. */
export type Member = object

interface Context<T> {
  run<R>(store: T, f: () => R): R
  getStore(): T | undefined
  /** Until the next run there is no store. */
  disable?(): void
}

const context = findContext() ?? stackContext()
/** scopes that are not at their end: most programs have none most of the time */
let inside = 0

/** Runs a function, and waits for it; what it makes until then is put into `members`. */
export async function runInside<R>(members: Set<Member>, f: () => R | Promise<R>): Promise<R> {
  inside++
  try {
    return await context.run(members, f)
  } finally {
    inside--
    if (inside === 0) context.disable?.() // following awaits makes each of them several times as slow
  }
}

/** Puts what was made into the current scope, if there is one. */
export function enlist(member: Member): void {
  if (inside > 0) context.getStore()?.add(member)
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
