import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { parse } from 'yaml'
import { flowJsonSchema } from '../sync/definition/json-schema.ts'
import { type KeyTexts, referencePage } from '../sync/definition/key-reference.ts'

/** `npm run flows:schema`, which takes nothing from its command line: writes the schema of flow files that editors read, and the reference of their keys. */
const root = new URL('../../', import.meta.url)
const folder = new URL('schema/', root)
mkdirSync(folder, { recursive: true })
writeFileSync(
  new URL('flow.schema.json', folder),
  `${JSON.stringify(flowJsonSchema(), undefined, 2)}\n`,
)
const texts = parse(readFileSync(new URL('flow-keys.yaml', folder), 'utf8')) as KeyTexts
writeFileSync(new URL('docs/flows/reference.md', root), referencePage(texts))
