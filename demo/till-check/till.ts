import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { OperatorError } from '../../src/errors/operator-error.ts'

/** What a till is asked to do, with the ticket and the amount after it. */
export type Step = 'charge' | 'cancel' | 'refund' | 'resume'

export type TillEnd = {
  /** The till says that it is charged, canceled or refunded. */
  isDone: boolean
  said: string
}

/** The till under test: a command line, or a person at it. */
export type Till = {
  start(step: Step, ...words: string[]): { ended: Promise<TillEnd>; kill(): void }
  /** How long a till may show that a terminal is busy before the terminal becomes free. */
  busyMs: number
}

const commandEndsWithinMs = 150_000

/** A till that a command line runs: the step and its words are added, and exit code 0 means done. */
export function commandTill(commandLine: string, url: string): Till {
  const [program = '', ...first] = wordsOf(commandLine)
  return {
    busyMs: 10_000,
    start(step, ...words) {
      const child = spawn(program, [...first, step, ...words], {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, TILLBRIDGE_URL: url },
      })
      const timer = setTimeout(() => child.kill('SIGKILL'), commandEndsWithinMs)
      let said = ''
      for (const stream of [child.stdout, child.stderr]) {
        stream.on('data', (chunk: Buffer) => {
          said += chunk.toString()
        })
      }
      const ended = new Promise<TillEnd>((resolve, reject) => {
        child.once('error', ({ message }) =>
          reject(new OperatorError(`The till cannot be run: ${message}`)),
        )
        child.once('close', (code) => {
          clearTimeout(timer)
          resolve({ isDone: code === 0, said })
        })
      })
      return { ended, kill: () => child.kill('SIGKILL') }
    },
  }
}

/** Words are separated by spaces; double quotes hold one together. */
function wordsOf(commandLine: string): string[] {
  return [...commandLine.matchAll(/"([^"]*)"|(\S+)/g)].map(
    ([, quoted, plain]) => quoted ?? plain ?? '',
  )
}

const asked: Record<Step, (words: string[]) => string> = {
  charge: ([ticket, amount]) => `charge ${amount}, as ticket ${ticket} or a number of your own`,
  cancel: () => 'cancel this charge, while the till still waits',
  refund: ([, amount]) => `refund ${amount ?? 'all that is left'} of this ticket`,
  resume: () => 'start the till again, and let it finish what it left',
}

const done: Record<Step, string> = {
  charge: 'the customer has paid',
  cancel: 'the charge is canceled',
  refund: 'the money is refunded',
  resume: 'the customer has paid',
}

/** A till that a person uses: the command says what to do, and asks how the till ended. */
export function personsTill(write: (text: string) => void): Till & { close(): void } {
  const lines = createInterface({ input: process.stdin })
  const typed = lines[Symbol.asyncIterator]()
  // Two steps may wait at the same time: the next question comes when the last one is answered.
  let asking: Promise<unknown> = Promise.resolve()
  async function answerTo(question: string): Promise<string> {
    write(question)
    const { value, done: isOver } = await typed.next()
    if (isOver) throw new OperatorError('No answer came: the input has ended')
    return value.trim().toLowerCase()
  }
  return {
    busyMs: Infinity,
    start(step, ...words) {
      write(`    At the till: ${asked[step](words)}.\n`)
      let killed = false
      const end = async (): Promise<TillEnd> => {
        for (;;) {
          const line = await answerTo(`    Does it say at the end that ${done[step]}? y/n `)
          if (killed || /^[yn]/.test(line)) return { isDone: line.startsWith('y'), said: '' }
        }
      }
      const ended = asking.then(end)
      asking = ended.catch(() => undefined)
      const kill = () => {
        killed = true
        write('\n    Kill the till now: pull its plug or end its process. Then press Enter. ')
      }
      return { ended, kill }
    },
    close: () => lines.close(),
  }
}
