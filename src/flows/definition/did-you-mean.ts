import type { Reason } from '../../domain/flow-reasons.ts'

/** The most similar candidate; undefined when none is similar enough. */
export function nearestWord(word: string, candidates: Iterable<string>): string | undefined {
  const given = plain(word)
  let best: { candidate: string; distance: number } | undefined
  for (const candidate of candidates) {
    const meant = plain(candidate)
    const distance = given === meant ? 0 : editDistance(given, meant)
    const tolerated = Math.max(1, Math.floor(Math.min(given.length, meant.length) / 3))
    if (distance <= tolerated && distance < (best?.distance ?? Number.POSITIVE_INFINITY)) {
      best = { candidate, distance }
    }
  }
  return best?.candidate
}

/** Common other names of keys and values, with an explanation where needed. */
const otherNames: Readonly<Record<string, readonly [word: string, note?: Reason]>> = {
  mariadb: ['mysql', { code: 'NOTE_MARIADB' }],
  postgresql: ['postgres'],
  pg: ['postgres'],
  sqlserver: ['mssql', { code: 'NOTE_SQL_SERVER' }],
  mssqlserver: ['mssql', { code: 'NOTE_SQL_SERVER' }],
  interbase: ['firebird', { code: 'NOTE_INTERBASE' }],
  excel: ['xlsx'],
  xls: ['xlsx', { code: 'NOTE_XLS' }],
  tsv: ['csv', { code: 'NOTE_TSV', data: { example: 'csv: { delimiter: "\\t" }' } }],
  txt: ['csv', { code: 'NOTE_TXT' }],
  jsonl: ['ndjson', { code: 'NOTE_JSONL' }],
  jsonlines: ['ndjson', { code: 'NOTE_JSONL' }],
  utf16: ['utf16le', { code: 'NOTE_UTF16' }],
  ansi: ['latin1', { code: 'NOTE_ANSI' }],
  windows1252: ['cp1252'],
  iso88591: ['latin1', { code: 'NOTE_ANSI' }],
  database: ['sql'],
  rest: ['http'],
  api: ['http'],
  https: ['http', { code: 'NOTE_HTTPS' }],
  ftp: ['sftp', { code: 'NOTE_FTP' }],
  remove: ['delete'],
  none: ['ignore'],
  move: ['archive'],
}

/** A hint with the most likely valid word; undefined when none is similar enough. */
export function didYouMean(word: string, candidates: readonly string[]): Reason | undefined {
  const [named, note] = otherNames[plain(word)] ?? []
  if (named !== undefined && candidates.includes(named)) {
    return { code: 'MEANT', data: { word: named, note } }
  }
  const meant = nearestWord(word, candidates)
  if (meant === undefined) return undefined
  return { code: meant === word ? 'WRITE_WITHOUT_QUOTES' : 'MEANT', data: { word: meant } }
}

/** Makes `poll_interval`, `poll-interval` and `PollInterval` equal. */
function plain(word: string): string {
  return word
    .slice(0, 64)
    .replace(/[\s_-]/g, '')
    .toLowerCase()
}

/** Counts letters to insert, drop, replace or swap with the next one (optimal string alignment). */
function editDistance(left: string, right: string): number {
  let before: number[] = []
  let above = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (let row = 1; row <= left.length; row++) {
    const current = [row]
    for (let column = 1; column <= right.length; column++) {
      const same = left[row - 1] === right[column - 1]
      const swapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]
      current[column] = Math.min(
        at(above, column) + 1,
        at(current, column - 1) + 1,
        at(above, column - 1) + (same ? 0 : 1),
        swapped ? at(before, column - 2) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    before = above
    above = current
  }
  return at(above, right.length)
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY
}
