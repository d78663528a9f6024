import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** A file beside this one, however it is loaded. Types are not loaded. */
const namedFile = /'(\.{1,2}\/[^']+\.ts)'/g
const typesOnly = /^import type [^']*'[^']*'/gm

/** Whether a test file reads TEST_DATABASE_URL, by itself or in a file that it loads. Any other does the same without it. */
export function asksForDatabase(testFile: string): boolean {
  const seen = new Set<string>()
  const open = [testFile]
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    // What is shipped does not read it.
    if (seen.has(file) || file.includes('/src/') || !existsSync(file)) continue
    seen.add(file)
    const text = readFileSync(file, 'utf8')
    if (text.includes('TEST_DATABASE_URL')) return true
    for (const [, path = ''] of text.replaceAll(typesOnly, '').matchAll(namedFile)) {
      open.push(join(dirname(file), path))
    }
  }
  return false
}
