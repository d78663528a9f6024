import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }

const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((path) => path !== '' && existsSync(join(root, path)))
const documents = files.filter((path) => path.endsWith('.md') || path === '.ci/run')
/** Programs have usage lines in their first comment and in their output. */
const programs = files.filter((path) => /^(bench|demo|src|test)\/.*\.ts$/.test(path))

type Command = { where: string; text: string; script: string; rest: string }

function commandsIn(path: string): Command[] {
  return read(path)
    .split('\n')
    .flatMap((line, index) =>
      [...line.matchAll(/\bnpm (?:run ([a-z0-9:-]+)|(start|test))\b((?: +-- [^`|#;&\n]*)?)/g)].map(
        ([text, run, short, rest]) => ({
          where: `${path}:${index + 1}`,
          text,
          script: run ?? short ?? '',
          rest: rest ?? '',
        }),
      ),
    )
}

const commands = [
  ...documents,
  ...programs.filter((path) => path !== 'test/docs/commands.test.ts'),
].flatMap(commandsIn)

/** The source of the program behind a script: its folder, or the one file of a benchmark. */
function sourceOf({ script, rest }: Command): string {
  const entry = /\bnode (?:\S+ )*?(\S+\.ts)/.exec(scripts[script] ?? '')?.[1]
  if (entry === undefined) return ''
  const folder = dirname(entry)
  if (script === 'bench') {
    const [, name] = / -- ([a-z-]+)/.exec(rest) ?? []
    return read(`bench/${name}.bench.ts`) + read('bench/whole-options.ts')
  }
  if (folder === 'src/app' || folder === 'src/commands') return read(entry)
  return readdirSync(join(root, folder))
    .filter((file) => file.endsWith('.ts'))
    .map((file) => read(join(folder, file)))
    .join('\n')
}

test('every command of a document or usage line is a script, and its program accepts the options', () => {
  const wrong: string[] = []
  for (const command of commands) {
    const { where, text, script, rest } = command
    if (scripts[script] === undefined) {
      wrong.push(`${where}: ${text} is no script`)
      continue
    }
    const [, bench] = script === 'bench' ? (/ -- ([a-z-]+)/.exec(rest) ?? []) : []
    if (script === 'bench' && rest !== '' && !existsSync(join(root, `bench/${bench}.bench.ts`))) {
      wrong.push(`${where}: ${text} is no benchmark`)
      continue
    }
    for (const [, option = ''] of rest.matchAll(/--([a-z][a-z-]*)/g)) {
      if (!new RegExp(`['"\\s{]${option}['"]?:|--${option}\\b`).test(sourceOf(command))) {
        wrong.push(`${where}: ${text} has no option --${option}`)
      }
    }
  }
  expect(wrong).toEqual([])
  expect(commands.length).toBeGreaterThan(30)
})

test('no document runs a program with the machine’s own Node, which may be older', () => {
  const bare = [...documents, ...programs].flatMap((path) =>
    read(path)
      .split('\n')
      .flatMap((line, index) =>
        /(?:^|[\s`'$(;&|])node (?:--[a-z-]+ )*[\w./-]+\.ts\b/.test(line)
          ? [`${path}:${index + 1}: ${line.trim()}`]
          : [],
      ),
  )
  expect(bare).toEqual([])
})

test('a script named in a document runs with the Node of the project', () => {
  // npm puts node_modules/.bin first, and the package `node` there is the version that the project is made for.
  const { engines, devDependencies } = JSON.parse(read('package.json'))
  expect(devDependencies.node).toMatch(/^24\./)
  expect(engines.node).toBe('>=24')
  for (const [name, command] of Object.entries(scripts)) {
    expect(command, name).not.toMatch(/\/usr\/|\bnpx\b/)
  }
})
