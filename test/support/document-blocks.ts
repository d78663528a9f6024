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
    /(?:^ *<!-- (not run|file): ([^\n]*) -->\n)?^( *)```(\w*)\n([\s\S]*?)^ *```$/gm,
  )
  return [...fences].map(([, mark, note, indent = '', language = '', body = ''], index) => ({
    language,
    text: body.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    line: text.slice(0, [...text.matchAll(/^ *```\w+$/gm)][index]?.index ?? 0).split('\n').length,
    reason: mark === 'not run' ? note : undefined,
    file: mark === 'file' ? note : undefined,
  }))
}
