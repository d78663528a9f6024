import { constants, type Stats } from 'node:fs'
import { link, lstat, mkdir, open, readdir, unlink } from 'node:fs/promises'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import ssh2, { type SFTPWrapper } from 'ssh2'
import { fingerprint } from '../../src/flows/sources/sftp-session.ts'

const { Server, utils } = ssh2
const { STATUS_CODE } = utils.sftp

/** Created once, because it is slow. */
export const serverKey = utils.generateKeyPairSync('ed25519')
export const userKey = utils.generateKeyPairSync('ed25519', {
  passphrase: 'canary-pass',
  cipher: 'aes256-cbc',
  rounds: 1,
})

export const hostKey = fingerprintOf(serverKey.public)

export function fingerprintOf(publicKey: string): string {
  return fingerprint(Buffer.from(publicKey.split(' ')[1] ?? '', 'base64'))
}

type Request = 'OPEN' | 'READ' | 'OPENDIR' | 'READDIR' | 'LSTAT' | 'FSTAT' | 'RENAME' | 'REMOVE'

/**
 * An SFTP server on loopback for a folder of this machine. The user `erp` has the password `canary-sftp`, or the key
 * `userKey`. Paths start at that folder. `before` gets each request first and may fail it by throwing. `ready` is the user's
 * identity that the server accepts.
 */
export async function sftpServer(folder: string) {
  const state = {
    asked: [] as string[],
    attempts: [] as string[],
    connections: new Set<Socket>(),
    /** Called before each request. A rejection becomes a failure; without an end there is no response. */
    before: async (_request: Request, _path: string): Promise<void> => undefined,
    /** Limit of the bytes in one response. */
    mostBytes: Number.POSITIVE_INFINITY,
    /** The authentication method for the password. */
    method: 'password' as 'password' | 'keyboard-interactive' | 'both',
    withoutFstat: false,
  }
  const server = new Server({ hostKeys: [serverKey.private] }, (client) => {
    let hasKey = false
    client.on('error', () => undefined)
    client.on('authentication', (context) => {
      state.attempts.push(context.method)
      const isKey =
        context.method === 'publickey' &&
        context.key.data.equals(Buffer.from(userKey.public.split(' ')[1] ?? '', 'base64'))
      if (context.username !== 'erp') return context.reject()
      if (isKey) {
        hasKey = true
        if (state.method !== 'both') return context.accept()
        return context.reject(['password'], true)
      }
      if (state.method === 'both' && !hasKey) return context.reject(['publickey'])
      if (context.method === 'password' && state.method !== 'keyboard-interactive') {
        return context.password === 'canary-sftp' ? context.accept() : context.reject(['password'])
      }
      if (context.method === 'keyboard-interactive') {
        return context.prompt([{ prompt: 'Password: ', echo: false }], ([answer]) =>
          answer === 'canary-sftp' ? context.accept() : context.reject(),
        )
      }
      context.reject([
        state.method === 'keyboard-interactive' ? 'keyboard-interactive' : 'password',
        'publickey',
      ])
    })
    client.on('ready', () =>
      client.on('session', (accept) =>
        accept().on('sftp', (accepted) => serve(accepted(), folder, state)),
      ),
    )
  })
  const sockets = state.connections
  ;(server as unknown as { _srv: NodeJS.EventEmitter })._srv.on('connection', (socket: Socket) => {
    sockets.add(socket)
    // As real servers do. Otherwise each response waits for the client's delayed acknowledgement.
    socket.setNoDelay(true)
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return Object.assign(state, {
    port,
    url: `sftp://erp@127.0.0.1:${port}`,
    /** Simulates a broken connection. */
    cut: () => {
      for (const socket of sockets) socket.destroy()
    },
    close: () => {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  })
}

type State =
  | Awaited<ReturnType<typeof sftpServer>>
  | {
      asked: string[]
      before: (request: Request, path: string) => Promise<void>
      mostBytes: number
      withoutFstat: boolean
    }

/** Responds like OpenSSH to the requests of a reader. */
function serve(sftp: SFTPWrapper, folder: string, state: State): void {
  const opened = new Map<string, { path: string; names?: string[] }>()
  const real = (path: string) => join(folder, path)
  const entryOf = (handle: Buffer) => opened.get(handle.toString()) ?? { path: '' }
  const give = (path: string, names?: string[]) => {
    const handle = Buffer.from(`h${opened.size}-${path}`)
    opened.set(handle.toString(), { path, ...(names && { names }) })
    return handle
  }
  const answer = (id: number, request: Request, path: string, work: () => Promise<void>) => {
    state.asked.push(`${request} ${path}`)
    state
      .before(request, path)
      .then(work)
      .catch((error: NodeJS.ErrnoException) => {
        const known = { ENOENT: STATUS_CODE.NO_SUCH_FILE, EACCES: STATUS_CODE.PERMISSION_DENIED }
        const code = known[error.code as keyof typeof known] ?? STATUS_CODE.FAILURE
        sftp.status(id, code, error.message)
      })
  }
  const ok = (id: number) => sftp.status(id, STATUS_CODE.OK)

  sftp.on('OPEN', (id, path) =>
    answer(id, 'OPEN', path, async () => {
      await lstat(real(path))
      sftp.handle(id, give(path))
    }),
  )
  sftp.on('FSTAT', (id, handle) =>
    answer(id, 'FSTAT', entryOf(handle).path, async () => {
      if (state.withoutFstat) return void sftp.status(id, STATUS_CODE.OP_UNSUPPORTED)
      sftp.attrs(id, attributes(await lstat(real(entryOf(handle).path))))
    }),
  )
  sftp.on('LSTAT', (id, path) =>
    answer(id, 'LSTAT', path, async () => sftp.attrs(id, attributes(await lstat(real(path))))),
  )
  sftp.on('READ', (id, handle, offset, length) =>
    answer(id, 'READ', entryOf(handle).path, async () => {
      const file = await open(real(entryOf(handle).path), constants.O_RDONLY)
      const most = Math.min(length, state.mostBytes)
      const { bytesRead, buffer } = await file.read(Buffer.alloc(most), 0, most, offset)
      await file.close()
      if (bytesRead === 0) sftp.status(id, STATUS_CODE.EOF)
      else sftp.data(id, buffer.subarray(0, bytesRead))
    }),
  )
  sftp.on('OPENDIR', (id, path) =>
    answer(id, 'OPENDIR', path, async () => sftp.handle(id, give(path, await readdir(real(path))))),
  )
  sftp.on('READDIR', (id, handle) => {
    const { path, names = [] } = entryOf(handle)
    answer(id, 'READDIR', path, async () => {
      const some = names.splice(0, 2)
      if (some.length === 0) return void sftp.status(id, STATUS_CODE.EOF)
      const entries = some.map(async (filename) => ({
        filename,
        longname: filename,
        attrs: attributes(await lstat(real(join(path, filename)))),
      }))
      sftp.name(id, await Promise.all(entries))
    })
  })
  sftp.on('CLOSE', (id) => ok(id))
  sftp.on('MKDIR', (id, path) =>
    mkdir(real(path)).then(
      () => ok(id),
      () => sftp.status(id, STATUS_CODE.FAILURE),
    ),
  )
  sftp.on('REMOVE', (id, path) =>
    answer(id, 'REMOVE', path, async () => {
      await unlink(real(path))
      ok(id)
    }),
  )
  sftp.on('RENAME', (id, from, to) =>
    answer(id, 'RENAME', from, async () => {
      // Does not overwrite an existing file.
      await link(real(from), real(to))
      await unlink(real(from))
      ok(id)
    }),
  )
}

function attributes({ mode, uid, gid, size, atimeMs, mtimeMs }: Stats) {
  const seconds = (ms: number) => Math.floor(ms / 1_000)
  return { mode, uid, gid, size, atime: seconds(atimeMs), mtime: seconds(mtimeMs) }
}
