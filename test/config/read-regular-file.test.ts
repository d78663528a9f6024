import { execFileSync } from 'node:child_process'
import { link, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findSecrets } from '../../src/app/secrets-file.ts'
import { checkConnectionFiles } from '../../src/db/connection-files.ts'
import { GuardedFileError, readGuardedFile } from '../../src/files/read-regular-file.ts'

let dir: string
const at = (name: string) => join(dir, name)

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'guarded-'))
  await writeFile(at('file'), 'ñandú')
  await symlink(at('file'), at('link'))
  await writeFile(at('secrets'), 'own')
  await symlink(at('secrets'), at('link-to-secrets'))
  await link(at('secrets'), at('hard-link-to-secrets'))
  execFileSync('mkfifo', [at('pipe')])
})
afterAll(() => rm(dir, { recursive: true }))

const read = (path: string, maxBytes = 1_024) =>
  readGuardedFile(path, { maxBytes, except: [at('secrets'), at('nothing')] }).toString()

test('a regular file is read whole, also by a link and at the size limit', () => {
  expect(read(at('file'))).toBe('ñandú')
  expect(read(at('link'))).toBe('ñandú')
  expect(read(at('file'), 7)).toBe('ñandú')
})

test.each([
  ['a pipe', 'pipe', 'is not a regular file'],
  ['a device that never ends', '/dev/zero', 'is not a regular file'],
  ['a terminal', '/dev/tty', 'is not a regular file'],
  ['a folder', '.', 'is not a regular file'],
  ['what is not there', 'missing', 'cannot be read (ENOENT)'],
  ['a name that no file can have', 'a\0b', undefined],
  ['what may not be read', 'secrets', 'holds secrets of the service itself'],
  ['a link to it', 'link-to-secrets', 'holds secrets of the service itself'],
  ['another name of it', 'hard-link-to-secrets', 'holds secrets of the service itself'],
])('%s is refused at once', (_, name, message) => {
  const path = name.startsWith('/') ? name : `${dir}/${name}`
  expect(() => read(path)).toThrow(message ?? Error)
})

test('a socket and a file beyond the limit are refused', async () => {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(at('socket'), resolve))
  expect(() => read(at('socket'))).toThrow('is not a regular file')
  await new Promise((resolve) => server.close(resolve))
  expect(() => read(at('file'), 6)).toThrow(GuardedFileError)
})

test('a file that the kernel generates on reading counts as empty', () => {
  expect(read('/proc/self/environ')).toBe('')
})

test.each(['sslrootcert', 'sslcert', 'sslkey'])(
  'the message names a pipe as %s of a database',
  (name) => {
    const url = `postgres://user@127.0.0.1/db?${name}=${at('pipe')}`
    const message = `${name} of the database's address: the file ${at('pipe')} is not a regular file`
    expect(() => checkConnectionFiles(url)).toThrow(message)
    expect(() => checkConnectionFiles(url.replace(/pipe$/, 'file'))).not.toThrow()
  },
)

test('a pipe in place of the secrets file stops the start, and the message names it', async () => {
  const data = at('data')
  execFileSync('mkdir', ['-p', join(data, 'secrets')])
  execFileSync('mkfifo', [join(data, 'secrets/secrets.env')])
  await expect(findSecrets(data)).rejects.toThrow(
    `${join(data, 'secrets/secrets.env')}: is not a regular file`,
  )
})
