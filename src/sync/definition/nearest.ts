/** The candidate that is most likely meant; undefined when none is near. */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
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

/** What people call a thing by another name than the definition does, and what to know of it. */
const otherNames: Readonly<Record<string, readonly [word: string, note: string]>> = {
  mariadb: ['mysql', 'it speaks to MariaDB too'],
  postgresql: ['postgres', ''],
  pg: ['postgres', ''],
  sqlserver: ['mssql', 'it is the driver for SQL Server'],
  mssqlserver: ['mssql', 'it is the driver for SQL Server'],
  interbase: ['firebird', 'InterBase itself is not read'],
  excel: ['xlsx', ''],
  xls: ['xlsx', 'save the file as .xlsx: the old format is not read'],
  tsv: ['csv', 'with csv: { delimiter: "\\t" }'],
  txt: ['csv', 'or fixed, where columns are told by their place'],
  jsonl: ['ndjson', 'a JSON value in each line'],
  jsonlines: ['ndjson', 'a JSON value in each line'],
  utf16: ['utf16le', 'a byte order mark in the file decides'],
  ansi: ['latin1', 'it is read as Windows-1252'],
  windows1252: ['cp1252', ''],
  iso88591: ['latin1', 'it is read as Windows-1252'],
  database: ['sql', ''],
  rest: ['http', ''],
  api: ['http', ''],
  https: ['http', 'the address says whether it is https'],
  ftp: ['sftp', 'FTP without SSH is not read'],
  remove: ['delete', ''],
  none: ['ignore', ''],
  move: ['archive', ''],
}

/** A hint with the word that is most likely meant among those that are valid here; undefined when none is near. */
export function didYouMean(word: string, candidates: readonly string[]): string | undefined {
  const [named, note = ''] = otherNames[plain(word)] ?? []
  if (named !== undefined && candidates.includes(named)) {
    return `did you mean ${named}?${note === '' ? '' : ` ${note}`}`
  }
  const meant = nearest(word, candidates)
  if (meant === undefined) return undefined
  return meant === word ? `write ${meant}, no quotes` : `did you mean ${meant}?`
}

/** `poll_interval`, `poll-interval` and `PollInterval` mean one thing. */
function plain(word: string): string {
  return word
    .slice(0, 64)
    .replace(/[\s_-]/g, '')
    .toLowerCase()
}

/** Letters to insert, drop, replace or swap with the next one (optimal string alignment). */
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
