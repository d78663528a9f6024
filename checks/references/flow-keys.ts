import { flowJsonSchema, type JsonSchema } from '../../src/flows/definition/json-schema.ts'

/** Texts of keys by section: `flow`, `source`, `source http`, `destination`, `destination http` and so on. */
export type KeyTexts = Readonly<
  Record<string, Readonly<Record<string, { means: string; example: unknown }>>>
>

/** A key of a definition, from its schemas. */
type Key = { name: string; types: Set<string>; defaults: Set<string>; isRequired: boolean }
type Section = { title: string; text: string; places: readonly string[]; keys: Map<string, Key> }

const intro = `# Reference: the keys of a flow file

Reference for authors of flows. \`npm run flows:schema\` writes this page from the schema of the definition and \`schema/flow-keys.yaml\`.
The pages of [sources](sources-sql.md) and [destinations](destinations.md) show whole flows. [How flows work](../../explanation/flows.md) says what
all of them promise.

- A name with dots is a key within keys: \`item.key\` is \`item: { key: … }\`. Each entry of a list has the keys below it.
- Durations are \`500ms\`, \`30s\`, \`10m\`, \`24h\`, \`7d\`, or a number of milliseconds.

## Limits

The poll, item or file beyond a limit fails and says why.

| limit of | most |
|---|---|
| a record | 1 Mi characters, 4,096 columns |
| an item | 50,000 values |
| a JSON page or file | 32 MiB |
| a flow file | 128 KiB, 10,000 words and signs |
| an expression | 16 Ki characters, 0.4 s |
`

/** The page docs/reference/flows/definition.md. Throws an Error that names keys without a text, and texts without a key. */
export function referencePage(texts: KeyTexts): string {
  const sections = sectionsOf(flowJsonSchema())
  const problems: string[] = []
  const used = new Set<string>()
  const parts = sections.map(({ title, text, places, keys }) => {
    const lines = [...keys.values()].map((key) => {
      const place = places.find((one) => texts[one]?.[key.name])
      const found = place === undefined ? undefined : texts[place]?.[key.name]
      if (!found) problems.push(`${title}: ${key.name} has no text in schema/flow-keys.yaml`)
      used.add(`${place} ${key.name}`)
      return row(key, found?.means ?? '', found?.example ?? '')
    })
    const head = '| key | type | default | meaning | example |\n|---|---|---|---|---|'
    return `## ${title}\n\n${text}\n\n${head}\n${lines.join('\n')}\n`
  })
  for (const [place, own] of Object.entries(texts)) {
    for (const name of Object.keys(own)) {
      if (!used.has(`${place} ${name}`))
        problems.push(`schema/flow-keys.yaml: ${place}, ${name} is no key`)
    }
  }
  if (problems.length > 0) throw new Error(problems.join('\n'))
  return [intro, ...parts].join('\n')
}

/** The schemas of a key in a section such as `source http`; a test uses them to check the examples. */
export function schemasOfKey(place: string, name: string): JsonSchema[] {
  const [side = '', kind] = place.split(' ')
  const found = schemasOfSide(side).filter((one) => kind === undefined || kindOf(one) === kind)
  return found.flatMap((one) => namedIn(one, name.split('.')))
}

function namedIn(schema: JsonSchema, [first, ...rest]: readonly string[]): JsonSchema[] {
  if (first === undefined) return [schema]
  return [schema, ...alternatives(schema), ...(schema.items ? [schema.items] : [])].flatMap(
    (one) => {
      if (one !== schema && !one.properties) return namedIn(one, [first, ...rest])
      const next = one.properties?.[first]
      return next ? namedIn(next, rest) : []
    },
  )
}

function sectionsOf(schema: JsonSchema): Section[] {
  const top = keysOf(topOf(schema))
  const of = (
    side: string,
    titles: Readonly<Record<string, string>>,
    below: Readonly<Record<string, string>> = {},
  ) =>
    Object.entries(titles).map(([kind, title]): Section => {
      const keys = new Map<string, Key>()
      for (const one of schemasOfSide(side).filter((given) => kindOf(given) === kind))
        merge(keys, keysOf(one))
      keys.delete('type')
      const also = below[kind]
      return {
        title,
        text: `\`type: ${kind === 'payments' ? 'payments.…' : kind}\`; see [its page](${side}s-${kind}.md).`,
        places: [`${side} ${kind}`, ...(also ? [also] : []), side],
        keys,
      }
    })
  return [
    { title: 'The flow', text: 'The top of the file.', places: ['flow'], keys: top },
    ...of(
      'source',
      {
        sql: 'Source: database',
        http: 'Source: HTTP',
        file: 'Source: files',
        sftp: 'Source: files of a server',
        payments: 'Source: payments',
      },
      { sftp: 'source file' },
    ),
    ...of('destination', {
      http: 'Destination: HTTP',
      sql: 'Destination: database',
      file: 'Destination: file',
      payments: 'Destination: stores and boxes',
    }),
  ]
}

function topOf(schema: JsonSchema): JsonSchema {
  const { source: _, destinations: __, ...properties } = schema.properties ?? {}
  return { ...schema, properties }
}

let known: JsonSchema | undefined

function schemasOfSide(side: string): JsonSchema[] {
  // Cached, because it takes 40 ms and is needed for each key.
  known ??= flowJsonSchema()
  const schema = known
  if (side === 'flow') return [topOf(schema)]
  const { source, destinations } = schema.properties ?? {}
  return alternatives((side === 'source' ? source : destinations?.items) ?? {})
}

function alternatives({ anyOf = [], oneOf = [] }: JsonSchema): JsonSchema[] {
  return [...anyOf, ...oneOf]
}

function kindOf({ properties }: JsonSchema): string {
  return String(properties?.type?.const).replace(/\..*/, '')
}

/** All keys below a schema, joined by dots. */
function keysOf(schema: JsonSchema, under = ''): Map<string, Key> {
  const keys = new Map<string, Key>()
  for (const one of [...alternatives(schema), ...(schema.items ? [schema.items] : [])]) {
    merge(keys, keysOf(one, under))
  }
  for (const [own, child] of Object.entries(schema.properties ?? {})) {
    const name = under === '' ? own : `${under}.${own}`
    const isRequired = Array.isArray(schema.required) && schema.required.includes(own)
    const key = {
      name,
      types: new Set(typesOf(child)),
      defaults: new Set(defaultsOf(child)),
      isRequired,
    }
    merge(keys, new Map([[name, key]]))
    merge(keys, keysOf(child, name))
  }
  return keys
}

function merge(keys: Map<string, Key>, more: ReadonlyMap<string, Key>): void {
  for (const [name, one] of more) {
    const known = keys.get(name)
    if (!known) {
      keys.set(name, one)
      continue
    }
    for (const type of one.types) known.types.add(type)
    for (const value of one.defaults) known.defaults.add(value)
    known.isRequired &&= one.isRequired
  }
}

const typeNames: Readonly<Record<string, string>> = {
  string: 'text',
  integer: 'whole number',
  number: 'number',
  boolean: 'true or false',
  array: 'list',
  object: 'keys',
}

function typesOf(schema: JsonSchema): string[] {
  const others = alternatives(schema)
  if (others.length > 0) return others.flatMap(typesOf)
  if (schema.const !== undefined) return [code(schema.const)]
  if (schema.enum) return schema.enum.map(code)
  return [typeNames[schema.type ?? ''] ?? 'any value']
}

/** A default that is a group is shown as its type, or not at all, because its keys have their own defaults. */
function defaultsOf({ default: value }: JsonSchema): string[] {
  if (value === undefined || value === '') return []
  if (Array.isArray(value)) return value.length > 0 ? [code(value)] : []
  if (typeof value !== 'object' || value === null) return [code(value)]
  return 'type' in value ? [code(value.type)] : []
}

function row({ name, types, defaults, isRequired }: Key, means: string, example: unknown): string {
  const given = isRequired ? 'required' : [...defaults].join(', ')
  const cells = [code(name), [...types].join(', '), given, means, code(example)]
  return `| ${cells.map((cell) => cell.replace(/(?<!\\)\|/g, '\\|')).join(' | ')} |`
}

/** The value as YAML, without quotes where possible. */
function code(value: unknown): string {
  const isPlain = typeof value === 'string' && !/[\n`]/.test(value)
  const text = isPlain ? value : JSON.stringify(value)
  return text.includes('`') ? `\`\` ${text} \`\`` : `\`${text}\``
}
