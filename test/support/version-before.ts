import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { access, mkdir, rename, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const ownFolder = fileURLToPath(new URL('../../', import.meta.url))
const git = async (...words: string[]) =>
  (await run('git', words, { cwd: ownFolder })).stdout.trim()

/**
 * The folder with the version that runs while today's starts: that of `VERSION_BEFORE` (a commit or a tag), else the last tag `v…`,
 * and where there is none the commit before the newest migration. It has the packages of today. Made once, so that what a start
 * compiles serves the next one. Rejects with the reason where the history is not at hand.
 */
export async function checkOutVersionBefore(): Promise<string> {
  const commit = await findCommit()
  const place = createHash('sha256').update(`${ownFolder} ${commit}`).digest('hex').slice(0, 16)
  const folder = join(tmpdir(), `tillbridge-before-${place}`)
  if (await isThere(folder)) return folder
  const unfinished = `${folder}.${process.pid}`
  await mkdir(unfinished)
  try {
    const archive = join(unfinished, 'source.tar')
    await git('archive', '--output', archive, commit)
    await run('tar', ['-xf', archive, '-C', unfinished])
    await symlink(join(ownFolder, 'node_modules'), join(unfinished, 'node_modules'))
    await rename(unfinished, folder).catch(async (error: unknown) => {
      if (!(await isThere(folder))) throw error
    })
    return folder
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
}

async function findCommit(): Promise<string> {
  const named = process.env.VERSION_BEFORE
  if (named) return await git('rev-parse', '--verify', `${named}^{commit}`)
  const tags = await git('tag', '--merged', 'HEAD', '--list', 'v*', '--sort=-version:refname')
  const [last] = tags.split('\n')
  if (last) return await git('rev-parse', '--verify', `${last}^{commit}`)
  const added = await git('log', '-1', '--diff-filter=A', '--format=%H', '--', 'migrations')
  return await git('rev-parse', '--verify', `${added}^`)
}

function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
