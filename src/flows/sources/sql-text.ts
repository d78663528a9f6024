export type SqlDialect = 'postgres' | 'mysql' | 'mssql' | 'firebird'

/** `quoted` is a text or a quoted name and, like a comment, contains no code. `parameter` has the name without the colon. */
export type SqlPiece = { kind: 'code' | 'quoted' | 'comment' | 'parameter'; text: string }

const parameterName = /:([A-Za-z_][A-Za-z0-9_]*)/y
const dollarTag = /\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y
const lineEnd = /[\r\n]/g

/**
 * Splits a query into code and other parts, by the database's lexical rules: texts with escapes, quoted names, dollar quotes,
 * comments (nested in PostgreSQL and SQL Server).
 *
 * `:name` is a parameter, unless it follows another colon (a cast), a word or a bracket (an array slice, `[1:n]`). An unclosed
 * part extends to the end; the database reports it.
 */
export function scanSql(sql: string, dialect: SqlDialect): SqlPiece[] {
  const pieces: SqlPiece[] = []
  let codeFrom = 0
  let at = 0
  const take = (kind: SqlPiece['kind'], end: number, text = sql.slice(at, end)) => {
    if (at > codeFrom) pieces.push({ kind: 'code', text: sql.slice(codeFrom, at) })
    pieces.push({ kind, text })
    at = end
    codeFrom = end
  }
  while (at < sql.length) {
    const commentTo = commentEnd(sql, at, dialect)
    const quoteTo = commentTo ?? quoteEnd(sql, at, dialect)
    if (commentTo !== undefined) take('comment', commentTo)
    else if (quoteTo !== undefined) take('quoted', quoteTo)
    else if (sql.startsWith('::', at)) at += 2
    else {
      const name = /[\w)\]]/.test(sql[at - 1] ?? '')
        ? undefined
        : match(parameterName, sql, at)?.[1]
      if (name === undefined) at += 1
      else take('parameter', at + 1 + name.length, name)
    }
  }
  if (at > codeFrom) pieces.push({ kind: 'code', text: sql.slice(codeFrom) })
  return pieces
}

function commentEnd(sql: string, at: number, dialect: SqlDialect): number | undefined {
  if (sql.startsWith('/*', at))
    return blockEnd(sql, at, dialect === 'postgres' || dialect === 'mssql')
  const isLine =
    dialect === 'mysql'
      ? // MySQL: `--` without a blank is a subtraction (MySQL manual, 11.7 Comments).
        sql[at] === '#' || (sql.startsWith('--', at) && /\s|^$/.test(sql[at + 2] ?? ''))
      : sql.startsWith('--', at)
  if (!isLine) return undefined
  lineEnd.lastIndex = at
  return lineEnd.exec(sql)?.index ?? sql.length
}

function blockEnd(sql: string, at: number, nests: boolean): number {
  let depth = 1
  for (let next = at + 2; next < sql.length; next += 1) {
    if (sql.startsWith('*/', next)) {
      depth -= 1
      next += 1
      if (depth === 0) return next + 1
    } else if (nests && sql.startsWith('/*', next)) {
      depth += 1
      next += 1
    }
  }
  return sql.length
}

function quoteEnd(sql: string, at: number, dialect: SqlDialect): number | undefined {
  const char = sql[at]
  if (/^[qQ]'[^']/.test(sql.slice(at, at + 3)) && takesAlternatives(sql, at, dialect)) {
    return alternativeEnd(sql, at)
  }
  if (char === "'") {
    const escapes = dialect === 'mysql' || (dialect === 'postgres' && isEscapeText(sql, at))
    return closingQuote(sql, at, "'", escapes)
  }
  if (char === '"') return closingQuote(sql, at, '"', dialect === 'mysql')
  if (char === '`' && dialect === 'mysql') return closingQuote(sql, at, '`', false)
  if (char === '[' && dialect === 'mssql') return closingQuote(sql, at, ']', false)
  if (char === '$' && dialect === 'postgres' && !/[\w$]/.test(sql[at - 1] ?? '')) {
    const tag = match(dollarTag, sql, at)?.[0]
    if (tag === undefined) return undefined
    const end = sql.indexOf(tag, at + tag.length)
    return end === -1 ? sql.length : end + tag.length
  }
  return undefined
}

/** `E'…'`, when the E is a separate word. */
function isEscapeText(sql: string, at: number): boolean {
  return /[eE]/.test(sql[at - 1] ?? '') && !/[\w$]/.test(sql[at - 2] ?? '')
}

/** Whether a q starts a quote here and is not part of a word. */
function takesAlternatives(sql: string, at: number, dialect: SqlDialect): boolean {
  return dialect === 'firebird' && !/[\w$#]/.test(sql[at - 1] ?? '')
}

/** `q'[it's]'`: the character after the quote, or its closing counterpart, followed by a quote ends the text. */
function alternativeEnd(sql: string, at: number): number {
  const open = sql[at + 2] ?? ''
  const pairs: Readonly<Record<string, string>> = { '[': ']', '{': '}', '(': ')', '<': '>' }
  const end = sql.indexOf(`${pairs[open] ?? open}'`, at + 3)
  return end === -1 ? sql.length : end + 2
}

/** A doubled closing character is part of the text. */
function closingQuote(sql: string, at: number, close: string, escapes: boolean): number {
  for (let next = at + 1; next < sql.length; next += 1) {
    if (escapes && sql[next] === '\\') next += 1
    else if (sql[next] === close) {
      if (sql[next + 1] !== close) return next + 1
      next += 1
    }
  }
  return sql.length
}

function match(pattern: RegExp, sql: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at
  return pattern.exec(sql)
}
