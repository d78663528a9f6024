import fastJson from 'fast-json-stringify'
import type { FastifySerializerCompiler } from 'fastify'
import { z } from 'zod'

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
    if (isChecked) schema.parse(answer)
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
