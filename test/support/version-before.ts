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
 * and where there is none the newest commit whose migrations are the first of today's. It has the packages of today. Made once, so that what a start
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
  const touched = await git('log', '--format=%H %P', '--', 'migrations')
  for (const commit of touched.split(/\s+/)) {
    if (!(await isBefore(commit))) continue
    await refuseAlone(commit)
    return commit
  }
  throw new Error('no commit has the first of the migrations of today, and not all')
}

const folderOf = 'migrations/'

/** Whether the migrations of a commit are the first of today's. While a version is made they may come in another order, or change. */
async function isBefore(commit: string): Promise<boolean> {
  const [then, now] = await Promise.all([commit, 'HEAD'].map(listMigrations))
  if (!then || !now || then.length >= now.length) return false
  if (then.some((name, place) => name !== now[place])) return false
  for (const name of await changedSince(commit)) {
    if (!then.includes(name)) continue
    const [before, after] = await Promise.all([commit, 'HEAD'].map((at) => statementsOf(at, name)))
    if (before !== after) return false
  }
  return true
}

/** Beside a migration that says so, the version before does not run. */
async function refuseAlone(commit: string): Promise<void> {
  const [then, now] = await Promise.all([commit, 'HEAD'].map(listMigrations))
  for (const name of (now ?? []).filter((one) => !then?.includes(one))) {
    const [first = ''] = (await git('show', `HEAD:${name}`)).split('\n')
    if (first.startsWith('-- alone:')) throw new Error(`${name} must run alone`)
  }
}

async function listMigrations(commit: string): Promise<string[]> {
  return (await git('ls-tree', '--name-only', commit, folderOf)).split('\n').toSorted()
}

async function changedSince(commit: string): Promise<string[]> {
  return (await git('diff', '--name-only', commit, 'HEAD', '--', folderOf)).split('\n')
}

async function statementsOf(commit: string, name: string): Promise<string> {
  return (await git('show', `${commit}:${name}`)).replace(/^--.*\n?/gm, '')
}

function isThere(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
