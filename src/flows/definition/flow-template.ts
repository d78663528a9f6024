import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = new URL('../../../templates/', import.meta.url)

/** The sources of a new flow. */
export const templateSources = ['csv-drop', 'sql-table'] as const
/** Templates of `flows:new`: a shop or an API of one's own as the destination, or a source whose items go into a table. */
export const templateNames = [
  'tiendanube',
  'woocommerce',
  'mercadolibre',
  'mercadolibre-warehouses',
  'shopify',
  'own-api',
  'sql-table',
  'csv-drop',
] as const

export type TemplateName = (typeof templateNames)[number]
export type TemplateSource = (typeof templateSources)[number]

type NewFlow = {
  template: TemplateName
  /** Name of the flow. */
  name: string
  /** Source of a shop template; the other templates have their own. */
  from?: TemplateSource | undefined
  /** Path of the JSON schema for editors, relative to the file. Default: none. */
  schema?: string | undefined
  /** The flow starts paused, so that a dry run shows first what it would send. */
  startPaused?: boolean
}

/** A flow file from a template: its text, and what an administrator provides for it. */
export type MadeFlow = {
  text: string
  /** The connections that it uses, as entries of CONNECTIONS_FILE by name. */
  connections: Readonly<Record<string, string>>
  /** The environment variables of these connections, in their order. */
  variables: string[]
}

/** The first lines of a file of connections. */
export const connectionsHead = 'version: 1\nconnections:\n'

export function flowFromTemplate({ template, name, from, schema, startPaused }: NewFlow): MadeFlow {
  const source = isSource(template) ? template : (from ?? 'csv-drop')
  const destination = isSource(template) ? 'sql-table' : template
  const head = [
    ...(schema === undefined ? [] : [`# yaml-language-server: $schema=${schema}`]),
    'version: 1',
    `name: ${name}`,
    'pollInterval: 1m',
    ...(startPaused
      ? ['startPaused: true       # espera: primero probalo sin enviar, después reanudalo']
      : []),
  ].join('\n')
  const parts = [part('sources', source), part('destinations', destination)]
  const text = `${head}\n\n${parts.join('\n')}`
  const names = [...text.matchAll(/^ +connection: ([\w-]+)$/gm)].map((match) => String(match[1]))
  const connections = Object.fromEntries(names.map((one) => [one, part('connections', one)]))
  const written = Object.values(connections).join('')
  const variables = [...written.matchAll(/\$\{env:(\w+)\}/g)].map((match) => String(match[1]))
  return { text, connections, variables: [...new Set(variables)] }
}

function isSource(template: TemplateName): template is TemplateSource {
  return templateSources.some((one) => one === template)
}

function part(kind: 'sources' | 'destinations' | 'connections', name: string): string {
  return readFileSync(fileURLToPath(new URL(`${kind}/${name}.yaml`, folder)), 'utf8')
}
