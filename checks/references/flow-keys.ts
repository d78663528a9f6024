import { flowJsonSchema, type JsonSchema } from '../../src/flows/definition/json-schema.ts'

/** A key of a definition, from its schemas. */
type Key = {
  name: string
  types: Set<string>
  defaults: Set<string>
  isRequired: boolean
  means: string
  example: unknown
}
type Section = { title: string; text: string; keys: Map<string, Key> }

const intro = `# Reference: the keys of a flow file

Reference for authors of flows. \`npm run flows:schema\` writes this page from the schema of the definition.
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

/** The page docs/reference/flows/definition.md. Throws an Error that names keys without a meaning or an example. */
export function referencePage(schema: JsonSchema = flowJsonSchema()): string {
  const problems: string[] = []
  const parts = sectionsOf(schema).map(({ title, text, keys }) => {
    const lines = [...keys.values()].map((key) => {
      if (key.means === '' || key.example === undefined) {
        problems.push(`${title}: ${key.name} has no description or no example`)
      }
      return row(key)
    })
    const head = '| key | type | default | meaning | example |\n|---|---|---|---|---|'
    return `## ${title}\n\n${text}\n\n${head}\n${lines.join('\n')}\n`
  })
  if (problems.length > 0) throw new Error(problems.join('\n'))
  return [intro, ...parts].join('\n')
}

function sectionsOf(schema: JsonSchema): Section[] {
  const { source, destinations } = schema.properties ?? {}
  const of = (
    side: string,
    kinds: readonly JsonSchema[],
    titles: Readonly<Record<string, string>>,
  ) =>
    Object.entries(titles).map(([kind, title]): Section => {
      const keys = new Map<string, Key>()
      for (const one of kinds.filter((given) => kindOf(given) === kind)) merge(keys, keysOf(one))
      keys.delete('type')
      return {
        title,
        text: `\`type: ${kind === 'payments' ? 'payments.…' : kind}\`; see [its page](${side}s-${kind}.md).`,
        keys,
      }
    })
  return [
    { title: 'The flow', text: 'The top of the file.', keys: keysOf(topOf(schema)) },
    ...of('source', alternatives(source ?? {}), {
      sql: 'Source: database',
      http: 'Source: HTTP',
      file: 'Source: files',
      sftp: 'Source: files of a server',
      payments: 'Source: payments',
    }),
    ...of('destination', alternatives(destinations?.items ?? {}), {
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
      means: String(child.description ?? ''),
      example: Array.isArray(child.examples) ? child.examples[0] : undefined,
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
    known.means ||= one.means
    known.example ??= one.example
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

function row({ name, types, defaults, isRequired, means, example }: Key): string {
  const given = isRequired ? 'required' : [...defaults].join(', ')
  const cells = [code(name), [...types].join(', '), given, means, code(example ?? '')]
  return `| ${cells.map((cell) => cell.replace(/(?<!\\)\|/g, '\\|')).join(' | ')} |`
}

/** The value as YAML, without quotes where possible. */
function code(value: unknown): string {
  const isPlain = typeof value === 'string' && !/[\n`]/.test(value)
  const text = isPlain ? value : JSON.stringify(value)
  return text.includes('`') ? `\`\` ${text} \`\`` : `\`${text}\``
}
