import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../../domain/error-code.ts'
import { GuardedFileError, readGuardedFile } from '../../files/read-regular-file.ts'
import { yieldToEventLoop } from '../../jobs/yield-to-event-loop.ts'
import type { Reason } from '../../texts/reason.ts'
import type { FlowProblemView } from '../api/control-types.ts'
import { type PlacedFinding, pathText } from '../definition/findings.ts'
import type { FlowContext } from '../definition/flow-context.ts'
import { loadConnections } from '../definition/named-connections.ts'
import { problemOf } from '../definition/problem-view.ts'
import type { Finding } from '../definition/secret-references.ts'
import { maxFlowFileBytes } from '../definition/yaml-file.ts'
import { createFlowReader, type LoadedFlow, type ReadFlow } from './read-flow.ts'
import { sharedFiles } from './shared-files.ts'

export type { LoadedFlow } from './read-flow.ts'

/**
 * Reads every `*.flow.yaml` and `*.flow.yml` of a folder, sorted by name. Hidden files, such as those of editors, are ignored.
 * A missing folder counts as empty. An invalid file does not affect the others.
 *
 * If several files define the same name, none of them loads, and a running flow keeps its definition. The same applies to
 * flows that would use each other's files.
 *
 * `file` is relative to `dir`. With `instead` one file is read from these bytes, also when it does not exist.
 */
export async function loadFlows(
  dir: string,
  context: FlowContext,
  instead?: { file: string; bytes: Uint8Array },
): Promise<{ flows: LoadedFlow[]; problems: FlowProblemView[] }> {
  const names = await flowFiles(dir)
  if ('problem' in names) return { flows: [], problems: [names.problem] }

  const connections = loadConnections(context)
  const readFlow = createFlowReader(context, connections)
  const problems: FlowProblemView[] = [...connections.problems]
  const good: Extract<ReadFlow, { loaded: LoadedFlow }>[] = []
  const files = instead ? [...new Set([...names.files, instead.file])].sort() : names.files
  for (const name of files) {
    await yieldToEventLoop()
    const bytes = instead?.file === name ? instead.bytes : readBytes(join(dir, name))
    const read =
      'why' in bytes ? { problems: [problemOf(name, wholeFile(bytes))] } : readFlow(name, bytes)
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
    const files = others.map((one) => one.loaded.file).join(', ')
    const why: Reason = { code: 'NAME_IN_OTHER_FILES', data: { files } }
    problems.push(problemOf(file, { ...placeOf(['name']), key: 'name', why }))
  }
  const shared = sharedFiles(flows)
  for (const { flow, path, why } of shared) {
    const { placeOf } = good.find(({ loaded }) => loaded === flow) ?? {}
    const place = placeOf?.(path) ?? { line: 1, column: 1 }
    problems.push(problemOf(flow.file, { ...place, key: pathText(path), why }))
  }
  return { flows: flows.filter((one) => !shared.some(({ flow }) => flow === one)), problems }
}

/** The names of the flow files in a folder, sorted; none when the folder does not exist. */
export async function flowFiles(
  dir: string,
): Promise<{ files: string[] } | { problem: FlowProblemView }> {
  try {
    const names = await readdir(dir)
    return { files: names.filter((name) => /^[^.].*\.flow\.ya?ml$/.test(name)).sort() }
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return { files: [] }
    const why: Reason = { code: 'FOLDER_UNREADABLE', data: { code: String(codeOf(error)) } }
    return { problem: problemOf('.', wholeFile({ why })) }
  }
}

function readBytes(path: string): Uint8Array | Finding {
  try {
    return readGuardedFile(path, { maxBytes: maxFlowFileBytes })
  } catch (error) {
    if (!(error instanceof GuardedFileError)) throw error
    const { why, code } = error
    return { why: code === 'ENOENT' ? { code: 'LINK_TO_NOTHING', data: { code } } : why }
  }
}

function wholeFile(finding: Finding): PlacedFinding {
  return { ...finding, key: '', line: 1, column: 1 }
}
