import type { FlowProblemView } from '../flow-service.ts'

/** A problem as one line: `file:line:column key: message (hint)`. */
export function formatProblem({ file, line, column, key, message, hint }: FlowProblemView): string {
  const where = key === '' ? '' : `${key}: `
  return `${file}:${line}:${column} ${where}${message}${hint === null ? '' : ` (${hint})`}`
}
