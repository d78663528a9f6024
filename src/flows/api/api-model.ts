import { z } from 'zod'
import { type CamelCase, camelCase } from '../../domain/field-names.ts'
import type { Language } from '../../texts/language.ts'
import { type StoredReason, shownReason } from '../../texts/reason.ts'

/** Branded for `Model` alone: in an answer it is text like any other. */
export const FlowTimestamp = z.iso
  .datetime()
  .meta({ example: '2026-11-21T14:30:00.000Z' })
  .brand<'Timestamp', 'in'>()

/** The reason for programs. The English sentence beside it stays as stored. */
export const FlowReason = z
  .object({
    code: z.string().describe('Such as HTTP_STATUS; the reference of reasons lists them'),
    data: z.record(z.string(), z.unknown()).describe('What the sentence names'),
    message: z
      .string()
      .nullable()
      .describe('The sentence, in the language of Accept-Language: Spanish or English'),
  })
  .nullable()
  .describe('null where there is no reason, or only a sentence was recorded')
  .meta({ id: 'FlowReason' })

type ShownReason = NonNullable<z.input<typeof FlowReason>>

type ModelOf<Wire> =
  Wire extends z.input<typeof FlowTimestamp>
    ? Date
    : Wire extends ShownReason
      ? StoredReason
      : Wire extends readonly (infer Element)[]
        ? ModelOf<Element>[]
        : Wire extends object
          ? string extends keyof Wire
            ? Wire
            : { [Name in keyof Wire as CamelCase<Name>]: ModelOf<Wire[Name]> }
          : Wire

/**
 * What the service returns for a schema of the control API: the same fields in camel case, a Date for each timestamp,
 * and a reason without its sentence, which depends on the reader's language.
 */
export type Model<Schema extends z.ZodType> = ModelOf<z.input<Schema>>

/** The answer for a model, by its schema. Fields that the schema does not have are left out. */
export function toWire<Schema extends z.ZodType>(
  schema: Schema,
  model: Model<Schema>,
  language: Language,
): z.output<Schema> {
  return convert(schema, model, language) as z.output<Schema>
}

function convert(schema: z.core.$ZodType, value: unknown, language: Language): unknown {
  if (value === null || value === undefined) return value
  if (schema === FlowReason) return shownReason(value as StoredReason, language)
  if (value instanceof Date) return value.toISOString()
  if (schema instanceof z.ZodNullable || schema instanceof z.ZodOptional) {
    return convert(schema.def.innerType, value, language)
  }
  if (schema instanceof z.ZodArray) {
    const { element } = schema.def
    return (value as unknown[]).map((one) => convert(element, one, language))
  }
  // A record has names of the user, which stay as they are.
  if (!(schema instanceof z.ZodObject)) return value
  const fields = value as Record<string, unknown>
  return Object.fromEntries(
    Object.entries(schema.def.shape).flatMap(([name, inner]) => {
      const field = fields[camelCase(name)]
      return field === undefined ? [] : [[name, convert(inner, field, language)]]
    }),
  )
}
