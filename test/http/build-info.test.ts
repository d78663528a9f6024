import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { commitOf } from '../../src/http/build-info.ts'

const commit = '0123456789abcdef0123456789abcdef01234567'
let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'tillbridge-commit-'))
})
afterAll(() => rm(root, { recursive: true }))

async function folder(name: string, file?: string): Promise<string> {
  const path = join(root, name)
  await mkdir(path)
  if (file !== undefined) await writeFile(join(path, 'COMMIT'), file)
  return path
}

test('the file COMMIT names the commit; any other content is ignored', async () => {
  expect(await commitOf(await folder('image', `${commit}\n`))).toBe(commit)
  expect(await commitOf(await folder('short', '0123456'))).toBe('0123456')
  for (const [name, text] of [
    ['empty', ''],
    ['unset', 'unknown\n'],
    ['other', `${commit}\nmore`],
  ] as const) {
    expect(await commitOf(await folder(name, text)), name).toBe(null)
  }
})

test('in a checkout git gives the commit and marks changes; without git or checkout the service starts, too', {
  tags: ['long'],
}, async () => {
  const checkout = await folder('checkout')
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], {
      cwd: checkout,
      encoding: 'utf8',
    }).trim()
  git('init', '-q')
  await writeFile(join(checkout, 'a'), '1')
  git('add', 'a')
  git('commit', '-qm', 'first')
  const head = git('rev-parse', 'HEAD')
  expect(await commitOf(checkout)).toBe(head)
  await writeFile(join(checkout, 'a'), '2')
  expect(await commitOf(checkout)).toBe(`${head}-dirty`)

  // A copy without history inside of somebody else's checkout.
  await mkdir(join(checkout, 'copy'))
  expect(await commitOf(join(checkout, 'copy'))).toBe(null)
  const broken = await folder('broken')
  await writeFile(join(broken, '.git'), 'gitdir: /nowhere')
  expect(await commitOf(broken)).toBe(null)
  const path = process.env.PATH
  process.env.PATH = root
  expect(await commitOf(checkout)).toBe(null)
  process.env.PATH = path
})
