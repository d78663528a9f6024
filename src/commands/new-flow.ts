import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parseArgs } from 'node:util'
import {
  connectionsHead,
  flowFromTemplate,
  type MadeFlow,
  type TemplateName,
  type TemplateSource,
  templateNames,
  templateSources,
} from '../flows/definition/flow-template.ts'
import { flowJsonSchema } from '../flows/definition/json-schema.ts'
import { type CommandHelp, needFolder, runCommand, UsageError } from './run-command.ts'

const help: CommandHelp = {
  usage: `npm run flows:new -- <template> [--name articulos] [--from ${templateSources.join('|')}] [folder]`,
  about: `Writes a flow file with comments and the schema for editors into the folder (FLOWS_DIR, or ./flows), the connections that it uses into a new CONNECTIONS_FILE, and says which variables they need. The flow starts paused.
A file that is there is never overwritten.
Templates: ${templateNames.join(', ')}.`,
  options: [
    ['--name NAME', 'of the flow and its file; articulos without it'],
    ['--from SOURCE', 'where the articles of a shop come from; csv-drop without it'],
  ],
  exitCodes: [
    [0, 'the file is written'],
    [1, 'the file is there already'],
    [2, 'the command line is wrong'],
  ],
  example: 'npm run flows:new -- tiendanube --name web',
}

async function writeFlow(): Promise<number> {
  const options = readArguments()
  if (options === undefined) throw new UsageError(`templates: ${templateNames.join(', ')}`)
  const { template, name, from } = options
  const folder = options.folder ?? (process.env.FLOWS_DIR?.trim() || './flows')
  const { text, connections, variables } = flowFromTemplate({
    template,
    name,
    from,
    startPaused: true,
    schema: `./${schemaName}`,
  })
  const file = join(folder, `${name}.flow.yaml`)
  needFolder(folder)
  try {
    mkdirSync(folder, { recursive: true })
    writeFileSync(file, text, { flag: 'wx' })
    writeFileSync(join(folder, schemaName), `${JSON.stringify(flowJsonSchema(), undefined, 2)}\n`)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    process.stderr.write(`${file} is there already; choose another --name\n`)
    return 1
  }
  const missing = variables.filter((variable) => !process.env[variable]?.trim())
  process.stdout.write(
    [
      `${file}: written; its comments say what to adapt`,
      ...addConnections(connections),
      ...(missing.length > 0 ? [`set in .env: ${missing.join(', ')}`] : []),
      `then: npm run flows:check, and restart the service; POST /flow-files/${basename(file)}/dry-run shows what would be sent, POST /flow/${name}/resume starts the flow`,
      '',
    ].join('\n'),
  )
  return 0
}

/** Editors read it beside the flow files. */
const schemaName = 'flow.schema.json'

/** Where this process may not write. */
const notOurs: ReadonlySet<string> = new Set(['EROFS', 'EACCES', 'EPERM', 'ENOENT'])

/** Writes a new file of connections, or shows what the existing one lacks: it is the administrator's. */
function addConnections(connections: MadeFlow['connections']): string[] {
  const file = process.env.CONNECTIONS_FILE?.trim() || './connections.yaml'
  const text = `${connectionsHead}${Object.values(connections).join('')}`
  try {
    writeFileSync(file, text, { flag: 'wx', mode: 0o640 })
    return [`${file}: written; it says what flows may reach`]
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (notOurs.has(code)) return [`${file} cannot be written (${code}); write it:`, text.trimEnd()]
    if (code !== 'EEXIST') throw error
  }
  const known = readFileSync(file, 'utf8')
  const absent = Object.entries(connections).filter(
    ([name]) => !new RegExp(`^ +${name}:`, 'm').test(known),
  )
  if (absent.length === 0) return []
  return [`add to ${file}:`, absent.map(([, text]) => text.trimEnd()).join('\n')]
}

type NewFlowOptions = {
  template: TemplateName
  name: string
  from: TemplateSource | undefined
  folder: string | undefined
}

/** Undefined for a wrong command line. */
function readArguments(): NewFlowOptions | undefined {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { name: { type: 'string', default: 'articulos' }, from: { type: 'string' } },
  })
  const [given, folder, ...others] = positionals
  const template = templateNames.find((one) => one === given)
  const from = templateSources.find((one) => one === values.from)
  const isOne = template !== undefined && others.length === 0
  const isFrom = values.from === undefined || from !== undefined
  // The form of names in flow files; a name must not lead out of the folder.
  const isName = /^[a-z0-9][a-z0-9_-]{0,63}$/.test(values.name)
  return isOne && isFrom && isName ? { template, name: values.name, from, folder } : undefined
}

await runCommand(help, writeFlow)
