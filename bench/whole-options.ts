import { parseArgs } from 'node:util'

/** Options of the command line that are whole numbers from 1 on, with what they are unless given. */
export function wholeOptions<Options extends Record<string, number>>(defaults: Options): Options {
  const { values } = parseArgs({
    options: Object.fromEntries(
      Object.entries(defaults).map(([name, value]) => [
        name,
        { type: 'string', default: String(value) } as const,
      ]),
    ),
  })
  const chosen = Object.entries(values).map(([name, text]) => {
    const value = Number(text)
    if (!Number.isInteger(value) || value < 1) throw new Error(`--${name} is a whole number`)
    return [name, value]
  })
  return Object.fromEntries(chosen)
}

/** As much as the goals of the pages speak of. */
export const muchData = { orders: 10_000, items: 100_000, clients: 40, boxes: 200 }
