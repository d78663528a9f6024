import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A fenced block of a page. */
export type Block = {
  language: string
  /** Without the indentation of a list. */
  text: string
  line: number
  /** Why it does not run: `<!-- not run: … -->` above it. */
  reason: string | undefined
  /** Where a reader saves it: `<!-- file: … -->` above it. */
  file: string | undefined
  /** The status that the commands of the block before get, with this answer: `<!-- answer: … -->` above it. */
  answer: number | undefined
}

/** The pages for users: the README and everything in docs/ but the internals. */
export function documentPages(root: string): string[] {
  const inDocs = globSync('docs/**/*.md', { cwd: root }).filter(
    (page) => !page.startsWith('docs/internals/'),
  )
  return ['README.md', ...inDocs.sort()]
}

/** The fenced blocks of a page, in order. */
export function blocksOf(root: string, page: string): Block[] {
  const text = readFileSync(join(root, page), 'utf8')
  const fences = text.matchAll(
    /(?:^ *<!-- (not run|file|answer): ([^\n]*) -->\n)?^( *)```(\w*)\n([\s\S]*?)^ *```$/gm,
  )
  return [...fences].map(([, mark, note, indent = '', language = '', body = ''], index) => ({
    language,
    text: body.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    line: text.slice(0, [...text.matchAll(/^ *```\w+$/gm)][index]?.index ?? 0).split('\n').length,
    reason: mark === 'not run' ? note : undefined,
    file: mark === 'file' ? note : undefined,
    answer: mark === 'answer' ? Number(note) : undefined,
  }))
}

/** The commands of a page below this heading, block by block. */
export function commandsBelow(root: string, page: string, heading: string): string[] {
  const lines = readFileSync(join(root, page), 'utf8').split('\n')
  const from = lines.indexOf(heading) + 1
  if (from === 0) throw new Error(`${page} has no ${heading}`)
  const length = lines.slice(from).findIndex((line) => /^##+ /.test(line))
  const to = length < 0 ? lines.length : from + length
  return blocksOf(root, page)
    .filter(({ line, language }) => language === 'sh' && line > from && line <= to)
    .map(({ text }) => text)
}

/** Without what differs from one run to the next: ids, times, counters. */
export function plainAnswer(value: unknown, field = ''): unknown {
  if (Array.isArray(value)) return value.map((one) => plainAnswer(one))
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(
      Object.entries(value).map(([name, one]) => [name, plainAnswer(one, name)]),
    )
  if (typeof value === 'number' && /^(version|age_seconds)$/.test(field)) return '{number}'
  if (typeof value !== 'string') return value
  return value
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '{id}')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '{time}')
    .replaceAll(/\b(ORD|PAY|REF)[0-9A-Z]{20,}/g, '{provider id}')
    .replaceAll(/\b[A-Z]+_\w+__\w+/g, '{terminal}')
}
