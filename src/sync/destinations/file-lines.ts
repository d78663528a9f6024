import type { Reason } from '../../domain/flow-reasons.ts'
import type { DeliveryJob } from '../types.ts'
import { asObject, kindOfValue } from './result.ts'

type Fields = Record<string, unknown>
type Problem = { problem: Reason }

const ownFields = ['_key', '_kind', '_pk']

/** The fields of a line: ours first, then what the mapping made. A delete may come without mapped fields. */
export function recordOf(job: DeliveryJob): { fields: Fields } | Problem {
  const isBareDelete = job.kind === 'delete' && (job.body === undefined || job.body === null)
  const body = isBareDelete ? {} : asObject(job.body)
  if (!body) return { problem: { code: 'NO_OBJECT', data: { kind: kindOfValue(job.body) } } }
  const taken = ownFields.find((name) => Object.hasOwn(body, name))
  if (taken) return { problem: { code: 'FIELD_TAKEN', data: { field: taken } } }
  return { fields: { _key: job.jobKey, _kind: job.kind, _pk: job.pk, ...body } }
}

const ndjsonStart = '{"_key":'

/** Whether a rest without a line end is the beginning of a line of ours. */
export function beginsNdjson(rest: string): boolean {
  return rest.startsWith(ndjsonStart) || ndjsonStart.startsWith(rest)
}

/** One line of JSON; JSON.stringify leaves no line break inside. */
export function ndjsonLine(fields: Fields): string {
  return `${JSON.stringify(fields)}\n`
}

/** What a file holds up to its first line end, or all of it when there is none. */
export type FirstLine = { text: string; isComplete: boolean }

const csvStart = ownFields.join(',')

/**
 * A row of CSV (RFC 4180, comma, CRLF) under the columns of the file's first line, or with that line when the file has
 * none yet. Line breaks inside a value become LF, so that CRLF only ever ends a row. Lists and objects are JSON text.
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

/** What the first line of a file is once these rows begin it. */
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
    // The pattern also matches the empty rest after the last cell.
    if (match.index === line.length && cells.length > 0 && !line.endsWith(',')) break
    cells.push(match[1]?.replaceAll('""', '"') ?? match[2] ?? '')
  }
  return cells
}
