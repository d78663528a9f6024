import { mkdir, mkdtemp, readdir, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { SourceContext } from '../../src/flows/sources/source-context.ts'
import type { SourceWarning } from '../../src/flows/types.ts'
import { SourceError } from '../../src/flows/types.ts'
import { sentenceOf } from '../../src/texts/reason.ts'
import { fingerprintOf, hostKey, sftpServer, userKey } from './sources-sftp-server.ts'
import { flowOf, ids, openTestSource, readAll } from './sources-support.ts'

let folder: string
let server: Awaited<ReturnType<typeof sftpServer>>

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sources-sftp-'))
  await mkdir(join(folder, 'out'))
  server = await sftpServer(folder)
})
afterEach(async () => {
  server.close()
  await rm(folder, { recursive: true })
})

const env = { PASSWORD: 'canary-sftp', KEY: userKey.private, PASS: 'canary-pass' }
const reference = (name: keyof typeof env) => `\${env:${name}}`
const write = async (name: string, content: string | Uint8Array, ageSeconds = 0) => {
  const path = join(folder, 'out', name)
  await writeFile(path, content)
  const at = Date.now() / 1_000 - ageSeconds
  await utimes(path, at, at)
}
const there = async (under = 'out') => (await readdir(join(folder, under))).sort()

function open(source: object = {}, more: Partial<SourceContext> = {}, flow: object = {}) {
  const definition = {
    type: 'sftp',
    url: server.url,
    hostKey,
    password: reference('PASSWORD'),
    path: '/out/a.csv',
    format: 'csv',
    settle: '0s',
    limits: { timeout: '5s' },
    ...source,
  }
  const given = Object.fromEntries(
    Object.entries(definition).filter(([, value]) => value !== undefined),
  )
  return openTestSource(flowOf(given, { allowPrivateNetwork: true, ...flow }, env), more)
}

const messageOf = async (work: Promise<unknown>): Promise<string> => {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(SourceError)
  return (error as Error).message
}

test('a file of a server is read like a local one, and the connection ends with the read', async () => {
  await write('a.csv', 'id;precio\n1;10,5\n2;20,5\n')
  const { source } = open({ csv: { delimiter: ';', decimalComma: true } })
  expect(await readAll(source)).toEqual([
    { id: '1', precio: '10.5' },
    { id: '2', precio: '20.5' },
  ])
  await expect.poll(() => server.connections.size).toBe(0)
  // No copy is left behind.
  expect(
    (await readdir(tmpdir())).filter((name) => /^tillbridge-[0-9a-f-]{36}$/.test(name)),
  ).toEqual([])
})

test('a large file arrives whole and in order, also from a server that returns less than requested', {
  tags: ['long'],
}, async () => {
  const lines = Array.from({ length: 40_000 }, (_, index) => `${index},${'x'.repeat(index % 97)}`)
  await write('a.csv', `id,t\n${lines.join('\n')}\n`)
  server.mostBytes = 20_001
  const rows = await readAll(open().source)
  expect(rows).toHaveLength(40_000)
  expect(
    rows.every((row, index) => row.id === String(index) && row.t === 'x'.repeat(index % 97)),
  ).toBe(true)
})

test('other formats are read, for example JSON', async () => {
  await write('a.json', '{"data":[{"id":1},{"id":2}]}')
  const { source } = open({ path: 'out/a.json', format: 'json', items: 'data' })
  expect(ids(await readAll(source))).toEqual([1, 2])
})

test('a server with another key than the pinned one is reported by name, and gets neither user nor password', async () => {
  await write('a.csv', 'id\n1\n')
  const other = fingerprintOf(userKey.public)
  const message = await messageOf(readAll(open({ hostKey: other }).source))
  expect(message).toContain(
    `the server shows the host key ${hostKey} (ssh-ed25519), which is not source.hostKey`,
  )
  expect(server.attempts).toEqual([])
  expect(ids(await readAll(open({ hostKey: [other, hostKey] }).source))).toEqual(['1'])
})

test('a user logs in by password, by questions and answers, by key, or by key and password', async () => {
  await write('a.csv', 'id\n1\n')
  const key = { password: undefined, privateKey: reference('KEY'), passphrase: reference('PASS') }
  const readBy = async (method: typeof server.method, source: object) => {
    server.method = method
    server.attempts.length = 0
    return ids(await readAll(open(source).source))
  }
  expect(await readBy('password', {})).toEqual(['1'])
  expect(await readBy('keyboard-interactive', {})).toEqual(['1'])
  expect(await readBy('password', key)).toEqual(['1'])
  expect(await readBy('both', { ...key, password: reference('PASSWORD') })).toEqual(['1'])
  expect(server.attempts).toContain('publickey')
  expect(server.attempts.at(-1)).toBe('password')
})

test('a wrong password and an unreadable key are reported without the secret', async () => {
  await write('a.csv', 'id\n1\n')
  const wrong = await messageOf(readAll(open({ password: reference('PASS') }).source))
  expect(wrong).toBe('sftp source: the server refuses the user, or its password or key')
  const locked = { password: undefined, privateKey: reference('KEY') }
  const message = await messageOf(readAll(open(locked).source))
  expect(message).toContain('source.privateKey: ')
  expect(message).toContain('passphrase')
  expect(message).not.toContain('canary')
  await expect.poll(() => server.connections.size).toBe(0)
})

test('private addresses and names of them are refused without allowPrivateNetwork; metadata services always', async () => {
  await write('a.csv', 'id\n1\n')
  const shut = { allowPrivateNetwork: false }
  const named = { url: `sftp://erp@files.example.com:${server.port}` }
  const resolving =
    (address: string): SourceContext['lookup'] =>
    (_name, _options, done) =>
      done(null, [{ address, family: 4 }])
  const inside = resolving('127.0.0.1')
  expect(await messageOf(readAll(open(named, { lookup: inside }, shut).source))).toContain(
    'allowPrivateNetwork: true opens those',
  )
  expect(ids(await readAll(open(named, { lookup: inside }).source))).toEqual(['1'])
  const metadata = resolving('169.254.169.254')
  expect(await messageOf(readAll(open(named, { lookup: metadata }).source))).toContain(
    'never called',
  )
  expect(server.attempts.length).toBeLessThan(3)
})

test('files of a pattern are read oldest first and archived; existing files are not overwritten', async () => {
  await write('p2.csv', 'id\n2\n', 60)
  await write('p10.csv', 'id\n10\n', 60)
  await write('p1.csv', 'id\n1\n', 120)
  await write('.hidden.csv', 'id\n9\n')
  await mkdir(join(folder, 'out', 'folder.csv'))
  const now = () => new Date('2026-03-01T10:00:00Z')
  const { source } = open({ path: '/out/*.csv', after: 'archive' }, { now })
  expect(ids(await readAll(source))).toEqual(['1', '2', '10'])
  expect(await there()).toContain('p1.csv')
  await mkdir(join(folder, 'out', 'archive'))
  await writeFile(join(folder, 'out', 'archive', 'p1.20260301T100000000Z.csv'), 'other')
  await source.committed?.()
  expect(await there()).toEqual(['.hidden.csv', 'archive', 'folder.csv'])
  expect(await there('out/archive')).toEqual([
    'p1.20260301T100000000Z-2.csv',
    'p1.20260301T100000000Z.csv',
    'p10.20260301T100000000Z.csv',
    'p2.20260301T100000000Z.csv',
  ])
  expect(await readFile(join(folder, 'out', 'archive', 'p1.20260301T100000000Z.csv'), 'utf8')).toBe(
    'other',
  )
  expect(await readAll(source)).toEqual([])
})

test('after: delete removes read files with their markers, and no file that changed meanwhile', async () => {
  await write('p1.csv', 'id\n1\n', 60)
  await write('p2.csv', 'id\n2\n', 50)
  await write('p3.csv', 'id\n3\n', 40)
  await write('p1.ok', '')
  await write('p2.ok', '', 5)
  // Older than its file: it is the marker of an earlier file.
  await write('p3.ok', '', 90)
  const { source, warnings } = open({ path: '/out/p*.csv', after: 'delete', ready: '{stem}.ok' })
  expect(ids(await readAll(source))).toEqual(['1', '2'])
  await write('p2.csv', 'id\n2\n22\n')
  await source.committed?.()
  expect(await there()).toEqual(['p2.csv', 'p2.ok', 'p3.csv', 'p3.ok'])
  expect(warnings).toEqual(['file changed after the read; it is kept'])
})

test('a file counts as unchanged when two checks, settle apart by our clock, agree, whatever the server’s clock', async () => {
  let ms = Date.parse('2026-03-01T10:00:00Z')
  const slept: number[] = []
  let whileAsleep = async (): Promise<void> => undefined
  const sleep = async (given: number) => {
    slept.push(given)
    await whileAsleep()
    ms += given
  }
  const now = () => new Date(ms)
  // By the clock of this server the file is of tomorrow.
  await write('a.csv', 'id\n1\n', Date.now() / 1_000 - ms / 1_000 - 80_000)
  const { source } = open({ settle: '5s' }, { now, monotonicMs: () => ms, sleep })
  whileAsleep = () => write('a.csv', 'id\n1\n2\n', Date.now() / 1_000 - ms / 1_000 - 80_000)
  expect(await messageOf(readAll(source))).toContain(
    'changed less than 5000 ms ago (source.settle)',
  )
  expect(slept).toEqual([5_001])
  whileAsleep = async () => undefined
  expect(ids(await readAll(source))).toEqual(['1', '2'])
  const asked = slept.length
  // Known to be still.
  expect(ids(await readAll(source))).toEqual(['1', '2'])
  expect(slept).toHaveLength(asked)
  // Of one that is days old the time is believed.
  await write('a.csv', 'id\n3\n', Date.now() / 1_000 - ms / 1_000 + 2 * 86_400)
  expect(ids(await readAll(source))).toEqual(['3'])
  expect(slept).toHaveLength(asked)
})

test('a last line without its end waits until the file was unchanged for 15 minutes, then is read with a warning', async () => {
  let ms = Date.now()
  const warnings: string[] = []
  const { source } = open({}, { now: () => new Date(ms), monotonicMs: () => ms })
  const scan = async () => {
    const rows: unknown[] = []
    const { signal } = new AbortController()
    const warn = ({ why }: SourceWarning) => warnings.push(sentenceOf(why, 'en'))
    for await (const batch of source.scan({ since: null, signal, warn })) rows.push(...ids(batch))
    return rows
  }
  await write('a.csv', 'id\n1\n2')
  expect(await scan()).toEqual(['1'])
  ms += 15 * 60_000
  expect(await scan()).toEqual(['1', '2'])
  expect(warnings).toEqual([
    expect.stringContaining('/out/a.csv ends within a line; its last record waits'),
    expect.stringContaining('counts as it is and may be cut'),
  ])
})

test('a lost connection fails the poll before any record of the file, and the next poll reads all', {
  tags: ['long'],
}, async () => {
  await write('p1.csv', `id\n${'1\n'.repeat(1)}`, 60)
  const many = Array.from({ length: 100_000 }, (_, index) => `${index + 100}-${'x'.repeat(20)}`)
  await write('p2.csv', `id\n${many.join('\n')}\n`, 50)
  const { source } = open({ path: '/out/*.csv', after: 'archive' })
  let reads = 0
  server.before = async (request, path) => {
    if (request === 'READ' && path === '/out/p2.csv') reads += 1
    if (reads === 30) server.cut()
  }
  const seen: unknown[] = []
  const cut = async () => {
    const { signal } = new AbortController()
    for await (const batch of source.scan({ since: null, signal })) seen.push(...ids(batch))
  }
  expect(await messageOf(cut())).toMatch(/sftp source: .*(ended the connection|ECONNRESET)/)
  expect(seen).toEqual([])
  expect(await there()).toEqual(['p1.csv', 'p2.csv'])
  expect(await readAll(source)).toHaveLength(100_001)
  await source.committed?.()
  expect(await there()).toEqual(['archive'])
})

test('a connection that is lost between two files is opened again', async () => {
  await write('p1.csv', 'id\n1\n', 60)
  await write('p2.csv', 'id\n2\n', 50)
  const { source } = open({ path: '/out/*.csv', limits: { timeout: '5s', fetchSize: 1 } })
  const rows: unknown[] = []
  for await (const batch of source.scan({ since: null, signal: new AbortController().signal })) {
    rows.push(...ids(batch))
    server.cut()
    await expect.poll(() => server.connections.size).toBe(0)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  expect(rows).toEqual(['2', '1'])
})

test('a connection that is lost while a file is put away loses nothing: that happens before the next read', async () => {
  await write('p1.csv', 'id\n1\n', 60)
  const { source, warnings } = open({ path: '/out/*.csv', after: 'archive' })
  expect(ids(await readAll(source))).toEqual(['1'])
  server.before = async (request) => {
    if (request === 'RENAME') server.cut()
  }
  await source.committed?.()
  expect(warnings).toEqual(['file not archived after the read'])
  server.before = async () => undefined
  await rm(join(folder, 'out', 'p1.csv'), { force: true })
  await write('p2.csv', 'id\n1\n')
  expect(ids(await readAll(source))).toEqual(['1'])
})

test('a file that replaces the read one just before it is archived is put back', async () => {
  await write('p1.csv', 'id\n1\n', 60)
  const { source, warnings } = open({ path: '/out/*.csv', after: 'archive' })
  let renames = 0
  server.before = async (request) => {
    if (request !== 'RENAME') return
    renames += 1
    if (renames === 1) await write('p1.csv', 'id\n1\n2\n', 30)
  }
  expect(ids(await readAll(source))).toEqual(['1'])
  await source.committed?.()
  expect(await there('out/archive')).toEqual([])
  server.before = async () => undefined
  expect(ids(await readAll(source))).toEqual(['1', '2'])
  expect(warnings).toEqual([])
})

test('a file that changes while it is downloaded fails the poll before its first record', async () => {
  await write('a.csv', 'id\n1\n', 60)
  server.before = async (request) => {
    if (request === 'READ') await write('a.csv', 'id\n1\n2\n')
  }
  expect(await messageOf(readAll(open().source))).toBe(
    'sftp source: /out/a.csv changed while it was read; it is read again by the next poll',
  )
  server.before = async (request) => {
    if (request === 'READ') await write('a.csv', 'id\n')
  }
  expect(await messageOf(readAll(open().source))).toContain('changed while it was read')
  server.before = async () => undefined
  server.withoutFstat = true
  expect(await readAll(open().source)).toEqual([])
})

test('a file above the size limit is refused before the download', async () => {
  await write('a.csv', Buffer.alloc(1024 * 1024 + 1, 'x'))
  expect(await messageOf(readAll(open({ maxMegabytes: 1 }).source))).toBe(
    'sftp source: /out/a.csv has 1048577 bytes, more than 1 MiB (source.maxMegabytes)',
  )
  expect(server.asked.some((one) => one.startsWith('READ '))).toBe(false)
})

test('links are not followed, and a missing or forbidden file is reported with its path', async () => {
  await symlink('/etc/passwd', join(folder, 'out', 'a.csv'))
  expect(await messageOf(readAll(open().source))).toContain('/out/a.csv is not a regular file')
  expect(await messageOf(readAll(open({ path: '/out/*.csv' }).source))).toContain(
    'is not a regular file',
  )
  expect(await messageOf(readAll(open({ path: '/out/b.csv' }).source))).toBe(
    'there is no file /out/b.csv to read',
  )
  expect(await messageOf(readAll(open({ path: '/none/*.csv' }).source))).toContain(
    'ENOENT: /none: ',
  )
  await write('c.csv', 'id\n1\n')
  server.before = async (request) => {
    if (request === 'OPEN') throw Object.assign(new Error('no'), { code: 'EACCES' })
  }
  expect(await messageOf(readAll(open({ path: '/out/c.csv' }).source))).toContain(
    'EACCES: /out/c.csv: ',
  )
})

test('a server that stops answering is a failure after the timeout, at any step', {
  tags: ['long'],
}, async () => {
  await write('a.csv', 'id\n1\n')
  for (const silent of ['LSTAT', 'OPEN', 'READ'] as const) {
    server.before = (request) =>
      request === silent ? new Promise(() => undefined) : Promise.resolve()
    const { source } = open({ limits: { timeout: '200ms' } })
    expect(await messageOf(readAll(source))).toContain('no answer for 200 ms (limits.timeout)')
  }
  const mute = createServer((socket) => socket.resume())
  await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve))
  const { port } = mute.address() as { port: number }
  const { source } = open({ url: `sftp://erp@127.0.0.1:${port}`, limits: { timeout: '200ms' } })
  expect(await messageOf(readAll(source))).toContain('no answer for 200 ms')
  mute.close()
  await expect.poll(() => server.connections.size).toBe(0)
})

test('an abort and close end a read that waits', async () => {
  await write('a.csv', 'id\n1\n')
  server.before = (request) =>
    request === 'READ' ? new Promise(() => undefined) : Promise.resolve()
  const isReading = () => server.asked.some((one) => one.startsWith('READ '))
  const given = new AbortController()
  const reason = new Error('given up')
  const drain = async () => {
    for await (const _ of open().source.scan({ since: null, signal: given.signal }));
  }
  const aborted = expect(drain()).rejects.toBe(reason)
  await expect.poll(isReading).toBe(true)
  given.abort(reason)
  await aborted
  const { source } = open()
  server.asked.length = 0
  const closed = expect(readAll(source)).rejects.toThrow('the source was closed')
  await expect.poll(isReading).toBe(true)
  await source.close()
  await closed
  await expect.poll(() => server.connections.size).toBe(0)
})

test('one item is found by its key', async () => {
  await write('a.csv', 'id,n\n1,a\n2,b\n')
  const { signal } = new AbortController()
  expect(await open().source.readItem({ key: ['2'], signal })).toEqual([{ id: '2', n: 'b' }])
})
