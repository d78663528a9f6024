import { DatabaseLockedError } from '../db/database-failures.ts'
import { OperatorError, tellOperator } from '../errors/operator-error.ts'

/** The command line is wrong; the usage says how it should be. */
export class UsageError extends Error {}

/**
 * Runs a command of an operator; `work` resolves with its exit code. What he can mend himself becomes one message and
 * exit code 1, a wrong command line its usage and 2.
 */
export async function runCommand(usage: string, work: () => Promise<number>): Promise<void> {
  // Whoever reads only the beginning (`| head`) must not end the work before its end.
  process.stdout.on('error', () => {})
  try {
    process.exitCode = await work()
  } catch (error) {
    process.exitCode = 1
    if (error instanceof UsageError) {
      process.exitCode = 2
      process.stderr.write(`${error.message && `${error.message}\n`}${usage}`)
    } else if (error instanceof DatabaseLockedError) {
      process.stderr.write(`${error.message}: stop the service, run this, start it again\n`)
    } else if (error instanceof OperatorError) {
      process.stderr.write(`${tellOperator(error)}\n`)
    } else if (isSystemError(error)) {
      process.stderr.write(`${error.message}\n`)
    } else {
      throw error
    }
  }
}

/** A file that is not there or not ours, a full disk: the message of such an error names the file and the reason. */
function isSystemError(error: unknown): error is Error {
  return error instanceof Error && 'syscall' in error
}

/** What a command tells on its way. */
export function say(line: string): void {
  process.stdout.write(`${line}\n`)
}
