import fastJson from 'fast-json-stringify'
import type {
  FastifyInstance,
  FastifySchemaCompiler,
  FastifySerializerCompiler,
  preValidationHookHandler,
} from 'fastify'
import { z } from 'zod'
import { AppError, invalid } from '../errors/app-error.ts'
import { detailsOf } from './field-details.ts'

/** The largest body of a request; longer ones are PAYLOAD_TOO_LARGE. Reports have a limit of their own. */
export const bodyLimitBytes = 256 * 1024

/**
 * Reads JSON bodies and no others. An empty one counts as none, since many clients always send the content type. It
 * refuses `__proto__` and `constructor.prototype` keys, bytes that are not UTF-8, and hostile text.
 */
export function installJsonBody(app: FastifyInstance): void {
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
        refuseHostileText(value, 'body')
      } catch (refusal) {
        return done(refusal as Error, undefined)
      }
      done(null, value)
    })
  })
}

/** The same of path and query, whether the route has a schema for them or not. */
export const refuseHostileAddress: preValidationHookHandler = (request, _reply, done) => {
  try {
    refuseHostileText(request.params, 'params')
    refuseHostileText(request.query, 'query')
  } catch (refusal) {
    return done(refusal as Error)
  }
  done()
}

/** Deeper than any of our bodies; JSON.stringify of a stored value would overflow at some 100,000. */
const maxDepth = 32

type Container = { value: Readonly<Record<string, unknown>>; path: string; depth: number }

/**
 * Refuses text that the database cannot store unchanged. PostgreSQL refuses NUL; lone surrogates would all become the
 * same character, so two different names would become equal. It checks all strings and keys, without recursion, so that
 * depth cannot exhaust the stack.
 * @throws AppError 400 when the value nests deeper than 32, 422 with the path of the first bad string.
 */
export function refuseHostileText(root: unknown, part: string): void {
  if (isHostile(root)) throw invalidText(part)
  if (!isContainer(root)) return
  const open: Container[] = [{ value: root, path: '', depth: 1 }]
  for (let next = open.pop(); next; next = open.pop()) {
    const { value, path, depth } = next
    if (depth > maxDepth) {
      throw new AppError('BAD_REQUEST', {
        message: `The JSON is nested deeper than ${maxDepth} levels`,
      })
    }
    // Not Object.entries: a pair for each of 100,000 numbers in a list would delay other requests.
    for (const key in value) {
      const child = value[key]
      if (isHostile(key)) throw invalidText(path || part)
      if (isHostile(child)) throw invalidText(below(path, key))
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
  return invalid(path.slice(0, 200), { code: 'TEXT_BROKEN' })
}

type Write = (answer: unknown) => string

/** By schema: routes share schemas, and a process may start several listeners. */
const writers = new WeakMap<z.ZodType, Write>()
let isChecked = false

/**
 * Fastify's serializer of a response, compiled from the JSON schema of its Zod schema at the first such answer. It
 * writes only the fields of the schema. It does not check their values: an answer about moved money must not become a
 * 500.
 */
export const serializerCompiler: FastifySerializerCompiler<z.ZodType> = ({ schema }) => {
  let write: Write | undefined
  return (answer) => {
    if (isChecked) schema.parse(JSON.parse(JSON.stringify(answer)))
    write ??= writerOf(schema)
    return write(answer)
  }
}

/** For tests: from now on, in this process, an answer that does not fit its schema is an error. */
export function checkAnswers(): void {
  isChecked = true
}

/**
 * The compiled serializer of a response.
 *
 * @throws when the schema has no JSON schema.
 */
export function writerOf(schema: z.ZodType): Write {
  const known = writers.get(schema)
  if (known) return known
  const jsonSchema = z.toJSONSchema(schema, { target: 'draft-7', io: 'output' })
  const write = fastJson(jsonSchema as Parameters<typeof fastJson>[0])
  writers.set(schema, write)
  return write
}

/** The `path` of a detail when the whole part is wrong, for example a missing body. */
const partNames: Readonly<Record<string, string>> = { querystring: 'query' }

/** Validates requests with Zod. A refusal is the 422 with `details`, whose paths are dotted: `pos.0.name`. */
export const validatorCompiler: FastifySchemaCompiler<z.ZodType> = ({
  schema,
  httpPart = 'body',
}) => {
  const part = partNames[httpPart] ?? httpPart
  return (data: unknown) => {
    const result = schema.safeParse(data)
    if (result.success) return { value: result.data }
    const details = detailsOf(result.error.issues, part, data)
    return { error: new AppError('VALIDATION_ERROR', { details }) }
  }
}
