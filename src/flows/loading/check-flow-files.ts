import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { FlowProblemView } from '../api/control-types.ts'
import { createFlowContext, type FlowContext, type OwnSecrets } from '../definition/flow-context.ts'
import { loadFlows } from './load-flow-files.ts'

/**
 * Reads the flow files of a folder (default: FLOWS_DIR, or `./flows`) like a start of the service, and describes the result in
 * lines of text. A folder given by name must exist.
 */
export async function checkFlows(
  env: FlowContext['env'],
  folder: string | undefined,
  own: OwnSecrets,
  connectionsFile?: string,
): Promise<{ lines: string[]; isGood: boolean }> {
  const setting = (name: string) => env[name]?.trim() || undefined
  const dir = folder ?? setting('FLOWS_DIR') ?? './flows'
  const mail = { smtpUrl: setting('SMTP_URL'), mailFrom: setting('MAIL_FROM') }
  const { flows, problems } = await loadFlows(
    dir,
    createFlowContext(env, mail, own, connectionsFile),
  )

  const placeOf = (file: string) =>
    connectionsFile !== undefined && file === basename(connectionsFile)
      ? connectionsFile
      : join(dir, file)
  const lines = [
    ...flows.map(({ file, flow }) => ({ file, line: `${join(dir, file)}: ok, flow ${flow.name}` })),
    ...problems.map((problem) => ({
      file: problem.file,
      line: formatProblem({ ...problem, file: placeOf(problem.file) }),
    })),
  ]
  const sorted = lines.toSorted((left, right) => (left.file < right.file ? -1 : 1))
  const ownPlaces = flows.filter((one) => one.hasOwnPlaces).map(({ file }) => file)
  const others = await otherYamlFiles(dir)
  if (flows.length === 0 && problems.length === 0) {
    const what = others === undefined ? `there is no folder ${dir}` : `no flow files in ${dir}`
    return {
      lines: [what, ...(others ?? [])],
      isGood: folder === undefined || others !== undefined,
    }
  }
  return {
    lines: [
      ...sorted.map(({ line }) => line),
      ...(others ?? []),
      ...(ownPlaces.length === 0
        ? []
        : [
            `the browser cannot change parts with an address, path or reference of their own: ${ownPlaces.join(', ')}`,
          ]),
      `${counted(flows.length, 'flow')} ok, ${counted(problems.length, 'problem')}`,
    ],
    isGood: problems.length === 0,
  }
}

/** Files that a user may expect to be flows; undefined when the folder does not exist. */
async function otherYamlFiles(dir: string): Promise<string[] | undefined> {
  try {
    const names = await readdir(dir)
    return names
      .filter((name) => /\.ya?ml$/.test(name) && !/\.flow\.ya?ml$/.test(name))
      .sort()
      .map((name) => `${join(dir, name)}: not read, the name of a flow file ends in .flow.yaml`)
  } catch {
    return undefined
  }
}

function counted(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? '' : 's'}`
}

/** A problem as one line: `file:line:column key: message (hint)`. */
export function formatProblem({ file, line, column, key, message, hint }: FlowProblemView): string {
  const where = key === '' ? '' : `${key}: `
  return `${file}:${line}:${column} ${where}${message}${hint === null ? '' : ` (${hint})`}`
}
