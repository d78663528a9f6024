import { basename } from 'node:path'
import { type CommandHelp, readOptions, readWholeNumber } from '../src/commands/run-command.ts'

/** Options of the command line that are whole numbers from 1 on, with what they are unless given. */
export function wholeOptions<Options extends Record<string, number>>(defaults: Options): Options {
  const values = readOptions(
    helpOf(defaults),
    Object.fromEntries(
      Object.entries(defaults).map(([name, value]) => [
        name,
        { type: 'string', default: String(value) } as const,
      ]),
    ),
  )
  const chosen = Object.entries(values).map(([name, text]) => {
    return [name, readWholeNumber(name, String(text), 1)]
  })
  return Object.fromEntries(chosen)
}

/** Of the benchmark that runs. Its file says what it measures, and why. */
export function helpOf(options: Record<string, unknown>): CommandHelp {
  const name = basename(process.argv[1] ?? '', '.bench.ts')
  const command = ['npm run bench', name].join(' -- ')
  return {
    usage: `${command} [options]`,
    about: `Runs this benchmark. What it measures stands at the head of bench/${name}.bench.ts.`,
    options: Object.entries(options).map(([option, value]) => [
      `--${option}`,
      `${value} without it`,
    ]),
    exitCodes: [
      [0, 'it ran to its end'],
      [1, 'it could not, or missed its goal; the message says which'],
      [2, 'the command line is wrong'],
    ],
    example: command,
  }
}

/** As much as the goals of the pages speak of. */
export const muchData = { orders: 10_000, items: 100_000, clients: 40, boxes: 200 }
