import type { FlowContext } from '../../src/flows/definition/flow-context.ts'
import { formatProblem } from '../../src/flows/loading/check-flow-files.ts'
import { createFlowReader, type ReadFlow } from '../../src/flows/loading/read-flow.ts'

/** Independent of the machine: no mail, no files, two variables. */
export const context: FlowContext = {
  env: {
    ERP_URL: 'http://erp.example.com',
    PRIVATE_HOST: '192.168.1.9',
    TOKEN: 'top-secret-value',
  },
  readFile: () => {
    throw new Error('there are no files')
  },
  mail: { smtpUrl: undefined, mailFrom: undefined },
}

/** The parts of a valid flow file, which tests replace. Each part has one line; destinations start at line 6. */
const parts = {
  version: 'version: 1',
  name: 'name: stores',
  pollInterval: 'pollInterval: 60s',
  source: 'source: { type: file, path: erp.csv, format: csv }',
  item: 'item: { key: [codigo] }',
  destinations: 'destinations:\n  - { name: out, type: file, path: out.ndjson }',
  more: '',
}

export function flowText(replaced: Partial<typeof parts> = {}): string {
  return `${Object.values({ ...parts, ...replaced }).join('\n')}\n`
}

const withContext = createFlowReader(context)

export function read(text: string | Uint8Array, reader = withContext): ReadFlow {
  return reader('f.flow.yaml', Buffer.from(text))
}

/** The problems of a file, one per line: `line:column key: message (hint)`. */
export function problemsOf(text: string | Uint8Array, reader = withContext): string[] {
  const found = read(text, reader)
  const problems = 'problems' in found ? found.problems : []
  return problems.map((problem) => formatProblem(problem).replace(/^f\.flow\.yaml:/, ''))
}
