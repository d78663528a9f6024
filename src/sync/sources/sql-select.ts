import { type SqlDialect, scanSql } from './sql-text.ts'

/** Why a query is not one that only reads. `offset` is an index into its text. */
export type SelectProblem = { message: string; hint: string; offset: number }

const oneSelect = 'a query is one SELECT, or WITH … SELECT'
/**
 * Words that begin a statement that writes. SQL Server takes several statements without anything between them; there all of
 * these are reserved, so none is the name of a column that is not in brackets. (Microsoft: Reserved Keywords, Transact-SQL.)
 */
const writingWords =
  /\b(?:alter|backup|bulk\s+insert|create|dbcc|delete|deny|drop|exec|execute|grant|insert|kill|merge(?!\s+(?:join|union)\b)|reconfigure|restore|revoke|shutdown|truncate|update|updatetext|writetext)\b/gi
const locks =
  /\bfor\s+(?:no\s+key\s+)?update\b|\bfor\s+(?:key\s+)?share\b|\block\s+in\s+share\s+mode\b/gi

/**
 * What in a query is more than a single SELECT, by the lexical rules of its database: undefined for a good one. The read-only
 * transaction of PostgreSQL and MySQL refuses writing all the same; SQL Server has none.
 */
export function selectProblem(sql: string, dialect: SqlDialect): SelectProblem | undefined {
  const code = codeOnly(sql, dialect)
  const found = (
    pattern: RegExp,
    message: (word: string) => string,
    hint: string,
  ): SelectProblem | undefined => {
    const match = new RegExp(pattern, pattern.flags.replace('g', '')).exec(code)
    const word = match?.[0].trim().replace(/\s+/g, ' ').toLowerCase() ?? ''
    return match ? { message: message(word), hint, offset: match.index } : undefined
  }

  const start = /[^\s(]/.exec(code)?.index ?? 0
  const first = /^[\w$]*/.exec(code.slice(start))?.[0].toLowerCase() ?? ''
  if (first !== 'select' && first !== 'with') {
    return { message: 'does not begin with SELECT or WITH', hint: oneSelect, offset: start }
  }
  return (
    found(/;(?=[\s;]*[^\s;])/, () => 'holds a second statement', oneSelect) ??
    executedComment(sql, dialect) ??
    found(/\binto\b/i, () => 'writes with INTO', 'a source is only read') ??
    verbBehindWith(code, first) ??
    found(locks, (words) => `locks rows (${words})`, 'a source is only read; leave it out') ??
    (dialect === 'mssql'
      ? found(
          writingWords,
          (word) => `holds the word ${word}, which begins a statement of its own`,
          `${oneSelect}; a column of that name stands in brackets`,
        )
      : undefined)
  )
}

const limits: Readonly<Record<SqlDialect, RegExp>> = {
  postgres: /\blimit\b|\bfetch\s+(?:first|next)\b/i,
  mysql: /\blimit\b|\bfetch\s+(?:first|next)\b/i,
  mssql: /\bselect\s+(?:distinct\s+|all\s+)?top\b|\bfetch\s+(?:first|next)\b/i,
  firebird: /\bselect\s+(?:first|skip)\b|\brows\s+[\d?]|\bfetch\s+(?:first|next)\b/i,
}

/** What makes a query give a part of its rows only, as it is written there; undefined where it gives all. */
export function rowLimit(
  sql: string,
  dialect: SqlDialect,
): { word: string; offset: number } | undefined {
  let depth = 0
  const outer = [...codeOnly(sql, dialect)].map((character) => {
    if (character === '(') depth += 1
    const kept = depth === 0 ? character : ' '
    if (character === ')') depth -= 1
    return kept
  })
  const match = limits[dialect].exec(outer.join(''))
  return match
    ? { word: match[0].replace(/\s+/g, ' ').toLowerCase(), offset: match.index }
    : undefined
}

/** The text with blanks in place of comments and quotes in place of what is quoted; every character keeps its place. */
function codeOnly(sql: string, dialect: SqlDialect): string {
  const fillers = { quoted: '"', comment: ' ', parameter: '?' }
  return scanSql(sql, dialect)
    .map(({ kind, text }) => {
      if (kind === 'code') return text
      // A parameter's text is its name without the colon.
      return fillers[kind].repeat(text.length + (kind === 'parameter' ? 1 : 0))
    })
    .join('')
}

/** Of `WITH … DELETE` the verb is what counts; what stands in parentheses is read, or is refused by the database. */
function verbBehindWith(code: string, first: string): SelectProblem | undefined {
  if (first !== 'with') return undefined
  let depth = 0
  for (const match of code.matchAll(/[()]|\b(?:select|insert|update|delete|merge|replace)\b/gi)) {
    const [word] = match
    if (word === '(') depth += 1
    else if (word === ')') depth -= 1
    else if (depth === 0) {
      if (word.toLowerCase() === 'select') return undefined
      const message = `writes with ${word.toUpperCase()}`
      return { message, hint: 'a source is only read', offset: match.index }
    }
  }
  return undefined
}

/** MySQL and MariaDB execute what stands in such a comment. */
function executedComment(sql: string, dialect: SqlDialect): SelectProblem | undefined {
  if (dialect !== 'mysql') return undefined
  let offset = 0
  for (const { kind, text } of scanSql(sql, dialect)) {
    if (kind === 'comment' && /^\/\*M?!/.test(text)) {
      return { message: 'holds a comment that is executed', hint: 'write /* with a blank', offset }
    }
    offset += text.length + (kind === 'parameter' ? 1 : 0)
  }
  return undefined
}
