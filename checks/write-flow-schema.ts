import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type CommandHelp, runCommand } from '../src/commands/run-command.ts'
import { flowJsonSchema } from '../src/flows/definition/json-schema.ts'
import { referencePage } from './references/flow-keys.ts'
import { reasonsPage } from './references/flow-reasons.ts'

const help: CommandHelp = {
  usage: 'npm run flows:schema',
  about:
    'Writes schema/flow.schema.json, which editors read beside flow files, docs/reference/flows/definition.md, the reference of their keys, and docs/reference/flows/reasons.md, that of reasons.',
  exitCodes: [
    [0, 'the files are written'],
    [1, 'a file could not be written; the message says why'],
    [2, 'the command line is wrong'],
  ],
  example: 'npm run flows:schema',
}

const root = new URL('..', import.meta.url)
const folder = new URL('schema/', root)

await runCommand(help, async () => {
  parseArgs({ options: {} })
  mkdirSync(folder, { recursive: true })
  writeFileSync(
    new URL('flow.schema.json', folder),
    `${JSON.stringify(flowJsonSchema(), undefined, 2)}\n`,
  )
  writeFileSync(new URL('docs/reference/flows/definition.md', root), referencePage())
  writeFileSync(new URL('docs/reference/flows/reasons.md', root), reasonsPage())
  const inRoot = { cwd: fileURLToPath(root), stdio: 'inherit' } as const
  execFileSync('npx', ['biome', 'check', '--write', 'schema'], inRoot)
  return 0
})
