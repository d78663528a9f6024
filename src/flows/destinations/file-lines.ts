import type { Reason } from '../../texts/reason.ts'
import type { DeliveryJob } from '../types.ts'
import { asObject, kindOfMade } from './delivery-result.ts'

type Fields = Record<string, unknown>
type Problem = { problem: Reason }

const ownFields = ['_key', '_kind', '_pk']

/** The fields of a line: our fields first, then the mapped fields. A delete may have no mapped fields. */
export function recordOf(job: DeliveryJob): { fields: Fields } | Problem {
  const isBareDelete = job.kind === 'delete' && (job.body === undefined || job.body === null)
  const body = isBareDelete ? {} : asObject(job.body)
  if (!body) return { problem: { code: 'NO_OBJECT', data: { kind: kindOfMade(job.body) } } }
  const taken = ownFields.find((name) => Object.hasOwn(body, name))
  if (taken) return { problem: { code: 'FIELD_TAKEN', data: { field: taken } } }
  return { fields: { _key: job.jobKey, _kind: job.kind, _pk: job.pk, ...body } }
}

const ndjsonStart = '{"_key":'

/** Whether an incomplete line starts like a line of ours. */
export function beginsNdjson(rest: string): boolean {
  return rest.startsWith(ndjsonStart) || ndjsonStart.startsWith(rest)
}

/** One line of JSON. JSON.stringify writes no line break. */
export function ndjsonLine(fields: Fields): string {
  return `${JSON.stringify(fields)}\n`
}

/** A file's content up to the first line end, or all of it without one. */
export type FirstLine = { text: string; isComplete: boolean }

const csvStart = ownFields.join(',')

/**
 * A CSV row (RFC 4180, comma, CRLF) with the columns of the file's first line. An empty file also gets that first line. Line
 * breaks in values become LF, so that only a row ends with CRLF. Lists and objects become JSON text.
 */
export function csvRow(fields: Fields, first: FirstLine | undefined): { text: string } | Problem {
  const names = Object.keys(fields)
  const isOurs = first && (first.text.startsWith(csvStart) || isTornStart(first))
  if (first && !isOurs) return { problem: { code: 'FOREIGN_FILE' } }
  const isNew = !first?.isComplete
  const columns = isNew ? names : parseRow(first.text)
  const known = new Set(columns)
  const without = names.filter((name) => !known.has(name))
  if (without.length > 0) {
    return { problem: { code: 'NO_COLUMN', data: { fields: without.join(', ') } } }
  }
  const row = writeRow(columns.map((column) => cell(fields[column])))
  return { text: isNew ? writeRow(columns) + row : row }
}

/** The first line of a new file that starts with these rows. */
export function firstLineOf(rows: string): FirstLine {
  return { text: rows.slice(0, rows.indexOf('\r\n')), isComplete: true }
}

function isTornStart(first: FirstLine): boolean {
  return !first.isComplete && csvStart.startsWith(first.text)
}

function cell(value: unknown): string {
  if (value === undefined || value === null) return ''
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function writeRow(cells: readonly string[]): string {
  const quoted = cells.map((text) => {
    const clean = text.replace(/\r\n?/g, '\n')
    return /[",\n]/.test(clean) ? `"${clean.replaceAll('"', '""')}"` : clean
  })
  return `${quoted.join(',')}\r\n`
}

function parseRow(line: string): string[] {
  const cells: string[] = []
  for (const match of line.matchAll(/(?:"((?:[^"]|"")*)"|([^,]*))(?:,|$)/g)) {
    // The pattern also matches the empty text after the last cell.
    if (match.index === line.length && cells.length > 0 && !line.endsWith(',')) break
    cells.push(match[1]?.replaceAll('""', '"') ?? match[2] ?? '')
  }
  return cells
}
