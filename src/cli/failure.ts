// An expected failure of a command: a line for people and an exit code. 2 is for mistakes in what was typed, 1 for the work itself,
// 130 for Ctrl-C. An empty message prints nothing.

export class Failure extends Error {
  readonly exitCode: number

  constructor(message: string, exitCode: 1 | 2 | 130 = 2) {
    super(message)
    this.exitCode = exitCode
  }
}
