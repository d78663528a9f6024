import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** A mistake in one file of the source; `find` stands there exactly once. */
export type Change = { file: string; find: string; replace: string }

export type SourceCopy = {
  folder: string
  /** Answers what takes the mistake back. Throws when it does not fit the source any more. */
  plant(name: string, changes: readonly Change[]): Promise<() => Promise<void>>
  remove(): Promise<void>
}

const root = fileURLToPath(new URL('../..', import.meta.url))
const parts = [
  'sandbox',
  'src',
  'test',
  'migrations',
  'public',
  'docs',
  'schema',
  'examples',
  'package.json',
  'tsconfig.json',
]

/** A copy of the source in a temporary folder, in which mistakes are made on purpose: the work tree is never touched. */
export async function copySource(): Promise<SourceCopy> {
  const folder = await mkdtemp(join(tmpdir(), 'tillbridge-planted-'))
  for (const name of parts) await cp(join(root, name), join(folder, name), { recursive: true })
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  return {
    folder,
    async plant(name, changes) {
      const originals = new Map<string, string>()
      const changed = new Map<string, string>()
      for (const { file, find, replace } of changes) {
        const path = join(folder, file)
        const source = changed.get(path) ?? (await readFile(path, 'utf8'))
        if (source.split(find).length !== 2) {
          throw new Error(`"${name}" does not fit ${file} any more: ${find}`)
        }
        if (!originals.has(path)) originals.set(path, source)
        changed.set(
          path,
          source.replace(find, () => replace),
        )
      }
      // Only now, so that a mistake that does not fit leaves the copy as it was.
      for (const [path, source] of changed) await writeFile(path, source)
      return async () => {
        for (const [path, source] of originals) await writeFile(path, source)
      }
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}
