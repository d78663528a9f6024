import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = new URL('../../../templates/', import.meta.url)

/** Where the items of a new flow come from. */
export const templateSources = ['csv-drop', 'sql-table'] as const
/** What `flows:new` can make: a shop that is fed, or a source whose items go into a table. */
export const templateNames = [
  'tiendanube',
  'woocommerce',
  'mercadolibre',
  'mercadolibre-warehouses',
  'shopify',
  'sql-table',
  'csv-drop',
] as const

export type TemplateName = (typeof templateNames)[number]
export type TemplateSource = (typeof templateSources)[number]

export type NewFlow = {
  template: TemplateName
  /** Of the flow. */
  name: string
  /** For a shop; the other templates say it by their name. */
  from?: TemplateSource | undefined
  /** The JSON schema as seen from the file, for editors. */
  schema: string
}

/** The text of a flow file from a template, and the variables that it refers to, in their order. */
export function flowFromTemplate({ template, name, from, schema }: NewFlow): {
  text: string
  variables: string[]
} {
  const source = isSource(template) ? template : (from ?? 'csv-drop')
  const destination = isSource(template) ? 'sql-table' : template
  const head = [
    `# yaml-language-server: $schema=${schema}`,
    'version: 1',
    `name: ${name}`,
    'pollInterval: 1m',
  ].join('\n')
  const parts = [part('sources', source), part('destinations', destination)]
  const text = `${head}\n\n${parts.join('\n')}`
  const variables = [...text.matchAll(/\$\{env:(\w+)\}/g)].map((match) => String(match[1]))
  return { text, variables: [...new Set(variables)] }
}

function isSource(template: TemplateName): template is TemplateSource {
  return templateSources.some((one) => one === template)
}

function part(kind: 'sources' | 'destinations', name: string): string {
  return readFileSync(fileURLToPath(new URL(`${kind}/${name}.yaml`, folder)), 'utf8')
}
