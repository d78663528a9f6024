import fc from 'fast-check'
import type { Document, JsonSchema } from './document.ts'

/** Text that programs trip over. All of it may stand in JSON; a query or a path carries it percent-encoded. */
const hostileTexts = [
  '',
  ' ',
  ' x',
  '\u0000',
  'a\u0000b',
  '\ud83e',
  '\ufeffx',
  '\u202eabc',
  '\u00e9',
  'e\u0301',
  'ﷺ',
  '🧾'.repeat(40),
  '__proto__',
  'constructor',
  'toString',
  'null',
  'undefined',
  'true',
  'NaN',
  'Infinity',
  '0',
  '-1',
  '1e3',
  '1.5',
  '0x10',
  '9999999999999999999999',
  '1,00',
  '1.00',
  '0,00',
  '-1,00',
  "'; drop table orders; --",
  "' or 1=1 --",
  '%',
  '%00',
  '%zz',
  '_',
  '\\',
  '|',
  'a|b',
  '..',
  '../../etc/passwd',
  '/',
  'a/b',
  '?x=1',
  '#x',
  '<script>alert(1)</script>',
  '{word}',
  // In two pieces, since it must reach the service as it stands here.
  '$' + '{env:TARGET_SECRET}',
  'http://127.0.0.1:1/x',
  'javascript:alert(1)',
  'x'.repeat(65),
  'x'.repeat(1025),
  'x'.repeat(5000),
  '2026-02-30T00:00:00Z',
  '0000-01-01T00:00:00Z',
  '9999-12-31T23:59:59.999Z',
  '00000000-0000-0000-0000-000000000000',
]

/** Made once, since fast-check needs time to prepare Unicode. */
const anyCharacter = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 })

export const hostileText: fc.Arbitrary<string> = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...hostileTexts) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 40 }) },
)

const hostileValue: fc.Arbitrary<unknown> = fc.oneof(
  hostileText,
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom<unknown>(
    null,
    true,
    0,
    -1,
    1.5,
    1e308,
    Number.MAX_SAFE_INTEGER + 2,
    [],
    [[]],
    {},
    { toString: 'x' },
    { length: 3 },
  ),
)

/** Values that exist, by the name of the field or parameter that takes them. */
export type Known = (field: string) => readonly string[] | undefined

/** Makes values of the schemas of a document: mostly ones that it allows, at its edges too, and some that it does not. */
export function valueMaker(document: Document, known: Known) {
  const allowed = (given: JsonSchema, field: string): fc.Arbitrary<unknown> => {
    const schema = document.resolve(given)
    const ids = known(field)
    const own = ofSchema(schema, field)
    if (!ids) return own
    return fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom(...ids) },
      { weight: 1, arbitrary: own },
    )
  }

  const ofSchema = (schema: JsonSchema, field: string): fc.Arbitrary<unknown> => {
    if (schema.const !== undefined) return fc.constant(schema.const)
    if (schema.enum) return fc.constantFrom(...schema.enum)
    const parts = schema.oneOf ?? schema.anyOf
    // The forms of a strict object say only what each of them requires.
    if (parts)
      return fc.oneof(
        ...parts.map((part) =>
          allowed({ ...schema, oneOf: undefined, anyOf: undefined, ...part } as JsonSchema, field),
        ),
      )
    const [type, ...more] = [schema.type ?? []].flat()
    if (more.length > 0) {
      return fc.oneof(
        ...[type, ...more].map((one) => ofSchema({ ...schema, type: one as string }, field)),
      )
    }
    switch (type) {
      case 'null':
        return fc.constant(null)
      case 'boolean':
        return fc.boolean()
      case 'integer':
        return numberOf(schema, 0)
      case 'number':
        return fc.oneof(numberOf(schema, 0), numberOf(schema, 0.5))
      case 'string':
        return textOf(schema)
      case 'array':
        return fc.array(allowed(schema.items ?? {}, field), { maxLength: 3 })
      case 'object':
        return objectOf(schema)
      default:
        return fc.jsonValue({ maxDepth: 2 })
    }
  }

  const objectOf = ({ properties = {}, required = [], additionalProperties }: JsonSchema) => {
    const fields = Object.fromEntries(
      Object.entries(properties).map(([name, schema]) => [name, allowed(schema, name)]),
    )
    const record = fc.record(fields, { requiredKeys: required as never[] })
    if (typeof additionalProperties !== 'object') return record
    return fc.dictionary(fc.string({ maxLength: 10 }), allowed(additionalProperties, ''), {
      maxKeys: 2,
    })
  }

  /** A body of the schema, or one with something wrong in it. */
  const body = (schema: JsonSchema): fc.Arbitrary<unknown> => {
    const right = allowed(schema, '')
    const fields = Object.keys(document.resolve(schema).properties ?? {})
    const spoiled = fc
      .tuple(
        right,
        fc.constantFrom(...fields, 'no_such_field', '__proto__x'),
        fc.option(hostileValue, { nil: undefined }),
      )
      .map(([value, name, wrong]) => {
        if (value === null || typeof value !== 'object') return wrong
        const { [name]: _, ...rest } = value as Record<string, unknown>
        return wrong === undefined ? rest : { ...rest, [name]: wrong }
      })
    return fc.oneof(
      { weight: 6, arbitrary: right },
      { weight: 3, arbitrary: spoiled },
      { weight: 1, arbitrary: hostileValue },
    )
  }

  /** A parameter as text, before it is percent-encoded. */
  const parameter = (name: string, schema: JsonSchema): fc.Arbitrary<string> =>
    fc.oneof(
      { weight: 8, arbitrary: allowed(schema, name).map(String) },
      { weight: 2, arbitrary: hostileText },
    )

  return { body, parameter }
}

function numberOf({ minimum = -1000, maximum = 1000 }: JsonSchema, fraction: number) {
  const edges = [minimum, maximum, minimum - 1, maximum + 1].map((edge) => edge + fraction)
  return fc.oneof(
    fc
      .integer({ min: Math.ceil(minimum), max: Math.floor(maximum) })
      .map((value) => value + fraction),
    fc.constantFrom(...edges),
  )
}

function textOf({ pattern, format, minLength = 0, maxLength = 60, example }: JsonSchema) {
  const samples: fc.Arbitrary<string>[] = []
  if (typeof example === 'string') samples.push(fc.constant(example))
  if (format === 'uuid') samples.push(fc.uuid())
  else if (format === 'date-time') {
    samples.push(fc.date({ noInvalidDate: true }).map((date) => date.toISOString()))
  } else if (pattern !== undefined && canBeMatched(pattern)) {
    samples.push(fc.stringMatching(new RegExp(pattern, 'u'), { maxLength: 200 }))
  } else {
    samples.push(
      fc.string({ unit: anyCharacter, minLength, maxLength: Math.min(maxLength, 60) }),
      fc.constantFrom('x'.repeat(minLength), 'x'.repeat(maxLength), 'x'.repeat(maxLength + 1)),
    )
  }
  return fc.oneof(...samples)
}

/** Look-arounds and properties of Unicode are beyond what fast-check makes texts from. */
function canBeMatched(pattern: string): boolean {
  return !/\(\?|\\p/i.test(pattern.replaceAll('(?:', '('))
}
