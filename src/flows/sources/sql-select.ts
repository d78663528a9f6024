import type { Reason } from '../../texts/reason.ts'
import { type SqlDialect, scanSql } from './sql-text.ts'

/**
 * Keywords of statements that write. SQL Server accepts several statements without a separator. It reserves all these words,
 * so none is a column name outside brackets (Microsoft: Reserved Keywords, Transact-SQL).
 */
const writingWords =
  /\b(?:alter|backup|bulk\s+insert|create|dbcc|delete|deny|drop|exec|execute|grant|insert|kill|merge(?!\s+(?:join|union)\b)|reconfigure|restore|revoke|shutdown|truncate|update|updatetext|writetext)\b/gi
const locks =
  /\bfor\s+(?:no\s+key\s+)?update\b|\bfor\s+(?:key\s+)?share\b|\block\s+in\s+share\s+mode\b/gi

/**
 * Finds the first part of a query that is not a single SELECT, by the database's lexical rules; undefined for a valid query.
 * PostgreSQL and MySQL also refuse writes in a read-only transaction; SQL Server has none.
 */
export function selectProblem(sql: string, dialect: SqlDialect): Reason | undefined {
  const code = codeOnly(sql, dialect)
  const found = (pattern: RegExp, reasonOf: (word: string) => Reason): Reason | undefined => {
    const match = new RegExp(pattern, pattern.flags.replace('g', '')).exec(code)
    const word = match?.[0].trim().replace(/\s+/g, ' ').toLowerCase() ?? ''
    return match ? reasonOf(word) : undefined
  }

  const start = /[^\s(]/.exec(code)?.index ?? 0
  const first = /^[\w$]*/.exec(code.slice(start))?.[0].toLowerCase() ?? ''
  if (first !== 'select' && first !== 'with') return { code: 'SQL_NO_SELECT' }
  return (
    found(/;(?=[\s;]*[^\s;])/, () => ({ code: 'SQL_SECOND_STATEMENT' })) ??
    executedComment(sql, dialect) ??
    found(/\binto\b/i, () => ({ code: 'SQL_WRITES_INTO' })) ??
    verbBehindWith(code, first) ??
    found(locks, (words) => ({ code: 'SQL_LOCKS', data: { words } })) ??
    (dialect === 'mssql'
      ? found(writingWords, (word) => ({ code: 'SQL_WRITING_WORD', data: { word } }))
      : undefined)
  )
}

const limits: Readonly<Record<SqlDialect, RegExp>> = {
  postgres: /\blimit\b|\bfetch\s+(?:first|next)\b/i,
  mysql: /\blimit\b|\bfetch\s+(?:first|next)\b/i,
  mssql: /\bselect\s+(?:distinct\s+|all\s+)?top\b|\bfetch\s+(?:first|next)\b/i,
  firebird: /\bselect\s+(?:first|skip)\b|\brows\s+[\d?]|\bfetch\s+(?:first|next)\b/i,
}

/** The clause that limits the number of rows, as written; undefined without one. */
export function rowLimit(sql: string, dialect: SqlDialect): string | undefined {
  let depth = 0
  const outer = [...codeOnly(sql, dialect)].map((character) => {
    if (character === '(') depth += 1
    const kept = depth === 0 ? character : ' '
    if (character === ')') depth -= 1
    return kept
  })
  return limits[dialect].exec(outer.join(''))?.[0].replace(/\s+/g, ' ').toLowerCase()
}

/** Replaces comments by blanks, quoted parts by quotes and parameters by question marks. */
function codeOnly(sql: string, dialect: SqlDialect): string {
  const fillers = { quoted: '"', comment: ' ', parameter: '?' }
  return scanSql(sql, dialect)
    .map(({ kind, text }) => (kind === 'code' ? text : fillers[kind]))
    .join('')
}

/** The verb after `WITH …` decides, as in `WITH … DELETE`. A subquery in parentheses only reads, or the database refuses it. */
function verbBehindWith(code: string, first: string): Reason | undefined {
  if (first !== 'with') return undefined
  let depth = 0
  for (const match of code.matchAll(/[()]|\b(?:select|insert|update|delete|merge|replace)\b/gi)) {
    const [word] = match
    if (word === '(') depth += 1
    else if (word === ')') depth -= 1
    else if (depth === 0) {
      if (word.toLowerCase() === 'select') return undefined
      return { code: 'SQL_WRITES_WITH', data: { word: word.toUpperCase() } }
    }
  }
  return undefined
}

/** MySQL and MariaDB execute the content of such comments. */
function executedComment(sql: string, dialect: SqlDialect): Reason | undefined {
  if (dialect !== 'mysql') return undefined
  const isExecuted = scanSql(sql, dialect).some(
    ({ kind, text }) => kind === 'comment' && /^\/\*M?!/.test(text),
  )
  return isExecuted ? { code: 'SQL_EXECUTED_COMMENT' } : undefined
}
