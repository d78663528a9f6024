import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { GuardedFileError, readGuardedFile } from '../../files/guarded-file.ts'
import type { FlowProblemView } from '../flow-service.ts'
import { breathe } from '../poll/breather.ts'
import type { FlowContext } from './context.ts'
import { keyText, type PlacedFinding } from './findings.ts'
import { createFlowReader, type LoadedFlow, problemOf, type ReadFlow } from './read-flow.ts'
import type { Finding } from './references.ts'
import { sharedFiles } from './shared-files.ts'
import { maxFlowFileBytes } from './yaml-file.ts'

export type { LoadedFlow } from './read-flow.ts'

/**
 * Reads every `*.flow.yaml` and `*.flow.yml` of a folder, by name; hidden files (editors leave them) are passed over. A
 * folder that is missing counts as empty. A bad file never hides the others. Of files that give one name, none loads: which
 * of them is meant is not for us to guess, and a running flow keeps the definition it has; the same of flows that would disturb each
 * other's files. `file` is relative to `dir`.
 */
export async function loadFlows(
  dir: string,
  context: FlowContext,
): Promise<{ flows: LoadedFlow[]; problems: FlowProblemView[] }> {
  const names = await flowFiles(dir)
  if ('problem' in names) return { flows: [], problems: [names.problem] }

  const readFlow = createFlowReader(context)
  const problems: FlowProblemView[] = []
  const good: Extract<ReadFlow, { loaded: LoadedFlow }>[] = []
  for (const name of names.files) {
    await breathe()
    const bytes = readBytes(join(dir, name))
    const read =
      'message' in bytes ? { problems: [problemOf(name, wholeFile(bytes))] } : readFlow(name, bytes)
    if ('problems' in read) problems.push(...read.problems)
    else good.push(read)
  }
  const flows: LoadedFlow[] = []
  for (const { loaded, placeOf } of good) {
    const { file, flow } = loaded
    const others = good.filter((one) => one.loaded !== loaded && one.loaded.flow.name === flow.name)
    if (others.length === 0) {
      flows.push(loaded)
      continue
    }
    const list = others.map((one) => one.loaded.file).join(', ')
    const message = `is also the name in ${list}, so none of them is loaded`
    problems.push(
      problemOf(file, { ...placeOf(['name']), key: 'name', message, hint: 'rename one of them' }),
    )
  }
  const shared = sharedFiles(flows)
  for (const { flow, path, message, hint } of shared) {
    const { placeOf } = good.find(({ loaded }) => loaded === flow) ?? {}
    const place = placeOf?.(path) ?? { line: 1, column: 1 }
    problems.push(problemOf(flow.file, { ...place, key: keyText(path), message, hint }))
  }
  return { flows: flows.filter((one) => !shared.some(({ flow }) => flow === one)), problems }
}

/** The names of the flow files in a folder, sorted. */
async function flowFiles(dir: string): Promise<{ files: string[] } | { problem: FlowProblemView }> {
  try {
    const names = await readdir(dir)
    return { files: names.filter((name) => /^[^.].*\.flow\.ya?ml$/.test(name)).sort() }
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return { files: [] }
    const message = `the folder cannot be read (${codeOf(error)})`
    const hint = 'FLOWS_DIR must name a readable folder'
    return { problem: problemOf('.', wholeFile({ message, hint })) }
  }
}

function readBytes(path: string): Uint8Array | Finding {
  try {
    return readGuardedFile(path, { maxBytes: maxFlowFileBytes })
  } catch (error) {
    if (!(error instanceof GuardedFileError)) throw error
    const { message, code } = error
    return code === 'ENOENT' ? { message, hint: 'the link leads nowhere' } : { message }
  }
}

function wholeFile(finding: Finding): PlacedFinding {
  return { ...finding, key: '', line: 1, column: 1 }
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string'
    ? error.code
    : undefined
}
