import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { z } from 'zod'

const root = fileURLToPath(new URL('../../', import.meta.url))
const manifest = z
  .object({ name: z.string(), version: z.string(), license: z.string() })
  .parse(JSON.parse(readFileSync(`${root}package.json`, 'utf8')))

let found: Promise<string | null> | undefined

/** Version and licence from package.json, and the commit that this process was started from. */
export const buildInfo = Object.freeze({
  version: manifest.version,
  license: manifest.license,
  /** Read once, so that a later pull into a checkout does not count as what runs. Null when it is unknown. */
  commit(): Promise<string | null> {
    found ??= commitOf(root)
    return found
  },
})

/**
 * The commit of a source folder: its file COMMIT, which an image or a package has, or what git reports for the
 * checkout, with `-dirty` when files differ. Never rejects: without either it is null.
 */
export async function commitOf(folder: string): Promise<string | null> {
  const file = `${folder}/COMMIT`
  if (existsSync(file)) return plain(readFileSync(file, 'utf8'))
  // A folder without a .git of its own may be inside a checkout of something else.
  if (!existsSync(`${folder}/.git`)) return null
  // Without a lock on the index, so that work in the checkout is not disturbed.
  const git = (...args: string[]) =>
    promisify(execFile)('git', ['--no-optional-locks', ...args], {
      cwd: folder,
      timeout: 5_000,
      env: { PATH: process.env.PATH, HOME: process.env.HOME },
    })
  return Promise.all([
    git('rev-parse', 'HEAD'),
    git('status', '--porcelain', '--untracked-files=no'),
  ]).then(
    ([head, changes]) => plain(`${head.stdout.trim()}${changes.stdout === '' ? '' : '-dirty'}`),
    () => null,
  )
}

function plain(text: string): string | null {
  const [commit = null] = /^[0-9a-f]{7,64}(-dirty)?(?=\s*$)/.exec(text) ?? []
  return commit
}
