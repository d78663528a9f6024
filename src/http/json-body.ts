import type { FastifyInstance } from 'fastify'
import { AppError } from '../errors/app-error.ts'

/**
 * JSON is the only body that is read. An empty one counts as none, since many clients send the content type always;
 * `__proto__` and `constructor.prototype` keys, bytes that are not UTF-8, and hostile text are refused. With `read` the values
 * are what it makes of the text, once that was found to be harmless. With `judgesText` the route itself refuses hostile text,
 * so that one bad value does not refuse all that came with it.
 */
export function installJsonBody(
  app: FastifyInstance,
  options: { read?: (text: string) => unknown; judgesText?: true } = {},
): void {
  app.removeAllContentTypeParsers()
  const parse = app.getDefaultJsonParser('error', 'error')
  const utf8 = new TextDecoder('utf-8', { fatal: true })

  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, bytes, done) => {
    if (bytes.length === 0) return done(null, undefined)
    let text: string
    try {
      text = utf8.decode(bytes as Buffer)
    } catch (cause) {
      return done(
        new AppError('BAD_REQUEST', {
          message:
            'The body is not valid UTF-8; send it with content-type application/json; charset=utf-8',
          cause,
        }),
      )
    }
    // It answers through the callback; the promise in its type is for other parsers.
    void parse(request, text, (error, value) => {
      if (error) return done(error, undefined)
      try {
        if (options.judgesText) refuseDepth(value)
        else refuseHostileText(value, 'body')
        done(null, options.read ? options.read(text) : value)
      } catch (refusal) {
        return done(refusal as Error, undefined)
      }
    })
  })

  app.addHook('preValidation', async (request) => {
    refuseHostileText(request.params, 'params')
    refuseHostileText(request.query, 'query')
  })
}

/** Deeper JSON than any of our bodies; JSON.stringify of what was stored would overflow at some 100,000. */
const maxDepth = 32

type Container = { value: Readonly<Record<string, unknown>>; path: string; depth: number }

/**
 * Refuses what the database cannot keep as it is: NUL (PostgreSQL refuses it) and lone surrogates (they would all
 * become the same character, so two different names would become one). Looks at every string and key, without
 * recursion, so that depth cannot exhaust the stack.
 * @throws AppError 400 when the value nests deeper than 32, 422 with the path of the first bad string.
 */
export function refuseHostileText(root: unknown, part: string): void {
  if (isHostile(root)) throw invalidText(part)
  walk(root, (path, key, child) => {
    if (isHostile(key)) throw invalidText(path || part)
    if (isHostile(child)) throw invalidText(below(path, key))
  })
}

/** Refuses only what nests too deeply, for whoever judges texts one by one. Throws as refuseHostileText does. */
export function refuseDepth(root: unknown): void {
  walk(root, () => undefined)
}

function walk(root: unknown, look: (path: string, key: string, child: unknown) => void): void {
  const open: Container[] = []
  if (isContainer(root)) open.push({ value: root, path: '', depth: 1 })
  for (let next = open.pop(); next; next = open.pop()) {
    const { value, path, depth } = next
    if (depth > maxDepth) {
      throw new AppError('BAD_REQUEST', { message: `The JSON nests deeper than ${maxDepth}` })
    }
    // Not Object.entries: a pair for each of 100,000 numbers in a list takes long enough to delay others.
    for (const key in value) {
      const child = value[key]
      look(path, key, child)
      if (isContainer(child)) open.push({ value: child, path: below(path, key), depth: depth + 1 })
    }
  }
}

function isContainer(value: unknown): value is Container['value'] {
  return typeof value === 'object' && value !== null
}

function isHostile(value: unknown): boolean {
  return typeof value === 'string' && (value.includes('\0') || !value.isWellFormed())
}

function below(path: string, key: string): string {
  return path ? `${path}.${key}` : key
}

function invalidText(path: string): AppError {
  return new AppError('VALIDATION_ERROR', {
    details: [
      {
        path: path.slice(0, 200),
        message: 'must not contain NUL characters or broken Unicode',
      },
    ],
  })
}
