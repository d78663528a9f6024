import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'
import { DatabaseLockedError } from '../db/database-failures.ts'
import { OperatorError, writeOperatorMessage } from '../errors/operator-error.ts'
import { whyNotWritable } from '../files/writable-folder.ts'

/** The command line is wrong; the usage is printed. */
export class UsageError extends Error {}

/** What `--help` prints. */
export type CommandHelp = {
  /** The command line from `npm run` on. */
  usage: string
  /** What it does, in one or two sentences. */
  about: string
  options?: readonly (readonly [option: string, meaning: string])[]
  exitCodes: readonly (readonly [code: number, meaning: string])[]
  /** Lines for a shell. */
  example: string
}

/**
 * Runs a command for an operator; `work` resolves with the exit code. An error that the operator can fix becomes one
 * message and exit code 1, a wrong command line the usage and exit code 2. `--help` prints the help and does nothing
 * else.
 */
export async function runCommand(help: CommandHelp, work: () => Promise<number>): Promise<void> {
  // A reader that closes the pipe early (`| head`) must not end the work.
  process.stdout.on('error', () => {})
  const given = process.argv.slice(2)
  if (given.includes('--help') || given.includes('-h')) {
    process.stdout.write(helpText(help))
    return
  }
  try {
    process.exitCode = await work()
  } catch (error) {
    process.exitCode = 1
    if (isUsageError(error)) {
      process.exitCode = 2
      process.stderr.write(usageText(help, error))
    } else if (error instanceof DatabaseLockedError) {
      process.stderr.write(`${error.message}: stop the service, run this, start it again\n`)
    } else if (error instanceof OperatorError) {
      process.stderr.write(`${writeOperatorMessage(error)}\n`)
    } else if (isSystemError(error)) {
      process.stderr.write(`${error.message}\n`)
    } else {
      throw error
    }
  }
}

/**
 * The options of a program that is not an operator's command, such as a benchmark. Ends the process after `--help`, and
 * with the usage and exit code 2 for a wrong command line.
 */
export function readOptions<const Options extends ParseArgsOptionsConfig>(
  help: CommandHelp,
  options: Options,
) {
  const given = process.argv.slice(2)
  if (given.includes('--help') || given.includes('-h')) {
    process.stdout.write(helpText(help))
    process.exit(0)
  }
  try {
    return parseArgs({ options }).values
  } catch (error) {
    if (!isUsageError(error)) throw error
    process.stderr.write(usageText(help, error))
    process.exit(2)
  }
}

/** The whole number that such a program has as an option; ends the process with exit code 2 if it is none. */
export function readWholeNumber(option: string, text: string, least = 0): number {
  const number = Number(text)
  if (Number.isInteger(number) && number >= least) return number
  process.stderr.write(`--${option} is a whole number from ${least} on\nsee --help\n`)
  process.exit(2)
}

/** The option's value if it is one of `names`; ends the process with exit code 2 and the list of names if it is none. */
export function readName<const Name extends string>(
  option: string,
  text: string | undefined,
  names: readonly Name[],
): Name | undefined {
  const found = names.find((name) => name === text)
  if (found !== undefined || text === undefined) return found
  return refuseName(option, text, names)
}

/** The entries whose name `isChosen` takes; ends the process with exit code 2 and the list of names if there is none. */
export function readNamed<Entry extends { name: string }>(
  option: string,
  text: string | undefined,
  entries: readonly Entry[],
  isChosen: (name: string, text: string) => boolean,
): readonly Entry[] {
  if (text === undefined) return entries
  const chosen = entries.filter(({ name }) => isChosen(name, text))
  if (chosen.length > 0) return chosen
  const names = entries.map(({ name }) => name)
  return refuseName(option, text, names)
}

function refuseName(option: string, text: string, names: readonly string[]): never {
  const list = names.map((name) => `  ${name}\n`).join('')
  process.stderr.write(`--${option} has no ${JSON.stringify(text)}; it has:\n${list}see --help\n`)
  process.exit(2)
}

/** The argument of a command that takes one. */
export function readArgument(): string | undefined {
  const [given, ...more] = parseArgs({ allowPositionals: true, options: {} }).positionals
  if (more.length > 0) throw new UsageError()
  return given
}

/** Includes what `parseArgs` throws for an unknown option or argument. */
function isUsageError(error: unknown): error is Error {
  if (error instanceof UsageError) return true
  const { code } = error as NodeJS.ErrnoException
  return error instanceof TypeError && code?.startsWith('ERR_PARSE_ARGS_') === true
}

function usageText({ usage }: CommandHelp, { message }: Error): string {
  return `${message && `${message}\n`}usage: ${usage}\nsee --help\n`
}

/** Refuses a folder that cannot be created or written to. */
export function needFolder(path: string): void {
  const problem = whyNotWritable(path)
  if (problem !== undefined) throw new OperatorError(`The folder ${problem}`)
}

function helpText({ about, options = [], exitCodes, example, usage }: CommandHelp): string {
  const width = Math.max(0, ...options.map(([option]) => option.length))
  const lines = [
    `usage: ${usage}`,
    '',
    about,
    ...(options.length > 0 ? ['', 'options:'] : []),
    ...options.map(([option, meaning]) => `  ${option.padEnd(width)}  ${meaning}`),
    '',
    'exit codes:',
    ...exitCodes.map(([code, meaning]) => `  ${code}  ${meaning}`),
    '',
    'example:',
    ...example.split('\n').map((line) => `  ${line}`),
  ]
  return `${lines.join('\n')}\n`
}

/** A missing file, a file without permission, a full disk: the message of such an error names the file and the reason. */
function isSystemError(error: unknown): error is Error {
  return error instanceof Error && 'syscall' in error
}

/** Prints a line of progress. */
export function say(line: string): void {
  process.stdout.write(`${line}\n`)
}
